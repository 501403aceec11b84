import { SeamError } from '@seamline/core'

/** One frame of RFC 6455 section 5.2. */
export interface Frame {
  readonly opcode: number
  readonly final: boolean
  readonly payloadBytes: number
  /** Part of a binary message. */
  readonly binary: boolean
}

export interface FrameParserOptions {
  /** Whether the frames come from a client, and so have keys. */
  readonly masked: boolean
  /** A longer payload is `LIMIT`. */
  readonly maxFrameBytes: number
  /** A frame begins; `head` is its own, as it would be without a key. */
  onHead(frame: Frame, head: Uint8Array): void
  /** The next bytes of its payload, unmasked. */
  onPayload(frame: Frame, piece: Uint8Array): void
  onEnd(frame: Frame): void
}

export interface FrameParser {
  /** True between two frames. */
  readonly idle: boolean
  /** Bytes of a binary payload that come next. */
  readonly binaryBytes: number
  /** Throws `LIMIT` or `PROTOCOL`. Unmasks in `chunk`. */
  push(chunk: Uint8Array): void
  /** `bytes` of the {@link binaryBytes} went past the parser. Only for frames without keys. */
  skip(bytes: number): void
}

export const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

/** Close codes of RFC 6455 section 7.4.1. */
export const closeCodes = { good: 1000, broken: 1002, tooBig: 1009 } as const

/** Reads frames of every kind as their bytes come, collecting nothing. */
export function createFrameParser(options: FrameParserOptions): FrameParser {
  const { masked, maxFrameBytes, onHead, onPayload, onEnd } = options
  const keyBytes = masked ? 4 : 0
  const head = new Uint8Array(14)
  const view = new DataView(head.buffer)
  let headBytes = 0
  let remaining = 0
  let key: Uint8Array | undefined
  let phase = 0
  let binary = false
  let frame: Frame = { opcode: opcodes.binary, final: true, payloadBytes: 0, binary: false }

  /** Length of the head in front, as far as its first two bytes tell. */
  function headLength(): number {
    if (headBytes < 2) return 2
    const length = head[1]! & 0x7f
    return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + keyBytes
  }

  function begin(): void {
    const final = (head[0]! & 0x80) !== 0
    const opcode = head[0]! & 0x0f
    const short = head[1]! & 0x7f
    const control = opcode >= opcodes.close
    const known = opcode <= opcodes.binary || (control && opcode <= opcodes.pong)
    const rightMask = ((head[1]! & 0x80) !== 0) === masked
    if ((head[0]! & 0x70) !== 0 || !rightMask || !known || (control && (!final || short > 125))) {
      throw new SeamError('PROTOCOL', 'a frame that RFC 6455 section 5.2 forbids')
    }
    const payloadBytes =
      short < 126
        ? short
        : short === 126
          ? view.getUint16(2)
          : view.getUint32(2) * 2 ** 32 + view.getUint32(6)
    if (payloadBytes > maxFrameBytes) {
      throw new SeamError('LIMIT', `a message of ${payloadBytes} B, at most ${maxFrameBytes} B are taken`)
    }
    if (!control && opcode !== opcodes.continuation) binary = opcode === opcodes.binary
    frame = { opcode, final, payloadBytes, binary: binary && !control }
    const given = masked ? head.slice(headBytes - 4, headBytes) : undefined
    key = given?.some((byte) => byte !== 0) ? given : undefined
    phase = 0
    remaining = payloadBytes
    head[1] = short
    onHead(frame, head.slice(0, headBytes - keyBytes))
    headBytes = 0
    if (remaining === 0) onEnd(frame)
  }

  function unmask(piece: Uint8Array, by: Uint8Array): void {
    for (let index = 0; index < piece.length; index += 1) piece[index]! ^= by[(phase + index) & 3]!
    phase = (phase + piece.length) & 3
  }

  return {
    get idle() {
      return remaining === 0 && headBytes === 0
    },
    get binaryBytes() {
      return frame.binary ? remaining : 0
    },
    push(chunk) {
      let offset = 0
      while (offset < chunk.length) {
        if (remaining > 0) {
          const piece = chunk.subarray(offset, offset + remaining)
          offset += piece.length
          remaining -= piece.length
          if (key !== undefined) unmask(piece, key)
          onPayload(frame, piece)
          if (remaining === 0) onEnd(frame)
          continue
        }
        head[headBytes] = chunk[offset]!
        headBytes += 1
        offset += 1
        if (headBytes === headLength()) begin()
      }
    },
    skip(bytes) {
      remaining -= bytes
      if (remaining === 0) onEnd(frame)
    },
  }
}

/**
 * The head of a whole message. A client has to mask; its key of zeros is valid and leaves the payload as it is: the
 * mask guards caches of old proxies against browsers, and protects nothing here.
 */
export function frameHead(opcode: number, payloadBytes: number, masked: boolean): Uint8Array {
  const lengthBytes = payloadBytes < 126 ? 0 : payloadBytes < 1 << 16 ? 2 : 8
  const head = new Uint8Array(2 + lengthBytes + (masked ? 4 : 0))
  const view = new DataView(head.buffer)
  head[0] = 0x80 | opcode
  head[1] = (masked ? 0x80 : 0) | (lengthBytes === 0 ? payloadBytes : lengthBytes === 2 ? 126 : 127)
  if (lengthBytes === 2) view.setUint16(2, payloadBytes)
  if (lengthBytes === 8) view.setBigUint64(2, BigInt(payloadBytes))
  return head
}

/** A close frame with `code` and no reason. */
export function closeFrame(code: number, masked: boolean): Uint8Array {
  return Uint8Array.of(...frameHead(opcodes.close, 2, masked), code >> 8, code & 0xff)
}
