import {
  type Accept,
  type CloseOptions,
  type Connection,
  type ConnectionHandler,
  type OpenOptions,
  SeamError,
} from '@seamline/core'

/** Bytes queued on one connection from which `send` returns false, where the caller names no other mark. */
export const defaultHighWaterMarkBytes = 1 << 20

/** What carries the bytes of one end. No method calls back into the endpoint before it returns. */
export interface Wire {
  readonly remote: string
  /** Hands `bytes` on after all earlier ones; `done` once the memory is free again. On failure `done` may be left out. */
  write(bytes: Uint8Array, done: () => void): void
  /** Ends this direction behind everything written. */
  end(): void
  /** Ends both directions now. {@link Endpoint.closed} follows. `flushed`: the end is sent and nothing is unsent. */
  destroy(flushed: boolean): void
  pause(): void
  resume(): void
}

/** The side of a connection that its wire drives. */
export interface Endpoint {
  readonly connection: Connection
  /** Asks `accept` for the handler. Aborts the connection and throws what `accept` throws. */
  open(accept: Accept): void
  /** Memory for a read by the wire; `undefined` while the handler takes nothing. */
  nextBuffer(): Uint8Array | undefined
  /** `bytes` bytes were read into the last {@link nextBuffer}. */
  filled(bytes: number): void
  /** Copies `chunk` into the handler's memory, in pieces; returns the bytes taken, fewer than all when it paused or broke. */
  receive(chunk: Uint8Array): number
  /** The peer ended its direction and every byte before that was received. */
  ended(): void
  /** The wire broke; {@link closed} follows. */
  failed(error: SeamError): void
  /** Nothing more will come from the wire, and it holds no memory of the sender. */
  closed(): void
}

interface Sent {
  readonly bytes: number
  readonly released: (() => void) | undefined
}

/** Keeps the promises of {@link Connection} and {@link ConnectionHandler} on top of a {@link Wire}. */
export function createEndpoint(wire: Wire, highWaterMarkBytes: number): Endpoint {
  const unsent = new Set<Sent>()
  const waiters: Array<() => void> = []
  let handler: ConnectionHandler | undefined
  let queuedBytes = 0
  let drainDue = false
  let paused = false
  let ending = false
  let peerEnded = false
  let broken = false
  let gone = false
  let reason: SeamError | undefined

  function fail(error: unknown): void {
    connection.abort(SeamError.from(error, 'PROTOCOL'))
  }

  function end(): void {
    if (ending) return
    ending = true
    wire.end()
  }

  function release(sent: Sent): void {
    unsent.delete(sent)
    queuedBytes -= sent.bytes
    try {
      sent.released?.()
    } catch (error) {
      fail(error)
    }
  }

  function written(sent: Sent): void {
    // A broken wire reports out of order; closed() releases what is left in the order of the sends.
    if (broken) return
    release(sent)
    if (drainDue && !ending && queuedBytes < highWaterMarkBytes) {
      drainDue = false
      try {
        handler?.onDrain()
      } catch (error) {
        fail(error)
      }
    }
    if (peerEnded) endWhenIdle()
  }

  /** Answers the end of the peer. A sender that refills the queue after each onDrain gets everything out before. */
  function endWhenIdle(): void {
    setImmediate(() => {
      if (unsent.size === 0) end()
    })
  }

  const connection: Connection = {
    remote: wire.remote,
    get queuedBytes() {
      return queuedBytes
    },
    send(bytes, released) {
      if (ending) {
        throw new SeamError(
          'CLOSED',
          `cannot send ${bytes.length} B to ${wire.remote}: the connection is closed`,
        )
      }
      const sent = { bytes: bytes.length, released }
      unsent.add(sent)
      queuedBytes += sent.bytes
      if (!broken) wire.write(bytes, () => written(sent))
      if (queuedBytes < highWaterMarkBytes) return true
      drainDue = true
      return false
    },
    pause() {
      if (paused || gone) return
      paused = true
      wire.pause()
    },
    resume() {
      if (!paused || gone) return
      paused = false
      wire.resume()
    },
    close({ timeoutMs = 5000 }: CloseOptions = {}) {
      if (gone) return Promise.resolve()
      end()
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          const state = `${queuedBytes} B unsent, ${peerEnded ? 'the peer ended' : 'the peer did not end'}`
          connection.abort(
            new SeamError('TIMEOUT', `close of ${wire.remote} took over ${timeoutMs} ms: ${state}`),
          )
        }, timeoutMs)
        waiters.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    abort(error) {
      const flushed = ending && unsent.size === 0
      ending = true
      if (broken || gone) return
      endpoint.failed(error)
      wire.destroy(flushed)
    },
  }

  const endpoint: Endpoint = {
    connection,
    open(accept) {
      try {
        handler = accept(connection)
      } catch (error) {
        fail(error)
        throw error
      }
    },
    nextBuffer() {
      if (paused || broken || handler === undefined) return undefined
      try {
        const target = handler.nextBuffer()
        if (target.length > 0) return target
        throw new SeamError('USAGE', `nextBuffer() for ${wire.remote} returned 0 B; at least 1 B is needed`)
      } catch (error) {
        fail(error)
        return undefined
      }
    },
    filled(bytes) {
      try {
        handler?.onData(bytes)
      } catch (error) {
        fail(error)
      }
    },
    receive(chunk) {
      let taken = 0
      while (taken < chunk.length) {
        const target = endpoint.nextBuffer()
        if (target === undefined) break
        const piece = chunk.subarray(taken, taken + target.length)
        target.set(piece)
        taken += piece.length
        endpoint.filled(piece.length)
      }
      return taken
    },
    ended() {
      peerEnded = true
      endWhenIdle()
    },
    failed(error) {
      reason ??= error
      broken = true
    },
    closed() {
      if (gone) return
      gone = true
      ending = true
      broken = true
      for (const sent of unsent) release(sent)
      try {
        handler?.onClose(reason)
      } finally {
        for (const wake of waiters) wake()
      }
    },
  }
  return endpoint
}

/**
 * Runs `start` under the deadline and the signal of `options` and leaves neither timer nor listener behind.
 * `start` returns what undoes it; that runs when the deadline or the signal wins.
 */
export function opening<T>(
  what: string,
  { signal, timeoutMs = 5000 }: OpenOptions,
  start: (resolve: (value: T) => void, reject: (error: unknown) => void) => () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => new SeamError('ABORTED', `${what} was aborted`, { cause: signal?.reason })
    if (signal?.aborted) throw aborted()
    const settle = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
    const give = (error: SeamError) => {
      settle()
      undo()
      reject(error)
    }
    const onAbort = () => give(aborted())
    const timer = setTimeout(
      () => give(new SeamError('TIMEOUT', `${what} took over ${timeoutMs} ms`)),
      timeoutMs,
    )
    signal?.addEventListener('abort', onAbort, { once: true })
    const undo = start(
      (value) => {
        settle()
        resolve(value)
      },
      (error) => {
        settle()
        reject(error)
      },
    )
  })
}
