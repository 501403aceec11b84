import { f32 } from '@seamline/codecs/f32'
import type {
  CodecFactory,
  FramingFactory,
  HelloMessage,
  SamplerSettings,
  Transport,
  TransportAddress,
} from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { createWorker, type Generation, type Worker } from '@seamline/runtime'
import { type FakeOptions, fakeExecutor } from '@seamline/runtime/fake'
import { memory } from '@seamline/transports/memory'
import { createTracker, type Tracker, type TrackerOptions } from '../../src/index.ts'

export const GREEDY: SamplerSettings = {
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, penaltyLastN: 0, repeatPenalty: 1 },
  ...{ frequencyPenalty: 0, presencePenalty: 0, seed: 1 },
}
export const PROMPT = Array.from({ length: 70 }, (_, i) => (i * 31 + 5) % 256)
export const LAYERS = 6

export function mapOf<T extends { readonly id: string }>(...items: readonly T[]): ReadonlyMap<string, T> {
  return new Map(items.map((item) => [item.id, item]))
}

export function codecsOf(...makes: readonly CodecFactory[]): ReadonlyMap<string, CodecFactory> {
  return new Map(makes.map((make) => [make().id, make]))
}

/** `codec` under another name. */
export const renamed =
  (id: string, codec: CodecFactory, lossy = false): CodecFactory =>
  (options) => ({ ...codec(options), id, lossy })

/** Protobuf under another name and other protocol ids. */
export const speaking =
  (id: string): FramingFactory =>
  (options) => ({ ...protobuf(options), id, protocolIds: [id.repeat(64).slice(0, 64)] })

export interface FakeStage extends FakeOptions {
  readonly name: string
  readonly layerFirst: number
  readonly layerEnd: number
  readonly codecs?: ReadonlyMap<string, CodecFactory>
  readonly framings?: readonly FramingFactory[]
  readonly transports?: readonly Transport[]
  readonly listen?: readonly TransportAddress[]
}

export interface Fakes {
  readonly workers: readonly Worker[]
  readonly transport: Transport
  tracker(options?: Partial<TrackerOptions>): Tracker
  close(): Promise<void>
}

/** Workers in this process that compute nothing; `transport` where a stage names none. */
export async function startFakes(
  stages: readonly FakeStage[],
  transport: Transport = memory(),
): Promise<Fakes> {
  const executors = stages.map((stage) => fakeExecutor({ layerCount: LAYERS, ...stage }))
  const workers = await Promise.all(
    stages.map(({ name, codecs, framings, transports = [transport], listen }, i) =>
      createWorker({
        ...{ name, executor: executors[i]!, livenessMs: 1000 },
        codecs: codecs ?? codecsOf(f32),
        framings: framings ?? [protobuf],
        transports: mapOf(...transports),
        listen: listen ?? [
          { transport: transport.id, address: transport.id === 'memory' ? name : '127.0.0.1:0' },
        ],
      }),
    ),
  )
  return {
    ...{ workers, transport },
    tracker(options = {}) {
      const tracker = createTracker({
        codecs: codecsOf(f32),
        framings: [protobuf],
        transports: mapOf(transport),
        ...options,
      })
      for (const { announcement } of workers) tracker.announce(announcement)
      return tracker
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()))
      await Promise.all(executors.map((executor) => executor.close()))
    },
  }
}

/** Runs `body` and ends the workers, whatever comes of it. */
export async function withFakes<T>(
  stages: readonly FakeStage[],
  body: (fakes: Fakes) => Promise<T>,
  transport?: Transport,
): Promise<T> {
  const fakes = await startFakes(stages, transport)
  try {
    return await body(fakes)
  } finally {
    await fakes.close()
  }
}

/** Stages over layers that end at `ends`, named worker-0, worker-1, … */
export function stagesTo(ends: readonly number[], fake: Partial<FakeStage> = {}): FakeStage[] {
  return ends.map((layerEnd, i) => ({ name: `worker-${i}`, ...fake, layerFirst: ends[i - 1] ?? 0, layerEnd }))
}

/** What a worker would announce, without one. */
export function announcementOf(
  name: string,
  layers: readonly [first: number, end: number],
  changes: Partial<Omit<HelloMessage, 'facts'>> & { readonly facts?: Partial<HelloMessage['facts']> } = {},
): HelloMessage {
  const { facts, ...rest } = changes
  const [layerFirst, layerEnd] = layers
  const { spec } = fakeExecutor({ layerCount: LAYERS, layerFirst, layerEnd })
  return {
    ...{ kind: 'hello', role: 'worker', name, run: '', codecs: ['f32'], framings: ['protobuf'] },
    ...{ transports: ['memory'], addresses: [{ transport: 'memory', address: name }] },
    ...{ maxPayloadBytes: 1000, rowsPerStep: 1, livenessMs: 5000, ...rest },
    facts: { ...spec, ...facts },
  }
}

export async function read(generation: Generation): Promise<number[]> {
  const tokens: number[] = []
  for await (const { token } of generation) tokens.push(token)
  return tokens
}

/** The tokens of the unsplit model: one fake stage driven by hand, without workers or links. */
export async function unsplit(
  prompt: readonly number[],
  count: number,
  fake: FakeOptions = {},
): Promise<number[]> {
  const executor = fakeExecutor({ layerCount: LAYERS, ...fake })
  const session = executor.openSession({ sampler: GREEDY, promptTail: [] })
  const tokens: number[] = []
  let rest = [...prompt]
  while (tokens.length < count) {
    const chunk = rest.splice(0, executor.spec.chunkTokens)
    const result = await executor.step({
      rows: [{ session, position: session.position, tokenCount: chunk.length, sample: rest.length === 0 }],
      ...{ input: Int32Array.from(chunk), output: null, logits: null, tag: 0 },
    })
    tokens.push(...result.tokens)
    if (rest.length === 0) rest = tokens.slice(-1)
  }
  await executor.close()
  return tokens
}
