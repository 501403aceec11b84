/**
 * What a span measures, as a small integer. Numbers are part of recorded traces: append, never renumber.
 * On one event loop the spans of a step follow each other without a gap: each begins at the stamp that ended the one before.
 */
export const SpanName = {
  /** A step is ready on a stage until it is handed to the engine. */
  stageQueue: 1,
  /** The engine computes: native stamps. */
  compute: 2,
  /** The last stage samples: native stamps. */
  sample: 3,
  codecEncode: 4,
  codecDecode: 5,
  frameEncode: 6,
  /** First byte of a frame in memory until its header is understood. */
  frameDecode: 7,
  checksum: 8,
  /** A frame is handed to the transport until that is done with its memory. */
  sendQueue: 9,
  /** Header understood until the last byte of the payload is in memory. */
  receive: 10,
  /** The coordinator has a token until its caller does. */
  emit: 11,
  copy: 12,
  tokenize: 13,
  detokenize: 14,
  /** A step is handed to the engine until its thread begins. */
  submit: 15,
  /** The engine has ended a step until the event loop takes the result. */
  resume: 16,
  /** The engine's thread could run and had no CPU; so long before the end of the compute span it belongs to. */
  cpuWait: 17,
  /** Code of the runtime itself on the event loop. */
  dispatch: 18,
  /** Nothing but credit, or a free buffer, of the next stage was missing to start a step. */
  creditWait: 19,
  /** Inside the transport's `send`: the part of {@link sendQueue} that keeps the event loop. */
  send: 20,
  /** At a relay: bytes read, held back for a slow peer, written. The tag counts the bytes of the direction so far. */
  relayIn: 21,
  relayQueue: 22,
  relayOut: 23,
  gc: 24,
  /** Four-stamp probe: start and end are its first and last stamp, tag and bytes the peer's two. */
  probe: 25,
  /** A further row of a step with several: the tag is that of the step's first row, bytes that of this row. */
  member: 26,
  /** An instant: the coordinator accepted a request. */
  request: 27,
  /** An instant: resident memory in `bytes`. */
  memory: 28,
  /** An instant: bytes that a link has put on the wire so far, in `bytes`. */
  wireBytes: 29,
  /** How long the event loop's thread could run and had no CPU during the span, in `bytes`, which are ns here. */
  loopCpuWait: 30,
  /** Its length is what recording one span costs in this process. */
  calibration: 31,
  /** A delay that was put in on purpose: the truth that an experiment is compared with, never part of an attribution. */
  injected: 32,
  /** At the coordinator: every stage is asked to open a sequence until all have answered. */
  open: 33,
} as const

export type SpanName = (typeof SpanName)[keyof typeof SpanName]

/** Which of its links a process measured, by what that carries. */
export const SpanPort = {
  none: 0,
  /** Hidden rows from the stage before, and to the stage behind. */
  hiddenIn: 1,
  hiddenOut: 2,
  /** Sampled tokens from the last stage to stage 0. */
  tokensOut: 3,
  tokensIn: 4,
  /** Prompt tokens from the coordinator to stage 0. */
  promptOut: 5,
  promptIn: 6,
  /** Sampled tokens from the last stage to the coordinator. */
  resultOut: 7,
  resultIn: 8,
} as const

export type SpanPort = (typeof SpanPort)[keyof typeof SpanPort]

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
   * @param port the link, `SpanPort.none` by default
   */
  span(name: SpanName, startNs: number, endNs: number, tag: number, bytes: number, port?: SpanPort): void
}

/** A sink whose records can be taken out again, six numbers a span in the order of {@link SpanSink.span}. */
export interface SpanRecorder extends SpanSink {
  /** Spans are taken only while this is true. */
  recording: boolean
  /** Spans lost because the recorder was full. Any loss makes an attribution unusable. */
  readonly dropped: number
  /** Copies the records out, oldest first, and empties the recorder. */
  drain(): Float64Array<ArrayBuffer>
}

/** Numbers per record in {@link SpanRecorder.drain}. */
export const SPAN_RECORD_LENGTH = 6

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
