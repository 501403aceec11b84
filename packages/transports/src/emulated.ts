import {
  type Accept,
  type Clock,
  type Connection,
  monotonicClock,
  SeamError,
  type Transport,
} from '@seamline/core'
import { createEndpoint, defaultHighWaterMarkBytes } from './endpoint.ts'

export interface EmulatedOptions {
  /** Time that every byte spends on the way, behind its transmission. At most 60000. */
  readonly delayMs: number
  /** Adds up to this much to the delay of each piece, evenly spread; pieces keep their order all the same. @default 0 */
  readonly jitterMs?: number
  /** Rate of the transmission, counted over the caller's bytes; at least 1000. @default unlimited */
  readonly bitsPerSecond?: number
  /** Fixes the jitter: the n-th connection of a transport with this seed always has the same. @default 1 */
  readonly seed?: number
  /** `send` returns false while this many bytes or more wait for transmission. @default 1048576 */
  readonly highWaterMarkBytes?: number
}

/**
 * Calls `action` once in a later turn, at `dueNs` or as soon after that as it can; `exact` asks for more than whole
 * milliseconds. Returns what cancels it.
 */
export type WakeAt = (dueNs: number, exact: boolean, action: () => void) => () => void

// Large sends flow through the link in pieces of this size, as in packets, so that nothing waits for the whole of them.
const pieceBytes = 1 << 14
// Without a rate nothing else bounds what is on the way: 16 MiB per 20 ms are 6.7 Gbit/s.
const inFlightLimitBytes = 1 << 24
const headerBytes = 4
// A delay below this would be over before a timer in whole milliseconds has noticed that a piece is transmitted.
const coarseNs = 2e6
// The longest timer there is. The end of the inner connection is bounded by the `close` of the caller.
const noDeadlineMs = 2 ** 31 - 1

/**
 * A slow link around any transport: what this side sends is transmitted at a rate, first in, first out, and arrives after a
 * delay. Both ends wrap their own transport, each with the numbers of its own direction; a dial is not delayed. `send` copies
 * at transmission, so memory is released when the emulated link has taken it, as a kernel does, and bytes on the way are dropped by
 * an abort and flushed by a close.
 *
 * Bytes travel as pieces of at most 16 KiB behind their length in 4 bytes, little-endian, and length 0 is the end of a
 * direction: an inner connection answers the end of its peer by itself, which would cut off what is still on the way. A peer that is
 * not wrapped is refused with `PROTOCOL`; an inner connection that ends without the end of both directions is a `RESET`.
 *
 * The last piece of a send is handed over within a fraction of a millisecond, for which the event loop turns without
 * sleeping for at most the last millisecond; other pieces and the release of memory go by timers in whole milliseconds. The schedule
 * is computed from the times of the sends, so lateness does not add up.
 */
export function emulated(
  inner: Transport,
  options: EmulatedOptions,
  clock: Clock = monotonicClock,
  wakeAt: WakeAt = wakeOnTime,
): Transport {
  const { highWaterMarkBytes = defaultHighWaterMarkBytes, seed = 1 } = options
  const course = courseOf(options)
  let opened = 0

  /** Wraps one inner connection; throws what `accept` throws. */
  function join(connection: Connection, accept: Accept) {
    const { remote } = connection
    const lengthField = new Uint8Array(headerBytes)
    let lengthBytes = 0
    let payloadBytes = 0
    let endSent = false
    let endReceived = false

    const link = createLink({ ...course, random: uniform(seed + opened), clock, wakeAt, forward, onEnd })
    opened += 1

    function forward(block: Uint8Array): boolean {
      try {
        return connection.send(block)
      } catch (error) {
        endpoint.connection.abort(
          new SeamError('RESET', `${remote} ended with bytes on the way`, { cause: error }),
        )
        return false
      }
    }

    function onEnd(): void {
      endSent = true
      closeInner()
    }

    function closeInner(): void {
      if (endSent && endReceived) void connection.close({ timeoutMs: noDeadlineMs })
    }

    /** A whole length field was received. */
    function begin(bytes: number): void {
      if (endReceived || bytes > pieceBytes) {
        throw new SeamError(
          'PROTOCOL',
          `${remote} sent a piece of ${bytes} B${endReceived ? ' after its end' : `; at most ${pieceBytes} B are allowed`}: both ends must be wrapped with emulated()`,
        )
      }
      if (bytes > 0) {
        payloadBytes = bytes
        return
      }
      endReceived = true
      endpoint.ended()
      closeInner()
    }

    const endpoint = createEndpoint(
      {
        remote,
        write: link.push,
        end: () => link.push(undefined, () => {}),
        destroy() {
          link.stop()
          connection.abort(new SeamError('ABORTED', `the emulated link to ${remote} was aborted`))
        },
        pause: () => connection.pause(),
        resume: () => connection.resume(),
      },
      highWaterMarkBytes,
    )
    endpoint.open(accept)
    return {
      connection: endpoint.connection,
      handler: {
        nextBuffer() {
          if (payloadBytes === 0) return lengthField.subarray(lengthBytes)
          const target = endpoint.nextBuffer()
          // Only a handler that threw has no memory here: the connection is aborted.
          if (target === undefined) throw new SeamError('ABORTED', `nothing more is received from ${remote}`)
          return target.subarray(0, payloadBytes)
        },
        onData(bytes: number) {
          if (payloadBytes > 0) {
            payloadBytes -= bytes
            endpoint.filled(bytes)
            return
          }
          lengthBytes += bytes
          if (lengthBytes < headerBytes) return
          lengthBytes = 0
          begin(new DataView(lengthField.buffer).getUint32(0, true))
        },
        onDrain: () => link.unblock(),
        onClose(reason: SeamError | undefined) {
          link.stop()
          const cut = new SeamError('RESET', `${remote} ended without warning`)
          if (reason !== undefined || !endSent || !endReceived) endpoint.failed(reason ?? cut)
          endpoint.closed()
        },
      },
    }
  }

  return {
    id: `emulated-${inner.id}`,
    authenticates: inner.authenticates,
    async dial(address, accept, openOptions) {
      const outer = new Map<Connection, Connection>()
      const dialled = await inner.dial(
        address,
        (connection) => {
          const joined = join(connection, accept)
          outer.set(connection, joined.connection)
          return joined.handler
        },
        openOptions,
      )
      return outer.get(dialled) as Connection
    },
    listen: (address, accept, openOptions) =>
      inner.listen(address, (connection) => join(connection, accept).handler, openOptions),
  }
}

interface Course {
  readonly delayNs: number
  readonly jitterNs: number
  readonly nsPerByte: number
}

function courseOf({
  delayMs,
  jitterMs = 0,
  bitsPerSecond = Number.POSITIVE_INFINITY,
}: EmulatedOptions): Course {
  for (const [name, value] of Object.entries({ delayMs, jitterMs })) {
    if (!(value >= 0 && value <= 60_000)) {
      throw new SeamError('USAGE', `${name} is ${value}; 0 to 60000 is possible`)
    }
  }
  if (!(bitsPerSecond >= 1000)) {
    throw new SeamError('USAGE', `bitsPerSecond is ${bitsPerSecond}; at least 1000 is possible`)
  }
  return { delayNs: delayMs * 1e6, jitterNs: jitterMs * 1e6, nsPerByte: 8e9 / bitsPerSecond }
}

interface LinkOptions extends Course {
  readonly random: () => number
  readonly clock: Clock
  readonly wakeAt: WakeAt
  /** Hands a piece, or the end, to the inner connection, for good. False: nothing more until {@link Link.unblock}. */
  readonly forward: (block: Uint8Array) => boolean
  /** The end was forwarded. */
  readonly onEnd: () => void
}

/** One direction of a connection: a queue at the transmitter, and what is on the way. */
interface Link {
  /** Queues bytes, or the end (`undefined`). `done` in a later turn: all of them are transmitted. */
  push(bytes: Uint8Array | undefined, done: () => void): void
  unblock(): void
  /** Drops everything. */
  stop(): void
}

function createLink(options: LinkOptions): Link {
  const { delayNs, jitterNs, nsPerByte, random, clock, wakeAt, forward, onEnd } = options
  const queue: Array<{ bytes: Uint8Array | undefined; atNs: number; done: () => void }> = []
  const inFlight: Array<{ block: Uint8Array; dueNs: number; isLast: boolean }> = []
  // Times of the last pieces in flight: those that are handed over exactly.
  const exactNs: number[] = []
  let inFlightBytes = 0
  let transmittedBytes = 0
  let freeNs = 0
  let lastDueNs = 0
  // Set while what is in front stops the transmitter: the time until then is lost to it.
  let held = false
  let blocked = false
  let stopped = false
  let running = false
  const coarse = alarm(false)
  const exact = alarm(true)

  /** One wake-up that can be moved. */
  function alarm(isExact: boolean): (dueNs: number | undefined) => void {
    let armedNs: number | undefined
    let cancel = () => {}
    return (dueNs) => {
      if (dueNs === armedNs) return
      cancel()
      cancel = () => {}
      armedNs = dueNs
      if (dueNs === undefined) return
      cancel = wakeAt(dueNs, isExact, () => {
        armedNs = undefined
        run()
      })
    }
  }

  /** When the next piece of the head of the queue is transmitted. */
  function departureNs(): number | undefined {
    const head = queue[0]
    if (head === undefined || blocked || inFlightBytes >= inFlightLimitBytes) return undefined
    return Math.max(freeNs, head.atNs) + nextBytes(head.bytes) * nsPerByte
  }

  function nextBytes(bytes: Uint8Array | undefined): number {
    return Math.min(pieceBytes, (bytes?.length ?? 0) - transmittedBytes)
  }

  function isLastPiece(bytes: Uint8Array | undefined): boolean {
    return transmittedBytes + nextBytes(bytes) === (bytes?.length ?? 0)
  }

  /** Transmits one piece when it is time to; returns false when there is none. */
  function transmit(nowNs: number): boolean {
    if (held) freeNs = Math.max(freeNs, nowNs)
    const atNs = departureNs()
    held = queue.length > 0 && atNs === undefined
    const head = queue[0]
    if (head === undefined || atNs === undefined || atNs > nowNs) return false
    const { bytes, done } = head
    const count = nextBytes(bytes)
    const isLast = isLastPiece(bytes)
    freeNs = atNs
    const start = transmittedBytes
    transmittedBytes += count
    if (bytes === undefined || count > 0) depart(bytes?.subarray(start, start + count), atNs, isLast)
    if (!isLast) return true
    queue.shift()
    transmittedBytes = 0
    done()
    return true
  }

  function depart(bytes: Uint8Array | undefined, atNs: number, isLast: boolean): void {
    const block = Buffer.allocUnsafeSlow(headerBytes + (bytes?.length ?? 0))
    block.writeUInt32LE(bytes?.length ?? 0, 0)
    if (bytes !== undefined) block.set(bytes, headerBytes)
    lastDueNs = Math.max(lastDueNs, atNs + delayNs + jitterNs * random())
    inFlight.push({ block, dueNs: lastDueNs, isLast })
    inFlightBytes += block.length
    if (isLast) exactNs.push(lastDueNs)
  }

  /** Hands over one piece when it is time to; returns false when there is none. */
  function arrive(nowNs: number): boolean {
    const head = inFlight[0]
    if (head === undefined || blocked || head.dueNs > nowNs) return false
    inFlight.shift()
    inFlightBytes -= head.block.length
    if (head.isLast) exactNs.shift()
    blocked = !forward(head.block)
    if (head.block.length === headerBytes && !stopped) onEnd()
    return true
  }

  function run(): void {
    if (running) return
    running = true
    const nowNs = clock.nowNs()
    while (!stopped && (transmit(nowNs) || arrive(nowNs))) {}
    running = false
    arm()
  }

  function arm(): void {
    if (running) return
    const live = !stopped && !blocked
    const transmittedNs = departureNs()
    coarse(live ? earlier(transmittedNs, inFlight[0]?.dueNs) : undefined)
    const isShort = delayNs < coarseNs && queue[0] !== undefined && isLastPiece(queue[0].bytes)
    exact(live ? earlier(exactNs[0], isShort ? transmittedNs : undefined) : undefined)
  }

  return {
    push(bytes, done) {
      if (stopped) return
      queue.push({ bytes, atNs: clock.nowNs(), done })
      arm()
    },
    unblock() {
      blocked = false
      held = true
      run()
    },
    stop() {
      stopped = true
      queue.length = 0
      inFlight.length = 0
      arm()
    },
  }
}

function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return Math.min(one, other)
}

/** {@link WakeAt} on {@link monotonicClock}. Timers are whole milliseconds: turns of the event loop make up the rest. */
function wakeOnTime(dueNs: number, exact: boolean, action: () => void): () => void {
  let cancel = () => {}
  function wait(leftMs: number): void {
    const wholeMs = exact ? Math.floor(leftMs) : Math.ceil(leftMs)
    if (wholeMs >= 1) {
      const timer = setTimeout(look, wholeMs)
      cancel = () => clearTimeout(timer)
    } else {
      const turn = setImmediate(look)
      cancel = () => clearImmediate(turn)
    }
  }
  function look(): void {
    const leftMs = (dueNs - monotonicClock.nowNs()) / 1e6
    if (leftMs > 0) wait(leftMs)
    else action()
  }
  wait((dueNs - monotonicClock.nowNs()) / 1e6)
  return () => cancel()
}

/** Numbers from 0 to below 1: a Weyl sequence through the finalizer of MurmurHash3. */
function uniform(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
}
