import { asBytes } from '@seamline/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { f16 } from '../src/f16.ts'
import { bitsOf, floatOf, halfOf, sweep, valueOfHalf } from './oracle.ts'

const POSITIVE = Float64Array.from({ length: 0x7c00 }, (_, half) => valueOfHalf(half))

/** The nearest of all finite binary16 values, ties to the even pattern; undefined when that would be 65536. */
function nearestHalf(value: number): number | undefined {
  const magnitude = Math.abs(value)
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  if (!(magnitude < 65520)) return undefined
  let low = 0
  let high = POSITIVE.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (POSITIVE[middle]! <= magnitude) low = middle
    else high = middle
  }
  if (low === POSITIVE.length - 1) return sign | low
  // Exact: f32 and f16 values and their differences fit a double.
  const below = magnitude - POSITIVE[low]!
  const above = POSITIVE[low + 1]! - magnitude
  return sign | (below < above || (below === above && low % 2 === 0) ? low : low + 1)
}

function encodeAll(values: Float32Array): Uint16Array {
  const halves = new Uint16Array(values.length)
  f16().encodeInto(values, 1, values.length, asBytes(halves))
  return halves
}

/** Encodes one value: its pattern, or undefined when it is refused. */
function encodeOne(value: number): number | undefined {
  try {
    return encodeAll(Float32Array.of(value))[0]
  } catch (error) {
    expect(error).toMatchObject({ code: 'CODEC' })
    return undefined
  }
}

describe('f16', () => {
  it('has published values', () => {
    const published: [number, number][] = [
      [0x3c00, 1],
      [0x3c01, 1.0009765625],
      [0xc000, -2],
      [0x7bff, 65504],
      [0x0400, 2 ** -14],
      [0x03ff, 1023 * 2 ** -24],
      [0x0001, 2 ** -24],
      [0x3555, 0.333251953125],
      [0x8000, -0],
    ]
    for (const [half, value] of published) {
      expect(encodeOne(value)).toBe(half)
      expect(valueOfHalf(half)).toBe(value)
    }
  })

  it('is little-endian', () => {
    const bytes = new Uint8Array(4)
    f16().encodeInto(Float32Array.of(1, -2), 1, 2, bytes)
    expect([...bytes]).toEqual([0x00, 0x3c, 0x00, 0xc0])
  })

  it('decodes each of the 65,536 patterns to its value, or refuses it', () => {
    let refused = 0
    for (let start = 0; start < 65536; start += 1024) {
      const halves = Uint16Array.from({ length: 1024 }, (_, i) => start + i)
      const values = new Float32Array(1024)
      if (((start >> 10) & 31) === 31) {
        for (const half of halves) {
          const message = `row 0, column 0 is ${valueOfHalf(half)}`
          const one = asBytes(Uint16Array.of(half))
          expect(() => f16().decodeInto(one, 1, 1, values)).toThrow(message)
          refused++
        }
      } else {
        f16().decodeInto(asBytes(halves), 1, 1024, values)
        expect(values).toEqual(Float32Array.from(halves, valueOfHalf))
      }
    }
    expect(refused).toBe(2048)
  })

  it('encodes each value that it decodes back to its pattern', () => {
    const halves = Uint16Array.from({ length: 65536 }, (_, i) => i).filter(
      (half) => (half & 0x7c00) !== 0x7c00,
    )
    expect(encodeAll(Float32Array.from(halves, valueOfHalf))).toEqual(halves)
  })

  it('rounds to nearest, ties to even, at every tie and its neighbours', () => {
    const bits = new Uint32Array(1)
    const tie = new Float32Array(bits.buffer)
    const values: number[] = []
    for (let half = 0; half < 0x7bff; half++) {
      tie[0] = (POSITIVE[half]! + POSITIVE[half + 1]!) / 2
      const middle = bits[0]!
      for (const neighbour of [middle - 1, middle, middle + 1])
        values.push(floatOf(neighbour), -floatOf(neighbour))
    }
    expect(encodeAll(Float32Array.from(values))).toEqual(
      Uint16Array.from(values, (value) => nearestHalf(value)!),
    )
  })

  it('agrees with a search over all values for 200,000 patterns spread over f32', () => {
    const values: number[] = []
    for (let i = 0; i < 200_000; i++) values.push(floatOf(Math.imul(i, 0x9e3779b1) >>> 0))
    const carried = values.filter((value) => nearestHalf(value) !== undefined)
    expect(carried.length).toBeGreaterThan(100_000)
    expect(encodeAll(Float32Array.from(carried))).toEqual(
      Uint16Array.from(carried, (value) => nearestHalf(value)!),
    )
    const others = values.filter((value) => nearestHalf(value) === undefined)
    expect(others.length).toBeGreaterThan(50_000)
    for (const value of others.slice(0, 5000)) expect(encodeOne(value)).toBeUndefined()
  })

  it('agrees with scalar arithmetic for every exponent, every tie and millions of patterns between', () => {
    const codec = f16()
    const count = sweep(0x477ff000, 1 << 13, (bits) => {
      const halves = new Uint16Array(bits.length)
      codec.encodeInto(new Float32Array(bits.buffer), 1, bits.length, asBytes(halves))
      const wrong = halves.findIndex((half, i) => half !== halfOf(bits[i]!))
      expect(wrong < 0 ? [] : [bits[wrong], halves[wrong]]).toEqual([])
    })
    expect(count).toBeGreaterThan(2_900_000)
  })

  it('rounds every denormal, its ties and their neighbours alone among normal numbers', () => {
    const rare: number[] = []
    for (let half = 0; half <= 0x400; half++)
      for (const value of [valueOfHalf(half), valueOfHalf(half) + 2 ** -25])
        for (const offset of [-1, 0, 1]) rare.push(floatOf(Math.max(bitsOf(value) + offset, 0)))
    const values = new Float32Array(rare.length * 32).fill(1.5)
    rare.forEach((value, i) => {
      values[i * 32 + (i % 32)] = i % 2 === 0 ? value : -value
    })
    expect(encodeAll(values)).toEqual(Uint16Array.from(values, (value) => nearestHalf(value)!))
  })

  it('agrees with a search over all values for any f32', () => {
    fc.assert(
      fc.property(fc.float(), (value) => {
        expect(encodeOne(value)).toBe(nearestHalf(value))
      }),
      { seed: 1, numRuns: 2000 },
    )
  })

  it('refuses from 65520 on, where rounding would reach 65536', () => {
    expect(encodeOne(floatOf(0x477fefff))).toBe(0x7bff)
    expect(encodeOne(65520)).toBeUndefined()
    expect(encodeOne(-65520)).toBeUndefined()
    expect(() => f16().encodeInto(Float32Array.of(0, 1, 2, -1e5), 2, 2, new Uint8Array(8))).toThrow(
      'row 1, column 1 is -100000',
    )
  })

  it('takes memory at odd offsets', () => {
    const memory = new Uint8Array(9)
    const odd = memory.subarray(1)
    f16().encodeInto(Float32Array.of(1, -2, 0.5), 1, 3, odd)
    expect([...memory]).toEqual([0, 0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, 0, 0])
    const back = new Float32Array(3)
    f16().decodeInto(memory.subarray(1, 7), 1, 3, back)
    expect([...back]).toEqual([1, -2, 0.5])
  })
})
