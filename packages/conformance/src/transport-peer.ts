import assert from 'node:assert/strict'
import {
  type Accept,
  type Connection,
  type ConnectionHandler,
  isSeamError,
  type Listener,
  SeamError,
  type Transport,
} from '@seamline/core'
import { seededRandom } from './random.ts'

// The two sides of a connection, and the rules they are held to.

/** What one case works with. */
export interface TransportFixture {
  readonly transport: Transport
  /** Where to listen. Any number of listeners at once: each gets an address of its own, as with port 0. */
  readonly address: string
  dispose?(): Promise<void>
}

export const KiB = 1 << 10
export const MiB = 1 << 20

/** Beyond this much accepted without a stall there is no backpressure. */
const stallLimitBytes = 256 * MiB

/** Runs `body` with a bench over a fresh fixture, holds both ends to the rules, and leaves nothing open. */
export async function runCase(
  create: () => Promise<TransportFixture> | TransportFixture,
  deadlineMs: number,
  body: (bench: Bench) => Promise<void>,
): Promise<void> {
  const fixture = await create()
  const bench = createBench(fixture, deadlineMs)
  try {
    await bench.within(body(bench))
    await bench.within(bench.finish())
  } finally {
    await bench.dispose()
    await fixture.dispose?.()
  }
}

export interface PeerOptions {
  readonly paused?: boolean
  /** Overwrites the memory of a send as soon as it is released. */
  readonly scribble?: boolean
  /** Length of the next buffer. @default 65536 */
  readonly bufferBytes?: (peer: Peer) => number
  readonly onAccept?: (peer: Peer) => void
  readonly onData?: (peer: Peer, bytes: number) => void
}

export interface Peer {
  readonly accept: Accept
  readonly connection: Connection
  readonly receivedBytes: number
  readonly deliveries: number
  readonly sentBytes: number
  readonly sends: number
  readonly releases: number
  readonly drains: number
  readonly closes: ReadonlyArray<SeamError | undefined>
  /** The first rules that were broken. */
  readonly faults: readonly string[]
  nextBuffer: (() => void) | undefined
  onData: (bytes: number) => void
  onDrain: () => void
  onReleased: () => void
  /** Sends the next `bytes` bytes of the pattern. */
  send(bytes: number): boolean
  /** Sends chunks until `send` returns false. */
  fill(chunkBytes: number): void
  /** Sends `totalBytes` in chunks, waiting for onDrain where send says so. */
  feed(totalBytes: number, chunkBytes: () => number): Promise<void>
  /** Sends until nothing moves any more. */
  stall(bench: Bench): Promise<void>
  pause(): void
  resume(): void
  /** Aborts the connection: nothing may be delivered from then on. */
  abort(reason: SeamError): void
}

export interface Pair {
  readonly near: Peer
  readonly far: Peer
}

export interface Bench {
  readonly transport: Transport
  readonly address: string
  peer(options: PeerOptions): Peer
  listen(options?: PeerOptions, onAccept?: () => void, signal?: AbortSignal): Promise<Listener>
  /** The next connection that the listener accepted. */
  accepted(listener: Listener): Promise<Peer>
  /** Dials the listener, or `address` in front of it. */
  connect(listener: Listener, options?: PeerOptions, signal?: AbortSignal, address?: string): Promise<Pair>
  pair(near?: PeerOptions, far?: PeerOptions): Promise<Pair>
  until(condition: () => boolean, what: string): Promise<void>
  /** Fails when `work` takes longer than the deadline. */
  within(work: Promise<void>): Promise<void>
  /** Gives whatever should not happen a chance to happen. */
  settle(): Promise<void>
  /** Ends everything and fails when a rule was broken. */
  finish(): Promise<void>
  dispose(): Promise<void>
}

function createBench({ transport, address }: TransportFixture, deadlineMs: number): Bench {
  const peers: Peer[] = []
  const listeners: Listener[] = []
  const arrivals = new Map<Listener, Peer[]>()
  const check = () => {
    for (const { faults } of peers) if (faults.length > 0) assert.fail(faults.join('; '))
  }
  const bench: Bench = {
    transport,
    address,
    peer(options) {
      const peer = createPeer(options)
      peers.push(peer)
      return peer
    },
    async listen(options = {}, onAccept, signal) {
      const arrived: Peer[] = []
      const accept: Accept = (connection) => {
        onAccept?.()
        const peer = bench.peer(options)
        arrived.push(peer)
        return peer.accept(connection)
      }
      const listener = await transport.listen(address, accept, signal === undefined ? {} : { signal })
      listeners.push(listener)
      arrivals.set(listener, arrived)
      return listener
    },
    async accepted(listener) {
      const arrived = arrivals.get(listener) ?? []
      await bench.until(() => arrived.length > 0, 'a connection at the listener')
      return arrived.shift()!
    },
    async connect(listener, options = {}, signal, address = listener.address) {
      const near = bench.peer(options)
      const connection = await transport.dial(address, near.accept, signal === undefined ? {} : { signal })
      assert.equal(connection, near.connection, 'dial returns the connection that accept got')
      return { near, far: await bench.accepted(listener) }
    },
    async pair(near, far) {
      return bench.connect(await bench.listen(far), near)
    },
    async until(condition, what) {
      const lastMs = Date.now() + deadlineMs
      while (!condition()) {
        check()
        if (Date.now() > lastMs) assert.fail(`waited ${deadlineMs} ms for ${what}`)
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
    },
    async within(work) {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new assert.AssertionError({ message: `over ${deadlineMs} ms` })),
          deadlineMs,
        )
      })
      await Promise.race([work, late]).finally(() => clearTimeout(timer))
    },
    async settle() {
      await new Promise((resolve) => setTimeout(resolve, 5))
      check()
    },
    async finish() {
      await bench.settle()
      await bench.dispose()
      const opened = peers.filter(isOpened)
      await bench.until(() => opened.every((peer) => peer.closes.length > 0), 'onClose of every connection')
      await bench.settle()
      for (const peer of opened) {
        assert.equal(peer.closes.length, 1, 'onClose runs exactly once')
        assert.equal(peer.releases, peer.sends, 'every send is released')
        assert.equal(peer.connection.queuedBytes, 0, 'nothing is queued after onClose')
      }
    },
    async dispose() {
      for (const peer of peers.filter(isOpened)) {
        peer.connection.abort(new SeamError('ABORTED', 'the case is over'))
        // A paused side need not see that its peer is gone.
        peer.connection.resume()
      }
      await Promise.all(listeners.map((listener) => listener.close()))
    },
  }
  return bench
}

function isOpened(peer: Peer): boolean {
  return peer.connection !== undefined
}

function createPeer(options: PeerOptions): Peer {
  const faults: string[] = []
  const closes: Array<SeamError | undefined> = []
  let connection: Connection | undefined
  let memory = new Uint8Array(0)
  let target: Uint8Array | undefined
  let receivedBytes = 0
  let deliveries = 0
  let sentBytes = 0
  let sends = 0
  let releases = 0
  let drains = 0
  let drainDue = false
  let paused = options.paused ?? false
  let aborted = false
  let calling: string | undefined
  let sending = false
  let wake = () => {}

  function note(fault: string): void {
    if (faults.length < 5) faults.push(fault)
  }

  /** Runs one callback of the transport under the rules that hold for all of them. */
  function inside<T>(name: string, body: () => T): T {
    if (calling !== undefined) note(`${name} ran inside ${calling}`)
    if (closes.length > 0) note(`${name} ran after onClose`)
    calling = name
    try {
      return body()
    } finally {
      calling = undefined
    }
  }

  const handler: ConnectionHandler = {
    nextBuffer: () =>
      inside('nextBuffer', () => {
        if (paused) note('nextBuffer ran while paused')
        peer.nextBuffer?.()
        const bytes = options.bufferBytes?.(peer) ?? 64 * KiB
        // A guard on either side shows a write beyond the view.
        if (memory.length < bytes + 2 * guardBytes) memory = new Uint8Array(bytes + 2 * guardBytes)
        memory.fill(guard, 0, guardBytes)
        memory.fill(guard, guardBytes + bytes, bytes + 2 * guardBytes)
        target = memory.subarray(guardBytes, guardBytes + bytes)
        return target
      }),
    onData: (bytes) =>
      inside('onData', () => {
        if (paused) note('onData ran while paused')
        if (aborted) note('onData ran after abort')
        if (target === undefined) note('onData ran without nextBuffer before it')
        if (!Number.isInteger(bytes) || bytes < 1 || bytes > (target?.length ?? 0)) {
          note(`onData of ${bytes} B for a buffer of ${target?.length ?? 0} B`)
        } else if (target !== undefined) {
          const wrong = firstDifference(target.subarray(0, bytes), receivedBytes)
          if (wrong >= 0) note(`byte ${receivedBytes + wrong} is not the one sent`)
          const end = guardBytes + target.length
          const around = [...memory.subarray(0, guardBytes), ...memory.subarray(end, end + guardBytes)]
          if (around.some((byte) => byte !== guard)) note('bytes were written beyond the buffer')
        }
        target = undefined
        receivedBytes += bytes
        deliveries += 1
        peer.onData(bytes)
      }),
    onDrain: () =>
      inside('onDrain', () => {
        if (!drainDue) note('onDrain ran though send did not return false since the last one')
        drainDue = false
        drains += 1
        wake()
        peer.onDrain()
      }),
    onClose: (reason) => {
      inside('onClose', () => {
        if (reason !== undefined && !isSeamError(reason)) note(`onClose got ${String(reason)}`)
        if (releases !== sends) note(`onClose ran with ${sends - releases} sends not released`)
      })
      closes.push(reason)
      wake()
    },
  }

  const peer: Peer = {
    accept(opened) {
      connection = opened
      if (paused) opened.pause()
      options.onAccept?.(peer)
      return handler
    },
    get connection() {
      return connection as Connection
    },
    get receivedBytes() {
      return receivedBytes
    },
    get deliveries() {
      return deliveries
    },
    get sentBytes() {
      return sentBytes
    },
    get sends() {
      return sends
    },
    get releases() {
      return releases
    },
    get drains() {
      return drains
    },
    closes,
    faults,
    nextBuffer: undefined,
    onData: (bytes) => options.onData?.(peer, bytes),
    onDrain() {},
    onReleased() {},
    send(bytes) {
      const pattern = patternAt(sentBytes, bytes)
      const chunk = options.scribble ? Uint8Array.from(pattern) : pattern
      const index = sends
      let released = false
      sends += 1
      sentBytes += bytes
      const nested = sending
      sending = true
      const more = peer.connection.send(chunk, () => {
        if (sending) note(`send ${index} was released during a send`)
        if (released) note(`send ${index} was released twice`)
        else if (index !== releases) note(`send ${index} was released before send ${releases}`)
        if (closes.length > 0) note(`send ${index} was released after onClose`)
        if (!released) releases += 1
        released = true
        if (options.scribble) chunk.fill(0xee)
        peer.onReleased()
      })
      sending = nested
      if (!more) drainDue = true
      return more
    },
    fill(chunkBytes) {
      const startBytes = sentBytes
      while (peer.send(chunkBytes)) {
        assert.ok(sentBytes - startBytes < stallLimitBytes, `send is true after ${stallLimitBytes} B`)
      }
    },
    async feed(totalBytes, chunkBytes) {
      const endBytes = sentBytes + totalBytes
      while (sentBytes < endBytes) {
        const more = peer.send(Math.min(chunkBytes(), endBytes - sentBytes))
        if (more || sentBytes === endBytes) continue
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        assert.equal(closes.length, 0, 'the connection closed meanwhile')
      }
    },
    async stall(bench) {
      for (;;) {
        peer.fill(64 * KiB)
        assert.ok(sentBytes < stallLimitBytes, `the sender does not stall within ${stallLimitBytes} B`)
        const before = drains
        for (let turn = 0; turn < 5 && drains === before; turn += 1) await bench.settle()
        if (drains === before) return
      }
    },
    pause() {
      paused = true
      peer.connection.pause()
    },
    resume() {
      paused = false
      peer.connection.resume()
    },
    abort(reason) {
      aborted = true
      peer.connection.abort(reason)
    },
  }
  return peer
}

const guardBytes = 8
const guard = 0xa5

// The stream is `blockBytes` random bytes over and over. A prime, so that no power of two lines up with it.
const blockBytes = 65_521
let repeated = Buffer.alloc(0)

/** The bytes of the stream from `position` on. The memory is shared: copy it to write to it. */
function patternAt(position: number, bytes: number): Uint8Array {
  const start = position % blockBytes
  if (repeated.length < start + bytes) {
    const random = seededRandom(3)
    const block = Buffer.from(Array.from({ length: blockBytes }, () => random() * 256))
    repeated = Buffer.alloc(2 * (start + bytes), block)
  }
  return repeated.subarray(start, start + bytes)
}

/** Index of the first byte that is not the pattern at `position`, or -1. */
function firstDifference(bytes: Uint8Array, position: number): number {
  const expected = patternAt(position, bytes.length)
  if (Buffer.compare(expected, bytes) === 0) return -1
  return bytes.findIndex((byte, index) => byte !== expected[index])
}

export const noHandler: Accept = () => ({
  nextBuffer: () => new Uint8Array(1),
  onData() {},
  onDrain() {},
  onClose() {},
})

export const echo: Accept = (connection) => {
  const buffer = new Uint8Array(1000)
  return {
    nextBuffer: () => buffer,
    onData: (bytes) => void connection.send(buffer.slice(0, bytes)),
    onDrain() {},
    onClose() {},
  }
}

/** The peer aborted. Whether that shows as a reset or as an end depends on what the kernel saw first. */
export function assertCut(peer: Peer): void {
  const reason = peer.closes[0]
  if (reason !== undefined) hasCode(reason, 'RESET')
}

export function hasCode(error: unknown, code: string): error is SeamError {
  assert.ok(isSeamError(error), `a SeamError, not ${String(error)}`)
  assert.equal(error.code, code)
  return true
}
