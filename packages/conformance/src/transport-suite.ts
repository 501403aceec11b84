import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { SeamError } from '@seamline/core'
import { seededRandom } from './random.ts'
import { type Skip, skipping } from './skip.ts'
import {
  assertCut,
  type Bench,
  echo,
  hasCode,
  KiB,
  MiB,
  noHandler,
  type Peer,
  runCase,
  type TransportFixture,
} from './transport-peer.ts'

export type { TransportFixture } from './transport-peer.ts'

export interface TransportSuiteOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => Promise<void>) => void
  /** Called once for each case. */
  readonly create: () => Promise<TransportFixture> | TransportFixture
  /** Makes an address where a dial is neither answered nor refused. Left out where the transport has none. */
  readonly unanswered?: () => Promise<{ readonly address: string; dispose(): Promise<void> }>
  /** For a transport that notices when packets just stop. Left out where it claims no such thing. */
  readonly keepAlive?: KeepAlive
  /** Dial and close cycles of the leak case. @default 1000 */
  readonly cycles?: number
  /** Whether one send of 64 MiB is among the cases; false where that takes longer than 2 s. @default true */
  readonly large?: boolean
  readonly skip?: readonly Skip[]
  /** Longest time that a case waits for what it expects. @default 20000 */
  readonly deadlineMs?: number
}

export interface KeepAlive {
  /** Longest silence in milliseconds that the transport takes for life; below the deadline of a case. */
  readonly ms: number
  /**
   * Puts a hop in front of the listener at `address`, as `tcpProxy` is one. After `stall()` nothing passes it in either direction,
   * no byte, no end and no reset, and nothing is closed.
   */
  through(address: string): Promise<{ readonly address: string; stall(): void; close(): Promise<void> }>
}

/**
 * Defines the cases that every transport passes. Besides what a case asserts, each connection of each case is held
 * to the rules of `ConnectionHandler` and `Connection.send`: content and order of the bytes, calls that never overlap,
 * nothing after `onClose`, `released` exactly once, in order and never during a send.
 */
export function transportSuite(options: TransportSuiteOptions): void {
  const {
    describe,
    create,
    unanswered,
    keepAlive,
    cycles = 1000,
    large = true,
    deadlineMs = 20_000,
  } = options
  const { it, finish } = skipping(options.it, options.skip)

  function test(name: string, body: (bench: Bench) => Promise<void>): void {
    it(name, () => runCase(create, deadlineMs, body))
  }

  describe('transport: bytes', () => {
    test('states its id and whether it authenticates', async ({ transport }) => {
      assert.match(transport.id, /^[a-z0-9][a-z0-9-]*$/)
      assert.equal(typeof transport.authenticates, 'boolean')
    })

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

    if (large) {
      test('carries one send of 64 MiB through a buffer of 64 KiB', async (bench) => {
        const { near, far } = await bench.pair()
        near.send(64 * MiB)
        await bench.until(() => far.receivedBytes === 64 * MiB && near.releases === 1, 'the send')
      })
    }

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
      near.abort(reason)
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

    for (const side of ['dialling', 'accepting'] as const) {
      test(`nothing is delivered after an abort from inside onData, ${side} side`, async (bench) => {
        const aborting = {
          bufferBytes: () => 1000,
          onData: (peer: Peer) => peer.abort(new SeamError('ABORTED', 'test reason')),
        }
        const pair = await bench.pair(...(side === 'dialling' ? [aborting, {}] : [{}, aborting]))
        const [receiver, sender] = side === 'dialling' ? [pair.near, pair.far] : [pair.far, pair.near]
        sender.send(256 * KiB)
        await bench.until(() => receiver.closes.length > 0 && sender.closes.length > 0, 'onClose of both')
        assert.equal(receiver.deliveries, 1)
        assert.equal(receiver.closes[0]?.code, 'ABORTED')
        assertCut(sender)
      })
    }

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

    if (keepAlive !== undefined) {
      const connect = async (bench: Bench) => {
        const listener = await bench.listen()
        const hop = await keepAlive.through(listener.address)
        const pair = await bench.connect(listener, {}, undefined, hop.address)
        pair.near.send(1000)
        pair.far.send(1000)
        await bench.until(
          () => pair.near.receivedBytes === 1000 && pair.far.receivedBytes === 1000,
          'bytes through the hop',
        )
        return { ...pair, hop }
      }

      test('a peer whose packets just stop is given up on both sides', async (bench) => {
        const { near, far, hop } = await connect(bench)
        try {
          hop.stall()
          near.send(1000)
          await bench.until(() => near.closes.length > 0 && far.closes.length > 0, 'onClose of both')
          for (const { closes } of [near, far]) {
            assert.ok(
              ['RESET', 'TIMEOUT'].includes(closes[0]?.code ?? ''),
              `RESET or TIMEOUT, not ${closes[0]}`,
            )
          }
        } finally {
          await hop.close()
        }
      })

      test('a connection that is idle for twice the keep-alive time stays open', async (bench) => {
        const { near, far, hop } = await connect(bench)
        try {
          await new Promise((resolve) => setTimeout(resolve, 2 * keepAlive.ms))
          near.send(1000)
          await bench.until(() => far.receivedBytes === 2000, 'bytes after the silence')
        } finally {
          await hop.close()
        }
      })
    }

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
  finish()
}
