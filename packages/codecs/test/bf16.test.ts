import { asBytes } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { bf16 } from '../src/bf16.ts'
import { brainHalfOf, floatOf, sweep, valueOfBrainHalf } from './oracle.ts'

const HALVES = Uint16Array.from({ length: 65536 }, (_, half) => half)

function encodeAll(values: Float32Array): Uint16Array {
  const halves = new Uint16Array(values.length)
  bf16().encodeInto(values, 1, values.length, asBytes(halves))
  return halves
}

describe('bf16', () => {
  it('has published values', () => {
    const published: [number, number][] = [
      [0x3f80, 1],
      [0xc000, -2],
      [0x4049, 3.140625],
      [0x3eab, 0.333984375],
      [0x7f7f, 3.3895313892515355e38],
      [0x0080, 2 ** -126],
      [0x0001, 2 ** -133],
      [0x8000, -0],
    ]
    for (const [half, value] of published) {
      expect(encodeAll(Float32Array.of(value))[0]).toBe(half)
      expect(valueOfBrainHalf(half)).toBe(value)
    }
  })

  it('is little-endian', () => {
    const bytes = new Uint8Array(4)
    bf16().encodeInto(Float32Array.of(1, -2), 1, 2, bytes)
    expect([...bytes]).toEqual([0x80, 0x3f, 0x00, 0xc0])
  })

  it('decodes each of the 65,536 patterns to its value, or refuses it', () => {
    const codec = bf16()
    const finite = HALVES.filter((half) => (half & 0x7f80) !== 0x7f80)
    const values = new Float32Array(finite.length)
    codec.decodeInto(asBytes(finite), 1, finite.length, values)
    expect(values).toEqual(Float32Array.from(finite, valueOfBrainHalf))
    expect(encodeAll(values)).toEqual(finite)
    const others = HALVES.filter((half) => (half & 0x7f80) === 0x7f80)
    expect(others.length).toBe(256)
    for (const half of others) {
      const message = `row 0, column 0 is ${valueOfBrainHalf(half)}`
      expect(() => codec.decodeInto(asBytes(Uint16Array.of(half)), 1, 1, values)).toThrow(message)
    }
  })

  it('agrees with scalar arithmetic for every exponent, every tie and millions of patterns between', () => {
    const codec = bf16()
    const count = sweep(0x7f7f8000, 1 << 13, (bits) => {
      const halves = new Uint16Array(bits.length)
      codec.encodeInto(new Float32Array(bits.buffer), 1, bits.length, asBytes(halves))
      const wrong = halves.findIndex((half, i) => half !== brainHalfOf(bits[i]!))
      expect(wrong < 0 ? [] : [bits[wrong], halves[wrong]]).toEqual([])
    })
    expect(count).toBeGreaterThan(5_000_000)
  })

  it('refuses from the tie between the largest bf16 and 2^128', () => {
    expect(encodeAll(Float32Array.of(floatOf(0x7f7f7fff)))[0]).toBe(0x7f7f)
    expect(encodeAll(Float32Array.of(floatOf(0xff7f7fff)))[0]).toBe(0xff7f)
    const tie = 2 ** 128 - 2 ** 119
    expect(() => encodeAll(Float32Array.of(0, tie))).toThrow(`row 0, column 1 is ${tie}`)
    expect(() => encodeAll(Float32Array.of(-3.4028234663852886e38))).toThrow(
      'column 0 is -3.4028234663852886e+38',
    )
    // Every NaN, also those that rounding would wrap to a zero.
    for (const bits of [0x7f800001, 0x7fc00000, 0x7fffffff, 0xffff8000, 0xffffffff])
      expect(() => encodeAll(new Float32Array(Uint32Array.of(bits).buffer))).toThrow('column 0 is NaN')
  })
})
