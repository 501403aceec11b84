import type { Accept, Connection, Transport } from '@seamline/core'

/** `transport`, and the bytes that went in and out of the connections that were dialled with it. */
export function counting(transport: Transport): Transport & { readonly counted: { bytes: number } } {
  const counted = { bytes: 0 }
  const watched =
    (accept: Accept): Accept =>
    (connection) => {
      const counter: Connection = Object.create(connection, {
        send: {
          value(bytes: Uint8Array, released?: () => void) {
            counted.bytes += bytes.length
            return connection.send(bytes, released)
          },
        },
      })
      const handler = accept(counter)
      return {
        nextBuffer: () => handler.nextBuffer(),
        onDrain: () => handler.onDrain(),
        onClose: (reason) => handler.onClose(reason),
        onData(bytes) {
          counted.bytes += bytes
          handler.onData(bytes)
        },
      }
    }
  return {
    ...transport,
    counted,
    dial: (address, accept, options) => transport.dial(address, watched(accept), options),
  }
}
