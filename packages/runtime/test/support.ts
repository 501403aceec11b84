import { f32 } from '@seamline/codecs/f32'
import type {
  CodecFactory,
  FramingFactory,
  SamplerSettings,
  SeamError,
  StageExecutor,
  Transport,
  TransportAddress,
} from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { memory } from '@seamline/transports/memory'
import { type FakeOptions, fakeExecutor } from '../src/fake.ts'
import {
  connectPipeline,
  createWorker,
  type Generation,
  type Pipeline,
  type PipelineOptions,
  type Worker,
} from '../src/index.ts'

export const GREEDY: SamplerSettings = {
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, penaltyLastN: 32, repeatPenalty: 1.5 },
  ...{ frequencyPenalty: 0, presencePenalty: 0, seed: 1 },
}
export const SAMPLED: SamplerSettings = { ...GREEDY, temperature: 0.8, seed: 7 }

export const LAYERS = 6

export interface ClusterOptions {
  /** Ends of the layer ranges. */
  readonly ends: readonly number[]
  readonly fake?: FakeOptions
  /** Fake options of single stages. */
  readonly stageFake?: readonly FakeOptions[]
  readonly transport?: Transport
  /** The transport of single workers. */
  readonly stageTransport?: readonly (Transport | undefined)[]
  readonly listen?: (index: number) => string
  /** What the coordinator, and so every neighbour, is told instead of a worker's address. */
  readonly advertise?: (worker: Worker, index: number) => readonly TransportAddress[]
  readonly codecs?: ReadonlyMap<string, CodecFactory>
  /** The codecs of single workers. */
  readonly stageCodecs?: readonly (ReadonlyMap<string, CodecFactory> | undefined)[]
  readonly framings?: readonly FramingFactory[]
  /** The framings of single workers. */
  readonly stageFramings?: readonly (readonly FramingFactory[] | undefined)[]
  readonly livenessMs?: number
  readonly pipeline?: Partial<PipelineOptions>
}

export interface Cluster {
  readonly workers: readonly Worker[]
  readonly executors: readonly StageExecutor[]
  readonly pipeline: Pipeline
  /** Options of the pipeline, to connect again. */
  readonly options: PipelineOptions
  readonly events: readonly string[]
  close(): Promise<void>
}

export const CODECS: ReadonlyMap<string, CodecFactory> = new Map([['f32', f32]])

/** Transports by their names. */
export function mapOf(...transports: readonly Transport[]): ReadonlyMap<string, Transport> {
  return new Map(transports.map((transport) => [transport.id, transport]))
}

export interface Workers extends Omit<Cluster, 'pipeline'> {}

/** Workers in this process with fake executors, not yet connected. */
export async function startWorkers(options: ClusterOptions): Promise<Workers> {
  const transport = options.transport ?? memory()
  const framings = options.framings ?? [protobuf]
  const codecs = options.codecs ?? CODECS
  const livenessMs = options.livenessMs ?? 2000
  const events: string[] = []
  const workers: Worker[] = []
  const executors: StageExecutor[] = []
  for (const [i, layerEnd] of options.ends.entries()) {
    const layerFirst = options.ends[i - 1] ?? 0
    const executor = fakeExecutor({
      layerFirst,
      layerEnd,
      layerCount: LAYERS,
      ...options.fake,
      ...options.stageFake?.[i],
    })
    executors.push(executor)
    const name = `worker-${i}`
    workers.push(
      await createWorker({
        ...{ name, executor, livenessMs },
        framings: options.stageFramings?.[i] ?? framings,
        codecs: options.stageCodecs?.[i] ?? codecs,
        transports: mapOf(options.stageTransport?.[i] ?? transport),
        listen: [{ transport: transport.id, address: options.listen?.(i) ?? name }],
        onEvent: (text) => events.push(`${name}: ${text}`),
      }),
    )
  }
  const advertised = workers.map((worker, i) => ({
    name: worker.name,
    addresses: options.advertise?.(worker, i) ?? worker.addresses,
  }))
  const transports = mapOf(transport)
  return {
    ...{ workers, executors, events },
    options: { workers: advertised, transports, framings, livenessMs, ...options.pipeline },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()))
      await Promise.all(executors.map((executor) => executor.close()))
    },
  }
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const started = await startWorkers(options)
  try {
    const pipeline = await connectPipeline(started.options)
    return {
      ...started,
      pipeline,
      async close() {
        await pipeline.close()
        await started.close()
      },
    }
  } catch (error) {
    await started.close()
    throw error
  }
}

/** Runs `body` with a cluster and checks that nothing stays open on any stage. */
export async function withCluster<T>(
  options: ClusterOptions,
  body: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const cluster = await startCluster(options)
  const result = await body(cluster).finally(() => cluster.close())
  const open = cluster.executors.map(({ freeSessions, spec }) => spec.maxSequences - freeSessions)
  if (open.some((count) => count > 0)) throw new Error(`sessions were left open: ${open}`)
  return result
}

export function prompt(length: number, salt = 0): number[] {
  return Array.from({ length }, (_, i) => (i * 31 + salt * 17 + 5) % 256)
}

export async function read(generation: Generation): Promise<number[]> {
  const tokens: number[] = []
  for await (const { token } of generation) tokens.push(token)
  return tokens
}

/** What a generation ends with, and what it gave before; also what `start` throws, as a pipeline does that has failed already. */
export async function readUntilError(
  start: () => Generation,
): Promise<{ tokens: number[]; error: SeamError | undefined }> {
  const tokens: number[] = []
  try {
    for await (const { token } of start()) tokens.push(token)
    return { tokens, error: undefined }
  } catch (error) {
    return { tokens, error: error as SeamError }
  }
}

/** The tokens of the unsplit model: one fake stage driven by hand, without the runtime. */
export async function unsplit(
  ids: readonly number[],
  count: number,
  sampler: SamplerSettings = GREEDY,
  fake: FakeOptions = {},
): Promise<number[]> {
  const executor = fakeExecutor({ layerCount: LAYERS, ...fake })
  const { chunkTokens } = executor.spec
  const session = executor.openSession({
    sampler,
    promptTail: sampler.penaltyLastN > 0 ? ids.slice(-sampler.penaltyLastN) : [],
  })
  const feed = async (chunk: readonly number[], sample: boolean) => {
    const rows = [{ session, position: session.position, tokenCount: chunk.length, sample }]
    const result = await executor.step({
      rows,
      input: Int32Array.from(chunk),
      output: null,
      logits: null,
      tag: 0,
    })
    return result.tokens[0]
  }
  const tokens: number[] = []
  for (let at = 0; at < ids.length; at += chunkTokens) {
    const token = await feed(ids.slice(at, at + chunkTokens), at + chunkTokens >= ids.length)
    if (token !== undefined) tokens.push(token)
  }
  while (tokens.length < count) tokens.push((await feed(tokens.slice(-1), true))!)
  return tokens
}
