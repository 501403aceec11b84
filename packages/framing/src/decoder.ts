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
  /** Length of prefix and header together. Throws `PROTOCOL` or `LIMIT` when that exceeds the longest. */
  frameHeaderBytes(prefix: Uint8Array): number
  /** Reads the header behind its prefix. Throws `PROTOCOL`. */
  parse(prefixed: Uint8Array): Header
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
    const payload = target.subarray(0, payloadBytes)
    pending = undefined
    target = empty
    handler.message(message, payload)
  }

  function startPayload(header: Header, staging: Uint8Array): number {
    payloadBytes = header.payloadBytes
    target = handler.target(header.message, payloadBytes)
    if (target.byteLength < payloadBytes)
      throw new SeamError(
        'USAGE',
        `the target holds ${target.byteLength} B of a payload of ${payloadBytes} B`,
      )
    pending = header.message
    filled = Math.min(staging.byteLength, payloadBytes)
    target.set(filled === staging.byteLength ? staging : staging.subarray(0, filled))
    if (filled === payloadBytes) finishPayload()
    return filled
  }

  function walkStage(): void {
    let at = 0
    while (pending === undefined && staged - at >= format.prefixBytes) {
      const end = at + format.frameHeaderBytes(stage.subarray(at, at + format.prefixBytes))
      if (end > staged) break
      const header = format.parse(stage.subarray(at, end))
      if (header.payloadBytes > limits.maxPayloadBytes)
        throw new SeamError(
          'LIMIT',
          `payload of ${header.payloadBytes} B in a ${header.message.kind} frame exceeds the limit of ${limits.maxPayloadBytes} B`,
        )
      at = end
      if (header.payloadBytes === 0) handler.message(header.message, empty)
      else at += startPayload(header, stage.subarray(at, staged))
    }
    if (at > 0) stage.copyWithin(0, at, staged)
    staged -= at
  }

  return {
    nextBuffer() {
      if (failure !== undefined) throw failure
      const next = pending === undefined ? stage.subarray(staged) : target.subarray(filled, payloadBytes)
      offered = next.byteLength
      return next
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
