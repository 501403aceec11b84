import {
  type DType,
  ErrorCode,
  type FinishReason,
  type LinkFacts,
  type Message,
  type MessageKind,
  type SampledToken,
  type SamplerSettings,
  type TensorRow,
  type TransportAddress,
} from '@seamline/core'
import {
  choice,
  type Field,
  type Fields,
  flag,
  integer,
  list,
  orNone,
  pair,
  prose,
  type RecordForm,
  real,
  text,
  u64,
} from './fields.ts'

const u31 = integer(2 ** 31 - 1)
const u32 = integer(2 ** 32 - 1)
const u53 = integer(Number.MAX_SAFE_INTEGER)
const checksum = orNone(u32)
const fact = orNone(u31)
const name = text(256)
const tokens = list(u31, 8192)
const penalty = real(-1e6, 1e6)

/** Kinds that are fields of `Frame`, in the order of their numbers, which begin at 1. */
export const FRAME_KINDS: readonly MessageKind[] = [
  'hello',
  'link',
  'open',
  'close',
  'cancel',
  'rollback',
  'ack',
  'tensor',
  'token',
  'credit',
  'heartbeat',
  'probe',
  'error',
]
/** Kinds that are fields of `Service`. */
export const SERVICE_KINDS: readonly MessageKind[] = ['traceControl', 'traceFetch', 'stateGet', 'stateSet']

/** Numbered from 1 on the wire. */
export const DTYPES: readonly DType[] = ['f32', 'f16', 'bf16', 'q8_0', 'i32']

/** The fields of every kind of message with their limits, in the order of their numbers in `proto/seamline.proto`. */
export function messageFields(record: RecordForm): (kind: MessageKind) => Field<Message> {
  const addresses = list(record<TransportAddress>('Address', { transport: name, address: text(1024) }), 64)
  const row = record<TensorRow>('Row', {
    sequence: u32,
    epoch: u32,
    position: u31,
    tokenCount: u31,
    sample: flag,
  })
  const sampled = record<SampledToken>('Sampled', {
    sequence: u32,
    epoch: u32,
    position: u31,
    token: u31,
    finish: choice<FinishReason>(['none', 'stop', 'length'], 0),
  })

  const fields: { readonly [K in MessageKind]: Fields<Extract<Message, { kind: K }>> } = {
    hello: {
      role: choice(['coordinator', 'worker', 'stage']),
      name,
      run: name,
      facts: record<LinkFacts>('Facts', {
        modelSha256: name,
        manifestSha256: name,
        layerFirst: fact,
        layerEnd: fact,
        layerCount: fact,
        embedding: fact,
        vocabulary: fact,
        contextLength: fact,
        chunkTokens: fact,
        maxSequences: fact,
        kvType: name,
        flashAttention: name,
        regime: name,
        threads: fact,
        engine: name,
        backend: name,
      }),
      codecs: list(name, 64),
      framings: list(name, 64),
      transports: list(name, 64),
      addresses,
      maxPayloadBytes: u53,
      rowsPerStep: u31,
      livenessMs: u31,
    },
    link: {
      request: u32,
      reply: flag,
      edge: u31,
      addresses,
      codecs: list(name, 64),
      framings: list(name, 64),
    },
    open: {
      request: u32,
      sequence: u32,
      promptTokens: u31,
      maxTokens: u31,
      sampler: record<SamplerSettings>('Sampler', {
        temperature: real(0, 1e6),
        topK: u31,
        topP: real(0, 1, 1),
        minP: real(0, 1),
        penaltyLastN: u31,
        repeatPenalty: real(0, 1e6, 1),
        frequencyPenalty: penalty,
        presencePenalty: penalty,
        seed: u32,
      }),
      stopTokens: tokens,
      promptTail: tokens,
      returnLogits: flag,
    },
    close: { request: u32, sequence: u32 },
    cancel: { request: u32, sequence: u32 },
    rollback: { request: u32, sequence: u32, position: u31, epoch: u32, tail: tokens },
    ack: { request: u32 },
    tensor: {
      run: u64,
      step: u53,
      edge: u31,
      fragment: u31,
      rows: list(row, 4096),
      shape: pair(u31),
      dtype: choice(DTYPES),
      codec: name,
      sentNs: u53,
      checksum,
    },
    token: { tokens: list(sampled, 4096), step: u53, sentNs: u53, checksum },
    credit: { scope: choice(['sequence', 'edge']), id: u32, limit: u53 },
    heartbeat: { sentNs: u53, sentSteps: u53, completedSteps: u53, busyNs: u53 },
    probe: { id: u32, reply: flag, t1Ns: u53, t2Ns: u53, t3Ns: u53 },
    error: {
      code: choice(Object.values(ErrorCode)),
      message: prose(8192),
      worker: name,
      request: u32,
      sequence: orNone(u32),
    },
    traceControl: { request: u32, level: u31 },
    traceFetch: { request: u32, reply: flag, dropped: u53, rssBytes: u53 },
    stateGet: { request: u32, sequence: u32, reply: flag, checksum },
    stateSet: { request: u32, sequence: u32, position: u31, epoch: u32, checksum },
  }

  return (kind) =>
    record(kind[0]!.toUpperCase() + kind.slice(1), fields[kind] as Fields<Message>, kind) as Field<Message>
}
