import { once } from 'node:events'
import { connect, createServer, type OnReadOpts, Socket } from 'node:net'
import {
  createResponder,
  type Exchange,
  type ExchangeShape,
  type Responder,
  shapeBytes,
} from '@seamline/conformance'
import { alignedBytes } from '@seamline/core'
import { addressOf, listening, portOf } from './loopback.ts'
import { type Control, messageExchange } from './messages.ts'

/** Bare node:net at its best: at both ends the kernel reads into one buffer that is used again and again. */
export const netPooled: Control = netControl((accepted, reader) => {
  const socket = withOnread(accepted, {
    buffer: () => reader().free(),
    callback: (bytes) => reader().filled(bytes),
  })
  socket.read(0)
  return socket
})

/** The same with public interfaces only: an accepted socket has no `onread`, so what it brings is copied once. */
export const netPublic: Control = netControl((accepted, reader) =>
  accepted.resume().on('data', (chunk) => {
    for (let at = 0; at < chunk.length; ) {
      const free = reader().free()
      const piece = chunk.subarray(at, at + free.length)
      free.set(piece)
      at += piece.length
      reader().filled(piece.length)
    }
  }),
)

type Reader = ReturnType<typeof readInto>

function netControl(read: (accepted: Socket, reader: () => Reader) => Socket): Control {
  return { listen: () => listen(read), open }
}

async function listen(read: (accepted: Socket, reader: () => Reader) => Socket): Promise<string> {
  const server = createServer({ noDelay: true, pauseOnConnect: true }, (accepted) => {
    let responder: Responder | undefined
    let reader = readInto(shapeBytes, (message) => {
      if (responder === undefined) {
        responder = createResponder(message)
        reader = readInto(responder.shape.requestBytes, answer)
      } else answer(message)
    })
    // The dialling side has an echo in full, and so has the kernel, before the next request can overwrite it.
    const answer = (request: Uint8Array) => {
      for (const message of responder!.answer(request)) socket.write(message)
    }
    const socket = read(accepted, () => reader)
    socket.on('error', () => socket.destroy())
  })
  return addressOf(await listening(server))
}

async function open(
  address: string,
  shape: ExchangeShape,
  onResponse: (message: Uint8Array) => void,
): Promise<Exchange> {
  const reader = readInto(shape.responseBytes, (message) => made.received(message))
  const socket = connect({
    port: portOf(address),
    host: '127.0.0.1',
    noDelay: true,
    onread: { buffer: () => reader.free(), callback: (bytes) => reader.filled(bytes) },
  })
  await once(socket, 'connect')
  const made = messageExchange(shape, onResponse, {
    send: (message) => socket.write(message),
    close: () => void socket.destroy(),
  })
  socket.on('error', made.failed)
  socket.on('close', () => made.failed(new Error('the connection closed')))
  return made.exchange
}

/** Fills one buffer of `bytes` again and again. */
function readInto(bytes: number, onMessage: (message: Uint8Array) => void) {
  const target = alignedBytes(bytes)
  let at = 0
  return {
    free: () => (at === 0 ? target : target.subarray(at)),
    filled(read: number): boolean {
      at += read
      if (at === bytes) {
        at = 0
        onMessage(target)
      }
      return true
    },
  }
}

/** Accepted sockets have no `onread` in the public interface; a new socket over the same handle has. */
function withOnread(accepted: Socket, onread: OnReadOpts): Socket {
  const owner = accepted as unknown as { _handle: unknown }
  const handle = owner._handle
  owner._handle = null
  return new Socket({ handle, onread, readable: true, writable: true } as object)
}
