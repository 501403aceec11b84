import { f16, f32 } from '@seamline/codecs'
import { codecSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { zstd } from '../src/index.ts'
import { blocks32, cut16, decoders, encoders } from './support.ts'

const F16 = {
  refused: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 65520, -65520, 3e38],
  tolerance: (value: number) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25),
}

for (const encoder of encoders)
  for (const decoder of decoders)
    describe(`${encoder} to ${decoder}`, () => {
      codecSuite({ describe, it, codec: zstd(f32, { encoder, decoder }) })
      codecSuite({ describe, it, codec: zstd(f16, { encoder, decoder }), ...F16 })
    })

for (const level of [3, 9, 19]) {
  codecSuite({ describe, it, codec: zstd(f32, { level }) })
  codecSuite({ describe, it, codec: zstd(f16, { level, shuffle: false }), ...F16 })
}
// Cutting off takes at most one unit in the last of 8 bits, or of the smallest denormal.
codecSuite({
  describe,
  it,
  codec: zstd(cut16),
  tolerance: (value) => Math.max(Math.abs(value) * 2 ** -7, 2 ** -133),
})
codecSuite({
  describe,
  it,
  codec: zstd(blocks32),
  refused: [],
  tolerance: (_, largest) => Math.max((largest / 127) * 0.501, 2 ** -149 * 127),
})
codecSuite({ describe, it, codec: zstd(zstd(f32)) })
