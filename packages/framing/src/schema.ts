import type { Message, MessageKind, SampledToken, TensorRow, TransportAddress } from '@seamline/core'
import type { Reader, Writer } from 'protobufjs/minimal.js'
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
  real,
  record,
  text,
  u64,
} from './fields.ts'
import { seamline } from './generated/seamline.ts'

/** What protobufjs generates for a message type. */
export interface StaticType {
  new (): object
  encode(message: object, writer: Writer): Writer
  decode(reader: Reader, length: number): object
}

const v1 = seamline.v1

const u31 = integer(2 ** 31 - 1)
const u32 = integer(2 ** 32 - 1)
const u53 = integer(Number.MAX_SAFE_INTEGER)
const checksum = orNone(u32)
const fact = orNone(u31)
const name = text(256)
const tokens = list(u31, 8192)
const penalty = real(-1e6, 1e6)
const addresses = list(
  record<TransportAddress>({ transport: name, address: text(1024) }, new v1.Address()),
  64,
)
const upperCase = (code: string) => code

const row: Field<TensorRow> = record<TensorRow>(
  { sequence: u32, epoch: u32, position: u31, tokenCount: u31, sample: flag },
  new v1.Row(),
)

const sampled: Field<SampledToken> = record<SampledToken>(
  { sequence: u32, epoch: u32, position: u31, token: u31, finish: choice(v1.Finish, 'FINISH_') },
  new v1.Sampled(),
)

const fields: { readonly [K in MessageKind]: Fields<Extract<Message, { kind: K }>> } = {
  hello: {
    role: choice(v1.Role, 'ROLE_'),
    name,
    run: name,
    facts: record(
      {
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
      },
      new v1.Facts(),
    ),
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
    sampler: record(
      {
        temperature: real(0, 1e6),
        topK: u31,
        topP: real(0, 1, 1),
        minP: real(0, 1),
        penaltyLastN: u31,
        repeatPenalty: real(0, 1e6, 1),
        frequencyPenalty: penalty,
        presencePenalty: penalty,
        seed: u32,
      },
      new v1.Sampler(),
    ),
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
    dtype: choice(v1.DType, 'DTYPE_'),
    codec: name,
    sentNs: u53,
    checksum,
  },
  token: { tokens: list(sampled, 4096), step: u53, sentNs: u53, checksum },
  credit: { scope: choice(v1.Scope, 'SCOPE_'), id: u32, limit: u53 },
  heartbeat: { sentNs: u53, sentSteps: u53, completedSteps: u53, busyNs: u53 },
  probe: { id: u32, reply: flag, t1Ns: u53, t2Ns: u53, t3Ns: u53 },
  error: {
    code: choice(v1.Code, 'CODE_', upperCase),
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

/** One kind of message: its static type and the conversion to and from it. */
export interface Kind {
  readonly kind: MessageKind
  readonly type: StaticType
  readonly field: Field<Message>
  /** True for the kinds inside of `Service`. */
  readonly service: boolean
}

/** Tag of field `number` with wire type 2, length-delimited. */
export const delimited = (number: number): number => number * 8 + 2

/** Tag of {@link Frame}'s payload. */
export const PAYLOAD_TAG: number = delimited(15)
export const SERVICE_TAG: number = delimited(14)

// In the order of their field numbers.
const FRAME_KINDS: readonly MessageKind[] = [
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
const SERVICE_KINDS: readonly MessageKind[] = ['traceControl', 'traceFetch', 'stateGet', 'stateSet']

function byTag(kinds: readonly MessageKind[], service: boolean): ReadonlyMap<number, Kind> {
  return new Map(
    kinds.map((kind, i) => {
      const type: StaticType = v1[kind[0]!.toUpperCase() + kind.slice(1)]
      const field = record(fields[kind] as Fields<Message>, new type(), kind)
      return [delimited(i + 1), { kind, type, field, service }]
    }),
  )
}

/** Kinds that are a field of `Frame`, and of `Service` inside of it, by tag. */
export const frameKinds: ReadonlyMap<number, Kind> = byTag(FRAME_KINDS, false)
export const serviceKinds: ReadonlyMap<number, Kind> = byTag(SERVICE_KINDS, true)
