import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
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

/** What one case works with. */
export interface TransportFixture {
  readonly transport: Transport
  /** Where to listen. Any number of listeners at once: each gets an address of its own, as with port 0. */
  readonly address: string
  dispose?(): Promise<void>
}

export interface TransportSuiteOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => Promise<void>) => void
  /** Called once for each case. */
  readonly create: () => Promise<TransportFixture> | TransportFixture
  /** Makes an address where a dial is neither answered nor refused. Left out where the transport has none. */
  readonly unanswered?: () => Promise<{ readonly address: string; dispose(): Promise<void> }>
  /** Dial and close cycles of the leak case. @default 200 */
  readonly cycles?: number
  /** Longest time that a case waits for what it expects. @default 20000 */
  readonly deadlineMs?: number
}

const KiB = 1 << 10
const MiB = 1 << 20

/** Beyond this much accepted without a stall there is no backpressure. */
const stallLimitBytes = 256 * MiB

/**
 * Defines the cases that every transport passes. Besides what a case asserts, each connection of each case is held
 * to the rules of `ConnectionHandler` and `Connection.send`: content and order of the bytes, calls that never overlap,
 * nothing after `onClose`, `released` exactly once, in order and never during a send.
 */
export function transportSuite(options: TransportSuiteOptions): void {
  const { describe, it, create, unanswered, cycles = 200, deadlineMs = 20_000 } = options

  function test(name: string, body: (bench: Bench) => Promise<void>): void {
    it(name, async () => {
      const fixture = await create()
      const bench = createBench(fixture, deadlineMs)
      try {
        await bench.within(body(bench))
        await bench.within(bench.finish())
      } finally {
        await bench.dispose()
        await fixture.dispose?.()
      }
    })
  }

  describe('transport: bytes', () => {
    test('delivers the same bytes in the same order, both ways, whatever the chunk and buffer sizes', async (bench) => {
      const random = seededRandom(1)
      const bufferBytes = () => 1 + Math.floor(random() ** 4 * 100_000)
      const { near, far } = await bench.pair({ bufferBytes }, { bufferBytes })
      const total = 4 * MiB
      const chunkBytes = () => 1 + Math.floor(random() ** 4 * 200_000)
      await Promise.all([near.feed(total, chunkBytes), far.feed(total, chunkBytes)])
      await bench.until(() => near.receivedBytes === total && far.receivedBytes === total, 'every byte')
    })

    for (const size of [1, 4 * MiB - 1, 4 * MiB, 4 * MiB + 1]) {
      test(`carries one send of ${size} B`, async (bench) => {
        const { near, far } = await bench.pair()
        near.send(size)
        await bench.until(() => far.receivedBytes === size && near.releases === 1, 'the send')
        await near.connection.close()
        await bench.until(() => far.closes.length === 1, 'the end')
        assert.equal(far.receivedBytes, size)
      })
    }

    test('carries one send of 64 MiB through a buffer of 64 KiB', async (bench) => {
      const { near, far } = await bench.pair()
      near.send(64 * MiB)
      await bench.until(() => far.receivedBytes === 64 * MiB && near.releases === 1, 'the send')
    })

    test('releases an empty send and delivers nothing for it', async (bench) => {
      const { near, far } = await bench.pair()
      near.send(0)
      await bench.until(() => near.releases === 1, 'the release of 0 B')
      near.send(3)
      near.send(0)
      near.send(2)
      await bench.until(() => far.receivedBytes === 5 && near.releases === 4, '5 B')
    })

    test('fills a buffer of 1 B', async (bench) => {
      const { near, far } = await bench.pair({ bufferBytes: () => 1 }, { bufferBytes: () => 1 })
      near.send(20_000)
      far.send(20_000)
      await bench.until(() => near.receivedBytes === 20_000 && far.receivedBytes === 20_000, 'every byte')
      assert.equal(far.deliveries, 20_000)
    })

    test('carries sends made inside onData, onDrain and released', async (bench) => {
      const { near } = await bench.pair(
        {
          onData: (peer) => {
            // The whole of round n is here: answer with round n + 1, twice as long.
            if (peer.receivedBytes === peer.sentBytes && peer.sentBytes < 3 * MiB) peer.send(peer.sentBytes)
          },
        },
        { onData: (peer, bytes) => peer.send(bytes) },
      )
      near.send(1000)
      await bench.until(() => near.sentBytes > 3 * MiB && near.receivedBytes === near.sentBytes, 'the echo')
      let more = 50
      near.onReleased = () => {
        if (more > 0) {
          more -= 1
          near.send(1000)
        }
      }
      near.onDrain = () => near.send(1000)
      const before = near.sentBytes
      near.fill(64 * KiB)
      await bench.until(
        () => more === 0 && near.sentBytes >= before + 52_000 && near.receivedBytes === near.sentBytes,
        'sends from onDrain and released',
      )
    })

    test('keeps connections apart: 32 at once, one of them paused', async (bench) => {
      const listener = await bench.listen()
      const pairs = []
      for (let index = 0; index < 32; index += 1) pairs.push(await bench.connect(listener))
      const [stuck, ...others] = pairs
      assert.ok(stuck !== undefined)
      stuck.far.pause()
      await Promise.all(
        others.map(async ({ near, far }, index) => {
          const total = 100_000 + 1000 * index
          await Promise.all([near.feed(total, () => 7000), far.feed(total, () => 9000)])
          await bench.until(() => near.receivedBytes === total && far.receivedBytes === total, 'every byte')
        }),
      )
    })
  })

  describe('transport: backpressure', () => {
    test('send returns false, onDrain follows once, and every byte arrives; four times over', async (bench) => {
      const { near, far } = await bench.pair()
      for (let round = 1; round <= 4; round += 1) {
        far.pause()
        near.fill(64 * KiB)
        assert.ok(near.connection.queuedBytes > 0, 'queuedBytes is above 0 B at the high-water mark')
        assert.equal(near.drains, round - 1, 'no onDrain while send returns false')
        far.resume()
        await bench.until(() => near.drains >= round, `onDrain ${round}`)
        await bench.until(() => far.receivedBytes === near.sentBytes, 'every byte')
        await bench.until(() => near.connection.queuedBytes === 0, 'an empty queue')
        await bench.settle()
        assert.equal(near.drains, round)
      }
    })

    test('send queues bytes beyond the high-water mark too', async (bench) => {
      const { near, far } = await bench.pair()
      far.pause()
      near.fill(64 * KiB)
      for (let index = 0; index < 16; index += 1) assert.equal(near.send(64 * KiB), false)
      far.resume()
      await bench.until(() => far.receivedBytes === near.sentBytes, 'every byte')
      await bench.settle()
      assert.equal(near.drains, 1)
    })

    test('calls released once for each send, in order, and memory may change from then on', async (bench) => {
      const { near, far } = await bench.pair({ scribble: true })
      const random = seededRandom(2)
      await near.feed(8 * MiB, () => Math.floor(random() * 200_000))
      await bench.until(() => near.releases === near.sends && far.receivedBytes === 8 * MiB, 'every release')
    })

    test('pause stops delivery and stalls the sender; resume delivers everything', async (bench) => {
      const { near, far } = await bench.pair()
      await near.feed(1000, () => 1000)
      await bench.until(() => far.receivedBytes === 1000, '1000 B')
      far.pause()
      await near.stall(bench)
      assert.equal(far.receivedBytes, 1000)
      assert.ok(near.connection.queuedBytes <= near.sentBytes)
      assert.ok(near.connection.queuedBytes > 0)
      far.resume()
      await bench.until(() => far.receivedBytes === near.sentBytes, 'every byte')
    })

    test('pause works in the other direction as well', async (bench) => {
      const { near, far } = await bench.pair()
      near.pause()
      await far.stall(bench)
      assert.equal(near.receivedBytes, 0)
      near.resume()
      await bench.until(() => near.receivedBytes === far.sentBytes, 'every byte')
    })

    for (const side of ['dialling', 'accepting'] as const) {
      test(`pause inside onData takes effect at once and asks for no memory, ${side} side`, async (bench) => {
        const pausing = {
          bufferBytes: () => 1000,
          onData: (peer: Peer) => {
            peer.pause()
            setImmediate(() => peer.resume())
          },
        }
        const pair = await bench.pair(...(side === 'dialling' ? [pausing, {}] : [{}, pausing]))
        const [receiver, sender] = side === 'dialling' ? [pair.near, pair.far] : [pair.far, pair.near]
        sender.send(200_000)
        sender.send(56_789)
        await bench.until(() => receiver.receivedBytes === 256_789, 'every byte')
        assert.ok(receiver.deliveries >= 257)
      })

      test(`pause and resume inside one onData lose nothing, ${side} side`, async (bench) => {
        const pausing = {
          bufferBytes: () => 1000,
          onData: (peer: Peer) => {
            peer.pause()
            peer.resume()
          },
        }
        const pair = await bench.pair(...(side === 'dialling' ? [pausing, {}] : [{}, pausing]))
        const [receiver, sender] = side === 'dialling' ? [pair.near, pair.far] : [pair.far, pair.near]
        sender.send(256_789)
        await bench.until(() => receiver.receivedBytes === 256_789, 'every byte')
      })
    }

    test('a connection that was paused from the start gets everything after resume', async (bench) => {
      const { near, far } = await bench.pair({ paused: true }, { paused: true })
      near.send(100_000)
      far.send(100_000)
      await bench.settle()
      assert.deepEqual([near.receivedBytes, far.receivedBytes], [0, 0])
      near.resume()
      far.resume()
      await bench.until(() => near.receivedBytes === 100_000 && far.receivedBytes === 100_000, 'every byte')
    })
  })

  describe('transport: end', () => {
    test('close delivers 8 MiB that are queued, then both sides end in good order', async (bench) => {
      const { near, far } = await bench.pair()
      for (let index = 0; index < 128; index += 1) near.send(64 * KiB)
      await near.connection.close()
      assert.deepEqual(near.closes, [undefined])
      assert.equal(near.releases, 128)
      await bench.until(() => far.closes.length > 0, 'onClose of the peer')
      assert.deepEqual(far.closes, [undefined])
      assert.equal(far.receivedBytes, 8 * MiB)
    })

    test('one side closes and still receives the 8 MiB that the other goes on to send', async (bench) => {
      let fed: Promise<void> | undefined
      const { near, far } = await bench.pair(
        {},
        {
          onData: (peer) => {
            fed ??= peer.feed(8 * MiB, () => 64 * KiB)
          },
        },
      )
      near.send(1)
      await near.connection.close({ timeoutMs: deadlineMs })
      await fed
      assert.deepEqual(near.closes, [undefined])
      assert.equal(near.receivedBytes, 8 * MiB)
      await bench.until(() => far.closes.length > 0, 'onClose of the peer')
      assert.deepEqual(far.closes, [undefined])
    })

    test('both sides may close at once, and twice', async (bench) => {
      const { near, far } = await bench.pair()
      near.send(100_000)
      far.send(100_000)
      const { connection } = near
      await Promise.all([connection.close(), connection.close(), far.connection.close()])
      await connection.close()
      assert.deepEqual([near.closes, far.closes], [[undefined], [undefined]])
      assert.deepEqual([near.receivedBytes, far.receivedBytes], [100_000, 100_000])
    })

    test('close aborts with TIMEOUT when the peer cannot end', async (bench) => {
      const { near, far } = await bench.pair({ paused: true })
      // More than the buffers of any kernel between the two, so that the end of the peer cannot arrive.
      far.send(64 * MiB)
      await near.connection.close({ timeoutMs: 100 })
      assert.equal(near.closes[0]?.code, 'TIMEOUT')
      await bench.until(() => far.closes.length > 0, 'onClose of the peer')
      assert.equal(far.releases, 1)
    })

    test('abort drops what is queued, releases it and reaches both sides', async (bench) => {
      const { near, far } = await bench.pair()
      far.pause()
      near.fill(64 * KiB)
      for (let index = 0; index < 64; index += 1) near.send(64 * KiB)
      const reason = new SeamError('PROTOCOL', 'test reason')
      near.connection.abort(reason)
      near.connection.abort(new SeamError('USAGE', 'the first reason wins'))
      assert.deepEqual(near.closes, [], 'onClose does not run inside abort')
      await bench.until(() => near.closes.length > 0, 'onClose')
      assert.equal(near.closes[0], reason)
      assert.equal(near.releases, near.sends)
      far.resume()
      await bench.until(() => far.closes.length > 0, 'onClose of the peer')
      assert.ok(far.receivedBytes < near.sentBytes)
      assertCut(far)
    })

    test('releases what is queued when the peer aborts', async (bench) => {
      const { near, far } = await bench.pair()
      far.pause()
      near.fill(64 * KiB)
      far.connection.abort(new SeamError('ABORTED', 'test reason'))
      await bench.until(() => near.closes.length > 0, 'onClose')
      assertCut(near)
      assert.equal(near.releases, near.sends)
    })

    test('close resolves after abort, abort ends a close, and both do nothing once all is over', async (bench) => {
      const { near, far } = await bench.pair()
      far.pause()
      near.fill(64 * KiB)
      near.send(8 * MiB)
      const closed = near.connection.close()
      near.connection.abort(new SeamError('ABORTED', 'test reason'))
      await Promise.all([closed, near.connection.close()])
      assert.equal(near.closes[0]?.code, 'ABORTED')
      near.connection.abort(new SeamError('USAGE', 'too late'))
      near.connection.pause()
      near.connection.resume()
      await near.connection.close()
      far.resume()
      await bench.until(() => far.closes.length > 0, 'onClose of the peer')
    })

    test('send throws CLOSED after close, after abort and after onClose', async (bench) => {
      const closing = await bench.pair()
      const done = closing.near.connection.close()
      assert.throws(() => closing.near.connection.send(new Uint8Array(1)), { code: 'CLOSED' })
      await done
      await bench.until(() => closing.far.closes.length > 0, 'onClose of the peer')
      assert.throws(() => closing.near.connection.send(new Uint8Array(1)), { code: 'CLOSED' })
      assert.throws(() => closing.far.connection.send(new Uint8Array(1)), { code: 'CLOSED' })
      const aborting = await bench.pair()
      aborting.near.connection.abort(new SeamError('ABORTED', 'test reason'))
      assert.throws(() => aborting.near.connection.send(new Uint8Array(1)), { code: 'CLOSED' })
    })
  })

  describe('transport: handlers', () => {
    for (const place of ['onData', 'nextBuffer', 'onDrain'] as const) {
      test(`a throw in ${place} aborts its own connection only`, async (bench) => {
        const listener = await bench.listen()
        const { near, far } = await bench.connect(listener)
        const other = await bench.connect(listener)
        const thrown = new TypeError('test throw')
        if (place === 'onDrain') {
          near.pause()
          far.onDrain = () => {
            throw thrown
          }
          far.fill(64 * KiB)
          near.resume()
        } else {
          far[place] = () => {
            throw thrown
          }
          near.send(100_000)
        }
        await bench.until(() => far.closes.length > 0 && near.closes.length > 0, 'onClose of both')
        assert.equal(far.closes[0]?.code, 'PROTOCOL')
        assert.equal(far.closes[0]?.cause, thrown)
        assertCut(near)
        other.near.send(1000)
        await bench.until(() => other.far.receivedBytes === 1000, 'the other connection')
      })
    }

    test('a SeamError that a handler throws is the reason itself', async (bench) => {
      const { near, far } = await bench.pair()
      const thrown = new SeamError('LIMIT', 'test limit')
      near.onData = () => {
        throw thrown
      }
      far.send(10)
      await bench.until(() => near.closes.length > 0 && far.closes.length > 0, 'onClose of both')
      assert.equal(near.closes[0], thrown)
    })

    for (const side of ['dialling', 'accepting'] as const) {
      test(`an empty buffer aborts with USAGE, ${side} side`, async (bench) => {
        const empty = { bufferBytes: (peer: Peer) => (peer.receivedBytes < 1000 ? 1000 : 0) }
        const pair = await bench.pair(...(side === 'dialling' ? [empty, {}] : [{}, empty]))
        const [receiver, sender] = side === 'dialling' ? [pair.near, pair.far] : [pair.far, pair.near]
        sender.send(100_000)
        await bench.until(() => receiver.closes.length > 0 && sender.closes.length > 0, 'onClose of both')
        assert.equal(receiver.closes[0]?.code, 'USAGE')
        assert.equal(receiver.receivedBytes, 1000)
      })
    }

    test('a throw in the accept of a listener ends that connection and nothing else', async (bench) => {
      let refusals = 1
      const listener = await bench.listen({}, () => {
        if (refusals > 0) {
          refusals -= 1
          throw new TypeError('test throw')
        }
      })
      const refused = bench.peer({})
      try {
        await bench.transport.dial(listener.address, refused.accept)
        await bench.until(() => refused.closes.length > 0, 'onClose of the dialling side')
      } catch (error) {
        // The end may be there before the dial is done.
        hasCode(error, 'RESET')
      }
      const { near, far } = await bench.connect(listener)
      near.send(10)
      await bench.until(() => far.receivedBytes === 10, '10 B')
    })

    test('dial throws what its accept throws', async (bench) => {
      const listener = await bench.listen()
      const thrown = new TypeError('test throw')
      const dialled = bench.transport.dial(listener.address, () => {
        throw thrown
      })
      await assert.rejects(dialled, thrown)
    })

    test('accept may send, and close, before it returns', async (bench) => {
      const listener = await bench.listen({ onAccept: (peer) => peer.send(1000) })
      const near = bench.peer({
        onAccept: (peer) => {
          peer.send(2000)
          void peer.connection.close()
        },
      })
      await bench.transport.dial(listener.address, near.accept)
      const far = await bench.accepted(listener)
      await bench.until(() => near.closes.length > 0 && far.closes.length > 0, 'onClose of both')
      assert.deepEqual([near.receivedBytes, far.receivedBytes], [1000, 2000])
      assert.deepEqual([near.closes, far.closes], [[undefined], [undefined]])
    })
  })

  describe('transport: dial and listen', () => {
    test('a dial that nobody answers throws RESET with the address', async (bench) => {
      const listener = await bench.listen()
      await listener.close()
      const dialled = bench.transport.dial(listener.address, noHandler)
      await assert.rejects(
        dialled,
        (error) => hasCode(error, 'RESET') && error.message.includes(listener.address),
      )
    })

    test('a dial under a signal that was aborted before or is aborted meanwhile throws ABORTED', async (bench) => {
      const listener = await bench.listen()
      const reason = new Error('test reason')
      const before = bench.transport.dial(listener.address, noHandler, { signal: AbortSignal.abort(reason) })
      await assert.rejects(before, (error) => hasCode(error, 'ABORTED') && error.cause === reason)
      const controller = new AbortController()
      const during = bench.transport.dial(listener.address, noHandler, { signal: controller.signal })
      controller.abort(reason)
      await assert.rejects(during, (error) => hasCode(error, 'ABORTED') && error.cause === reason)
      const bind = bench.transport.listen(bench.address, noHandler, { signal: AbortSignal.abort(reason) })
      await assert.rejects(bind, { code: 'ABORTED' })
    })

    test('dial and listen leave no listener on the signal, which no longer matters to them', async (bench) => {
      const controller = new AbortController()
      const listener = await bench.listen({}, undefined, controller.signal)
      const { near, far } = await bench.connect(listener, {}, controller.signal)
      assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
      controller.abort()
      near.send(10)
      await bench.until(() => far.receivedBytes === 10, '10 B')
    })

    if (unanswered !== undefined) {
      test('a dial that is not answered in time throws TIMEOUT', async (bench) => {
        const silent = await unanswered()
        try {
          const dialled = bench.transport.dial(silent.address, noHandler, { timeoutMs: 100 })
          await assert.rejects(
            dialled,
            (error) => hasCode(error, 'TIMEOUT') && error.message.includes('100 ms'),
          )
          const controller = new AbortController()
          const aborted = bench.transport.dial(silent.address, noHandler, { signal: controller.signal })
          setTimeout(() => controller.abort(), 10)
          await assert.rejects(aborted, { code: 'ABORTED' })
        } finally {
          await silent.dispose()
        }
      })
    }

    test('listening at an address that is taken throws USAGE with the address', async (bench) => {
      const listener = await bench.listen()
      const again = bench.transport.listen(listener.address, noHandler)
      await assert.rejects(
        again,
        (error) => hasCode(error, 'USAGE') && error.message.includes(listener.address),
      )
    })

    test('closing a listener twice frees its address and leaves its connections alone', async (bench) => {
      const listener = await bench.listen()
      const { near, far } = await bench.connect(listener)
      await Promise.all([listener.close(), listener.close()])
      await listener.close()
      await assert.rejects(bench.transport.dial(listener.address, noHandler), { code: 'RESET' })
      near.send(10)
      far.send(10)
      await bench.until(() => far.receivedBytes === 10 && near.receivedBytes === 10, '10 B')
      await near.connection.close()
      const successor = await bench.transport.listen(listener.address, noHandler)
      await listener.close()
      await assert.rejects(bench.transport.listen(successor.address, noHandler), { code: 'USAGE' })
      await successor.close()
    })

    test('names the peer and the listener by address', async (bench) => {
      const listener = await bench.listen()
      const { near, far } = await bench.connect(listener)
      assert.notEqual(listener.address, '')
      assert.notEqual(near.connection.remote, '')
      assert.notEqual(far.connection.remote, '')
    })

    test(`${cycles} cycles of dial, send and close leave nothing open`, async (bench) => {
      await bench.settle()
      const before = process.getActiveResourcesInfo().length
      const listener = await bench.transport.listen(bench.address, echo)
      for (let cycle = 0; cycle < cycles; cycle += 1) {
        let received = 0
        const connection = await bench.transport.dial(listener.address, () => ({
          nextBuffer: () => new Uint8Array(10),
          onData: (bytes) => {
            received += bytes
          },
          onDrain() {},
          onClose() {},
        }))
        connection.send(new Uint8Array(10))
        if (cycle % 4 === 0) connection.abort(new SeamError('ABORTED', 'test reason'))
        await connection.close()
        if (cycle % 4 !== 0) assert.equal(received, 10)
      }
      await listener.close()
      await bench.until(() => process.getActiveResourcesInfo().length <= before, 'no open handle')
    })
  })
}

// ---- The two sides of a connection, and the rules they are held to.

interface PeerOptions {
  readonly paused?: boolean
  /** Overwrites the memory of a send as soon as it is released. */
  readonly scribble?: boolean
  /** Length of the next buffer. @default 65536 */
  readonly bufferBytes?: (peer: Peer) => number
  readonly onAccept?: (peer: Peer) => void
  readonly onData?: (peer: Peer, bytes: number) => void
}

interface Peer {
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
}

interface Pair {
  readonly near: Peer
  readonly far: Peer
}

interface Bench {
  readonly transport: Transport
  readonly address: string
  peer(options: PeerOptions): Peer
  listen(options?: PeerOptions, onAccept?: () => void, signal?: AbortSignal): Promise<Listener>
  /** The next connection that the listener accepted. */
  accepted(listener: Listener): Promise<Peer>
  connect(listener: Listener, options?: PeerOptions, signal?: AbortSignal): Promise<Pair>
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
    async connect(listener, options = {}, signal) {
      const near = bench.peer(options)
      const connection = await transport.dial(
        listener.address,
        near.accept,
        signal === undefined ? {} : { signal },
      )
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

const noHandler: Accept = () => ({
  nextBuffer: () => new Uint8Array(1),
  onData() {},
  onDrain() {},
  onClose() {},
})

const echo: Accept = (connection) => {
  const buffer = new Uint8Array(1000)
  return {
    nextBuffer: () => buffer,
    onData: (bytes) => void connection.send(buffer.slice(0, bytes)),
    onDrain() {},
    onClose() {},
  }
}

/** The peer aborted. Whether that shows as a reset or as an end depends on what the kernel saw first. */
function assertCut(peer: Peer): void {
  const reason = peer.closes[0]
  if (reason !== undefined) hasCode(reason, 'RESET')
}

function hasCode(error: unknown, code: string): error is SeamError {
  assert.ok(isSeamError(error), `a SeamError, not ${String(error)}`)
  assert.equal(error.code, code)
  return true
}
