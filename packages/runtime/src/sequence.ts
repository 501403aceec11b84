import type { OpenMessage, StageSession, TensorRow, TokenMessage } from '@seamline/core'
import type { Slot } from './buffers.ts'

/** One row waiting for the engine. */
export interface Job {
  readonly sequence: Sequence
  readonly row: TensorRow
  /** Turns the arrived bytes into what the executor takes; called right before the step. */
  input(): Int32Array | Float32Array
  readonly arrivedNs: number
  /** The memory of the input is free again. Called exactly once. */
  release(): void
  /** Memory that was taken for the output of this job. */
  slot?: Slot | undefined
  logits?: Float32Array | undefined
}

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
  held: TokenMessage | undefined
  readonly jobs: Job[]
  inEngine: boolean
  ended: boolean
  readonly whenIdle: (() => void)[]
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
    jobs: [],
    inEngine: false,
    ended: false,
    whenIdle: [],
  }
}
