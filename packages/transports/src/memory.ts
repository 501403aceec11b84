import { type Accept, SeamError, type Transport } from '@seamline/core'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening } from './endpoint.ts'

export interface MemoryOptions {
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
}

// Most bytes that one turn of the event loop delivers on a connection, about what one read of a socket brings.
const segmentBytes = 1 << 16

/**
 * A network inside this process; each call makes another one. Any text is an address, and one that ends in `:0`
 * gets a free number, as with TCP. Bytes arrive in a later turn of the event loop, copied once, without message
 * edges. Nothing is buffered beyond the queue of the sender: memory is released when the peer has consumed it,
 * and a paused peer stops the queue.
 */
export function memory(options: MemoryOptions = {}): Transport {
  const { highWaterMarkBytes = defaultHighWaterMarkBytes } = options
  const listeners = new Map<string, Accept>()
  let opened = 0
  return {
    id: 'memory',
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

/** Two endpoints joined by two {@link lane}s. */
function connectPair(
  nearRemote: string,
  farRemote: string,
  highWaterMarkBytes: number,
): [Endpoint, Endpoint] {
  let down = false
  const finish = (ends: () => void) => {
    if (down) return
    down = true
    out.stop()
    back.stop()
    setImmediate(ends)
  }
  const closeBoth = () => {
    near.closed()
    far.closed()
  }
  const onEnd = () => {
    if (out.ended && back.ended) finish(closeBoth)
  }
  const out = lane(() => far, onEnd)
  const back = lane(() => near, onEnd)
  const make = (remote: string, outgoing: Lane, incoming: Lane, peer: () => Endpoint) =>
    createEndpoint(
      {
        remote,
        write: outgoing.write,
        end: () => outgoing.write(undefined, () => {}),
        destroy: () =>
          finish(() => {
            peer().failed(new SeamError('RESET', 'the peer aborted the connection'))
            closeBoth()
          }),
        pause: incoming.pause,
        resume: incoming.resume,
      },
      highWaterMarkBytes,
    )
  const near: Endpoint = make(nearRemote, out, back, () => far)
  const far: Endpoint = make(farRemote, back, out, () => near)
  return [near, far]
}

interface Lane {
  /** The receiver saw the end. */
  readonly ended: boolean
  /** `undefined` is the end. */
  write(bytes: Uint8Array | undefined, done: () => void): void
  pause(): void
  resume(): void
  stop(): void
}

/** One direction: a queue that a turn of the event loop empties into the receiver, one segment at a time. */
function lane(receiver: () => Endpoint, onEnd: () => void): Lane {
  const queue: Array<{ bytes: Uint8Array | undefined; done: () => void }> = []
  let offset = 0
  let turn: NodeJS.Immediate | undefined
  let held = false
  let stopped = false
  let ended = false

  function schedule(): void {
    if (turn === undefined && !held && !stopped && queue.length > 0) turn = setImmediate(deliver)
  }

  function deliver(): void {
    turn = undefined
    let index = 0
    let budgetBytes = segmentBytes
    const skipConsumed = () => {
      while (index < queue.length && queue[index]?.bytes?.length === offset) {
        index += 1
        offset = 0
      }
    }
    skipConsumed()
    receiver().receive({
      get availableBytes() {
        return Math.min(budgetBytes, (queue[index]?.bytes?.length ?? 0) - offset)
      },
      copyInto(target) {
        let copied = 0
        while (copied < target.length && budgetBytes > 0) {
          const bytes = queue[index]?.bytes
          if (bytes === undefined) break
          const count = Math.min(target.length - copied, bytes.length - offset, budgetBytes)
          target.set(bytes.subarray(offset, offset + count), copied)
          copied += count
          offset += count
          budgetBytes -= count
          skipConsumed()
        }
        return copied
      },
    })
    for (const { done } of queue.splice(0, index)) done()
    const head = queue[0]
    if (head !== undefined && head.bytes === undefined && !held && !stopped) {
      queue.length = 0
      ended = true
      receiver().ended()
      onEnd()
    }
    schedule()
  }

  return {
    get ended() {
      return ended
    },
    write(bytes, done) {
      queue.push({ bytes, done })
      schedule()
    },
    pause() {
      held = true
    },
    resume() {
      held = false
      schedule()
    },
    stop() {
      stopped = true
      if (turn !== undefined) clearImmediate(turn)
    },
  }
}
