import { asBytes, type CodecFactory, PAYLOAD_ALIGNMENT } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { bf16, f16, f32, q8_0 } from '../src/index.ts'
import { bitsOf, blocksOf, brainHalfOf, halfOf } from './oracle.ts'
import { arenaBytes, arenaValues, decoded, encoded } from './support.ts'

const CANARY = 0xa5

const CODECS: { create: CodecFactory; limit: number; scalar: (values: Float32Array) => Uint8Array }[] = [
  {
    create: f16,
    limit: 65520,
    scalar: (values) => asBytes(Uint16Array.from(values, (value) => halfOf(bitsOf(value)))),
  },
  {
    create: bf16,
    limit: 2 ** 128 - 2 ** 119,
    scalar: (values) => asBytes(Uint16Array.from(values, (value) => brainHalfOf(bitsOf(value)))),
  },
  { create: q8_0, limit: 8321040, scalar: blocksOf },
]

/** Values of all magnitudes down to denormals, some of them zero. */
function sample(elements: number): Float32Array {
  return Float32Array.from({ length: elements }, (_, i) => Math.sin(i * 7 + 1) * 2 ** ((i * 5) % 31) * 1e-6)
}

describe('f32', () => {
  it('has no memory of its own', () => {
    expect(f32({ arenaBytes: 1024 }).allocate).toBeUndefined()
  })
})

for (const { create, limit, scalar } of CODECS) {
  const { id, blockElements } = create()
  describe(`${id} memory`, () => {
    it('is zeroed, aligned and distinct, until it is used up', () => {
      const codec = create({ arenaBytes: 1000 })
      const [a, b, c] = [arenaBytes(codec, 1), arenaBytes(codec, 500), arenaBytes(codec, 0)]
      for (const view of [a, b, c]) {
        expect(view.byteOffset % PAYLOAD_ALIGNMENT).toBe(0)
        expect(view.every((byte) => byte === 0)).toBe(true)
        expect(view.buffer).toBe(a.buffer)
      }
      expect([a.length, b.length, c.length]).toEqual([1, 500, 0])
      expect(b.byteOffset - a.byteOffset).toBe(64)
      // 64 + 512 are taken.
      expect(codec.allocate!(425)).toBeUndefined()
      expect(codec.allocate!(424)?.length).toBe(424)
      expect(codec.allocate!(1)).toBeUndefined()
    })

    it('holds arenaBytes of whole lines', () => {
      const codec = create({ arenaBytes: 64 * 1000 })
      for (let i = 0; i < 1000; i++) expect(codec.allocate!(i % 2 === 0 ? 64 : 1)?.length).toBeGreaterThan(0)
      expect(codec.allocate!(1)).toBeUndefined()
    })

    it('is none where none was asked for', () => {
      expect(create().allocate!(1)).toBeUndefined()
      expect(create({ arenaBytes: 0 }).allocate!(1)).toBeUndefined()
    })

    it('refuses sizes that are none, and those beyond 32-bit addresses before it allocates', () => {
      for (const bytes of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        expect(() => create({ arenaBytes: bytes })).toThrow(expect.objectContaining({ code: 'USAGE' }))
        expect(() => create({ arenaBytes: 64 }).allocate!(bytes)).toThrow(
          expect.objectContaining({ code: 'USAGE' }),
        )
      }
      expect(() => create({ arenaBytes: 2 ** 32 })).toThrow(expect.objectContaining({ code: 'LIMIT' }))
    })

    it('belongs to one instance', () => {
      const [one, other] = [create({ arenaBytes: 64 }), create({ arenaBytes: 64 })]
      expect(arenaBytes(one, 64).buffer).not.toBe(arenaBytes(other, 64).buffer)
    })

    for (const [srcInside, dstInside] of [
      [true, true],
      [true, false],
      [false, true],
      [false, false],
    ]) {
      const where = `from ${srcInside ? 'its own' : 'foreign'} memory to ${dstInside ? 'its own' : 'foreign'}`
      it(`computes ${where} for shapes around groups of 32 and passes of 16,384`, () => {
        const blocks = Array.from({ length: 100 }, (_, i) => i)
        for (const around of [16384, 2 * 16384]) {
          const middle = around / blockElements
          blocks.push(middle - 33, middle - 1, middle, middle + 1, middle + 32, middle + 33)
        }
        const codec = create({ arenaBytes: 1 << 19 })
        const most = (blocks.at(-1)! + 1) * blockElements
        const room = codec.maxEncodedBytes(1, most) + 128
        const allValues = srcInside ? arenaValues(codec, most + 32) : new Float32Array(most + 32)
        const allBytes = dstInside ? arenaBytes(codec, room) : new Uint8Array(room)
        for (const count of blocks) {
          const elements = count * blockElements
          // Odd offsets, and bytes around that must stay.
          const offset = 1 + (count % 63)
          const bytes = codec.maxEncodedBytes(1, elements)
          const sent = sample(elements)
          const start = count % 16
          const values = allValues.subarray(start, start + elements)
          const dst = allBytes.subarray(offset, offset + bytes)
          const aroundBytes = allBytes.subarray(0, offset + bytes + 64)
          values.set(sent)
          aroundBytes.fill(CANARY)
          expect(codec.encodeInto(values, 1, elements, dst)).toBe(bytes)
          const expected = scalar(sent)
          expect(dst.findIndex((byte, i) => byte !== expected[i])).toBe(-1)
          dst.fill(CANARY)
          expect(aroundBytes.findIndex((byte) => byte !== CANARY)).toBe(-1)

          const back = decoded(create(), expected, elements)
          const aroundValues = allValues.subarray(0, start + elements + 16)
          dst.set(expected)
          aroundValues.fill(CANARY)
          codec.decodeInto(dst, 1, elements, values)
          expect(values.findIndex((value, i) => !Object.is(value, back[i]))).toBe(-1)
          values.fill(CANARY)
          expect(aroundValues.findIndex((value) => value !== CANARY)).toBe(-1)
        }
      })

      it(`finds a refused value at every place ${where}, and works afterwards`, () => {
        const columns = 96 + (blockElements === 1 ? 5 : 0)
        const codec = create({ arenaBytes: 1 << 13 })
        const values = srcInside ? arenaValues(codec, 2 * columns) : new Float32Array(2 * columns)
        const size = codec.maxEncodedBytes(2, columns)
        const dst = dstInside ? arenaBytes(codec, size) : new Uint8Array(size)
        const sent = sample(2 * columns)
        const expected = encoded(create(), sent)
        const refused = [
          Number.NaN,
          Number.POSITIVE_INFINITY,
          Number.NEGATIVE_INFINITY,
          -3.4e38,
          limit,
          -limit,
        ]
        for (const [i, value] of refused.entries()) {
          for (let index = 0; index < values.length; index++) {
            // Also alone among values that f16 has as normal numbers.
            if (index % 2 === 0) values.set(sent)
            else values.fill(1.5)
            values[index] = value
            // A later one is not the first.
            if ((index + i) % 3 === 0) values[values.length - 1] = value
            const place = `row ${Math.floor(index / columns)}, column ${index % columns} is ${values[index]};`
            expect(() => codec.encodeInto(values, 2, columns, dst)).toThrow(place)
          }
        }
        values.set(sent)
        codec.encodeInto(values, 2, columns, dst)
        expect(dst.findIndex((byte, i) => byte !== expected[i])).toBe(-1)
      })
    }

    it('finds a refused value behind passes through the scratch', () => {
      const columns = 4096
      const values = new Float32Array(20 * columns).fill(1)
      values[19 * columns + 4001] = Number.NaN
      values[19 * columns + 4002] = Number.POSITIVE_INFINITY
      const bytes = new Uint8Array(create().maxEncodedBytes(20, columns))
      for (const codec of [create(), create({ arenaBytes: 1 << 10 })])
        expect(() => codec.encodeInto(values, 20, columns, bytes)).toThrow('row 19, column 4001 is NaN;')
      values.fill(1)
      create().encodeInto(values, 20, columns, bytes)
      const at = create().maxEncodedBytes(1, 18 * columns + 32)
      bytes[at] = bytes[at + 1] = 0xff
      expect(() => create().decodeInto(bytes, 20, columns, values)).toThrow(
        `row 18, column 32 ${blockElements === 1 ? 'is' : 'begins a block with the scale'} NaN;`,
      )
    })

    it('survives thousands of codecs', () => {
      for (let i = 0; i < 3000; i++) {
        const codec = create({ arenaBytes: 1024 })
        arenaBytes(codec, 1024)[1023] = 1
      }
    })
  })
}
