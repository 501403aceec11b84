import { spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isErrorCode, isSeamError, SeamError, type TransportAddress } from '@seamline/core'
import { DEFAULT_LIVENESS_MS } from '@seamline/runtime'
import { STARTING_BEATS, STARTING_LINE } from './child.ts'
import { ExitCode, exitCodeOf } from './exit-codes.ts'
import { type Injection, injectionText } from './inject.ts'
import { linkText } from './link.ts'
import { type PacedStage, pacedText } from './paced.ts'
import type { EngineSettings, LinkSettings } from './settings.ts'

/** What one worker serves: a stage of a split, or a whole model as its only stage. */
export type LocalStage =
  | { readonly manifest: string; readonly stage: number }
  | { readonly model: string }
  | { readonly paced: PacedStage }

export interface LocalWorkersOptions {
  readonly stages: readonly LocalStage[]
  readonly engine: EngineSettings
  /** @default those of the command line */
  readonly link?: LinkSettings
  /** Names of the workers. @default worker-0, worker-1, … */
  readonly names?: readonly string[]
  /** Loading a stage may take this long. @default 300000 */
  readonly startTimeoutMs?: number
  readonly signal?: AbortSignal
  /** Has the relay record spans, where there is one. */
  readonly recordRelay?: boolean
  /** Has V8 write a CPU profile of each process into this folder when it ends. */
  readonly cpuProfileDir?: string
  /** A delay put into one of them, for experiments. */
  readonly inject?: { readonly stage: number; readonly injection: Injection }
  /** A worker ended on its own: a `WORKER` error naming it, how it ended and the last lines it wrote. At most once. */
  readonly onExit?: (error: SeamError) => void
}

/** The line that a worker prints when it is ready. */
export interface LocalWorker {
  readonly name: string
  readonly addresses: readonly TransportAddress[]
  readonly pid: number
  readonly layerFirst: number
  readonly layerEnd: number
  readonly engine: string
  readonly backend: string
}

/** The line that a relay prints when it is ready. */
export interface LocalRelay {
  readonly address: string
  readonly metricsAddress?: string
  readonly pid: number
}

export interface LocalWorkers {
  /** In the order of the stages. */
  readonly workers: readonly LocalWorker[]
  readonly relay: LocalRelay | undefined
  /**
   * What is to be reported for `error`: after a broken link it waits a moment for a process that ended to show itself, whose
   * error says more than the link that it left behind.
   */
  explain(error: unknown): Promise<unknown>
  /** Ends all processes and waits until they are gone, by force after `graceMs` (default 3000). Idempotent. */
  close(graceMs?: number): Promise<void>
}

const BIN = join(dirname(fileURLToPath(import.meta.url)), 'bin.js')
const DEFAULT_START_TIMEOUT_MS = 300_000
const CLOSE_MS = 3000
/** After a fault nobody waits long for a process that may be the one that hangs. */
export const FAULT_GRACE_MS = 500
const EXPLAIN_MS = 300
const LAST_LINES = 8

/**
 * Starts one worker process a stage on loopback, and where they meet in a relay that one too, and waits until all are ready. The
 * processes end with this one, however it ends. Rejects with the first failure and leaves nothing running.
 */
export async function startLocalWorkers(options: LocalWorkersOptions): Promise<LocalWorkers> {
  const { signal, startTimeoutMs = DEFAULT_START_TIMEOUT_MS } = options
  let closing: Promise<void> | undefined
  let ended: SeamError | undefined
  const onEnd = (error: SeamError) => {
    if (closing !== undefined || ended !== undefined) return
    ended = error
    options.onExit?.(error)
  }
  const livenessMs = options.link?.liveness ?? DEFAULT_LIVENESS_MS
  /** In the order of their start: each may need the ones before it to leave in good order. */
  const generations: Child<unknown>[][] = [[], []]
  const start = <Ready>(
    generation: 0 | 1,
    name: string,
    args: readonly string[],
    parse: (line: string) => Ready | undefined,
  ) => {
    if (closing !== undefined) throw new SeamError('ABORTED', `${name} was not started any more`)
    const { cpuProfileDir } = options
    const child = startChild({ name, args, livenessMs, onEnd, parse, cpuProfileDir })
    generations[generation]!.push(child)
    return child.ready
  }
  let relay: LocalRelay | undefined
  async function startAll(): Promise<readonly LocalWorker[]> {
    relay =
      options.link?.transport === 'relay'
        ? await start(0, 'relay', relayArguments(options), parseRelay)
        : undefined
    return Promise.all(
      options.stages.map((stage, index) => {
        const name = options.names?.[index] ?? `worker-${index}`
        const listen = relay === undefined ? '127.0.0.1:0' : `${relay.address}/stage-${index}`
        const { inject } = options
        const delay = inject?.stage === index ? ['--inject', injectionText(inject.injection)] : []
        const args = ['worker', '--name', name, '--listen', listen, ...argumentsFor(stage, options), ...delay]
        return start(1, name, args, parseReady)
      }),
    )
  }
  const close = (graceMs = CLOSE_MS) => {
    closing ??= (async () => {
      for (const children of generations.toReversed())
        await Promise.all(children.map((child) => child.stop(graceMs)))
    })()
    return closing
  }
  let timer: NodeJS.Timeout | undefined
  let onAbort: (() => void) | undefined
  try {
    const stopped = new Promise<never>((_, reject) => {
      const late = () => new SeamError('TIMEOUT', `workers were not ready within ${startTimeoutMs} ms`)
      timer = setTimeout(() => reject(late()), startTimeoutMs)
      onAbort = () => reject(SeamError.from(signal?.reason, 'ABORTED'))
      signal?.addEventListener('abort', onAbort)
      if (signal?.aborted === true) onAbort()
    })
    const workers = await Promise.race([startAll(), stopped])
    return {
      workers,
      relay,
      async explain(error) {
        if (!isSeamError(error) || exitCodeOf(error.code) !== ExitCode.LINK) return error
        for (let waited = 0; ended === undefined && waited < EXPLAIN_MS; waited += 20) {
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
        return ended ?? error
      },
      close,
    }
  } catch (error) {
    await close(FAULT_GRACE_MS)
    throw error
  } finally {
    clearTimeout(timer)
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort)
  }
}

function argumentsFor(stage: LocalStage, { engine, link }: LocalWorkersOptions): string[] {
  const what =
    'paced' in stage
      ? ['--paced', pacedText(stage.paced)]
      : 'model' in stage
        ? ['--model', stage.model]
        : ['--manifest', stage.manifest, '--stage', String(stage.stage)]
  return [
    ...what,
    ...[
      '--chunk',
      String(engine.chunk),
      '--ctx',
      String(engine.ctx),
      '--sequences',
      String(engine.sequences),
    ],
    ...['--threads', String(engine.threads), '--flash-attn', engine.flashAttn, '--regime', engine.regime],
    ...(link === undefined ? [] : linkArguments(link)),
  ]
}

function linkArguments({ framing, transport, liveness, secure, identity, link }: LinkSettings): string[] {
  return [
    ...['--transport', transport, '--liveness', String(liveness)],
    ...(framing === undefined ? [] : ['--framing', framing]),
    ...(secure === true ? ['--secure'] : []),
    ...(identity === undefined ? [] : ['--identity', identity]),
    ...(link === undefined ? [] : ['--link', linkText(link)]),
  ]
}

interface ChildOptions<Ready> {
  readonly name: string
  /** Command and options. */
  readonly args: readonly string[]
  readonly livenessMs: number
  readonly onEnd: (error: SeamError) => void
  readonly cpuProfileDir: string | undefined
  /** Reads the line that says that the process is ready; undefined for any other. */
  readonly parse: (line: string) => Ready | undefined
}

interface Child<Ready> {
  readonly ready: Promise<Ready>
  stop(graceMs: number): Promise<void>
}

function startChild<Ready>({
  name,
  args,
  livenessMs,
  onEnd,
  parse,
  cpuProfileDir,
}: ChildOptions<Ready>): Child<Ready> {
  // A process group of its own: Ctrl-C on a terminal reaches the parent, which ends the children in good order.
  const profiling =
    cpuProfileDir === undefined
      ? []
      : ['--cpu-prof', '--cpu-prof-dir', cpuProfileDir, '--cpu-prof-name', `${name}.cpuprofile`]
  const child = spawn(process.execPath, [...profiling, BIN, ...args, '--exit-with-stdin', '--json'], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  child.stdin.on('error', () => {}) // it may be gone already
  const lastLines: string[] = []
  createInterface(child.stderr).on('line', (line) => {
    lastLines.push(line)
    if (lastLines.length > LAST_LINES) lastLines.shift()
  })
  let ready: Ready | undefined
  const exited = new Promise<void>((resolve) => {
    child.once('error', () => resolve()) // it could not be started
    child.once('close', () => resolve())
  })
  return {
    ready: new Promise((resolve, reject) => {
      let refusal = ''
      let heardMs = performance.now()
      const silentMs = () => Math.round(performance.now() - heardMs)
      const watch = setInterval(() => {
        if (silentMs() <= livenessMs) return
        // Timers run before pipes are read: whoever was blocked itself looks once more.
        setImmediate(() => {
          if (silentMs() <= livenessMs || ready !== undefined) return
          const text = `${name} (process ${child.pid}) said nothing for ${silentMs()} ms while it started, deadline ${livenessMs} ms`
          reject(new SeamError('TIMEOUT', text, { worker: name }))
        })
      }, livenessMs / STARTING_BEATS)
      const settled = () => clearInterval(watch)
      child.once('close', settled)
      createInterface(child.stdout).on('line', (line) => {
        heardMs = performance.now()
        if (ready !== undefined || line === STARTING_LINE) return
        ready = parse(line)
        if (ready === undefined) {
          refusal += line
          return
        }
        settled()
        resolve(ready)
      })
      child.once('error', (error) => {
        const failed = new SeamError('WORKER', `${name} could not be started: ${error.message}`, {
          worker: name,
        })
        reject(failed)
      })
      child.once('close', (code, signal) => {
        const error =
          (ready === undefined ? parseRefusal(refusal, name) : undefined) ??
          endOf(name, ready, code, signal, lastLines)
        reject(error)
        onEnd(error)
      })
    }),
    async stop(graceMs) {
      child.stdin.end()
      const force = setTimeout(() => child.kill('SIGKILL'), graceMs)
      await exited
      clearTimeout(force)
    },
  }
}

function endOf(
  name: string,
  ready: unknown,
  code: number | null,
  signal: NodeJS.Signals | null,
  lastLines: readonly string[],
): SeamError {
  const { layerFirst, layerEnd, pid } = (ready ?? {}) as Partial<LocalWorker>
  const layers = layerFirst === undefined ? '' : `layers ${layerFirst}-${layerEnd}, `
  const who = pid === undefined ? name : `${name} (${layers}process ${pid})`
  const how = signal === null ? `ended with exit status ${code}` : `was ended by ${signal}`
  const said = lastLines.length === 0 ? '' : `; its last lines: ${lastLines.join(' | ')}`
  return new SeamError('WORKER', `${who} ${how}${said}`, { worker: name })
}

function parseReady(line: string): LocalWorker | undefined {
  const found = parseJson(line)
  if (!Array.isArray(found?.addresses) || typeof found.pid !== 'number') return undefined
  return found as unknown as LocalWorker
}

function parseRelay(line: string): LocalRelay | undefined {
  const found = parseJson(line)
  if (typeof found?.address !== 'string' || typeof found.pid !== 'number') return undefined
  return found as unknown as LocalRelay
}

function relayArguments({ recordRelay, inject }: LocalWorkersOptions): string[] {
  return [
    ...['relay', '--listen', '127.0.0.1:0'],
    ...(recordRelay === true ? ['--record'] : []),
    ...(inject?.injection.place === 'relay' ? ['--inject', injectionText(inject.injection)] : []),
  ]
}

/** The error that a worker printed instead of its ready line. */
function parseRefusal(text: string, name: string): SeamError | undefined {
  const error = parseJson(text)?.error as { code?: unknown; message?: unknown } | undefined
  if (typeof error?.message !== 'string') return undefined
  // What is a bug to the worker is a failed worker to us.
  const code = isErrorCode(error.code) ? error.code : 'WORKER'
  return new SeamError(code, `${name}: ${error.message}`, { worker: name })
}

function parseJson(text: string): Record<string, unknown> | undefined {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === 'object' && found !== null ? (found as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
