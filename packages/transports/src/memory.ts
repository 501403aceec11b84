import { type Accept, SeamError, type Transport } from '@seamline/core'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening } from './endpoint.ts'

export interface MemoryOptions {
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
}

// What one read of a socket brings at most.
const segmentBytes = 1 << 16

/**
 * A network inside this process; each call makes another one. Any text is an address, and one that ends in `:0`
 * gets a free number, as with TCP. Bytes arrive in a later turn of the event loop, copied once, in pieces of at most
 * 64 KiB. Nothing is buffered beyond the queue of the sender: memory is released when the peer has consumed it,
 * and a paused peer stops the queue.
 */
export function memory(options: MemoryOptions = {}): Transport {
  const { highWaterMarkBytes = defaultHighWaterMarkBytes } = options
  const listeners = new Map<string, Accept>()
  let opened = 0
  return {
    id: 'memory',
    // Stands in for a network in tests, with all that is done on one.
    authenticates: false,
    async dial(address, accept, openOptions = {}) {
      return opening(`dial of ${address}`, openOptions, (resolve, reject) => {
        const turn = setImmediate(() => {
          const answer = listeners.get(address)
          if (answer === undefined) {
            reject(new SeamError('RESET', `nobody listens at ${address}`))
            return
          }
          opened += 1
          const [near, far] = connectPair(address, `${address}#${opened}`, highWaterMarkBytes)
          try {
            near.open(accept)
            resolve(near.connection)
          } catch (error) {
            reject(error)
          }
          try {
            far.open(answer)
          } catch {
            // The connection is aborted, which tells the peer; the listener serves the others.
          }
        })
        return () => clearImmediate(turn)
      })
    },
    async listen(address, accept, openOptions = {}) {
      return opening(`bind of ${address}`, openOptions, (resolve, reject) => {
        const turn = setImmediate(() => {
          let bound = address
          while (address.endsWith(':0') && (bound === address || listeners.has(bound))) {
            opened += 1
            bound = `${address.slice(0, -1)}${opened}`
          }
          if (listeners.has(bound)) {
            reject(new SeamError('USAGE', `cannot listen at ${bound}: the address is taken, choose another`))
            return
          }
          listeners.set(bound, accept)
          resolve({
            address: bound,
            async close() {
              if (listeners.get(bound) === accept) listeners.delete(bound)
            },
          })
        })
        return () => clearImmediate(turn)
      })
    },
  }
}

/** Two endpoints joined by one {@link pipe} in each direction. */
function connectPair(
  nearRemote: string,
  farRemote: string,
  highWaterMarkBytes: number,
): [Endpoint, Endpoint] {
  let ends = 0
  let over = false
  const out = pipe(() => far, onEnd)
  const back = pipe(() => near, onEnd)
  const near = join(nearRemote, out, back, () => far)
  const far = join(farRemote, back, out, () => near)

  function onEnd(): void {
    ends += 1
    if (ends === 2) finish()
  }

  function finish(broken?: Endpoint): void {
    if (over) return
    over = true
    out.stop()
    back.stop()
    setImmediate(() => {
      broken?.failed(new SeamError('RESET', `${broken.connection.remote} aborted the connection`))
    })
    setImmediate(near.closed)
    setImmediate(far.closed)
  }

  function join(remote: string, outgoing: Pipe, incoming: Pipe, peer: () => Endpoint): Endpoint {
    return createEndpoint(
      {
        remote,
        write: outgoing.write,
        end: () => outgoing.write(undefined, () => {}),
        destroy: () => finish(peer()),
        pause: () => incoming.flow(false),
        resume: () => incoming.flow(true),
      },
      highWaterMarkBytes,
    )
  }

  return [near, far]
}

interface Pipe {
  /** Queues bytes, or the end (`undefined`). */
  write(bytes: Uint8Array | undefined, done: () => void): void
  flow(on: boolean): void
  stop(): void
}

/** One direction: a queue that goes to the receiver one segment in each turn of the event loop. */
function pipe(receiver: () => Endpoint, onEnd: () => void): Pipe {
  const queue: Array<{ bytes: Uint8Array | undefined; done: () => void }> = []
  let offset = 0
  let flowing = true
  let stopped = false
  let scheduled = false

  function schedule(): void {
    if (scheduled || !flowing || stopped || queue.length === 0) return
    scheduled = true
    setImmediate(deliver)
  }

  function deliver(): void {
    scheduled = false
    const head = queue[0]
    if (head === undefined || !flowing || stopped) return
    if (head.bytes === undefined) {
      queue.shift()
      receiver().ended()
      onEnd()
      return
    }
    offset += receiver().receive(head.bytes.subarray(offset, offset + segmentBytes))
    if (offset === head.bytes.length) {
      queue.shift()
      offset = 0
      head.done()
    }
    schedule()
  }

  return {
    write(bytes, done) {
      queue.push({ bytes, done })
      schedule()
    },
    flow(on) {
      flowing = on
      schedule()
    },
    stop() {
      stopped = true
    },
  }
}
