/**
 * What a span measures, as a small integer. Numbers are part of recorded traces: append, never renumber.
 * Names follow the taxonomy of the profiler.
 */
export const SpanName = {
  stageQueue: 1,
  compute: 2,
  sample: 3,
  codecEncode: 4,
  codecDecode: 5,
  frameEncode: 6,
  frameDecode: 7,
  checksum: 8,
  sendQueue: 9,
  receive: 10,
  emit: 11,
  copy: 12,
  tokenize: 13,
  detokenize: 14,
} as const

export type SpanName = (typeof SpanName)[keyof typeof SpanName]

/**
 * Takes measured intervals. Numbers only, no allocation, never throws. Holders keep a `SpanSink | null` and
 * write `if (sink !== null) sink.span(...)`, so that measuring nothing costs a null check.
 */
export interface SpanSink {
  /**
   * @param name what was measured
   * @param startNs start on the host's {@link Clock}
   * @param endNs end on the same clock
   * @param tag joins spans of one step across processes: see {@link spanTag}
   * @param bytes bytes moved or produced, 0 where that has no meaning
   */
  span(name: SpanName, startNs: number, endNs: number, tag: number, bytes: number): void
}

/** A sink whose records can be taken out again, five numbers a span in the order of {@link SpanSink.span}. */
export interface SpanRecorder extends SpanSink {
  /** Spans are taken only while this is true. */
  recording: boolean
  /** Spans lost because the recorder was full. Any loss makes an attribution unusable. */
  readonly dropped: number
  /** Copies the records out, oldest first, and empties the recorder. */
  drain(): Float64Array<ArrayBuffer>
}

/** Numbers per record in {@link SpanRecorder.drain}. */
export const SPAN_RECORD_LENGTH = 5

/** Positions of one sequence that a tag can tell apart. */
const TAG_POSITIONS = 2 ** 24

/** The tag of a step: the sequence and position of its first token. Exact for sequences below 2^29. */
export function spanTag(sequence: number, position: number): number {
  return sequence * TAG_POSITIONS + position
}

/** The sequence and position of a {@link spanTag}. */
export function spanTagParts(tag: number): { readonly sequence: number; readonly position: number } {
  const sequence = Math.floor(tag / TAG_POSITIONS)
  return { sequence, position: tag - sequence * TAG_POSITIONS }
}
