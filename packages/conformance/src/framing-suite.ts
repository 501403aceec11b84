import assert from 'node:assert/strict'
import {
  type FrameDecoder,
  type FrameHandler,
  type Framing,
  type FramingFactory,
  isSeamError,
  type Message,
  PAYLOAD_ALIGNMENT,
} from '@seamline/core'
import { seededRandom } from './random.ts'
import { largestMessages, randomMessages, type SampleMessage, smallestMessages } from './sample-messages.ts'

export interface FramingSuiteOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => void) => void
  readonly framing: FramingFactory
  /**
   * Frames by what is wrong with them that a decoder with default options and a limit of 1 MiB must refuse with
   * `PROTOCOL` or `LIMIT`: lengths beyond everything, kinds that are none, payloads where there may be none.
   */
  readonly refused?: Readonly<Record<string, Uint8Array>>
}

/** Largest part of a frame that may pass through a decoder's own memory. */
const STAGE_BYTES = 64 * 1024
const MiB = 2 ** 20
const CANARY = 0xa5

/** Lengths of 2^31, 2^32 - 1, 2^40 and 2^63 as formats write them: of 4 and 8 bytes in both orders, and as varints. */
const LIES: readonly Uint8Array[] = [
  '00000080',
  '80000000',
  'ffffffff',
  '0000000000010000',
  '0000010000000000',
  '0000000000000080',
  '8000000000000000',
  '8080808008',
  'ffffffff0f',
  '808080808020',
  '80808080808080808001',
].map((hex) => Uint8Array.from(hex.match(/../g)!, (byte) => Number.parseInt(byte, 16)))

/** Defines the cases that every framing passes. */
export function framingSuite(options: FramingSuiteOptions): void {
  const { describe, it, framing: create, refused = {} } = options
  const framing = create()
  const samples = [...smallestMessages(), ...largestMessages(), ...randomMessages(1, 4)]
  const payloadSample = largestMessages().find(({ message }) => message.kind === 'tensor')!

  describe(`framing ${framing.id}`, () => {
    it('states protocol ids and an aligned headroom', () => {
      assert.match(framing.id, /^[a-z0-9-]+$/)
      assert.ok(framing.protocolIds.length > 0)
      for (const id of framing.protocolIds) assert.match(id, /^[0-9a-f]{64}$/)
      assert.equal(new Set(framing.protocolIds).size, framing.protocolIds.length)
      assert.equal(framing.headroomBytes % PAYLOAD_ALIGNMENT, 0)
    })

    it('carries every kind of message unchanged', () => {
      for (const sample of samples) {
        const inbox = decode(framing, framing.encode(sample.message, sample.payload))
        assert.deepEqual(inbox.messages, [sample])
      }
    })

    it('carries every kind of message unchanged without checksums', () => {
      const bare = create({ checksum: false })
      for (const sample of samples)
        assert.deepEqual(decode(bare, bare.encode(sample.message, sample.payload)).messages, [sample])
    })

    it('rounds no number: it carries it exactly or refuses to encode it', () => {
      const { message } = payloadSample
      for (const step of [2 ** 53 - 1, 2 ** 53, 2 ** 64, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        let frame: Uint8Array
        try {
          frame = framing.encode({ ...message, step } as Message)
        } catch (error) {
          assert.ok(isSeamError(error), `${step}: ${error}`)
          continue
        }
        assert.deepEqual(decode(framing, frame).messages[0]?.message, { ...message, step })
      }
    })

    it('carries every 64-bit run exactly and refuses what is none', () => {
      const { message } = payloadSample
      const edges = [0n, 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 63n]
      for (const run of [...edges, 2n ** 63n + 1n, 2n ** 64n - 1n, 0x0123456789abcdefn]) {
        const sent = { ...message, run } as Message
        assert.deepEqual(decode(framing, framing.encode(sent)).messages[0]?.message, sent)
        const room = new Uint8Array(framing.headroomBytes)
        const start = framing.encodeInto(sent, room, framing.headroomBytes, 0)
        assert.deepEqual(decode(framing, room.subarray(start)).messages[0]?.message, sent)
      }
      for (const run of [-1n, 2n ** 64n, 2n ** 64n + 5n, 1, '1']) {
        const room = new Uint8Array(framing.headroomBytes)
        const sent = { ...message, run } as unknown as Message
        assert.throws(() => framing.encode(sent), isSeamError, `a run of ${typeof run} ${run}`)
        assert.throws(() => framing.encodeInto(sent, room, framing.headroomBytes, 0), isSeamError)
      }
    })

    it('decodes the same messages however their bytes are cut', () => {
      const bytes = concat(samples.map(({ message, payload }) => framing.encode(message, payload)))
      const random = seededRandom(2)
      const cuts: (() => number)[] = [() => 1, () => 7, () => Number.POSITIVE_INFINITY]
      for (const mean of [3, 40, 700, 9000]) cuts.push(() => 1 + Math.floor(random() * 2 * mean))
      for (const cut of cuts) assert.deepEqual(decode(framing, bytes, cut).messages, samples)
    })

    it('gives the same frame from encodeInto as from encode and writes nothing else', () => {
      for (const { message, payload } of samples) {
        const frame = framing.encode(message, payload)
        const headerBytes = frame.byteLength - payload.byteLength
        for (const payloadStart of [headerBytes, headerBytes + 1, headerBytes + 333]) {
          const room = new Uint8Array(payloadStart + payload.byteLength + 64).fill(CANARY)
          const start = framing.encodeInto(message, room, payloadStart, payload.byteLength)
          assert.equal(start, payloadStart - headerBytes)
          assertOnlyCanary(room.subarray(0, start), 'in front of the frame')
          assertOnlyCanary(room.subarray(payloadStart), 'from the payload on')
          room.set(payload, payloadStart)
          assert.deepEqual(room.slice(start, payloadStart + payload.byteLength), new Uint8Array(frame))
        }
      }
    })

    it('refuses a room that is one byte short and leaves it as it was', () => {
      for (const { message, payload } of samples) {
        const headerBytes = framing.encode(message, payload).byteLength - payload.byteLength
        const room = new Uint8Array(headerBytes + payload.byteLength).fill(CANARY)
        refuses(['LIMIT'], () => framing.encodeInto(message, room, headerBytes - 1, payload.byteLength))
        assertOnlyCanary(room, 'in the room')
      }
    })

    it('has headroom for a tensor of 64 rows and for a token', () => {
      for (const { message } of [...largestMessages(), ...smallestMessages()]) {
        if (message.kind !== 'tensor' && message.kind !== 'token') continue
        const room = new Uint8Array(framing.headroomBytes + 64)
        assert.ok(framing.encodeInto(message, room, framing.headroomBytes, 64) >= 0)
      }
    })

    it('encodes into memory of its own', () => {
      const payload = payloadSample.payload.slice()
      const first = framing.encode(payloadSample.message, payload)
      const before = first.slice()
      payload.fill(0)
      for (const { message } of samples) framing.encode(message)
      assert.deepEqual(first.slice(), before)
    })

    it('reads a payload straight into its target', () => {
      const payload = Uint8Array.from({ length: 3 * STAGE_BYTES + 5 }, (_, i) => i * 7)
      const frame = framing.encode(payloadSample.message, payload)
      const headerBytes = frame.byteLength - payload.byteLength
      for (const firstBytes of [headerBytes, headerBytes + 1, headerBytes + 1000, frame.byteLength]) {
        const memory = new Uint8Array(payload.byteLength + 256).fill(CANARY)
        const target = memory.subarray(64, 64 + payload.byteLength + 100)
        const inbox = new Inbox(() => target)
        const decoder = framing.createDecoder(inbox, { maxPayloadBytes: payload.byteLength })
        let at = 0
        while (at < frame.byteLength) {
          const buffer = decoder.nextBuffer()
          assert.ok(buffer.byteLength > 0, 'nextBuffer is empty')
          const filled = at - headerBytes
          if (buffer.buffer === memory.buffer) {
            assert.equal(buffer.byteOffset, target.byteOffset + filled, 'offset of the buffer in the target')
            assert.ok(buffer.byteLength <= payload.byteLength - filled, 'a buffer beyond the payload')
          } else {
            assert.ok(at < firstBytes, `payload byte ${filled} is read elsewhere than into the target`)
            assert.ok(buffer.byteLength <= STAGE_BYTES, `a stage of ${buffer.byteLength} B`)
          }
          const end = Math.min(at + buffer.byteLength, at < firstBytes ? firstBytes : frame.byteLength)
          buffer.set(frame.subarray(at, end))
          decoder.received(end - at)
          at = end
        }
        const received = inbox.views[0]!
        assert.equal(received.buffer, memory.buffer, 'the payload is not in the target')
        assert.equal(received.byteOffset, target.byteOffset, 'the payload is not at the front of the target')
        assert.deepEqual(inbox.messages, [{ message: payloadSample.message, payload }])
        assertOnlyCanary(memory.subarray(0, 64), 'in front of the target')
        assertOnlyCanary(memory.subarray(64 + payload.byteLength), 'behind the payload')
      }
    })

    it('asks for one target a payload, before its message, and for none where there is no payload', () => {
      const calls: unknown[] = []
      const expected: unknown[] = []
      const decoder = framing.createDecoder(
        {
          target(message, payloadBytes) {
            calls.push(['target', message, payloadBytes])
            return new Uint8Array(payloadBytes)
          },
          message: (message, payload) => calls.push(['message', message, payload.byteLength]),
        },
        { maxPayloadBytes: MiB },
      )
      for (const { message, payload } of samples) {
        if (payload.byteLength > 0) expected.push(['target', message, payload.byteLength])
        expected.push(['message', message, payload.byteLength])
        feed(decoder, framing.encode(message, payload))
      }
      assert.deepEqual(calls, expected)
    })

    it('refuses a payload over the limit before it asks for memory', () => {
      const { message, payload } = payloadSample
      const frame = framing.encode(message, payload)
      for (const cut of [1, Number.POSITIVE_INFINITY]) {
        const inbox = new Inbox()
        const decoder = framing.createDecoder(inbox, { maxPayloadBytes: payload.byteLength - 1 })
        refuses(['LIMIT'], () => feed(decoder, frame, () => cut))
        assert.deepEqual([inbox.targets, inbox.messages], [0, []])
      }
      assert.equal(decode(framing, frame, undefined, payload.byteLength).messages.length, 1)
    })

    it('says nothing about a frame before its last byte', () => {
      for (const { message, payload } of [...smallAndRandom(), ...largestMessages()]) {
        const frame = framing.encode(message, payload)
        for (let cut = 0; cut < frame.byteLength; cut += frame.byteLength > 400 ? 41 : 1) {
          const inbox = new Inbox()
          const decoder = framing.createDecoder(inbox, { maxPayloadBytes: MiB })
          feed(decoder, frame.subarray(0, cut))
          assert.deepEqual(inbox.messages, [], `a ${message.kind} after ${cut} of ${frame.byteLength} B`)
          feed(decoder, frame.subarray(cut))
          assert.deepEqual(inbox.messages, [{ message, payload }])
        }
      }
    })

    it('refuses a header with any one bit flipped', () => {
      // A longer length waits for more: zeros, beyond any length that a decoder may accept.
      const filler = new Uint8Array(3 * STAGE_BYTES)
      for (const { message, payload } of smallAndRandom()) {
        const frame = framing.encode(message, payload)
        const headerBytes = frame.byteLength - payload.byteLength
        for (let bit = 0; bit < headerBytes * 8; bit++) {
          const inbox = new Inbox()
          const decoder = framing.createDecoder(inbox, { maxPayloadBytes: MiB })
          const where = `bit ${bit % 8} of byte ${bit >> 3} in a ${message.kind} frame`
          refuses(['PROTOCOL', 'LIMIT'], () => feedAll(decoder, [flipped(frame, bit), filler]), where)
          assert.deepEqual(inbox.messages, [], where)
        }
      }
    })

    it('makes a well-formed message or an error of a flipped bit without checksums', () => {
      const bare = create({ checksum: false })
      for (const { message, payload } of smallAndRandom()) {
        const frame = bare.encode(message, payload)
        for (let bit = 0; bit < frame.byteLength * 8; bit++) {
          const inbox = new Inbox()
          const decoder = bare.createDecoder(inbox, { maxPayloadBytes: MiB })
          survives(() => feed(decoder, flipped(frame, bit)))
          for (const found of inbox.messages)
            assert.deepEqual(decode(bare, bare.encode(found.message, found.payload)).messages, [found])
        }
      }
    })

    it('takes no length on trust: no memory is asked for what is not there', () => {
      const bare = create({ checksum: false })
      for (const { message, payload } of smallAndRandom()) {
        const frame = bare.encode(message, payload)
        const headerBytes = frame.byteLength - payload.byteLength
        for (const lie of LIES) {
          for (let at = 0; at + lie.byteLength <= headerBytes; at += headerBytes > 200 ? 7 : 1) {
            const bytes = new Uint8Array(frame)
            bytes.set(lie, at)
            const inbox = new Inbox()
            const decoder = bare.createDecoder(inbox, { maxPayloadBytes: MiB })
            const before = process.memoryUsage().arrayBuffers
            survives(() => feed(decoder, bytes))
            const asked = process.memoryUsage().arrayBuffers - before
            assert.ok(asked < 4 * MiB, `${asked} B for byte ${at} of a ${message.kind} frame`)
            for (const found of inbox.messages)
              assert.deepEqual(decode(bare, bare.encode(found.message, found.payload)).messages, [found])
          }
        }
      }
    })

    it('carries tensors of no rows and payloads of no bytes', () => {
      const { message } = payloadSample
      for (const shape of [
        [0, 0],
        [0, 4096],
        [1, 0],
      ] as const) {
        const sent = { ...message, rows: [], shape } as unknown as Message
        const room = new Uint8Array(framing.headroomBytes)
        const start = framing.encodeInto(sent, room, framing.headroomBytes, 0)
        for (const frame of [framing.encode(sent), room.subarray(start)]) {
          const inbox = decode(framing, frame)
          assert.deepEqual(inbox.messages, [{ message: sent, payload: new Uint8Array(0) }])
          assert.equal(inbox.targets, 0)
        }
      }
    })

    it('hands on a payload whose bits were flipped: its checksum is the business of the link', () => {
      const { message, payload } = payloadSample
      const frame = framing.encode(message, payload)
      const inbox = decode(framing, flipped(frame, frame.byteLength * 8 - 1))
      assert.deepEqual(inbox.messages, [{ message, payload: flipped(payload, payload.byteLength * 8 - 1) }])
    })

    it('survives bytes that are no frames', () => {
      const random = seededRandom(3)
      for (const checksum of [true, false]) {
        const any = create({ checksum })
        for (let round = 0; round < 500; round++) {
          const inbox = new Inbox()
          const decoder = any.createDecoder(inbox, { maxPayloadBytes: 1000 })
          const bytes = Uint8Array.from({ length: random() * 300 }, () => random() * 256)
          // Half of the rounds look like a short header, to get behind the check of its length.
          if (round % 2 === 0) bytes.set([random() * 64, 0, 0, 0].slice(0, bytes.byteLength))
          survives(() => feed(decoder, bytes))
          if (checksum) assert.deepEqual(inbox.messages, [])
        }
      }
    })

    it('refuses a frame whose sender disagrees on checksums', () => {
      for (const checksum of [true, false]) {
        const frame = create({ checksum: !checksum }).encode(payloadSample.message, payloadSample.payload)
        const decoder = create({ checksum }).createDecoder(new Inbox(), { maxPayloadBytes: MiB })
        refuses(['PROTOCOL'], () => feed(decoder, frame))
      }
    })

    for (const [name, frame] of Object.entries(refused)) {
      it(`refuses ${name}`, () => {
        for (const cut of [1, Number.POSITIVE_INFINITY]) {
          const inbox = new Inbox()
          const decoder = framing.createDecoder(inbox, { maxPayloadBytes: MiB })
          refuses(['PROTOCOL', 'LIMIT'], () => feed(decoder, frame, () => cut))
          assert.deepEqual([inbox.targets, inbox.messages], [0, []])
        }
      })
    }

    it('refuses a payload on a kind that carries none', () => {
      for (const { message, payload } of largestMessages()) {
        if (payload.byteLength > 0) continue
        assert.throws(() => framing.encode(message, new Uint8Array(1)), isSeamError)
        assert.throws(() => framing.encodeInto(message, new Uint8Array(9000), 8192, 1), isSeamError)
      }
    })

    it('is dead after an error', () => {
      const good = framing.encode(payloadSample.message, payloadSample.payload)
      const inbox = new Inbox()
      const decoder = framing.createDecoder(inbox, { maxPayloadBytes: MiB })
      const bad = flipped(good, (good.byteLength - payloadSample.payload.byteLength - 1) * 8)
      refuses(['PROTOCOL', 'LIMIT'], () => feed(decoder, concat([good, bad, good])))
      assert.equal(inbox.messages.length, 1)
      assert.throws(() => decoder.nextBuffer(), isSeamError)
      assert.throws(() => decoder.received(0), isSeamError)
      assert.equal(inbox.messages.length, 1)
    })

    it('is dead after its handler threw', () => {
      const thrown = new Error('from the handler')
      const handler: FrameHandler = {
        target: (_, payloadBytes) => new Uint8Array(payloadBytes),
        message() {
          throw thrown
        },
      }
      const decoder = framing.createDecoder(handler, { maxPayloadBytes: MiB })
      const frame = framing.encode(payloadSample.message, payloadSample.payload)
      assert.throws(() => feed(decoder, frame), thrown)
      assert.throws(() => decoder.received(0))
    })

    it('refuses more bytes than its buffer holds', () => {
      const { message, payload } = payloadSample
      const frame = framing.encode(message, payload)
      for (const fed of [0, frame.byteLength - payload.byteLength, frame.byteLength - 1]) {
        const inbox = new Inbox()
        const decoder = framing.createDecoder(inbox, { maxPayloadBytes: MiB })
        feed(decoder, frame.subarray(0, fed))
        const { byteLength } = decoder.nextBuffer()
        assert.throws(() => decoder.received(byteLength + 1), isSeamError)
        assert.deepEqual(inbox.messages, [])
      }
    })

    it('keeps decoders and encoders apart', () => {
      const inboxes = [new Inbox(), new Inbox()]
      const decoders = inboxes.map((inbox) => framing.createDecoder(inbox, { maxPayloadBytes: MiB }))
      const sent = [samples, samples.toReversed()]
      const streams = sent.map((list) => concat(list.map((s) => framing.encode(s.message, s.payload))))
      for (let at = 0; at < streams[0]!.byteLength; at += 97) {
        for (const i of [0, 1]) feed(decoders[i]!, streams[i]!.subarray(at, at + 97))
        framing.encode(payloadSample.message, payloadSample.payload)
      }
      assert.deepEqual(
        inboxes.map((inbox) => inbox.messages),
        sent,
      )
    })
  })
}

function smallAndRandom(): SampleMessage[] {
  return [...smallestMessages(), ...randomMessages(4)]
}

/** A handler that keeps what it is told, and refuses to be asked for more memory than a case may ask for. */
class Inbox implements FrameHandler {
  readonly messages: SampleMessage[] = []
  readonly views: Uint8Array[] = []
  targets = 0
  readonly #target: (payloadBytes: number) => Uint8Array

  constructor(target = (payloadBytes: number) => new Uint8Array(payloadBytes)) {
    this.#target = target
  }

  target(_: Message, payloadBytes: number): Uint8Array {
    assert.ok(payloadBytes > 0 && payloadBytes <= MiB, `a target of ${payloadBytes} B asked for`)
    this.targets++
    return this.#target(payloadBytes)
  }

  message(message: Message, payload: Uint8Array): void {
    this.views.push(payload)
    this.messages.push({ message, payload: new Uint8Array(payload) })
  }
}

function decode(framing: Framing, bytes: Uint8Array, cut?: () => number, maxPayloadBytes = MiB): Inbox {
  const inbox = new Inbox()
  feed(framing.createDecoder(inbox, { maxPayloadBytes }), bytes, cut)
  return inbox
}

/** Hands `bytes` to the decoder in pieces of at most `cut()` bytes. */
function feed(decoder: FrameDecoder, bytes: Uint8Array, cut = () => Number.POSITIVE_INFINITY): void {
  for (let at = 0; at < bytes.byteLength; ) {
    const buffer = decoder.nextBuffer()
    assert.ok(buffer.byteLength > 0, 'nextBuffer is empty')
    const piece = bytes.subarray(at, at + Math.min(buffer.byteLength, cut()))
    buffer.set(piece)
    decoder.received(piece.byteLength)
    at += piece.byteLength
  }
}

function feedAll(decoder: FrameDecoder, pieces: readonly Uint8Array[]): void {
  for (const piece of pieces) feed(decoder, piece)
}

/** Runs `body`, which may end in an error that a decoder may throw and in no other. */
function survives(body: () => void): void {
  try {
    body()
  } catch (error) {
    if (!isSeamError(error) || (error.code !== 'PROTOCOL' && error.code !== 'LIMIT')) throw error
  }
}

function refuses(codes: readonly string[], body: () => void, where = ''): void {
  try {
    body()
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    assert.ok(isSeamError(error) && codes.includes(error.code), `${where} ended in ${error}`)
    return
  }
  assert.fail(`${where || 'this'} was not refused with ${codes.join(' or ')}`)
}

function flipped(bytes: Uint8Array, bit: number): Uint8Array {
  const copy = new Uint8Array(bytes)
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.byteLength
  }
  return all
}

function assertOnlyCanary(bytes: Uint8Array, where: string): void {
  const at = bytes.findIndex((byte) => byte !== CANARY)
  assert.equal(at, -1, `byte ${at} ${where} was written`)
}
