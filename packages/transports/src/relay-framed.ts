import type { Socket } from 'node:net'
import { SeamError } from '@seamline/core'
import { createEndpoint } from './endpoint.ts'
import { createInbox } from './flow.ts'
import { watchLiveness } from './liveness.ts'
import { closeCodes, closeFrame, createFrameParser, type Frame, frameHead, opcodes } from './relay-frames.ts'
import { maxChunkBytes } from './relay-protocol.ts'
import { type Attached, brokenStream, reset } from './relay-stream.ts'

const maxFrameBytes = 1 << 24
// Up to here one write of a copy is cheaper than two writes.
const copiedBytes = 1 << 16
const nothing = new Uint8Array(0)

/**
 * {@link attach} for a socket that carries WebSocket frames: data in binary messages of at most 256 KiB whose borders mean
 * nothing, the end of a direction as an empty one, then the closing handshake. Payloads go from the socket to the
 * handler without being collected. Pings tell the two peers of each other; silence for `keepAliveMs` is `TIMEOUT`.
 */
export function attachFramed(
  socket: Socket,
  remote: string,
  highWaterMarkBytes: number,
  keepAliveMs: number,
): Attached {
  let paused = false
  let endSent = false
  let endReceived = false
  let closeSent = false
  let control: Uint8Array[] = []

  function put(bytes: Uint8Array, done: () => void): void {
    const head = frameHead(opcodes.binary, bytes.length, true)
    const written = (error?: Error | null) => {
      if (!error) done()
    }
    if (bytes.length <= copiedBytes) {
      socket.write(Buffer.concat([head, bytes]), written)
      return
    }
    socket.cork()
    socket.write(head)
    socket.write(bytes, written)
    socket.uncork()
  }

  function sendControl(opcode: number, payload: Uint8Array): void {
    if (!closeSent && socket.writable)
      socket.write(Buffer.concat([frameHead(opcode, payload.length, true), payload]))
  }

  function sendClose(code: number): void {
    if (closeSent || !socket.writable) return
    socket.write(closeFrame(code, true))
    closeSent = true
  }

  const endpoint = createEndpoint(
    {
      remote,
      write(bytes, done) {
        // Nothing to frame, and yet in its place among the others.
        if (bytes.length === 0) socket.write(bytes, done)
        for (let at = 0; at < bytes.length; at += maxChunkBytes) {
          const end = at + maxChunkBytes
          put(bytes.subarray(at, end), end < bytes.length ? () => {} : done)
        }
      },
      end() {
        put(nothing, () => {
          endSent = true
          finish()
        })
      },
      destroy(flushed) {
        if (flushed) socket.destroy()
        else reset(socket)
        inbox.drop()
      },
      pause() {
        paused = true
        socket.pause()
      },
      resume() {
        paused = false
        inbox.resume(() => void socket.resume())
      },
    },
    highWaterMarkBytes,
  )
  const inbox = createInbox(endpoint)

  function finish(): void {
    if (!endSent || !endReceived) return
    sendClose(closeCodes.good)
    // Only the closing handshake is still to come, which a paused side must see too.
    socket.resume()
  }

  function fail(error: SeamError): void {
    endpoint.connection.abort(error)
  }

  function ended(frame: Frame): void {
    if (frame.binary && frame.final && frame.opcode === opcodes.binary && frame.payloadBytes === 0) {
      endReceived = true
      inbox.end()
      finish()
      return
    }
    const payload = Buffer.concat(control)
    control = []
    // One that takes nothing is not to be buried in pongs; an answer to its latest ping is enough (RFC 6455 section 5.5.3).
    if (frame.opcode === opcodes.ping && socket.writableLength === 0) sendControl(opcodes.pong, payload)
    if (frame.opcode !== opcodes.close) return
    const code = payload.length >= 2 ? payload.readUInt16BE(0) : 0
    sendClose(code === 0 ? closeCodes.good : code)
    if (endSent && endReceived) {
      socket.end()
      return
    }
    const [kind, what] =
      code === closeCodes.tooBig
        ? (['LIMIT', 'a message was too long for the relay'] as const)
        : code === closeCodes.broken
          ? (['PROTOCOL', 'the relay saw a frame that RFC 6455 forbids'] as const)
          : (['RESET', 'the connection was cut'] as const)
    fail(new SeamError(kind, `${remote}: ${what} (close code ${code})`))
  }

  const parser = createFrameParser({
    masked: false,
    maxFrameBytes,
    onHead(frame) {
      const data = frame.opcode < opcodes.close
      if (!data || (frame.binary && !endReceived)) return
      const what = frame.binary ? 'a message behind its end' : 'a text message'
      throw new SeamError('PROTOCOL', `${remote} sent ${what}, expected binary messages up to an empty one`)
    },
    onPayload(frame, piece) {
      if (frame.binary) inbox.take(piece)
      else control.push(piece.slice())
    },
    onEnd: ended,
  })

  function take(chunk: Uint8Array): void {
    try {
      parser.push(chunk)
    } catch (error) {
      fail(SeamError.from(error, 'PROTOCOL'))
    }
  }

  let broken: SeamError | undefined
  socket.on('data', take)
  socket.on('end', () => socket.end())
  socket.on('error', (error: NodeJS.ErrnoException) => {
    broken = brokenStream(error, remote)
    socket.destroy()
  })
  const stopWatching = watchLiveness({
    keepAliveMs,
    bytesRead: () => socket.bytesRead,
    isPaused: () => paused,
    beat() {
      // What is queued already will tell the peer, and one that takes nothing is not to be buried in pings.
      if (socket.writableLength === 0) sendControl(opcodes.ping, nothing)
    },
    onSilence: () =>
      fail(new SeamError('TIMEOUT', `${remote} was silent for ${keepAliveMs} ms, not even a ping came`)),
  })
  socket.on('close', () => {
    stopWatching()
    if (!endSent || !endReceived) {
      endpoint.failed(broken ?? new SeamError('RESET', `${remote} ended without warning`))
      inbox.drop()
    }
    inbox.close()
  })
  socket.resume()
  return {
    stream: socket,
    endpoint,
    take,
    nextBuffer() {
      const { binaryBytes } = parser
      if (binaryBytes === 0 || inbox.holds) return undefined
      const target = endpoint.nextBuffer()
      return target !== undefined && target.length > binaryBytes ? target.subarray(0, binaryBytes) : target
    },
    filled(bytes) {
      endpoint.filled(bytes)
      parser.skip(bytes)
    },
  }
}
