import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { SeamError } from '@seamline/core'
import type { Context } from '../command.ts'
import { rootDir } from '../root.ts'
import { canonicalJson, derivedJson } from '../session/canonical.ts'
import { parseJson, put, readOptional } from './files.ts'
import { located, neutral } from './paths.ts'
import type { Spec, SpecCommand } from './spec.ts'

/** A command that takes longer is stuck. */
const limitMs = 60 * 60_000
/** Of an output; a longer one is cut in front. */
const mostBytes = 512 << 10

interface Outcome {
  readonly startedAt: string | null
  readonly endedAt: string | null
  readonly stdout: string
  readonly stderr: string
  readonly exit: number
}

/**
 * `cmd/`: what the commands of the specification print and end with. Outputs that an earlier bundle holds of the same command are kept
 * unless `rerun`.
 */
export async function recordCommands(
  context: Context,
  { commands }: Spec,
  dir: string,
  partial: string,
  rerun: boolean,
): Promise<void> {
  for (const [i, command] of commands.entries()) {
    const name = `cmd/${String(i + 1).padStart(3, '0')}`
    const argv = command.argv.map(neutral)
    const before = await readOptional(dir, `${name}.argv.json`)
    const known = before === null ? undefined : (parseJson(before, name) as { readonly argv?: unknown })
    const isKnown =
      !rerun && command.take === null && canonicalJson(known?.argv ?? null) === canonicalJson(argv)
    if (isKnown) {
      for (const part of ['argv.json', 'stdout', 'stderr', 'exit'])
        await put(partial, `${name}.${part}`, (await readOptional(dir, `${name}.${part}`)) ?? '')
      continue
    }
    const { stdout, stderr, exit, startedAt, endedAt } =
      command.take === null ? await run(context, command) : await taken(located(command.take, dir))
    await put(partial, `${name}.argv.json`, derivedJson({ argv, cwd: '$REPO', startedAt, endedAt }))
    await put(partial, `${name}.stdout`, neutral(stdout))
    await put(partial, `${name}.stderr`, neutral(stderr))
    await put(partial, `${name}.exit`, `${exit}\n`)
  }
}

async function taken(prefix: string): Promise<Outcome> {
  const read = (part: string) =>
    readFile(`${prefix}.${part}`, 'utf8').catch((error) => {
      throw SeamError.from(error, 'FILE')
    })
  const [stdout, stderr, exit] = await Promise.all(['stdout', 'stderr', 'exit'].map(read))
  return {
    startedAt: null,
    endedAt: null,
    stdout: stdout!,
    stderr: stderr!,
    exit: Number.parseInt(exit!, 10),
  }
}

function run({ ui, signal }: Context, { argv: [file, ...args] }: SpecCommand): Promise<Outcome> {
  ui.progress(`running ${file} ${args.join(' ')}`)
  const startedAt = new Date().toISOString()
  const repo = rootDir.replace(/\/$/, '')
  const real = args.map((arg) => arg.replaceAll('$REPO', () => repo))
  return new Promise((resolve, reject) => {
    const child = spawn(file!, real, {
      ...{ cwd: rootDir, stdio: ['ignore', 'pipe', 'pipe'], timeout: limitMs },
      env: { ...process.env, NO_COLOR: '1' },
    })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8')
      child[name].on('data', (text: string) => {
        said[name] = (said[name] + text).slice(-mostBytes)
      })
    }
    const stop = () => child.kill('SIGTERM')
    signal.addEventListener('abort', stop, { once: true })
    child.once('error', (error) => {
      signal.removeEventListener('abort', stop)
      reject(new SeamError('EXECUTOR', `${file}: ${error.message}`))
    })
    child.once('close', (code) => {
      signal.removeEventListener('abort', stop)
      if (signal.aborted) reject(signal.reason)
      else resolve({ startedAt, endedAt: new Date().toISOString(), ...said, exit: code ?? 255 })
    })
  })
}
