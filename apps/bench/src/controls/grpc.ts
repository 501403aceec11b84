import { createResponder, type Responder } from '@seamline/conformance'
import { type Control, messageExchange } from './messages.ts'

const method = {
  path: '/bench/exchange',
  requestStream: true,
  responseStream: true,
  requestSerialize: (message: Buffer) => message,
  requestDeserialize: (message: Buffer) => message,
  responseSerialize: (message: Buffer) => message,
  responseDeserialize: (message: Buffer) => message,
} as const

const unlimited = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 }

/** One bidirectional stream of @grpc/grpc-js, with serializers that pass bytes through. */
export const grpc: Control = {
  async listen() {
    const { Server, ServerCredentials } = await import('@grpc/grpc-js')
    const server = new Server(unlimited)
    server.addService(
      { exchange: { ...method, originalName: 'exchange' } },
      {
        exchange: (call: NodeJS.ReadWriteStream) => {
          let responder: Responder | undefined
          call.on('data', (message: Buffer) => {
            if (responder === undefined) responder = createResponder(message)
            else for (const each of responder.answer(message)) call.write(asBuffer(each))
          })
          call.on('end', () => call.end())
          call.on('error', () => {})
        },
      },
    )
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    )
    return `127.0.0.1:${port}`
  },
  async open(address, shape, onResponse) {
    const { Client, credentials } = await import('@grpc/grpc-js')
    const client = new Client(address, credentials.createInsecure(), unlimited)
    const call = client.makeBidiStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
    )
    const made = messageExchange(shape, onResponse, {
      send: (message) => call.write(asBuffer(message)),
      close() {
        call.cancel()
        client.close()
      },
    })
    call.on('data', made.received)
    call.on('error', made.failed)
    return made.exchange
  },
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
