import {
  DType,
  ErrorCode,
  type FinishReason,
  type LinkRole,
  type Message,
  type MessageKind,
  mayCarryPayload,
  type TransportAddress,
} from '@seamline/core'
import { seededRandom } from './random.ts'

/** A message and the payload that goes with it, empty where its kind carries none. */
export interface SampleMessage {
  readonly message: Message
  readonly payload: Uint8Array
}

/** Where the values of a sample come from. */
interface Values {
  /** An integer from 0 to `max`. */
  integer(max: number): number
  /** An integer from 0 to 2^64 - 1. */
  u64(): bigint
  /** An integer from 0 to `max`, or -1. */
  orNone(max: number): number
  /** A number from `min` to `max`. */
  real(min: number, max: number): number
  flag(): boolean
  text(): string
  pick<T>(choices: readonly T[]): T
  /** At most `max` items. */
  list<T>(max: number, item: () => T): T[]
}

const u31 = 2 ** 31 - 1
const u32 = 2 ** 32 - 1
const u53 = Number.MAX_SAFE_INTEGER

const address = (from: Values): TransportAddress => ({ transport: from.text(), address: from.text() })

const kinds: { readonly [K in MessageKind]: (from: Values) => Extract<Message, { kind: K }> } = {
  hello: (from) => ({
    kind: 'hello',
    role: from.pick<LinkRole>(['coordinator', 'worker', 'stage']),
    name: from.text(),
    run: from.text(),
    facts: {
      modelSha256: from.text(),
      manifestSha256: from.text(),
      layerFirst: from.orNone(u31),
      layerEnd: from.orNone(u31),
      layerCount: from.orNone(u31),
      embedding: from.orNone(u31),
      vocabulary: from.orNone(u31),
      contextLength: from.orNone(u31),
      chunkTokens: from.orNone(u31),
      maxSequences: from.orNone(u31),
      kvType: from.text(),
      flashAttention: from.text(),
      regime: from.text(),
      threads: from.orNone(u31),
      engine: from.text(),
      backend: from.text(),
    },
    codecs: from.list(8, from.text),
    framings: from.list(8, from.text),
    transports: from.list(8, from.text),
    addresses: from.list(8, () => address(from)),
    maxPayloadBytes: from.integer(u53),
    rowsPerStep: from.integer(u31),
    livenessMs: from.integer(u31),
  }),
  link: (from) => ({
    kind: 'link',
    request: from.integer(u32),
    reply: from.flag(),
    edge: from.integer(u31),
    addresses: from.list(8, () => address(from)),
    codecs: from.list(8, from.text),
    framings: from.list(8, from.text),
  }),
  open: (from) => ({
    kind: 'open',
    request: from.integer(u32),
    sequence: from.integer(u32),
    promptTokens: from.integer(u31),
    maxTokens: from.integer(u31),
    sampler: {
      temperature: from.real(0, 2),
      topK: from.integer(u31),
      topP: from.real(0, 1),
      minP: from.real(0, 1),
      penaltyLastN: from.integer(u31),
      repeatPenalty: from.real(0, 2),
      frequencyPenalty: from.real(-2, 2),
      presencePenalty: from.real(-2, 2),
      seed: from.integer(u32),
    },
    stopTokens: from.list(8, () => from.integer(u31)),
    promptTail: from.list(64, () => from.integer(u31)),
    returnLogits: from.flag(),
  }),
  close: (from) => ({ kind: 'close', request: from.integer(u32), sequence: from.integer(u32) }),
  cancel: (from) => ({ kind: 'cancel', request: from.integer(u32), sequence: from.integer(u32) }),
  rollback: (from) => ({
    kind: 'rollback',
    request: from.integer(u32),
    sequence: from.integer(u32),
    position: from.integer(u31),
    epoch: from.integer(u32),
    tail: from.list(64, () => from.integer(u31)),
  }),
  ack: (from) => ({ kind: 'ack', request: from.integer(u32) }),
  tensor: (from) => ({
    kind: 'tensor',
    run: from.u64(),
    step: from.integer(u53),
    edge: from.integer(u31),
    fragment: from.integer(u31),
    rows: from.list(64, () => ({
      sequence: from.integer(u32),
      epoch: from.integer(u32),
      position: from.integer(u31),
      tokenCount: from.integer(u31),
      sample: from.flag(),
    })),
    shape: [from.integer(u31), from.integer(u31)],
    dtype: from.pick(Object.values(DType)),
    codec: from.text(),
    sentNs: from.integer(u53),
    checksum: from.orNone(u32),
  }),
  token: (from) => ({
    kind: 'token',
    tokens: from.list(64, () => ({
      sequence: from.integer(u32),
      epoch: from.integer(u32),
      position: from.integer(u31),
      token: from.integer(u31),
      finish: from.pick<FinishReason>(['none', 'stop', 'length']),
    })),
    step: from.integer(u53),
    sentNs: from.integer(u53),
    checksum: from.orNone(u32),
  }),
  credit: (from) => ({
    kind: 'credit',
    scope: from.pick(['sequence', 'edge'] as const),
    id: from.integer(u32),
    limit: from.integer(u53),
  }),
  heartbeat: (from) => ({
    kind: 'heartbeat',
    sentNs: from.integer(u53),
    sentSteps: from.integer(u53),
    completedSteps: from.integer(u53),
    busyNs: from.integer(u53),
  }),
  probe: (from) => ({
    kind: 'probe',
    id: from.integer(u32),
    reply: from.flag(),
    t1Ns: from.integer(u53),
    t2Ns: from.integer(u53),
    t3Ns: from.integer(u53),
  }),
  error: (from) => ({
    kind: 'error',
    code: from.pick(Object.values(ErrorCode)),
    message: from.text(),
    worker: from.text(),
    request: from.integer(u32),
    sequence: from.orNone(u32),
  }),
  traceControl: (from) => ({ kind: 'traceControl', request: from.integer(u32), level: from.integer(u31) }),
  traceFetch: (from) => ({
    kind: 'traceFetch',
    request: from.integer(u32),
    reply: from.flag(),
    dropped: from.integer(u53),
    rssBytes: from.integer(u53),
  }),
  stateGet: (from) => ({
    kind: 'stateGet',
    request: from.integer(u32),
    sequence: from.integer(u32),
    reply: from.flag(),
    checksum: from.orNone(u32),
  }),
  stateSet: (from) => ({
    kind: 'stateSet',
    request: from.integer(u32),
    sequence: from.integer(u32),
    position: from.integer(u31),
    epoch: from.integer(u32),
    checksum: from.orNone(u32),
  }),
}

const smallest: Values = {
  integer: () => 0,
  u64: () => 0n,
  orNone: () => -1,
  real: () => 0,
  flag: () => false,
  text: () => '',
  pick: (choices) => choices[0]!,
  list: () => [],
}

const largest: Values = {
  integer: (max) => max,
  u64: () => 2n ** 64n - 1n,
  orNone: (max) => max,
  real: (_, max) => max,
  flag: () => true,
  text: () => 'a name of 64 bytes in UTF-8: ß → 語 🧵 and letters, plenty',
  pick: (choices) => choices.at(-1)!,
  list: (max, item) => Array.from({ length: max }, item),
}

const TEXTS = ['', 'f32', '127.0.0.1:9000', 'worker-β', '語 🧵', 'b9000 cpu-x64', '\0', '"quoted" \\ \n line']

function randomValues(random: () => number): Values {
  const below = (count: number) => Math.floor(random() * count)
  // Short and long integers alike, so that every length of a variable-length encoding occurs.
  const integer = (max: number) => Math.min(max, Math.floor(2 ** (random() * Math.log2(max + 1))) - below(2))
  return {
    integer,
    // Half of them beyond what a number holds.
    u64: () =>
      random() < 0.5 ? BigInt(integer(u53)) : (BigInt(integer(u32)) << 32n) | BigInt(below(2 ** 32)),
    orNone: (max) => (random() < 0.25 ? -1 : integer(max)),
    real: (min, max) => (random() < 0.25 ? 0 : min + random() * (max - min)),
    flag: () => random() < 0.5,
    text: () => TEXTS[below(TEXTS.length)]!,
    pick: (choices) => choices[below(choices.length)]!,
    list: (max, item) => Array.from({ length: below(Math.min(max, 4) + 1) }, item),
  }
}

const KINDS = Object.keys(kinds) as MessageKind[]

/** Every kind with its smallest values (zeros, empty lists and texts, -1 for none) and without a payload. */
export function smallestMessages(): SampleMessage[] {
  return KINDS.map((kind) => ({ message: kinds[kind](smallest), payload: new Uint8Array(0) }))
}

/** Every kind with its largest values, texts of 64 bytes and 64 rows, and with a payload of 64 bytes. */
export function largestMessages(): SampleMessage[] {
  return KINDS.map((kind) => sample(kind, largest, 64))
}

/** Every kind `rounds` times, with values and payloads of up to 300 bytes that depend on the seed alone. */
export function randomMessages(seed: number, rounds = 1): SampleMessage[] {
  const random = seededRandom(seed)
  const values = randomValues(random)
  return Array.from({ length: rounds }, () => KINDS)
    .flat()
    .map((kind) => sample(kind, values, Math.floor(random() * 301), random))
}

function sample(
  kind: MessageKind,
  from: Values,
  payloadBytes: number,
  random = seededRandom(1),
): SampleMessage {
  const bytes = mayCarryPayload(kind) ? payloadBytes : 0
  return { message: kinds[kind](from), payload: Uint8Array.from({ length: bytes }, () => random() * 256) }
}
