import { transportSuite } from '@seamline/conformance'
import { type Connection, type ConnectionHandler, SeamError, type Transport } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { type EmulatedOptions, emulated } from '../src/emulated.ts'
import { memory } from '../src/memory.ts'
import { tcp } from '../src/tcp.ts'
import { silentListener } from './support/silent-listener.ts'

const slow = { delayMs: 2, jitterMs: 1, bitsPerSecond: 10e9 }

describe('emulated memory', () => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: emulated(memory(), slow), address: 'stage:0' }),
  })
})

describe('emulated tcp', () => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: emulated(tcp(), slow), address: '127.0.0.1:0' }),
    unanswered: silentListener,
    cycles: 100,
  })
})

describe('emulated memory without a rate', () => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: emulated(memory(), { delayMs: 0 }), address: 'stage:0' }),
  })
})

/** Where time stands still until the next wake-up, which comes `lateNs` after the time that was asked for. */
function fakeTime(lateNs: number) {
  const wakes = new Set<{ dueNs: number; action: () => void }>()
  let nowNs = 5e12
  return {
    clock: { nowNs: () => nowNs },
    wakeAt(dueNs: number, _exact: boolean, action: () => void) {
      const wake = { dueNs, action }
      wakes.add(wake)
      return () => wakes.delete(wake)
    },
    /** Jumps from wake-up to wake-up up to `untilNs`. */
    advance(untilNs: number) {
      for (;;) {
        const [next] = [...wakes].sort((one, other) => one.dueNs - other.dueNs)
        if (next === undefined || next.dueNs > untilNs) break
        wakes.delete(next)
        nowNs = Math.max(nowNs, next.dueNs + lateNs)
        next.action()
      }
      nowNs = untilNs
    },
    pending: () => wakes.size,
  }
}

/** An inner transport that notes what is sent when. */
function recorder(nowNs: () => number) {
  const sent: Array<{ bytes: Uint8Array; atNs: number }> = []
  const events: string[] = []
  const state: { handler?: ConnectionHandler; full: boolean } = { full: false }
  const connection: Connection = {
    remote: 'recorder',
    queuedBytes: 0,
    send(bytes) {
      sent.push({ bytes: bytes.slice(), atNs: nowNs() })
      return !state.full
    },
    pause() {},
    resume() {},
    async close() {
      events.push('close')
    },
    abort(reason) {
      events.push(`abort ${reason.code}`)
    },
  }
  const transport: Transport = {
    id: 'recorder',
    authenticates: true,
    async dial(_address, accept) {
      state.handler = accept(connection)
      return connection
    },
    listen: () => Promise.reject(new Error('not needed')),
  }
  return { transport, sent, events, state }
}

interface Heard {
  drains: number
  released: number[]
  bytes: number[]
  closes: Array<SeamError | undefined>
}

async function open(options: EmulatedOptions, lateNs = 0) {
  const time = fakeTime(lateNs)
  const inner = recorder(time.clock.nowNs)
  const heard: Heard = { drains: 0, released: [], bytes: [], closes: [] }
  const transport = emulated(inner.transport, options, time.clock, time.wakeAt)
  const memory = new Uint8Array(64)
  const connection = await transport.dial('anywhere', () => ({
    nextBuffer: () => memory,
    onData: (bytes) => heard.bytes.push(...memory.subarray(0, bytes)),
    onDrain: () => {
      heard.drains += 1
    },
    onClose: (reason) => heard.closes.push(reason),
  }))
  return { time, inner, heard, transport, connection }
}

/** MurmurHash3's finalizer over a Weyl sequence, in whole numbers of any size. */
function expectedJitter(seed: number, count: number): number[] {
  const mask = (1n << 32n) - 1n
  return Array.from({ length: count }, (_, i) => {
    let h = (BigInt(seed) + BigInt(i + 1) * 0x9e3779b9n) & mask
    h = ((h ^ (h >> 16n)) * 0x85ebca6bn) & mask
    h = ((h ^ (h >> 13n)) * 0xc2b2ae35n) & mask
    return Number(h ^ (h >> 16n)) / 2 ** 32
  })
}

describe('the schedule', () => {
  it('is transmission at the rate, first in first out, then delay and jitter, in order', async () => {
    const options = { delayMs: 20, jitterMs: 3, bitsPerSecond: 100e6, seed: 7 }
    const { time, inner, connection } = await open(options)
    const startNs = time.clock.nowNs()
    const sends: Array<[atMs: number, bytes: number]> = [
      [0, 16384],
      [0, 40_000],
      [0.1, 1],
      [2, 16385],
      [50, 100_000],
      [51, 0],
      [51, 300],
    ]
    // The pieces, by the definition of the link.
    const pieces: Array<{ bytes: number; dueMs: number }> = []
    const jitter = expectedJitter(7, 100)
    let freeMs = 0
    let dueMs = 0
    for (const [atMs, bytes] of sends) {
      for (let left = bytes; left > 0; left -= 16384) {
        const piece = Math.min(left, 16384)
        freeMs = Math.max(freeMs, atMs) + (piece * 8) / 100e3
        dueMs = Math.max(dueMs, freeMs + 20 + 3 * jitter[pieces.length]!)
        pieces.push({ bytes: piece, dueMs })
      }
    }
    for (const [atMs, bytes] of sends) {
      time.advance(startNs + atMs * 1e6)
      connection.send(new Uint8Array(bytes))
    }
    time.advance(startNs + 1e9)
    expect(inner.sent.map(({ bytes }) => bytes.length - 4)).toEqual(pieces.map(({ bytes }) => bytes))
    inner.sent.forEach(({ atNs }, i) => {
      expect((atNs - startNs) / 1e6).toBeCloseTo(pieces[i]!.dueMs, 5)
    })
    expect(time.pending()).toBe(0)
  })

  it('is the same for the same seed and another for another', async () => {
    const times = async (seed: number) => {
      const { time, inner, connection } = await open({ delayMs: 1, jitterMs: 50, seed })
      const startNs = time.clock.nowNs()
      for (let i = 0; i < 20; i++) connection.send(new Uint8Array(10))
      time.advance(startNs + 1e9)
      return inner.sent.map(({ atNs }) => atNs - startNs)
    }
    expect(await times(3)).toEqual(await times(3))
    expect(await times(3)).not.toEqual(await times(4))
  })

  it('does not drift when every wake-up is late', async () => {
    const { time, inner, connection } = await open({ delayMs: 10, bitsPerSecond: 8e6 }, 0.7e6)
    const startNs = time.clock.nowNs()
    // 1 MB/s: the sends are transmitted at 1, 2, … ms.
    for (let i = 0; i < 100; i++) connection.send(new Uint8Array(1000))
    time.advance(startNs + 1e9)
    expect(inner.sent.map(({ atNs }) => (atNs - startNs) / 1e6)).toEqual(
      Array.from({ length: 100 }, (_, i) => 11 + i + 0.7),
    )
  })
})

describe('backpressure', () => {
  it('counts what is not yet transmitted, not what is on the way', async () => {
    const { time, heard, connection } = await open({
      delayMs: 1000,
      bitsPerSecond: 8e6,
      highWaterMarkBytes: 10_000,
    })
    const startNs = time.clock.nowNs()
    const send = (index: number) => connection.send(new Uint8Array(4000), () => heard.released.push(index))
    expect([send(0), send(1), send(2)]).toEqual([true, true, false])
    expect(connection.queuedBytes).toBe(12_000)
    time.advance(startNs + 3.9e6)
    expect([heard.released, heard.drains, connection.queuedBytes]).toEqual([[], 0, 12_000])
    time.advance(startNs + 4e6)
    expect([heard.released, heard.drains, connection.queuedBytes]).toEqual([[0], 1, 8000])
    time.advance(startNs + 12e6)
    expect([heard.released, heard.drains, connection.queuedBytes]).toEqual([[0, 1, 2], 1, 0])
  })

  it('stops at once when the inner connection is full and goes on when it drains', async () => {
    const { time, inner, connection } = await open({ delayMs: 10 })
    const startNs = time.clock.nowNs()
    inner.state.full = true
    connection.send(new Uint8Array(3 * 16384))
    time.advance(startNs + 100e6)
    expect(inner.sent.length).toBe(1)
    connection.send(new Uint8Array(1000))
    time.advance(startNs + 200e6)
    expect([inner.sent.length, connection.queuedBytes, time.pending()]).toEqual([1, 1000, 0])
    inner.state.full = false
    inner.state.handler?.onDrain()
    time.advance(startNs + 300e6)
    // What was on the way arrives at the drain; what was held at the transmitter takes its whole way from there.
    const at = inner.sent.map(({ bytes, atNs }) => [bytes.length - 4, (atNs - startNs) / 1e6])
    expect(at).toEqual([
      [16384, 10],
      [16384, 200],
      [16384, 200],
      [1000, 210],
    ])
  })

  it('holds at most 16 MiB on the way without a rate', async () => {
    const { time, connection } = await open({ delayMs: 10 })
    for (let i = 0; i < 20; i++) connection.send(new Uint8Array(1 << 20))
    time.advance(time.clock.nowNs())
    expect(connection.queuedBytes).toBe(4 << 20)
  })
})

describe('the end', () => {
  const lengthField = (bytes: number) => [bytes & 255, (bytes >> 8) & 255, bytes >> 16, 0]
  const receive = (handler: ConnectionHandler | undefined, bytes: readonly number[]) => {
    for (let rest = bytes; rest.length > 0; ) {
      const target = handler?.nextBuffer() ?? new Uint8Array(0)
      const piece = rest.slice(0, target.length)
      target.set(piece)
      rest = rest.slice(piece.length)
      handler?.onData(piece.length)
    }
  }

  it('passes through the delay behind the bytes, and both ends close the inner connection', async () => {
    const { time, inner, heard, connection } = await open({ delayMs: 10 })
    const startNs = time.clock.nowNs()
    connection.send(Uint8Array.of(1, 2, 3))
    void connection.close()
    receive(inner.state.handler, [...lengthField(2), 8, 9, ...lengthField(0)])
    expect(heard.bytes).toEqual([8, 9])
    time.advance(startNs + 9.9e6)
    expect([inner.sent.length, inner.events]).toEqual([0, []])
    time.advance(startNs + 10e6)
    expect(inner.sent.map(({ bytes }) => [...bytes])).toEqual([[...lengthField(3), 1, 2, 3], lengthField(0)])
    expect(inner.events).toEqual(['close'])
    inner.state.handler?.onClose(undefined)
    expect(heard.closes).toEqual([undefined])
  })

  it('is a RESET when the inner connection ends before both directions did', async () => {
    const { inner, heard } = await open({ delayMs: 10 })
    receive(inner.state.handler, lengthField(0))
    inner.state.handler?.onClose(undefined)
    expect(heard.closes.map((reason) => reason?.code)).toEqual(['RESET'])
  })

  it('drops by an abort what is on the way', async () => {
    const { time, inner, heard, connection } = await open({ delayMs: 10 })
    const startNs = time.clock.nowNs()
    connection.send(new Uint8Array(100), () => heard.released.push(0))
    time.advance(startNs + 5e6)
    connection.send(new Uint8Array(100), () => heard.released.push(1))
    connection.abort(new SeamError('USAGE', 'test reason'))
    expect([inner.events, time.pending()]).toEqual([['abort ABORTED'], 0])
    inner.state.handler?.onClose(new SeamError('ABORTED', 'of the inner connection'))
    time.advance(startNs + 1e9)
    expect(inner.sent).toEqual([])
    expect(heard.released).toEqual([0, 1])
    expect(heard.closes.map((reason) => reason?.message)).toEqual(['test reason'])
  })
})

describe('what does not fit', () => {
  it('a peer that is not wrapped', async () => {
    const near = memory()
    const listener = await near.listen('bare:0', (connection) => {
      connection.send(Buffer.from('bare bytes'))
      return { nextBuffer: () => new Uint8Array(10), onData() {}, onDrain() {}, onClose() {} }
    })
    const reason = await new Promise<SeamError | undefined>((resolve, reject) => {
      const memory = new Uint8Array(10)
      emulated(near, { delayMs: 0 })
        .dial(listener.address, () => ({
          nextBuffer: () => memory,
          onData() {},
          onDrain() {},
          onClose: resolve,
        }))
        .catch(reject)
    })
    expect([reason?.code, reason?.message]).toEqual(['PROTOCOL', expect.stringContaining('both ends')])
  })

  it.each([
    { delayMs: -1 },
    { delayMs: Number.NaN },
    { delayMs: 60_001 },
    { delayMs: 1, jitterMs: -1 },
    { delayMs: 1, bitsPerSecond: 999 },
    { delayMs: 1, bitsPerSecond: Number.NaN },
  ])('%o', (options) => {
    expect(() => emulated(memory(), options)).toThrow(expect.objectContaining({ code: 'USAGE' }))
  })

  it('says what it wraps', () => {
    const inner = { ...memory(), authenticates: true }
    const { id, authenticates } = emulated(inner, { delayMs: 1 })
    expect([id, authenticates]).toEqual(['emulated-memory', true])
  })
})
