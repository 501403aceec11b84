import type { OpenMessage, SampledToken, StageSession, TensorRow } from '@seamline/core'
import type { Slot } from './buffers.ts'

/** One open sequence on a stage. */
export interface Sequence {
  readonly id: number
  readonly session: StageSession
  readonly open: OpenMessage
  epoch: number
  /** Position that the next row to arrive must have. */
  nextPosition: number
  /** On stage 0: tokens may be fed up to, not including, this position. */
  creditLimit: number
  /** On stage 0: a token that waits for credit. */
  held: SampledToken | undefined
  /** On stage 0: the job whose token is due. */
  group: Job | undefined
  inEngine: boolean
  /** Turn in which the engine last took one of its rows. */
  served: number
  ended: boolean
  readonly whenIdle: (() => void)[]
}

/** A row of a job, and where it stands among the rows that arrived. */
export interface JobRow {
  readonly sequence: Sequence
  readonly row: TensorRow
  readonly index: number
}

/** Rows that go through the engine in one step, all with the same token count. */
export interface Job {
  /** Rows whose sequence ends or rolls back before the step begins are taken out. */
  rows: readonly JobRow[]
  /** True when stage 0 may put the rows of other such jobs into the same step. */
  readonly mergeable: boolean
  readonly arrivedNs: number
  /** True when {@link input} records a span of its own. */
  readonly decodes: boolean
  /** Turns the arrived bytes into what the executor takes for {@link rows}; called once, right before the step. */
  input(): Int32Array | Float32Array
  /** The memory of the input is free again. Called exactly once. */
  release(): void
  /** Memory that was taken for the output of this job. */
  slot?: Slot | undefined
  logits?: Float32Array | undefined
}

export function sequenceOf(open: OpenMessage, session: StageSession): Sequence {
  return {
    id: open.sequence,
    session,
    open,
    epoch: 0,
    nextPosition: 0,
    creditLimit: open.promptTokens,
    held: undefined,
    group: undefined,
    inEngine: false,
    served: -1,
    ended: false,
    whenIdle: [],
  }
}

/** Closes the gaps that rows taken out have left in `values`, `perRow` values each, and returns the front. */
export function compact<T extends Int32Array | Float32Array>(
  values: T,
  kept: readonly number[],
  perRow: number,
): T {
  for (const [to, from] of kept.entries()) {
    if (from !== to) values.copyWithin(to * perRow, from * perRow, (from + 1) * perRow)
  }
  return values.subarray(0, kept.length * perRow) as T
}
