import { availableParallelism } from 'node:os'
import { type LinkFacts, SeamError } from '@seamline/core'
import { connectPipeline, type Pipeline } from '@seamline/runtime'
import { codecs, framings, type LocalStage, named, startLocalWorkers, transports } from './cluster.ts'
import type { Context } from './command.ts'
import { FAULT_GRACE_MS } from './local-workers.ts'
import type { EngineSettings, SeamSettings } from './settings.ts'
import type { Ui } from './ui.ts'

interface Address {
  readonly name: string
  readonly address: string
}

interface ConnectOptions {
  readonly seam: SeamSettings
  readonly expected: Partial<LinkFacts>
  /** Sequences that may share a decode step. @default 1 */
  readonly rowsPerStep?: number
}

interface LocalOptions extends ConnectOptions {
  readonly stages: readonly LocalStage[]
  readonly engine: EngineSettings
  readonly names?: readonly string[]
}

/** Connects running workers, hands the pipeline to `use` and leaves the workers running. */
export async function withRemotePipeline<T>(
  { signal }: Context,
  workers: readonly Address[],
  options: ConnectOptions,
  use: (pipeline: Pipeline) => Promise<T>,
): Promise<T> {
  const pipeline = await connect(workers, options, signal)
  try {
    return await use(pipeline)
  } catch (error) {
    pipeline.fail(SeamError.from(error, 'ABORTED'))
    throw error
  } finally {
    await pipeline.close()
  }
}

/**
 * Starts worker processes on this machine, connects them, hands the pipeline to `use` and ends the processes whatever
 * happens. A process that ends on its own is the error that comes out, rather than the broken link it leaves.
 */
export async function withLocalPipeline<T>(
  { ui, signal }: Context,
  options: LocalOptions,
  use: (pipeline: Pipeline) => Promise<T>,
): Promise<T> {
  const { stages, engine, seam, names } = options
  let pipeline: Pipeline | undefined
  ui.progress(`starting ${stages.length} worker(s)`)
  const local = await startLocalWorkers({
    ...{ stages, engine, link: seam, signal },
    ...(names === undefined ? {} : { names }),
    onExit: (error) => pipeline?.fail(error),
  })
  try {
    pipeline = await connect(local.workers, options, signal)
    const result = await use(pipeline)
    await pipeline.close()
    await local.close()
    return result
  } catch (error) {
    const reason = await local.explain(error)
    // Fails what waits for an answer: the processes that would give it are about to end.
    pipeline?.fail(SeamError.from(reason, 'ABORTED'))
    await Promise.all([pipeline?.close(), local.close(FAULT_GRACE_MS)])
    throw reason
  }
}

function connect(
  workers: readonly Address[],
  { seam, expected, rowsPerStep = 1 }: ConnectOptions,
  signal: AbortSignal,
): Promise<Pipeline> {
  return connectPipeline({
    ...{ workers, codecs, expected, rowsPerStep, signal },
    codec: seam.codec,
    transport: named('transport', transports, seam.transport)(),
    framings: [named('framing', framings, seam.framing)()],
    livenessMs: seam.liveness,
    progressMs: seam.progressDeadline,
  })
}

/** Says so when the compute threads of the stages are more than the cores: a thread that waits in llama.cpp spins. */
export function warnOfThreads(ui: Ui, stages: number, threads: number): void {
  const cores = availableParallelism()
  if (stages * threads <= cores) return
  ui.warn(
    `${stages} stages with ${threads} thread(s) each share ${cores} cores and will slow each other down`,
  )
}
