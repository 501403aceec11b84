import type { CodecFactory } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { inputs } from '../scripts/ggml-vectors.mjs'
import { bf16, f16, q8_0 } from '../src/index.ts'
import { decoded, encoded } from './support.ts'

const CODECS: { create: CodecFactory; error: (value: number, blockLargest: number) => number }[] = [
  { create: f16, error: (value) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25) },
  { create: bf16, error: (value) => Math.abs(value) * 2 ** -8 },
  { create: q8_0, error: (_, largest) => largest * 0.0045 },
]

for (const { create, error } of CODECS) {
  const codec = create()
  const { id, blockElements } = codec

  describe(`${id} policy`, () => {
    it('carries activations with outlier channels within its stated error', () => {
      const { values } = inputs().find(({ name }) => name === 'outlier-channels')!
      const [median] = values
        .map(Math.abs)
        .sort()
        .slice(values.length / 2)
      expect(Math.max(...values.map(Math.abs)) / median!).toBeGreaterThan(50)
      const back = decoded(codec, encoded(codec, values), values.length)
      const wrong = values.findIndex((value, i) => {
        const start = i - (i % blockElements)
        const largest = Math.max(...values.subarray(start, start + blockElements).map(Math.abs))
        return !(Math.abs(back[i]! - value) <= error(value, largest))
      })
      expect(wrong).toBe(-1)
    })

    it('carries rows of zeros as zeros, beside rows of others', () => {
      const values = new Float32Array(3 * 64).fill(1, 64, 128)
      const back = decoded(codec, encoded(codec, values), values.length)
      expect(back.findIndex((value, i) => !Object.is(value, values[i]) && i % 128 < 64)).toBe(-1)
    })

    it('carries -0 as it says', () => {
      const values = new Float32Array(64).fill(-0)
      const back = decoded(codec, encoded(codec, values), 64)
      expect(back.every((value) => Object.is(value, id === 'q8_0' ? 0 : -0))).toBe(true)
    })

    it('names the row, the column and the value of what it refuses, and the way out', () => {
      const values = new Float32Array(4 * 32)
      values[2 * 64 - 1] = Number.NaN
      expect(() => codec.encodeInto(values, 2, 64, new Uint8Array(256))).toThrow(
        expect.objectContaining({
          code: 'CODEC',
          message: expect.stringMatching(
            new RegExp(`^${id} carries finite .*: row 1, column 63 is NaN; the f32 codec carries any value$`),
          ),
        }),
      )
    })
  })
}

describe('f16 policy', () => {
  it('refuses 70000 where bf16 and q8_0 carry it', () => {
    const values = new Float32Array(32).fill(70_000)
    expect(() => encoded(f16(), values)).toThrow('row 0, column 0 is 70000')
    for (const create of [bf16, q8_0]) {
      const codec = create()
      const back = decoded(codec, encoded(codec, values), 32)
      expect(back.every((value) => Math.abs(value - 70_000) <= 70_000 / 256)).toBe(true)
    }
  })

  it('rounds denormals, and to zero from 2^-25 down', () => {
    const values = Float32Array.of(2 ** -24, 2 ** -25, 2 ** -25 * 1.5, -(2 ** -25), 3 * 2 ** -25, 2 ** -149)
    expect([...decoded(f16(), encoded(f16(), values), 6)]).toEqual([2 ** -24, 0, 2 ** -24, -0, 2 ** -23, 0])
  })
})

describe('q8_0 policy', () => {
  it('rounds a block to zeros up to 127 * 2^-25, and not above', () => {
    const block = (value: number) => decoded(q8_0(), encoded(q8_0(), new Float32Array(32).fill(value)), 32)[7]
    expect(block(127 * 2 ** -25)).toBe(0)
    expect(block(127 * 2 ** -25 * 1.01)).toBe(127 * 2 ** -24)
    expect(block(2 ** -149)).toBe(0)
  })
})
