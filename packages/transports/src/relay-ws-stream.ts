import { Duplex } from 'node:stream'
import { SeamError } from '@seamline/core'
import type { WebSocket } from 'ws'
import { closeCodes } from './relay-frames.ts'
import { maxChunkBytes } from './relay-protocol.ts'

/** The empty binary message that ends one direction of a stream in mode `ws`. */
const endMessage = new Uint8Array(0)

const reasons = new Map([
  [closeCodes.tooBig as number, ['LIMIT', 'a message was too long for the relay'] as const],
  [closeCodes.broken, ['PROTOCOL', 'a frame that RFC 6455 forbids'] as const],
])

/**
 * A byte stream over an open WebSocket: data in binary messages of at most 256 KiB, the end of a direction as an
 * empty one, so that data still flows back. It fails when the WebSocket closes before the peer's end.
 */
export function wsStream(ws: WebSocket): Duplex {
  let peerEnded = false
  const stream: Duplex = new Duplex({
    allowHalfOpen: true,
    read: () => ws.resume(),
    write(chunk: Buffer, _encoding, callback) {
      sendFrom(chunk, 0, callback)
    },
    final(callback) {
      ws.send(endMessage, { binary: true }, callback)
    },
    destroy(error, callback) {
      if (peerEnded && stream.writableFinished) ws.close(closeCodes.good)
      else ws.terminate()
      callback(error)
    },
  })

  function sendFrom(chunk: Buffer, offset: number, callback: (error?: Error | null) => void): void {
    const end = offset + maxChunkBytes
    const piece = offset === 0 && chunk.length <= maxChunkBytes ? chunk : chunk.subarray(offset, end)
    ws.send(piece, { binary: true }, (error) => {
      if (error || end >= chunk.length) callback(error)
      else sendFrom(chunk, end, callback)
    })
  }

  ws.on('message', (data, isBinary) => {
    const { length } = data as Buffer
    if (!isBinary || peerEnded) {
      const text = `a ${isBinary ? '' : 'text '}message of ${length} B, expected binary ones up to an empty one`
      stream.destroy(new SeamError('PROTOCOL', text))
    } else if (length > 0) {
      if (!stream.push(data)) ws.pause()
    } else {
      peerEnded = true
      stream.push(null)
    }
  })
  ws.on('error', (error) => stream.destroy(error))
  ws.on('close', (code) => {
    if (peerEnded && stream.writableFinished) return
    const [kind, what] = reasons.get(code) ?? (['RESET', 'the connection was cut'] as const)
    stream.destroy(new SeamError(kind, `${what} (close code ${code})`))
  })
  return stream
}
