import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { reset } from './relay-stream.ts'
import { closeCodes, endMessage } from './relay-ws-stream.ts'

/** Two data connections that the relay has joined. */
export interface Pair {
  /** Bytes read from one side and not yet handed to the kernel for the other. */
  readonly queuedBytes: number
  /** Cuts both sides. */
  destroy(): void
}

export interface PairOptions {
  /** Of both directions together. */
  readonly maxQueuedBytes: number
  /** Bytes read from the dialler or the listener. */
  onBytes(from: 'dialler' | 'listener', bytes: number): void
  /** A side has to wait because the other does not take its bytes. */
  onStall(): void
  /** A message beyond the limit, in mode `ws`; the pair ends. */
  onTooLong(): void
  /** Once, when both sides are gone. `cut`: not both had ended in good order. */
  onClose(cut: boolean): void
}

/**
 * Bytes that one direction may move in one turn of the event loop. A room that runs flat out then delays the others by
 * no more than this in each turn.
 */
const turnBytes = 1 << 18

/** A side whose peer is gone has this long to take what is queued for it. */
const lingerMs = 5000

/** Passes the bytes of both sockets on to each other, the ends of both directions as well, and a reset as a reset. */
export function splice(dialler: Duplex, listener: Duplex, options: PairOptions): Pair {
  const maxBytes = options.maxQueuedBytes / 2
  let open = 2
  let cut = false

  function flow(from: Duplex, to: Duplex, name: 'dialler' | 'listener'): void {
    let ended = false
    let turn = 0
    let yielding = false
    let stalled = false

    const proceed = () => {
      if (!yielding && !stalled) from.resume()
    }
    const nextTurn = () => {
      yielding = false
      turn = 0
      proceed()
    }
    from.on('data', (chunk: Buffer) => {
      options.onBytes(name, chunk.length)
      to.write(chunk)
      if (to.writableLength >= maxBytes && !stalled) {
        stalled = true
        options.onStall()
        from.pause()
        to.once('drain', () => {
          stalled = false
          proceed()
        })
      }
      turn += chunk.length
      if (turn >= turnBytes && !yielding) {
        yielding = true
        from.pause()
        setImmediate(nextTurn)
      }
    })
    from.on('end', () => {
      ended = true
      to.end()
    })
    from.on('error', () => {
      // `close` follows.
    })
    from.on('close', () => {
      open -= 1
      if (!to.destroyed) {
        if (!ended) reset(to)
        // What this side sent before it ended still goes out.
        else if (to.writableFinished) to.destroy()
        else {
          const timer = setTimeout(() => to.destroy(), lingerMs)
          to.once('finish', () => to.destroy())
          to.once('close', () => clearTimeout(timer))
        }
      }
      if (!ended) cut = true
      if (open === 0) options.onClose(cut)
    })
  }

  flow(dialler, listener, 'dialler')
  flow(listener, dialler, 'listener')
  dialler.resume()
  listener.resume()
  return {
    get queuedBytes() {
      return dialler.writableLength + listener.writableLength
    },
    destroy() {
      reset(dialler)
      reset(listener)
    },
  }
}

/** The same with whole WebSocket messages, stored and forwarded. */
export function forward(dialler: WebSocket, listener: WebSocket, options: PairOptions): Pair {
  const maxBytes = options.maxQueuedBytes / 2
  let open = 2
  let cut = false

  function flow(from: WebSocket, to: WebSocket, name: 'dialler' | 'listener'): void {
    let ended = false
    let tooLong = false
    let turn = 0
    let yielding = false
    let stalled = false

    const proceed = () => {
      if (!yielding && !stalled) from.resume()
    }
    const nextTurn = () => {
      yielding = false
      turn = 0
      proceed()
    }
    const onSent = () => {
      if (stalled && to.bufferedAmount < maxBytes) {
        stalled = false
        proceed()
      }
    }
    from.on('message', (data: RawData, isBinary) => {
      // What still comes for a side that is gone is dropped.
      if (to.readyState !== to.OPEN) return
      const bytes = (data as Buffer).length
      if (isBinary) options.onBytes(name, bytes)
      else if (bytes === endMessage.length) ended = true
      to.send(data, { binary: isBinary }, onSent)
      if (to.bufferedAmount >= maxBytes && !stalled) {
        stalled = true
        options.onStall()
        from.pause()
      }
      turn += bytes
      if (turn >= turnBytes && !yielding) {
        yielding = true
        from.pause()
        setImmediate(nextTurn)
      }
    })
    from.on('error', (error: NodeJS.ErrnoException) => {
      // `close` follows.
      if (error.code !== 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return
      tooLong = true
      options.onTooLong()
    })
    from.on('close', () => {
      open -= 1
      if (!ended) cut = true
      if (to.readyState < to.CLOSING) {
        to.close(tooLong ? closeCodes.tooBig : ended ? closeCodes.good : closeCodes.away)
        // A side that takes nothing must still see the end of the other.
        to.resume()
        const timer = setTimeout(() => to.terminate(), lingerMs)
        to.once('close', () => clearTimeout(timer))
      }
      if (open === 0) options.onClose(cut)
    })
  }

  flow(dialler, listener, 'dialler')
  flow(listener, dialler, 'listener')
  return {
    get queuedBytes() {
      return dialler.bufferedAmount + listener.bufferedAmount
    },
    destroy() {
      dialler.terminate()
      listener.terminate()
    },
  }
}
