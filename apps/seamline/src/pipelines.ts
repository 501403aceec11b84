import { availableParallelism } from 'node:os'
import {
  type FramingFactory,
  type LinkFacts,
  SeamError,
  type SpanSink,
  type TransportAddress,
} from '@seamline/core'
import { connectPipeline, type Pipeline, type PipelineOptions } from '@seamline/runtime'
import {
  framings,
  type LocalStage,
  named,
  startLocalWorkers,
  type TransportSettings,
  transports,
} from './cluster.ts'
import type { Context } from './command.ts'
import { identityDir, loadSecurity, withTemporaryIdentity } from './identity.ts'
import type { Injection } from './inject.ts'
import { FAULT_GRACE_MS, type LocalRelay } from './local-workers.ts'
import type { EngineSettings, SeamSettings } from './settings.ts'
import type { Ui } from './ui.ts'

/** A worker and where it may be reached, best address first. */
export interface NamedWorker {
  readonly name: string
  readonly addresses: readonly TransportAddress[]
}

interface ConnectOptions {
  readonly seam: SeamSettings
  /** What transports need; loaded from the identity of this machine where addresses ask for it. */
  readonly transport?: TransportSettings
  readonly expected: Partial<LinkFacts>
  /** Sequences that may share a decode step. @default 1 */
  readonly rowsPerStep?: number
  /** Where this process records spans. */
  readonly sink?: SpanSink
  /** See {@link PipelineOptions.beforeEmit}, and there {@link PipelineOptions.beforeOpen}. */
  readonly beforeEmit?: () => void
  readonly beforeOpen?: () => Promise<void>
}

export interface LocalOptions extends ConnectOptions {
  readonly stages: readonly LocalStage[]
  readonly engine: EngineSettings
  readonly names?: readonly string[]
  /** See `cpuProfileDir` of local workers. */
  readonly cpuProfileDir?: string
  /** A delay put into one of the stages, or into this process, for experiments. */
  readonly inject?: { readonly stage: number; readonly injection: Injection }
}

/** Connects running workers, hands the pipeline to `use` and leaves the workers running. */
export async function withRemotePipeline<T>(
  { signal }: Context,
  workers: readonly NamedWorker[],
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
  context: Context,
  options: LocalOptions,
  use: (pipeline: Pipeline, relay?: LocalRelay) => Promise<T>,
): Promise<T> {
  const { seam } = options
  if (seam.secure !== true) return startAndConnect(context, options, use)
  return withTemporaryIdentity(async (identity) => {
    const security = await loadSecurity(identity)
    const local = { ...options, seam: { ...seam, secure: true, identity }, transport: { security } }
    return startAndConnect(context, local, use)
  })
}

async function startAndConnect<T>(
  { ui, signal }: Context,
  options: LocalOptions,
  use: (pipeline: Pipeline, relay?: LocalRelay) => Promise<T>,
): Promise<T> {
  const { stages, engine, seam, names, inject, cpuProfileDir } = options
  let pipeline: Pipeline | undefined
  ui.progress(`starting ${stages.length} worker(s)`)
  const local = await startLocalWorkers({
    ...{ stages, engine, link: seam, signal },
    ...(names === undefined ? {} : { names }),
    ...(inject === undefined ? {} : { inject }),
    ...(cpuProfileDir === undefined ? {} : { cpuProfileDir }),
    recordRelay: options.sink !== undefined,
    onExit: (error) => pipeline?.fail(error),
  })
  try {
    pipeline = await connect(local.workers, options, signal)
    const result = await use(pipeline, local.relay)
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

async function connect(
  workers: readonly NamedWorker[],
  { seam, expected, transport, sink, beforeEmit, beforeOpen, rowsPerStep = 1 }: ConnectOptions,
  signal: AbortSignal,
): Promise<Pipeline> {
  const used = new Set(workers.flatMap(({ addresses }) => addresses.map((at) => at.transport)))
  const base = transport ?? (await transportSettings(seam, workers))
  const settings = seam.link === undefined ? base : { ...base, link: seam.link }
  return connectPipeline({
    ...{ workers, expected, rowsPerStep, signal },
    transports: new Map([...used].map((id) => [id, named('transport', transports, id)(settings)])),
    framings: allowedFramings(seam.framing),
    ...(sink === undefined ? {} : { sink }),
    ...(beforeEmit === undefined ? {} : { beforeEmit }),
    ...(beforeOpen === undefined ? {} : { beforeOpen }),
    ...(seam.codec === undefined ? {} : { codecs: [seam.codec] }),
    livenessMs: seam.liveness,
    progressMs: seam.progressDeadline,
  })
}

/** Security where it was asked for, or where an address carries a fingerprint. */
async function transportSettings(
  { secure, identity = identityDir() }: SeamSettings,
  workers: readonly NamedWorker[],
): Promise<TransportSettings> {
  const pinned = workers.some(({ addresses }) => addresses.some(({ address }) => address.includes('#')))
  return secure === true || pinned ? { security: await loadSecurity(identity) } : {}
}

/** The one named, or all. */
export function allowedFramings(name: string | undefined): readonly FramingFactory[] {
  return name === undefined ? [...framings.values()] : [named('framing', framings, name)]
}

/** Says so when the compute threads of the stages are more than the cores: a thread that waits in llama.cpp spins. */
export function warnOfThreads(ui: Ui, stages: number, threads: number): void {
  const cores = availableParallelism()
  if (stages * threads <= cores) return
  ui.warn(
    `${stages} stages with ${threads} thread(s) each share ${cores} cores and will slow each other down`,
  )
}
