import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import type { StageTrace } from '@seamline/runtime'

/** One recorded interval. */
export interface Span {
  readonly name: number
  readonly startNs: number
  readonly endNs: number
  readonly tag: number
}

export function* spansOf({ spans }: StageTrace): Generator<Span> {
  for (let at = 0; at < spans.length; at += SPAN_RECORD_LENGTH) {
    const [name, startNs, endNs, tag] = spans.subarray(at) as unknown as [number, number, number, number]
    yield { name, startNs, endNs, tag }
  }
}

export interface Shares {
  /** Time in the engine: decode, synchronise and sample. */
  readonly computeShare: number
  /** Time in codec, framing, checksum and transport of this stage. */
  readonly seamShare: number
}

const COMPUTE: readonly number[] = [SpanName.compute, SpanName.sample]
/** Waiting for the engine to be free is neither compute nor seam. */
const WAITING: readonly number[] = [SpanName.stageQueue]

/** How a stage spent `wallNs`; the rest it was idle. */
export function sharesOf(trace: StageTrace, wallNs: number): Shares {
  let computeNs = 0
  let seamNs = 0
  for (const { name, startNs, endNs } of spansOf(trace)) {
    if (COMPUTE.includes(name)) computeNs += endNs - startNs
    else if (!WAITING.includes(name)) seamNs += endNs - startNs
  }
  return { computeShare: computeNs / wallNs, seamShare: seamNs / wallNs }
}
