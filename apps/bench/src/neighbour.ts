import { encodeShape } from '@seamline/conformance'
import { alignedBytes, type Connection } from '@seamline/core'
import { createTransport, type TransportSettings } from './transports.ts'

/** `idle`, as much as goes through, or a stream that nobody reads. */
export type Traffic = 'idle' | 'flood' | 'stall'

export interface Neighbour {
  /** `done` once the change has taken hold. */
  set(traffic: Traffic, done: () => void): void
}

const shape = { requestBytes: 64, requestCount: 1, responseBytes: 8 << 20, responseCount: 4 }
/** Time in which buffers fill up before a figure is taken. */
const settleMs = 100

/** Dials a far end of the cases and draws streams from it. */
export async function neighbour(settings: TransportSettings, address: string): Promise<Neighbour> {
  const target = alignedBytes(1 << 20)
  const request = new Uint8Array(shape.requestBytes)
  const streamBytes = shape.responseBytes * shape.responseCount
  let traffic: Traffic = 'idle'
  let left = 0
  let onIdle = (): void => {}
  const connection: Connection = await createTransport(settings).dial(address, () => ({
    nextBuffer: () => target,
    onData(bytes) {
      left -= bytes
      if (left > 0) return
      if (traffic === 'flood') draw()
      else onIdle()
    },
    onDrain() {},
    onClose() {},
  }))
  connection.send(encodeShape(shape))

  function draw(): void {
    left = streamBytes
    connection.send(request)
  }

  return {
    set(next, done) {
      traffic = next
      onIdle = () => {}
      if (next === 'idle') {
        if (left > 0) onIdle = done
        else done()
        connection.resume()
        return
      }
      if (left === 0) draw()
      if (next === 'flood') connection.resume()
      else connection.pause()
      setTimeout(done, settleMs)
    },
  }
}
