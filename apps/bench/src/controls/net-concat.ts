import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { createResponder, type Responder, shapeBytes } from '@seamline/conformance'
import { addressOf, listening, portOf } from './loopback.ts'
import { type Control, messageExchange } from './messages.ts'

/** node:net the usual way: `data` events until a message is complete, then `Buffer.concat`. */
export const netConcat: Control = {
  async listen() {
    const server = createServer({ noDelay: true }, (socket) => {
      let responder: Responder | undefined
      collect(socket, shapeBytes, (message) => {
        if (responder === undefined) {
          responder = createResponder(message)
          return responder.shape.requestBytes
        }
        for (const each of responder.answer(message)) socket.write(each)
        return message.length
      })
      socket.on('error', () => socket.destroy())
    })
    return addressOf(await listening(server))
  },
  async open(address, shape, onResponse) {
    const socket = connect({ port: portOf(address), host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    const made = messageExchange(shape, onResponse, {
      send: (message) => socket.write(message),
      close: () => void socket.destroy(),
    })
    collect(socket, shape.responseBytes, (message) => {
      made.received(message)
      return message.length
    })
    socket.on('error', made.failed)
    socket.on('close', () => made.failed(new Error('the connection closed')))
    return made.exchange
  },
}

/** `onMessage` gets a message of as many bytes as it returned for the one before. */
function collect(socket: Socket, firstBytes: number, onMessage: (message: Buffer) => number): void {
  let chunks: Buffer[] = []
  let held = 0
  let wanted = firstBytes
  socket.on('data', (chunk) => {
    chunks.push(chunk)
    held += chunk.length
    while (held >= wanted) {
      const all = Buffer.concat(chunks)
      const bytes = wanted
      wanted = onMessage(all.subarray(0, bytes))
      chunks = held > bytes ? [all.subarray(bytes)] : []
      held -= bytes
    }
  })
}
