import { codecSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { bf16, f16, f32, q8_0 } from '../src/index.ts'

const NON_FINITE = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]

codecSuite({ describe, it, codec: f32 })

const lossy = [
  {
    codec: f16,
    refused: [...NON_FINITE, 65520, -65520, 70_000, -1e5, 3e38],
    // Half a unit in the last place: 2^-11 of the value, 2^-25 below the smallest normal.
    tolerance: (value: number) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25),
  },
  {
    codec: bf16,
    refused: [...NON_FINITE, 2 ** 128 - 2 ** 119, -(2 ** 128 - 2 ** 119), 3.4028234663852886e38],
    tolerance: (value: number) => Math.max(Math.abs(value) * 2 ** -8, 2 ** -134),
  },
  {
    codec: q8_0,
    refused: [...NON_FINITE, 8321040, -8321040, 1e7, -3e38],
    // Half a step, 1/254 of the largest; the rounded scale, 2^-11 of it or 127 steps of 2^-25; and f32 arithmetic.
    tolerance: (_: number, largest: number) => Math.max(largest * 0.0045, largest / 254 + 127 * 2 ** -25),
  },
]
for (const options of lossy) codecSuite({ describe, it, ...options })
