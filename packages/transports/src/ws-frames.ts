import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Sink } from './socket.ts'

/** Longest binary message, in either direction: longer sends are cut. */
export const maxMessageBytes = 1 << 18

// RFC 6455 5.2: FIN and opcode 2, then mask bit and length.
const wholeBinary = 0x82
const maskBit = 0x80

/**
 * Head of a whole binary message. A client must mask: its key is zero, which leaves the payload as it is. Masking
 * guards caches of old proxies against bytes that a browser was made to send.
 */
export function messageHead(bytes: number, masked: boolean): Buffer {
  const lengthBytes = bytes < 126 ? 0 : bytes < 1 << 16 ? 2 : 8
  const head = Buffer.alloc(2 + lengthBytes + (masked ? 4 : 0))
  head[0] = wholeBinary
  head[1] = (masked ? maskBit : 0) | (lengthBytes === 0 ? bytes : lengthBytes === 2 ? 126 : 127)
  if (lengthBytes === 2) head.writeUInt16BE(bytes, 2)
  if (lengthBytes === 8) head.writeUInt32BE(bytes, 6)
  return head
}

/**
 * Splits what a WebSocket peer sends: the payload of whole binary messages with no mask to undo goes to `data`, as it
 * comes and without being collected; all else goes to `other` byte for byte, and from the first foreign data
 * message (text, in fragments, with a key, too long) that is everything.
 */
export function createFrameReader(
  masked: boolean,
  data: Sink & { /** An empty message. */ end(): void },
  other: (chunk: Uint8Array) => void,
): Sink {
  const head = new Uint8Array(14)
  let headBytes = 0
  let dataBytes = 0
  let otherBytes = 0
  let foreign = false

  /** Bytes that the head has in all, as far as the first ones tell. */
  function headLength(): number {
    if (headBytes < 2) return 2
    const length = (head[1] ?? 0) & 0x7f
    return 2 + (length < 126 ? 0 : length === 126 ? 2 : 8) + ((head[1] ?? 0) & maskBit ? 4 : 0)
  }

  function begin(): void {
    const view = new DataView(head.buffer)
    const keyBytes = (head[1] ?? 0) & maskBit ? 4 : 0
    const short = (head[1] ?? 0) & 0x7f
    const bytes = short < 126 ? short : short === 126 ? view.getUint16(2) : Number(view.getBigUint64(2))
    const plain = (keyBytes !== 0) === masked && (keyBytes === 0 || view.getUint32(headBytes - 4) === 0)
    if (head[0] === wholeBinary && plain && bytes <= maxMessageBytes) {
      dataBytes = bytes
      if (bytes === 0) data.end()
    } else {
      // Control frames are at most 125 B long. With any other, `other` must see all that follows.
      foreign = ((head[0] ?? 0) & 0x08) === 0 || bytes > 125
      otherBytes = bytes
      other(head.slice(0, headBytes))
    }
    headBytes = 0
  }

  return {
    nextBuffer() {
      if (dataBytes === 0) return undefined
      const target = data.nextBuffer()
      return target !== undefined && target.length > dataBytes ? target.subarray(0, dataBytes) : target
    },
    filled(bytes) {
      dataBytes -= bytes
      data.filled(bytes)
    },
    take(chunk) {
      let at = 0
      while (at < chunk.length) {
        if (foreign) {
          other(chunk.slice(at))
          return
        }
        if (dataBytes > 0) {
          const piece = chunk.subarray(at, at + dataBytes)
          dataBytes -= piece.length
          at += piece.length
          data.take(piece)
        } else if (otherBytes > 0) {
          const piece = chunk.slice(at, at + otherBytes)
          otherBytes -= piece.length
          at += piece.length
          other(piece)
        } else {
          head[headBytes] = chunk[at] ?? 0
          headBytes += 1
          at += 1
          if (headBytes === headLength()) begin()
        }
      }
    },
  }
}

/**
 * A stream for the `ws` library on top of `socket`: it writes through at once, and reads what is pushed into it. It
 * ends and is destroyed with the socket, and the socket with it.
 */
export function createShell(socket: Socket): Duplex {
  const shell = new Duplex({
    read() {},
    write(chunk, _encoding, done) {
      socket.write(chunk)
      done()
    },
    writev(chunks, done) {
      // A frame in pieces must not be torn apart by a message in between.
      for (const { chunk } of chunks) socket.write(chunk)
      done()
    },
    final(done) {
      socket.end(() => done())
    },
    destroy(error, done) {
      socket.destroy()
      done(error)
    },
  })
  socket.on('end', () => {
    if (!shell.destroyed) shell.push(null)
  })
  socket.on('close', () => shell.destroy())
  return shell
}
