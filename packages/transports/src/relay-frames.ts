import { SeamError } from '@seamline/core'

export interface UnmaskerOptions {
  /** A longer payload is `LIMIT`. */
  readonly maxFrameBytes: number
  /** Takes the bytes that go on. They stay unchanged from now on. */
  put(bytes: Uint8Array): void
  /** Bytes of binary messages among them. */
  onBinary(bytes: number): void
}

export interface Unmasker {
  /** True between two frames: another one may be put in here. */
  readonly idle: boolean
  /** True once a close frame went on. */
  readonly closed: boolean
  /** Throws `LIMIT` or `PROTOCOL`; what came before the fault went on. May change `chunk`. */
  push(chunk: Uint8Array): void
}

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, pong: 10 } as const

/**
 * Turns the frames that a WebSocket client sends (RFC 6455 section 5.2, masked) into those that a client receives, as
 * the bytes come: payloads go on before they are complete, and frames of every kind keep their borders.
 */
export function createUnmasker(options: UnmaskerOptions): Unmasker {
  const { maxFrameBytes, put, onBinary } = options
  const header = new Uint8Array(14)
  const mask = new Uint8Array(4)
  let headerBytes = 0
  let remaining = 0
  let masked = false
  let phase = 0
  let opcode: number = opcodes.binary
  let binary = false
  let closed = false

  /** Length of the header in front, as far as its first two bytes tell. */
  function neededBytes(): number {
    if (headerBytes < 2) return 2
    const length = header[1]! & 0x7f
    return 6 + (length === 126 ? 2 : length === 127 ? 8 : 0)
  }

  function begin(needed: number): void {
    const view = new DataView(header.buffer)
    const final = (header[0]! & 0x80) !== 0
    const short = header[1]! & 0x7f
    opcode = header[0]! & 0x0f
    const control = opcode >= opcodes.close
    const known = opcode <= opcodes.binary || (control && opcode <= opcodes.pong)
    if ((header[0]! & 0x70) !== 0 || (header[1]! & 0x80) === 0 || !known || (control && (!final || short > 125))) {
      throw new SeamError('PROTOCOL', 'a frame that a client must not send (RFC 6455 section 5.2)')
    }
    const length =
      short < 126 ? short : short === 126 ? view.getUint16(2) : view.getUint32(2) * 2 ** 32 + view.getUint32(6)
    if (length > maxFrameBytes) {
      throw new SeamError('LIMIT', `a message of ${length} B, the relay takes at most ${maxFrameBytes} B`)
    }
    if (!control && opcode !== opcodes.continuation) binary = opcode === opcodes.binary
    mask.set(header.subarray(needed - 4, needed))
    masked = mask.some((byte) => byte !== 0)
    phase = 0
    remaining = length
    header[1] = short
    put(header.slice(0, needed - 4))
    headerBytes = 0
    if (remaining === 0) finish()
  }

  function finish(): void {
    if (opcode === opcodes.close) closed = true
  }

  function passPayload(piece: Uint8Array): void {
    if (masked) {
      for (let index = 0; index < piece.length; index += 1) piece[index]! ^= mask[(phase + index) & 3]!
      phase = (phase + piece.length) & 3
    }
    remaining -= piece.length
    put(piece)
    if (binary && opcode <= opcodes.binary) onBinary(piece.length)
    if (remaining === 0) finish()
  }

  return {
    get idle() {
      return remaining === 0 && headerBytes === 0
    },
    get closed() {
      return closed
    },
    push(chunk) {
      let offset = 0
      while (offset < chunk.length) {
        // Nothing counts behind a close frame.
        if (closed) return
        if (remaining > 0) {
          const piece = chunk.subarray(offset, offset + remaining)
          offset += piece.length
          passPayload(piece)
          continue
        }
        header[headerBytes] = chunk[offset]!
        headerBytes += 1
        offset += 1
        const needed = neededBytes()
        if (headerBytes === needed) begin(needed)
      }
    },
  }
}

/** A close frame from a server, with `code` (RFC 6455 section 7.4) and no reason. */
export function closeFrame(code: number): Uint8Array {
  return Uint8Array.of(0x88, 2, code >> 8, code & 0xff)
}
