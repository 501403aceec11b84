import { asBytes } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { q8_0 } from '../src/q8_0.ts'
import { blocksOf, floatOf, sweep, valueOfHalf } from './oracle.ts'

function encodeAll(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array((values.length / 32) * 34)
  expect(q8_0().encodeInto(values, 1, values.length, bytes)).toBe(bytes.length)
  return bytes
}

/** A block of zeros with `values` in front. */
function block(...values: number[]): Float32Array {
  const all = new Float32Array(32)
  all.set(values)
  return all
}

describe('q8_0', () => {
  it('stores the scale, little-endian, and the bytes behind it', () => {
    const bytes = encodeAll(block(127, -127, 1, -1, 0.5, -0.5, 1.5, 0.49999997, -2.5))
    expect([...bytes.subarray(0, 12)]).toEqual([0x00, 0x3c, 127, 0x81, 1, 0xff, 1, 0xff, 2, 0, 0xfd, 0])
  })

  it('rounds half away from zero for every f32 from 0 to 127.5 near a half, and random others', () => {
    const values: number[] = []
    // With 127 in the block the scale is 1, and the bytes are the rounded values.
    for (let tie = 0.5; tie < 127; tie++)
      for (const offset of [-2, -1, 0, 1, 2]) {
        const bits = new Uint32Array(Float32Array.of(tie).buffer)[0]! + offset
        values.push(127, floatOf(bits), -floatOf(bits))
      }
    const all = Float32Array.from({ length: Math.ceil(values.length / 31) * 32 }, (_, i) =>
      i % 32 === 31 ? 127 : (values[i - Math.floor(i / 32)] ?? 0),
    )
    const bytes = encodeAll(all)
    for (let i = 0; i < all.length; i++) {
      const found = new Int8Array(bytes.buffer)[Math.floor(i / 32) * 34 + 2 + (i % 32)]
      expect(found).toBe(Math.sign(all[i]!) * Math.floor(Math.abs(all[i]!) + 0.5) + 0)
    }
  })

  it('agrees with scalar arithmetic for blocks of every exponent', () => {
    const count = sweep(0x4afdf020, 1 << 15, (bits) => {
      const values = new Float32Array(bits.buffer, 0, bits.length - (bits.length % 32))
      const [found, expected] = [encodeAll(values), blocksOf(values)]
      expect(found.findIndex((byte, i) => byte !== expected[i])).toBe(-1)
    })
    expect(count).toBeGreaterThan(1_500_000)
  })

  it('decodes every scale with every byte, or refuses it', () => {
    const codec = q8_0()
    const bytes = new Uint8Array(8 * 34)
    const view = new DataView(bytes.buffer)
    for (let i = 0; i < 256; i++) bytes[Math.floor(i / 32) * 34 + 2 + (i % 32)] = i
    const signed = Int8Array.from({ length: 256 }, (_, i) => i)
    const values = new Float32Array(256)
    for (let half = 0; half < 65536; half += 1) {
      for (let i = 0; i < 8; i++) view.setUint16(i * 34, half, true)
      const scale = valueOfHalf(half)
      if (Number.isFinite(scale)) {
        codec.decodeInto(bytes, 1, 256, values)
        for (let i = 0; i < 256; i++)
          if (values[i] !== signed[i]! * scale) expect(values[i]).toBe(signed[i]! * scale)
      } else if (half % 8 === 0) {
        const message = `row 0, column 0 begins a block with the scale ${scale}`
        expect(() => codec.decodeInto(bytes, 1, 256, values)).toThrow(message)
      }
    }
  })

  it('refuses what makes a scale infinite, and carries what is just below', () => {
    const largest = floatOf(0x4afdf01f)
    expect(largest).toBe(8321039.5)
    expect([...encodeAll(block(largest, -largest)).subarray(0, 4)]).toEqual([0xff, 0x7b, 127, 0x81])
    for (const value of [
      8321040,
      -8321040,
      1e30,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
      Number.NaN,
    ])
      expect(() => encodeAll(block(1, 2, value))).toThrow(`row 0, column 2 is ${Math.fround(value)};`)
  })

  it('carries blocks of large values of one sign, whose sum exceeds f16 and whose squares exceed f32', () => {
    for (const value of [65504, -70_000, 8e6, -8e6]) {
      const back = new Float32Array(64)
      q8_0().decodeInto(encodeAll(new Float32Array(64).fill(value)), 1, 64, back)
      expect(back.every((found) => Math.abs(found - value) <= Math.abs(value) * 2 ** -11)).toBe(true)
    }
  })

  it('stores zeros of both signs as zeros', () => {
    expect([...encodeAll(block(0, -0))]).toEqual(new Array(34).fill(0))
  })

  it('names the column of the block, and its row, for a scale that is not finite', () => {
    const bytes = encodeAll(new Float32Array(256).fill(1))
    for (const [scale, text] of [
      [0x7c00, 'Infinity'],
      [0xfc00, '-Infinity'],
      [0x7e01, 'NaN'],
    ] as const) {
      const altered = bytes.slice()
      new DataView(altered.buffer).setUint16(5 * 34, scale, true)
      const message = `row 1, column 32 begins a block with the scale ${text};`
      expect(() => q8_0().decodeInto(altered, 2, 128, new Float32Array(256))).toThrow(message)
    }
  })

  it('takes columns in multiples of 32 only', () => {
    expect(q8_0().maxEncodedBytes(3, 64)).toBe(204)
    for (const columns of [1, 31, 33]) {
      expect(() => q8_0().maxEncodedBytes(32, columns)).toThrow(`multiples of 32, not ${columns}`)
    }
    const [src, dst] = [new Float32Array(32 * 33), new Uint8Array(34 * 33)]
    expect(() => q8_0().encodeInto(src, 32, 33, dst)).toThrow('multiples of 32, not 33')
    expect(asBytes(dst).every((byte) => byte === 0)).toBe(true)
  })
})
