import {
  type Accept,
  type Connection,
  type ConnectionHandler,
  type Listener,
  type OpenOptions,
  SeamError,
  type Transport,
} from '@seamline/core'

/** What can be wrong with a {@link plainTransport}; the suite must see each. */
export type TransportFault =
  | 'drops a byte at drain'
  | 'closes twice'
  | 'delivers while paused'
  | 'releases never'
  | 'releases early'
  | 'releases twice'
  | 'releases out of order'
  | 'takes sends after close'
  | 'loses what it has at the end of the peer'
  | 'loses what is queued on close'
  | 'leaks a handle for each dial'
  | 'delivers after an abort'
  | 'never drains'
  | 'no backpressure'
  | 'cuts sends above 4 MiB'
  | 'ignores the signal'
  | 'no statement about authentication'
  | 'never notices silence'
  | 'gives up an idle peer'
  | 'keeps what it carried'
  | 'refuses a large send with no code'

const segmentBytes = 1 << 16
const highWaterMarkBytes = 1 << 18
const keepAliveMs = 40

interface Sent {
  /** `undefined` is the end of the direction. */
  readonly bytes: Uint8Array | undefined
  readonly released: (() => void) | undefined
}

interface End {
  readonly connection: Connection
  handler: ConnectionHandler | undefined
  peer: End
  /** The link is over; onClose follows. */
  cut(reason: SeamError | undefined): void
  /** The end of the peer arrived. */
  answer(): void
  readonly paused: boolean
  readonly ended: boolean
  wake(): void
}

export interface PlainTransport extends Transport {
  readonly keepAliveMs: number
  /** Stops everything that goes through connections to `address`. */
  stall(address: string): void
}

/** A network inside one process: the small transport that passes the suite. `fault` breaks it. */
export function plainTransport(fault?: TransportFault): PlainTransport {
  const listeners = new Map<string, Accept>()
  const stalled = new Set<string>()
  const kept: Uint8Array[] = []
  let numbers = 0

  function createEnd(remote: string, address: string): End {
    const queue: Sent[] = []
    const waiters: Array<() => void> = []
    let queuedBytes = 0
    let offset = 0
    let paused = false
    let ending = false
    let ended = false
    let peerEnded = false
    let drainDue = false
    let scheduled = false
    let over = false
    let aborting = false
    let reason: SeamError | undefined
    const silence = setInterval(() => {
      const dead = stalled.has(address) && fault !== 'never notices silence'
      if (dead || fault === 'gives up an idle peer')
        self.cut(new SeamError('TIMEOUT', `${remote} is silent for ${keepAliveMs} ms`))
    }, keepAliveMs)

    function guarded(body: () => void): void {
      try {
        body()
      } catch (error) {
        connection.abort(SeamError.from(error, 'PROTOCOL'))
      }
    }

    function schedule(): void {
      if (scheduled || over || queue.length === 0 || stalled.has(address)) return
      if (self.peer.paused && fault !== 'delivers while paused') return
      scheduled = true
      setImmediate(turn)
    }

    /** Moves up to one segment to the peer. */
    function turn(): void {
      scheduled = false
      const head = queue[0]
      const { peer } = self
      if (head === undefined || over) return
      if (head.bytes === undefined) {
        queue.shift()
        ended = true
        peer.answer()
        if (peer.ended) {
          self.cut(undefined)
          peer.cut(undefined)
        }
        return
      }
      for (let moved = 0; moved < segmentBytes && offset < head.bytes.length; ) {
        if (over || (peer.paused && fault !== 'delivers while paused')) return schedule()
        const count = deliver(peer, head.bytes.subarray(offset, offset + segmentBytes - moved))
        if (count === 0) return
        moved += count
        offset += count
      }
      if (offset === head.bytes.length) finishHead(head)
      schedule()
    }

    function finishHead(head: Sent): void {
      queue.shift()
      offset = 0
      if (fault === 'keeps what it carried' && head.bytes !== undefined) kept.push(new Uint8Array(head.bytes))
      release(head)
      if (drainDue && !ending && queuedBytes < highWaterMarkBytes) {
        drainDue = false
        if (fault === 'drops a byte at drain') offset = queue[0] === undefined ? 0 : 1
        if (fault !== 'never drains') guarded(() => self.handler?.onDrain())
      }
      if (peerEnded) setImmediate(answerWhenIdle)
    }

    function release({ bytes, released }: Sent): void {
      queuedBytes -= bytes?.length ?? 0
      if (fault === 'releases never' || fault === 'releases early') return
      released?.()
      if (fault === 'releases twice') released?.()
    }

    function answerWhenIdle(): void {
      if (fault === 'loses what it has at the end of the peer') {
        for (const sent of queue.splice(0)) release(sent)
        offset = 0
      }
      if (queue.length === 0) end()
    }

    function end(): void {
      if (ending) return
      ending = true
      if (fault === 'loses what is queued on close') {
        for (const sent of queue.splice(1)) release(sent)
      }
      queue.push({ bytes: undefined, released: undefined })
      schedule()
    }

    const connection: Connection = {
      remote,
      get queuedBytes() {
        return queuedBytes
      },
      send(given, released) {
        if (ending && fault !== 'takes sends after close')
          throw new SeamError('CLOSED', `the connection to ${remote} is closed`)
        const isCut = fault === 'cuts sends above 4 MiB' && given.length > 1 << 22
        if (fault === 'refuses a large send with no code' && given.length > 1 << 22)
          throw new RangeError('too large')
        const bytes = isCut ? given.subarray(0, 1 << 22) : given
        if (fault === 'releases early' && released !== undefined) queueMicrotask(released)
        queue.push({ bytes, released })
        if (fault === 'releases out of order' && queue.length > 2) queue.push(queue.shift() as Sent)
        queuedBytes += bytes.length
        schedule()
        if (fault === 'no backpressure' || queuedBytes < highWaterMarkBytes) return true
        drainDue = true
        return false
      },
      pause() {
        paused = true
      },
      resume() {
        paused = false
        self.peer.wake()
      },
      async close({ timeoutMs = 5000 } = {}) {
        if (over && queue.length === 0 && waiters.length === 0 && self.handler === undefined) return
        end()
        await new Promise<void>((resolve) => {
          const timer = setTimeout(
            () => connection.abort(new SeamError('TIMEOUT', `close took over ${timeoutMs} ms`)),
            timeoutMs,
          )
          waiters.push(() => {
            clearTimeout(timer)
            resolve()
          })
        })
      },
      abort(error) {
        if (over) return
        aborting = true
        self.cut(error)
        self.peer.cut(new SeamError('RESET', `${self.peer.connection.remote} aborted`))
      },
    }

    const self: End = {
      connection,
      handler: undefined,
      peer: undefined as unknown as End,
      get paused() {
        return paused
      },
      get ended() {
        return ended
      },
      wake: schedule,
      answer() {
        peerEnded = true
        setImmediate(answerWhenIdle)
      },
      cut(error) {
        if (over) return
        over = true
        ending = true
        reason = error
        clearInterval(silence)
        if (fault === 'delivers after an abort' && aborting) deliverOnce(self)
        setImmediate(() => {
          for (const sent of queue.splice(0)) release(sent)
          const { handler } = self
          self.handler = undefined
          handler?.onClose(reason)
          if (fault === 'closes twice') setImmediate(() => handler?.onClose(reason))
          for (const wake of waiters.splice(0)) wake()
        })
      },
    }

    function deliver(to: End, bytes: Uint8Array): number {
      let taken = 0
      try {
        const target = to.handler?.nextBuffer()
        if (target === undefined) return 0
        if (target.length === 0) throw new SeamError('USAGE', 'nextBuffer() returned 0 B')
        const piece = bytes.subarray(0, target.length)
        target.set(piece)
        taken = piece.length
        to.handler?.onData(taken)
      } catch (error) {
        to.connection.abort(SeamError.from(error, 'PROTOCOL'))
      }
      return taken
    }

    /** The fault that an aborting side still gets what is on its way. */
    function deliverOnce(to: End): void {
      setImmediate(() => {
        to.handler?.nextBuffer()
        to.handler?.onData(1)
      })
    }

    return self
  }

  function join(address: string, nearAccept: Accept, farAccept: Accept): Connection {
    numbers += 1
    const near = createEnd(address, address)
    const far = createEnd(`${address}#${numbers}`, address)
    near.peer = far
    far.peer = near
    let thrown: { error: unknown } | undefined
    for (const [end, accept] of [
      [near, nearAccept],
      [far, farAccept],
    ] as const) {
      try {
        end.handler = accept(end.connection)
      } catch (error) {
        if (end === near) thrown = { error }
        end.connection.abort(SeamError.from(error, 'PROTOCOL'))
      }
    }
    if (thrown !== undefined) throw thrown.error
    return near.connection
  }

  return {
    id: 'plain',
    authenticates: fault === 'no statement about authentication' ? (undefined as unknown as boolean) : false,
    keepAliveMs,
    stall: (address) => void stalled.add(address),
    dial(address, accept, options = {}) {
      if (fault === 'leaks a handle for each dial') setTimeout(() => {}, 3000)
      return later('dial', fault === 'ignores the signal' ? {} : options, () => {
        const answer = listeners.get(address)
        if (answer === undefined) throw new SeamError('RESET', `nobody listens at ${address}`)
        return join(address, accept, answer)
      })
    },
    listen(address, accept, options = {}) {
      return later('bind', options, (): Listener => {
        if (listeners.has(address)) throw new SeamError('USAGE', `${address} is taken`)
        numbers += 1
        const bound = address.endsWith(':0') ? `${address.slice(0, -1)}${numbers}` : address
        listeners.set(bound, accept)
        return {
          address: bound,
          async close() {
            if (listeners.get(bound) === accept) listeners.delete(bound)
          },
        }
      })
    },
  }
}

/** Runs `action` one turn later, under the signal. */
function later<T>(what: string, { signal }: OpenOptions, action: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => new SeamError('ABORTED', `${what} was aborted`, { cause: signal?.reason })
    if (signal?.aborted) throw aborted()
    const onAbort = () => {
      clearImmediate(turn)
      reject(aborted())
    }
    const turn = setImmediate(() => {
      signal?.removeEventListener('abort', onAbort)
      try {
        resolve(action())
      } catch (error) {
        reject(error)
      }
    })
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
