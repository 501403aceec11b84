import type { Endpoint } from './endpoint.ts'

/**
 * Stands between a wire and its endpoint: holds what the wire delivers while the handler takes nothing, in order, and
 * the end of the peer behind it. What is held is bounded by what the wire delivers after it was paused.
 */
export interface Inbox {
  /** True while bytes are held: whatever comes next must go through {@link take}. */
  readonly holds: boolean
  /** Gives `chunk` to the handler and copies what it does not take. */
  take(chunk: Uint8Array): void
  /** The peer ended its direction. */
  end(): void
  /** The wire is gone. */
  close(): void
  /** In a later turn gives what is held, then calls `flowing`, unless the handler paused again. */
  resume(flowing: () => void): void
  /** Forgets what is held, because the wire broke or the handler gave up. */
  drop(): void
}

export function createInbox(endpoint: Endpoint): Inbox {
  const held: Uint8Array[] = []
  let ended = false
  let closed = false
  let dropped = false

  function settle(): void {
    if (held.length > 0) return
    if (ended) {
      ended = false
      endpoint.ended()
    }
    if (closed) endpoint.closed()
  }

  return {
    get holds() {
      return held.length > 0
    },
    take(chunk) {
      const taken = held.length > 0 ? 0 : endpoint.receive(chunk)
      if (taken < chunk.length && !dropped) held.push(chunk.slice(taken))
    },
    end() {
      ended = true
      settle()
    },
    close() {
      closed = true
      settle()
    },
    resume(flowing) {
      if (held.length === 0) return flowing()
      setImmediate(() => {
        for (let head = held[0]; head !== undefined; head = held[0]) {
          const taken = endpoint.receive(head)
          if (dropped) return
          if (taken < head.length) {
            held[0] = head.subarray(taken)
            return
          }
          held.shift()
        }
        settle()
        flowing()
      })
    },
    drop() {
      dropped = true
      held.length = 0
      setImmediate(settle)
    },
  }
}

/** Cuts long writes into pieces, so that a wire that copies never works on more than one piece at a time. */
export interface Slicer {
  write(bytes: Uint8Array, done: () => void): void
  /** Runs `action` behind everything written. */
  end(action: () => void): void
}

/**
 * `put` gets at most `pieceBytes` bytes at a time, and the next piece once it called `next`; a `put` that failed calls
 * nothing. An empty write is done in a later turn and puts nothing.
 */
export function createSlicer(pieceBytes: number, put: (piece: Uint8Array, next: () => void) => void): Slicer {
  const queue: Array<{ bytes: Uint8Array; done: () => void }> = []
  let offset = 0
  let busy = false
  let atEnd = () => {}

  function step(): void {
    const head = queue[0]
    if (head === undefined) {
      atEnd()
      return
    }
    busy = true
    if (head.bytes.length === 0) {
      setImmediate(next)
      return
    }
    const piece = head.bytes.subarray(offset, offset + pieceBytes)
    offset += piece.length
    put(piece, next)
  }

  function next(): void {
    busy = false
    const head = queue[0]
    if (head !== undefined && offset === head.bytes.length) {
      queue.shift()
      offset = 0
      head.done()
    }
    // `done` may have written, and so started the next piece.
    if (!busy) step()
  }

  return {
    write(bytes, done) {
      queue.push({ bytes, done })
      if (!busy) step()
    },
    end(action) {
      atEnd = action
      if (!busy) step()
    },
  }
}
