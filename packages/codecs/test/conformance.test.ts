import { codecSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { f16, f32 } from '../src/index.ts'

codecSuite({ describe, it, codec: f32 })

codecSuite({
  describe,
  it,
  codec: f16,
  refused: [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    65520,
    -65520,
    70_000,
    -1e5,
    3e38,
  ],
  // Half a unit in the last place: 2^-11 of the value, 2^-25 below the smallest normal.
  tolerance: (value) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25),
})
