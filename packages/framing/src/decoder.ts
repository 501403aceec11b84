import {
  alignedBytes,
  type FrameDecoder,
  type FrameHandler,
  type FrameLimits,
  type Message,
  SeamError,
} from '@seamline/core'

/** What a header says: its message and how many payload bytes follow it. */
export interface Header {
  readonly message: Message
  readonly payloadBytes: number
}

/** How a decoder reads one framing's headers. */
export interface HeaderFormat {
  /** Bytes in front of a header that tell its length. */
  readonly prefixBytes: number
  /** Longest prefix and header together. */
  readonly maxHeaderBytes: number
  /** Length of the prefix at `start` and its header together. Throws `PROTOCOL` or `LIMIT` when that exceeds the longest. */
  frameHeaderBytes(bytes: Uint8Array, start: number): number
  /** Reads the header behind the prefix at `start`, up to `end`. Throws `PROTOCOL`. */
  parse(bytes: Uint8Array, start: number, end: number): Header
}

/** The decoder of any framing whose headers have a prefix with their length and whose payloads come last. */
export function frameDecoder(format: HeaderFormat, handler: FrameHandler, limits: FrameLimits): FrameDecoder {
  const stage = alignedBytes(format.maxHeaderBytes)
  const empty: Uint8Array = stage.subarray(0, 0)
  let staged = 0
  let pending: Message | undefined
  let target = empty
  let payloadBytes = 0
  let filled = 0
  let offered = 0
  let failure: unknown

  function finishPayload(): void {
    const message = pending!
    const payload = target.byteLength === payloadBytes ? target : target.subarray(0, payloadBytes)
    pending = undefined
    target = empty
    handler.message(message, payload)
  }

  /** Moves what the stage holds of the payload from `at` on and returns how many bytes that are. */
  function startPayload(header: Header, at: number): number {
    payloadBytes = header.payloadBytes
    target = handler.target(header.message, payloadBytes)
    if (target.byteLength < payloadBytes)
      throw new SeamError(
        'USAGE',
        `the target holds ${target.byteLength} B of a payload of ${payloadBytes} B`,
      )
    pending = header.message
    filled = Math.min(staged - at, payloadBytes)
    if (filled > 0) target.set(stage.subarray(at, at + filled))
    if (filled === payloadBytes) finishPayload()
    return filled
  }

  function walkStage(): void {
    let at = 0
    while (pending === undefined && staged - at >= format.prefixBytes) {
      const end = at + format.frameHeaderBytes(stage, at)
      if (end > staged) break
      const header = format.parse(stage, at, end)
      if (header.payloadBytes > limits.maxPayloadBytes)
        throw new SeamError(
          'LIMIT',
          `payload of ${header.payloadBytes} B in a ${header.message.kind} frame exceeds the limit of ${limits.maxPayloadBytes} B`,
        )
      at = end
      if (header.payloadBytes === 0) handler.message(header.message, empty)
      else at += startPayload(header, at)
    }
    if (at > 0 && at < staged) stage.copyWithin(0, at, staged)
    staged -= at
  }

  return {
    nextBuffer() {
      if (failure !== undefined) throw failure
      const [memory, start, end] =
        pending === undefined ? [stage, staged, stage.byteLength] : [target, filled, payloadBytes]
      offered = end - start
      return offered === memory.byteLength ? memory : memory.subarray(start, end)
    },
    received(bytes) {
      if (failure !== undefined) throw failure
      try {
        if (!Number.isInteger(bytes) || bytes < 0 || bytes > offered)
          throw new SeamError('USAGE', `${bytes} B received into a buffer of ${offered} B`)
        offered = 0
        if (pending === undefined) staged += bytes
        else {
          filled += bytes
          if (filled === payloadBytes) finishPayload()
        }
        if (pending === undefined) walkStage()
      } catch (error) {
        failure = error
        throw error
      }
    },
  }
}
