import { once } from 'node:events'
import { createResponder, type Responder } from '@seamline/conformance'
import { portOf } from './loopback.ts'
import { type Control, messageExchange } from './messages.ts'

const options = { perMessageDeflate: false, maxPayload: 1 << 27 }

/** The `ws` package as most programs use it: whole messages, masked by the dialling side, no compression. */
export const plainWs: Control = {
  async listen() {
    const { WebSocketServer } = await import('ws')
    const server = new WebSocketServer({ ...options, port: 0, host: '127.0.0.1' })
    server.on('connection', (socket) => {
      let responder: Responder | undefined
      socket.on('message', (message: Buffer) => {
        if (responder === undefined) responder = createResponder(message)
        else for (const each of responder.answer(message)) socket.send(each)
      })
      socket.on('error', () => socket.terminate())
    })
    await once(server, 'listening')
    const bound = server.address()
    if (bound === null || typeof bound === 'string') throw new TypeError('a TCP server has an address')
    return `127.0.0.1:${bound.port}`
  },
  async open(address, shape, onResponse) {
    const { WebSocket } = await import('ws')
    const socket = new WebSocket(`ws://127.0.0.1:${portOf(address)}`, options)
    await once(socket, 'open')
    const made = messageExchange(shape, onResponse, {
      send: (message) => socket.send(message),
      close: () => socket.terminate(),
    })
    socket.on('message', made.received)
    socket.on('error', made.failed)
    socket.on('close', () => made.failed(new Error('the connection closed')))
    return made.exchange
  },
}
