import type { ErrorCode } from './errors.ts'
import type { StageSpec } from './executor.ts'
import type { SamplerSettings } from './sampler.ts'
import type { DType } from './tensor.ts'

/**
 * What both ends of a link state about themselves before any tensor. An empty string or -1 means "no opinion"; any other
 * value must equal the peer's.
 */
export type LinkFacts = StageSpec

/** Where a process can be reached: an address in the form of the transport of that name. */
export interface TransportAddress {
  readonly transport: string
  readonly address: string
}

export type LinkRole = 'coordinator' | 'worker' | 'stage'

/** First message on every link, from both ends. */
export interface HelloMessage {
  readonly kind: 'hello'
  readonly role: LinkRole
  /** Name of the sender in errors. */
  readonly name: string
  /** Run this link belongs to: 16 hex digits, chosen by the coordinator; empty in a worker's own hello. */
  readonly run: string
  readonly facts: LinkFacts
  /**
   * In the sender's order of preference. Between two stages the dialling one, which receives, offers, and the other answers with
   * the one it chose.
   */
  readonly codecs: readonly string[]
  readonly framings: readonly string[]
  /** Transports that the sender can dial with. */
  readonly transports: readonly string[]
  /** Where the sender listens; empty where it does not. */
  readonly addresses: readonly TransportAddress[]
  readonly maxPayloadBytes: number
  /** From a coordinator: sequences that stage 0 may put into one decode step. 1 from everybody else. */
  readonly rowsPerStep: number
  /** The sender is declared dead when nothing arrives from it for this long. */
  readonly livenessMs: number
}

/**
 * Asks a stage to dial the neighbour it receives from. Once that link has passed its own hello it is answered by the same kind
 * with `reply` set, whose lists then hold the one address, codec and framing in use; or refused by an error.
 */
export interface LinkMessage {
  readonly kind: 'link'
  readonly request: number
  readonly reply: boolean
  /** Edge e joins stage e to stage e + 1; the last edge returns tokens to stage 0. */
  readonly edge: number
  /** Tried in this order while a dial fails. */
  readonly addresses: readonly TransportAddress[]
  /** The codecs allowed, which may be lossy; empty allows every lossless one. The receiver's order of preference decides. */
  readonly codecs: readonly string[]
  /** The framings allowed; empty allows all. */
  readonly framings: readonly string[]
}

/** Admits a sequence on a stage; acknowledged, or refused with `BUSY` or `LIMIT`. */
export interface OpenMessage {
  readonly kind: 'open'
  readonly request: number
  readonly sequence: number
  readonly promptTokens: number
  readonly maxTokens: number
  readonly sampler: SamplerSettings
  /** Sampling one of these ends the sequence. */
  readonly stopTokens: readonly number[]
  /** The last tokens of the prompt, oldest first, for the penalties. */
  readonly promptTail: readonly number[]
  /** Asks the last stage to send the logits of each sampled position to the coordinator. */
  readonly returnLogits: boolean
}

/** Ends a sequence in good order and frees its KV cells; acknowledged. */
export interface CloseMessage {
  readonly kind: 'close'
  readonly request: number
  readonly sequence: number
}

/** Ends a sequence now, dropping its queued work, and frees its KV cells; acknowledged. */
export interface CancelMessage {
  readonly kind: 'cancel'
  readonly request: number
  readonly sequence: number
}

/** Truncates a sequence to `position` and starts a new epoch; rows of older epochs are dropped. Acknowledged. */
export interface RollbackMessage {
  readonly kind: 'rollback'
  readonly request: number
  readonly sequence: number
  readonly position: number
  readonly epoch: number
  /** The tokens before the next sampled one, oldest first, for the penalties of the last stage. */
  readonly tail: readonly number[]
}

/** Done: answers a message that carries the same `request`. */
export interface AckMessage {
  readonly kind: 'ack'
  readonly request: number
}

/** Consecutive tokens of one sequence in a tensor. */
export interface TensorRow {
  readonly sequence: number
  readonly epoch: number
  /** Position of the first token; must equal the receiver's KV length of the sequence. */
  readonly position: number
  readonly tokenCount: number
  /** True when the last stage must sample after the last token of this row. */
  readonly sample: boolean
}

/** Token ids (dtype `i32`, codec `none`) into stage 0, hidden rows between stages. */
export interface TensorMessage {
  readonly kind: 'tensor'
  /** The run as an unsigned 64-bit number: the 16 hex digits of {@link HelloMessage.run}. */
  readonly run: bigint
  /** Counts tensors and token messages on this link from 0; a receiver refuses any other than the next one. */
  readonly step: number
  readonly edge: number
  readonly fragment: number
  readonly rows: readonly TensorRow[]
  readonly shape: readonly [rows: number, columns: number]
  readonly dtype: DType
  readonly codec: string
  /** When the sender handed the frame to its transport, on the sender's clock. */
  readonly sentNs: number
  /** CRC-32 of the payload, or -1 where the transport authenticates its bytes. */
  readonly checksum: number
}

export type FinishReason = 'none' | 'stop' | 'length'

/** A token that the last stage chose. */
export interface SampledToken {
  readonly sequence: number
  readonly epoch: number
  /** Position the token takes in its sequence. */
  readonly position: number
  readonly token: number
  readonly finish: FinishReason
}

/**
 * The tokens of one step, from the last stage to stage 0 and to the coordinator. Its payload are the logits, one
 * vocabulary after the other, of those tokens whose sequence asked for them.
 */
export interface TokenMessage {
  readonly kind: 'token'
  readonly tokens: readonly SampledToken[]
  /** Counts tensors and token messages on this link from 0; a receiver refuses any other than the next one. */
  readonly step: number
  readonly sentNs: number
  /** CRC-32 of the payload, or -1 where there is none or the transport authenticates. */
  readonly checksum: number
}

/**
 * Permission to send. On a sequence: tokens may be fed up to, not including, position `limit`. On an edge:
 * tensors with `step` below `limit` may be sent.
 */
export interface CreditMessage {
  readonly kind: 'credit'
  readonly scope: 'sequence' | 'edge'
  /** Sequence or edge number. */
  readonly id: number
  readonly limit: number
}

/** Sent by both ends in every fifth of the liveness deadline. */
export interface HeartbeatMessage {
  readonly kind: 'heartbeat'
  readonly sentNs: number
  /** Counted messages (tensors and tokens) sent on this link so far: tells a lost frame from silence. */
  readonly sentSteps: number
  /** Compute steps finished by the sender. */
  readonly completedSteps: number
  /** How long the sender's current compute step has been running, 0 when idle. */
  readonly busyNs: number
}

/** Four-stamp clock probe: the sender fills `t1`, the peer returns it with its own receive and send times. */
export interface ProbeMessage {
  readonly kind: 'probe'
  readonly id: number
  readonly reply: boolean
  readonly t1Ns: number
  readonly t2Ns: number
  readonly t3Ns: number
}

/** Refuses a request, ends a sequence, or (with neither) ends the link. */
export interface ErrorMessage {
  readonly kind: 'error'
  readonly code: ErrorCode
  readonly message: string
  /** Name of the worker the error is about, empty where there is none. */
  readonly worker: string
  /** 0 when it answers no request. */
  readonly request: number
  /** -1 when it concerns no single sequence. */
  readonly sequence: number
}

/** Turns recording of spans on (1) or off (0); acknowledged. */
export interface TraceControlMessage {
  readonly kind: 'traceControl'
  readonly request: number
  readonly level: number
}

/** Asks for the recorded spans; the reply carries them as f64 records in its payload. */
export interface TraceFetchMessage {
  readonly kind: 'traceFetch'
  readonly request: number
  readonly reply: boolean
  readonly dropped: number
  /** Resident memory of the sender's process in bytes, in a reply. */
  readonly rssBytes: number
}

/** Asks for the state of one sequence; the reply carries it in its payload. */
export interface StateGetMessage {
  readonly kind: 'stateGet'
  readonly request: number
  readonly sequence: number
  readonly reply: boolean
  /** CRC-32 of the payload, or -1. */
  readonly checksum: number
}

/** Replaces the state of one sequence by the payload; acknowledged. */
export interface StateSetMessage {
  readonly kind: 'stateSet'
  readonly request: number
  readonly sequence: number
  readonly position: number
  readonly epoch: number
  readonly checksum: number
}

/** Everything that travels between two processes. Only some kinds may carry a payload: see {@link mayCarryPayload}. */
export type Message =
  | HelloMessage
  | LinkMessage
  | OpenMessage
  | CloseMessage
  | CancelMessage
  | RollbackMessage
  | AckMessage
  | TensorMessage
  | TokenMessage
  | CreditMessage
  | HeartbeatMessage
  | ProbeMessage
  | ErrorMessage
  | TraceControlMessage
  | TraceFetchMessage
  | StateGetMessage
  | StateSetMessage

export type MessageKind = Message['kind']

/** True for the kinds whose frames may carry payload bytes. */
export function mayCarryPayload(kind: MessageKind): boolean {
  return (
    kind === 'tensor' ||
    kind === 'token' ||
    kind === 'traceFetch' ||
    kind === 'stateGet' ||
    kind === 'stateSet'
  )
}
