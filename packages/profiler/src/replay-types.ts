import type { Category } from './trace.ts'

/** A duration that a replay spends, as it was recorded. A what-if is a function from these to other durations. */
export interface Cost {
  readonly category: Category
  /** Index in the trace; for a wire the receiving process. */
  readonly process: number
  /** A `SpanPort`; 0 for what belongs to no link. */
  readonly port: number
  readonly ns: number
  /** Of the frame, where it has one. */
  readonly bytes: number
}

/** A frame: costs of the sender's loop, of the wire, and of the receiver's loop. */
export interface Frame {
  readonly from: number
  readonly to: number
  readonly outPort: number
  /** On the sender's loop, in order; the last is the call of `send`. */
  readonly sending: readonly Cost[]
  readonly queue: Cost
  /** By how much the first byte was there before `send` returned. */
  readonly early: Cost
  /** To the first byte, parts of a relay among them. */
  readonly first: readonly Cost[]
  /** From the first byte to the last. */
  readonly rest: Cost
  /** How long the link has no room for another frame. */
  readonly hold: Cost
  readonly header: Cost
  /** On the receiver's loop once the frame is whole, before what each row costs. */
  readonly receiving: readonly Cost[]
}

/** One step on one stage. */
export interface StageStep {
  readonly id: number
  readonly stage: number
  readonly rows: readonly number[]
  readonly sequences: readonly number[]
  readonly isDecode: boolean
  /** When its first row was positioned in the order in which the stage began its steps. */
  readonly order: number
  /** By row: on the loop of stage 0 when its token has come. */
  readonly arriving: readonly Cost[]
  readonly ready: Cost
  /** On the loop, once nothing stands in the way of the step any more. */
  readonly starting: readonly Cost[]
  readonly decode: Cost
  readonly submit: Cost
  readonly compute: readonly Cost[]
  readonly sync: Cost
  readonly finishing: readonly Cost[]
  /** To the next stage. */
  readonly hidden: { readonly frame: Frame; readonly to: number } | undefined
  /** Tokens to stage 0, in one frame or by way of the coordinator; without frames on the only stage. */
  readonly tokens: { readonly frames: readonly Frame[]; readonly rows: readonly number[] } | undefined
  /** Tokens to the coordinator and what handing on each of them costs. */
  readonly result:
    | { readonly frame: Frame; readonly rows: readonly number[]; readonly emits: readonly Cost[] }
    | undefined
}

export interface RequestModel {
  readonly sequence: number
  readonly tokens: number
  readonly promptTokens: number
  /** When it was accepted; where `after` says which request had to end first, how long after that. */
  readonly acceptedNs: number
  readonly after: number | undefined
  /** `before` a chunk is sent: waits and the coordinator's own work. */
  readonly chunks: readonly {
    readonly before: readonly Cost[]
    readonly frame: Frame
    readonly step: number
  }[]
  /** As recorded, from its acceptance. */
  readonly emittedNs: readonly number[]
}

export interface Credit {
  /** Steps that may be on their way to the next stage. */
  readonly window: number
  /** Steps that may begin before the first one is done with there. */
  readonly granted: number
  /** How long it takes until the sender has a grant. */
  readonly creditNs: number
}

export interface StageModel extends Credit {
  readonly process: number
}

/** Everything that {@link replay} needs, taken from a trace once. */
export interface ReplayModel {
  readonly stages: readonly StageModel[]
  readonly coordinator: number
  readonly steps: readonly StageStep[]
  /** On stage 0, by row. */
  readonly stepOfRow: ReadonlyMap<number, number>
  readonly requests: readonly RequestModel[]
  readonly sequencesInFlight: number
  readonly rowsPerStep: number
  /** How long it takes stage 0 to learn that a sequence has ended. */
  readonly endNs: number
  readonly makespanNs: number
}
