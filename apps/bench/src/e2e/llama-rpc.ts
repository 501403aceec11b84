import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { SeamError } from '@seamline/core'
import { llamaRelease } from '@seamline/llama'
import type { Context } from '../command.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { ExternalFigures } from '../session/record.ts'

const folderVariable = 'SEAMLINE_LLAMA_RPC'
const bench = 'llama-bench'
const server = 'ggml-rpc-server'
const listenMs = 20_000
const answerMs = 30_000
const benchMs = 10 * 60_000
const endMs = 3000
const mostOutputBytes = 1 << 20

type Reason = { readonly reason: string }

/** Why llama.cpp's own split is not measured beside a cell; undefined where it is. It knows one sequence and the bare loopback. */
export function notByLlamaRpc({
  k,
  link,
  codec,
}: Pick<PipelineCell, 'k' | 'link' | 'codec'>): string | undefined {
  if (link !== null) return 'links are emulated inside of seamline, llama.cpp knows the bare one only'
  if (k > 1) return `llama-bench has one sequence in flight, not ${k}`
  if (codec !== 'f32') return `llama.cpp sends f32, not ${codec}`
  return undefined
}

/** The folder with llama.cpp's own programs, or why they are left out: not there, or of another release. */
export async function llamaRpc(): Promise<{ readonly folder: string; readonly version: string } | Reason> {
  const folder = process.env[folderVariable]
  if (folder === undefined || folder === '')
    return { reason: `${folderVariable} names no folder with ${bench} and ${server}` }
  for (const name of [bench, server]) {
    const isThere = await access(join(folder, name), constants.X_OK).then(
      () => true,
      () => false,
    )
    if (!isThere) return { reason: `the folder in ${folderVariable} has no ${name} that can be run` }
  }
  const { stdout, stderr } = await promisify(execFile)(join(folder, bench), ['--version'], {
    timeout: answerMs,
    maxBuffer: mostOutputBytes,
  }).catch((error) => {
    throw new SeamError('EXECUTOR', `${bench} --version: ${error.message}`)
  })
  const version = /version: (\S+)/.exec(`${stdout}${stderr}`)?.[1] ?? 'unknown'
  const wanted = llamaRelease()
  return releaseOf(version) === releaseOf(wanted)
    ? { folder, version }
    : { reason: `${bench} is of llama.cpp ${version}, stages run on ${wanted}` }
}

/** `0.5.0` of `v0.5.0`, and of `0.5.0-dev`, as it calls itself unless it is told that it is a release. */
function releaseOf(version: string): string {
  return version.replace(/^v/, '').replace(/-.*$/, '')
}

/**
 * Runs the model on one `ggml-rpc-server` a stage with `llama-bench`: the prompt, and tokens behind a prompt of that length, once each after
 * llama-bench's own warm-up. Throws `UNSUPPORTED` where the programs are not there or the cell is none for them, and `TIMEOUT`.
 */
export async function recordLlamaRpc(
  { signal }: Pick<Context, 'signal'>,
  cell: PipelineCell,
  model: string,
): Promise<ExternalFigures> {
  const excluded = notByLlamaRpc(cell)
  const found = excluded === undefined ? await llamaRpc() : { reason: excluded }
  if ('reason' in found) throw new SeamError('UNSUPPORTED', `no llama-rpc: ${found.reason}`)
  const { folder, version } = found
  const { stages, threads, chunk, promptTokens, tokens } = cell
  const servers: ChildProcess[] = []
  try {
    const addresses: string[] = []
    for (let stage = 0; stage < stages; stage++) {
      const port = await freePort()
      const args = ['--host', '127.0.0.1', '--port', String(port), '--threads', String(threads)]
      const child = spawn(join(folder, server), args, { stdio: 'ignore' })
      servers.push(child)
      await listening(child, port, signal)
      addresses.push(`127.0.0.1:${port}`)
    }
    const run = (args: readonly string[]) =>
      runBench(
        join(folder, bench),
        [
          ...['--model', model, '--rpc', addresses.join(','), '--n-gpu-layers', '999'],
          ...['--split-mode', 'layer', '--tensor-split', addresses.map(() => 1).join('/')],
          ...['--threads', String(threads), '--batch-size', String(chunk), '--ubatch-size', String(chunk)],
          ...['--flash-attn', '1', '--repetitions', '1', '--output', 'json', ...args],
        ],
        signal,
      )
    const prefill = await run(['--n-prompt', String(promptTokens), '--n-gen', '0'])
    const decode = await run([
      '--n-prompt',
      '0',
      '--n-gen',
      String(tokens),
      '--n-depth',
      String(promptTokens),
    ])
    return {
      prefillTokensPerSecond: rateOf(prefill),
      decodeTokensPerSecond: rateOf(decode),
      raw: { version, results: [...prefill, ...decode].map(withoutFolders) },
    }
  } finally {
    await Promise.all(servers.map(stop))
  }
}

/** One result of `llama-bench --output json`. */
type Result = Readonly<Record<string, unknown>>

async function runBench(file: string, args: readonly string[], signal: AbortSignal): Promise<Result[]> {
  try {
    const options = { signal, timeout: benchMs, maxBuffer: mostOutputBytes }
    const { stdout } = await promisify(execFile)(file, [...args], options)
    const results: unknown = JSON.parse(stdout)
    if (!Array.isArray(results) || results.length !== 1)
      throw new SeamError('EXECUTOR', `${bench} printed ${stdout.length} B that are not one result`)
    return results
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof SyntaxError)
      throw new SeamError('EXECUTOR', `${bench} printed no JSON: ${error.message}`)
    const { killed, stderr = '', message } = error as Error & { killed?: boolean; stderr?: string }
    if (killed === true) throw new SeamError('TIMEOUT', `${bench} took more than ${benchMs / 1000} s`)
    throw SeamError.from(
      stderr === '' ? error : new Error(`${bench}: ${stderr.trim().split('\n').at(-1) ?? message}`),
      'EXECUTOR',
    )
  }
}

function rateOf([result]: readonly Result[]): number {
  const rate = result?.avg_ts
  if (typeof rate === 'number' && Number.isFinite(rate) && rate > 0) return rate
  throw new SeamError('EXECUTOR', `${bench} says avg_ts ${JSON.stringify(rate)}, a positive rate was due`)
}

function withoutFolders(result: Result): Result {
  const { model_filename: file } = result
  return typeof file === 'string' ? { ...result, model_filename: basename(file) } : result
}

/** Free a moment ago: the server takes no port 0. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}

async function listening(child: ChildProcess, port: number, signal: AbortSignal): Promise<void> {
  let failure: string | undefined
  child.once('error', (error) => {
    failure = error.message
  })
  const untilMs = performance.now() + listenMs
  while (!(await answers(port))) {
    failure ??= child.exitCode === null ? undefined : `it ended with exit status ${child.exitCode}`
    if (failure !== undefined) throw new SeamError('EXECUTOR', `${server} did not start: ${failure}`)
    if (performance.now() > untilMs)
      throw new SeamError('TIMEOUT', `${server} did not listen within ${listenMs / 1000} s`)
    await sleep(50, undefined, { signal })
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const settle = (found: boolean) => {
      socket.destroy()
      resolve(found)
    }
    socket.setTimeout(1000, () => settle(false))
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  const force = setTimeout(() => child.kill('SIGKILL'), endMs)
  await ended
  clearTimeout(force)
}
