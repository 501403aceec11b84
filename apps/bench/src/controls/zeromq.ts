import { createResponder, type Responder } from '@seamline/conformance'
import { type Control, messageExchange } from './messages.ts'

/** A PAIR socket of ZeroMQ at each end. It serves one connection: every exchange needs a listening side of its own. */
export const zeromq: Control = {
  async listen() {
    const { Pair } = await import('zeromq')
    const socket = new Pair({ sendHighWaterMark: 0, receiveHighWaterMark: 0 })
    await socket.bind('tcp://127.0.0.1:*')
    void serve(socket)
    return socket.lastEndpoint!
  },
  async open(address, shape, onResponse) {
    const { Pair } = await import('zeromq')
    const socket = new Pair({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 0 })
    socket.connect(address)
    let sending = Promise.resolve()
    const made = messageExchange(shape, onResponse, {
      // A socket takes one send at a time.
      send(message) {
        sending = sending.then(() => socket.send(message)).catch((error) => made.failed(error))
      },
      close: () => socket.close(),
    })
    void receive(socket, made.received, made.failed)
    return made.exchange
  },
}

interface PairSocket extends AsyncIterable<Buffer[]> {
  send(message: Uint8Array): Promise<void>
}

async function serve(socket: PairSocket): Promise<void> {
  let responder: Responder | undefined
  for await (const [message] of socket) {
    if (responder === undefined) responder = createResponder(message!)
    else for (const each of responder.answer(message!)) await socket.send(each)
  }
}

async function receive(
  socket: PairSocket,
  onMessage: (message: Uint8Array) => void,
  onError: (error: Error) => void,
): Promise<void> {
  try {
    for await (const [message] of socket) onMessage(message!)
  } catch (error) {
    onError(error as Error)
  }
}
