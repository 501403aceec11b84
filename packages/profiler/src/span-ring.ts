import {
  SeamError,
  SPAN_RECORD_LENGTH,
  type SpanName,
  type SpanPort,
  type SpanRecorder,
} from '@seamline/core'

export interface SpanRingOptions {
  /** Spans held at once; 48 bytes each, allocated up front. @default 65536 */
  readonly capacity?: number
  /** @default true */
  readonly recording?: boolean
}

export interface SpanRing extends SpanRecorder {
  /** Spans waiting to be drained. */
  readonly size: number
}

const DEFAULT_CAPACITY = 65_536

/**
 * Records spans into one typed array. A full ring keeps its oldest spans and counts what it had to drop, so that a
 * gap is known to be at the end. Throws `USAGE` for a capacity that is not a positive integer.
 */
export function spanRing(options: SpanRingOptions = {}): SpanRing {
  const capacity = options.capacity ?? DEFAULT_CAPACITY
  if (!Number.isSafeInteger(capacity) || capacity < 1) {
    throw new SeamError('USAGE', `capacity ${capacity} is not a positive number of spans`)
  }
  const records = new Float64Array(capacity * SPAN_RECORD_LENGTH)
  let size = 0
  let dropped = 0
  return {
    recording: options.recording ?? true,
    get size() {
      return size
    },
    get dropped() {
      return dropped
    },
    span(name: SpanName, startNs: number, endNs: number, tag: number, bytes: number, port: SpanPort = 0) {
      if (!this.recording) return
      if (size === capacity) {
        dropped++
        return
      }
      const at = size++ * SPAN_RECORD_LENGTH
      records[at] = name
      records[at + 1] = startNs
      records[at + 2] = endNs
      records[at + 3] = tag
      records[at + 4] = bytes
      records[at + 5] = port
    },
    drain() {
      const drained = records.slice(0, size * SPAN_RECORD_LENGTH)
      size = 0
      dropped = 0
      return drained
    },
  }
}
