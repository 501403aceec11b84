// Faults reported on other systems, each asked of both framings.
import { isSeamError, type Message, type TensorMessage } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { msgpack, protobuf } from '../src/index.ts'
import { bytes, decodeAll, decodeOne, field, frameOf, varint } from './frames.ts'
import { framings, vector } from './vectors.ts'

const MiB = 2 ** 20
const tensor = vector('tensor') as TensorMessage
const be64 = (value: bigint) => Buffer.from(value.toString(16).padStart(16, '0'), 'hex')

/** Hand-made headers of an empty tensor: 64-bit `run` and `step` as written, and the length of its payload. */
const handMade = {
  protobuf: (payloadBytes: bigint, step = 0n, run = 0n) => {
    const fixed = Buffer.alloc(8)
    fixed.writeBigUInt64LE(run)
    const content = bytes`09 ${fixed} 10 ${varint(step)} 32 02 01 01 38 01`
    return frameOf(bytes`${field(8, content)} 7a ${varint(payloadBytes)}`)
  },
  msgpack: (payloadBytes: bigint, step = 0n, run = 0n) =>
    frameOf(
      bytes`93 08 cf ${be64(payloadBytes)} 9a cf ${be64(run)} cf ${be64(step)} 00 00 90 92 01 01 01 a0 00 c0`,
    ),
}

function codeOf(body: () => unknown): string {
  try {
    body()
  } catch (error) {
    return isSeamError(error) ? error.code : String(error)
  }
  return 'none'
}

/** Decodes with every piece of `frame` handed over alone; targets are those that `target` gives. */
function decodeInto(
  framing: ReturnType<typeof protobuf>,
  frame: Uint8Array,
  target: (bytes: number) => Uint8Array,
  cut = Infinity,
) {
  const payloads: Uint8Array[] = []
  const decoder = framing.createDecoder(
    { target: (_, payloadBytes) => target(payloadBytes), message: (_, payload) => payloads.push(payload) },
    { maxPayloadBytes: 8 * MiB },
  )
  for (let at = 0; at < frame.byteLength; ) {
    const buffer = decoder.nextBuffer()
    const piece = frame.subarray(at, at + Math.min(buffer.byteLength, cut))
    buffer.set(piece)
    decoder.received(piece.byteLength)
    at += piece.byteLength
  }
  return payloads
}

for (const { id, create } of framings) {
  const framing = create()
  const made = handMade[id as keyof typeof handMade]

  describe(`${id}:`, () => {
    it('fault 4, a limit of 4 MiB: one byte less and the limit pass in both directions, one more is refused', () => {
      for (const payloadBytes of [4 * MiB - 1, 4 * MiB, 4 * MiB + 1]) {
        const payload = Buffer.alloc(payloadBytes, 'seam')
        const frame = framing.encode(tensor, payload)
        if (payloadBytes <= 4 * MiB) {
          const found = decodeAll(framing, frame, 4 * MiB)
          expect(found.length).toBe(1)
          expect(found[0]![0]).toEqual(tensor)
          expect(found[0]![1].equals(payload)).toBe(true)
        } else {
          expect(codeOf(() => decodeAll(framing, frame, 4 * MiB))).toBe('LIMIT')
          expect(decodeAll(framing, frame, payloadBytes)[0]![1].equals(payload)).toBe(true)
        }
      }
    })

    it('fault 9, a length of 2^31 - 1 with ten bytes behind it is refused, and so is every other one too long', () => {
      const ten = Buffer.from('00010203040506070809', 'hex')
      for (const claimed of [11, 2 ** 16 - 1, 2 ** 31 - 1, 2 ** 32 - 1]) {
        const be32 = Buffer.alloc(4)
        be32.writeUInt32BE(claimed)
        const length = varint(BigInt(claimed))
        const frames =
          create === protobuf
            ? [1, 5, 6, 8, 100].map((number) =>
                frameOf(
                  bytes`${field(8, bytes`32 02 01 01 38 01 ${varint(BigInt(number * 8 + 2))} ${length} ${ten}`)} 7a 00`,
                ),
              )
            : [0xc6, 0xdb, 0xdd, 0xdf, 0xc9].map((token) =>
                frameOf(
                  bytes`93 08 00 9b 00 00 00 00 90 92 01 01 01 a0 00 c0 ${Buffer.of(token)} ${be32} ${ten}`,
                ),
              )
        for (const frame of frames) expect(codeOf(() => decodeAll(framing, frame))).toBe('PROTOCOL')
      }
    })

    it('fault 10, a header of any length leaves floats where the receiver wants them', () => {
      const values = Float32Array.of(1.5, -2.25, 3e38, 0.1)
      const payload = new Uint8Array(values.buffer)
      const lengths = new Set<number>()
      for (let name = 0; name < 8; name++) {
        const frame = framing.encode({ ...tensor, codec: 'c'.repeat(name) }, payload)
        lengths.add((frame.byteLength - payload.byteLength) % 4)
        for (const cut of [1, 3, Infinity]) {
          const memory = new ArrayBuffer(128)
          const [received] = decodeInto(framing, frame, (count) => new Uint8Array(memory, 64, count), cut)
          expect(received!.byteOffset).toBe(64)
          expect(new Float32Array(received!.buffer, received!.byteOffset, 4)).toEqual(values)
        }
      }
      expect(lengths).toEqual(new Set([0, 1, 2, 3]))
    })

    it('fault 11, windows at any offset of larger memory give the same bytes', () => {
      const values = Float32Array.of(1.5, -2.25, 3e38, 0.1)
      const payload = new Uint8Array(values.buffer)
      const expected = framing.encode(tensor, payload)
      for (const offset of [1, 2, 3, 5]) {
        const room = new Uint8Array(new ArrayBuffer(4096), offset, 3000)
        const start = framing.encodeInto(tensor, room, 2048, payload.byteLength)
        room.set(payload, 2048)
        const frame = room.subarray(start, 2048 + payload.byteLength)
        expect(Buffer.from(frame)).toEqual(Buffer.from(expected))
        const window = new Uint8Array(new ArrayBuffer(100), offset, 40)
        const [received] = decodeInto(framing, frame, () => window)
        expect([received!.buffer === window.buffer, received!.byteOffset]).toEqual([true, offset])
        expect(new Float32Array(received!.slice().buffer)).toEqual(values)
        const copy = new Uint8Array(offset + payload.byteLength)
        copy.set(payload, offset)
        expect(Buffer.from(framing.encode(tensor, copy.subarray(offset)))).toEqual(Buffer.from(expected))
      }
    })

    it('fault 13, 64-bit integers beyond 2^53 are exact or refused, never rounded', () => {
      for (const run of [
        2n ** 53n - 1n,
        2n ** 53n,
        2n ** 53n + 1n,
        2n ** 63n - 1n,
        2n ** 63n,
        2n ** 64n - 1n,
      ]) {
        expect(decodeOne(framing, made(0n, 0n, run))).toMatchObject({ run })
        expect(decodeOne(framing, framing.encode({ ...tensor, run }))).toEqual({ ...tensor, run })
      }
      const step = 2 ** 53 - 1
      expect(decodeOne(framing, made(0n, BigInt(step)))).toMatchObject({ step })
      expect(decodeOne(framing, framing.encode({ ...tensor, step }))).toEqual({ ...tensor, step })
      for (const beyond of [2n ** 53n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 63n + 1n, 2n ** 64n - 1n]) {
        const decode = () => decodeOne(framing, made(0n, beyond))
        expect(codeOf(decode)).toBe('PROTOCOL')
        expect(decode).toThrow(`tensor.step: ${beyond} is not an integer from 0 to 9007199254740991`)
        const numbers: Message[] = [
          { ...tensor, step: Number(beyond) },
          { ...tensor, sentNs: Number(beyond) },
          { kind: 'heartbeat', sentNs: 0, sentSteps: 0, completedSteps: 0, busyNs: Number(beyond) },
          { kind: 'probe', id: 1, reply: false, t1Ns: Number(beyond), t2Ns: 0, t3Ns: 0 },
          { kind: 'credit', scope: 'edge', id: 1, limit: Number(beyond) },
          { kind: 'traceFetch', request: 1, reply: true, dropped: 0, rssBytes: Number(beyond) },
        ]
        for (const message of numbers) {
          expect(codeOf(() => framing.encode(message))).toBe('USAGE')
          expect(codeOf(() => framing.encodeInto(message, new Uint8Array(4096), 2048, 0))).toBe('USAGE')
        }
        expect(codeOf(() => framing.encode({ ...tensor, step: beyond } as never))).toBe('USAGE')
      }
    })

    it('fault 15, lengths of 2^63, 2^40 and 1 GiB with one byte behind them ask for no memory', () => {
      for (const claimed of [2n ** 63n, 2n ** 40n, 2n ** 31n, 2n ** 30n, BigInt(MiB) + 1n]) {
        const asked: number[] = []
        const decoder = framing.createDecoder(
          { target: (_, count) => new Uint8Array(asked.push(count)), message: () => asked.push(-1) },
          { maxPayloadBytes: MiB },
        )
        const before = process.memoryUsage().arrayBuffers
        const frame = Buffer.concat([made(claimed), Buffer.of(1)])
        decoder.nextBuffer().set(frame)
        expect(codeOf(() => decoder.received(frame.byteLength))).toBe(
          claimed < 2n ** 31n ? 'LIMIT' : 'PROTOCOL',
        )
        expect(asked).toEqual([])
        expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(MiB)
      }
      expect(decodeAll(framing, Buffer.concat([made(1n), Buffer.of(1)]))[0]![1]).toEqual(Buffer.of(1))
    })

    it('fault 16, tensors of no elements pass and ask for no target', () => {
      for (const dtype of ['f32', 'f16', 'bf16', 'q8_0', 'i32'] as const) {
        for (const shape of [
          [0, 0],
          [0, 4096],
          [7, 0],
        ] as const) {
          for (const checksum of [-1, 0]) {
            const message = { ...tensor, dtype, shape, checksum, rows: [] }
            const frame = framing.encode(message, new Uint8Array(0))
            const asked: number[] = []
            expect(decodeInto(framing, frame, (count) => new Uint8Array(asked.push(count)), 1).length).toBe(1)
            expect(asked).toEqual([])
            expect(decodeAll(framing, Buffer.concat([frame, frame]))).toEqual([
              [message, Buffer.alloc(0)],
              [message, Buffer.alloc(0)],
            ])
          }
        }
      }
    })
  })
}

describe('a frame cut at any byte', () => {
  for (const { id, create, vectors } of framings) {
    it(`${id} waits for the rest, or refuses what stands in its place, and never makes another message of it`, () => {
      for (const { message, payload, frame } of vectors) {
        const whole = Buffer.from(frame, 'hex')
        const headerBytes = whole.byteLength - payload.length / 2
        for (let cut = 0; cut < whole.byteLength; cut++) {
          expect(decodeAll(create(), whole.subarray(0, cut))).toEqual([])
          // The next frame where the rest should be: what is in the header is refused; what is in the payload is its length.
          const spliced = Buffer.concat([whole.subarray(0, cut), whole, whole])
          const found: Message[] = []
          const decoder = create().createDecoder(
            { target: (_, count) => new Uint8Array(count), message: (got) => found.push(got) },
            { maxPayloadBytes: MiB },
          )
          const code = codeOf(() => {
            for (let at = 0; at < spliced.byteLength; ) {
              const buffer = decoder.nextBuffer()
              const piece = spliced.subarray(at, at + buffer.byteLength)
              buffer.set(piece)
              decoder.received(piece.byteLength)
              at += piece.byteLength
            }
          })
          expect(['PROTOCOL', 'LIMIT', 'none']).toContain(code)
          if (cut > 0 && cut < headerBytes) expect(found).toEqual([])
          for (const got of found) expect(got).toEqual(message)
        }
      }
    })
  }
})

describe('a header with its length and CRC made right again', () => {
  for (const { id, create, vectors } of framings) {
    it(`${id} refuses it cut at any byte`, () => {
      for (const { frame } of vectors) {
        const whole = Buffer.from(frame, 'hex')
        const header = whole.subarray(8, 8 + whole.readUInt32LE(0))
        for (let cut = 0; cut < header.byteLength; cut++)
          expect(codeOf(() => decodeAll(create(), frameOf(header.subarray(0, cut))))).toBe('PROTOCOL')
      }
    })
  }
})

describe('a golden header with any one bit flipped', () => {
  for (const { id, create, vectors } of framings) {
    it(`${id} refuses it, and without checksums makes nothing of it that does not encode again`, () => {
      const bare = create({ checksum: false })
      // A longer length waits for more than is there: zeros, beyond any length of a header.
      const filler = Buffer.alloc(70_000)
      for (const { message, payload, frame } of vectors) {
        const whole = Buffer.from(frame, 'hex')
        const headerBits = whole.byteLength * 8 - payload.length * 4
        const unchecked = Buffer.from(bare.encode(message, Buffer.from(payload, 'hex')))
        for (let bit = 0; bit < headerBits; bit++) {
          const flipped = Buffer.from(whole)
          flipped[bit >> 3]! ^= 1 << (bit & 7)
          expect(codeOf(() => decodeAll(create(), Buffer.concat([flipped, filler])))).toMatch(
            /PROTOCOL|LIMIT/,
          )
          const other = Buffer.from(unchecked)
          other[bit >> 3]! ^= 1 << (bit & 7)
          let found: ReturnType<typeof decodeAll> = []
          expect(codeOf(() => (found = decodeAll(bare, other)))).toMatch(/PROTOCOL|LIMIT|none/)
          for (const [got, rest] of found)
            expect(decodeAll(bare, bare.encode(got, rest))).toEqual([[got, rest]])
        }
      }
    })
  }
})

it('neither framing reads the other', () => {
  for (const { vectors, create } of framings) {
    const other = create === protobuf ? msgpack() : protobuf()
    for (const { frame } of vectors)
      expect(codeOf(() => decodeAll(other, Buffer.from(frame, 'hex')))).toBe('PROTOCOL')
  }
})
