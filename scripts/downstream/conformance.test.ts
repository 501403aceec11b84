import { describe, it } from 'node:test'
import { f16 } from '@seamline/codecs/f16'
import { f32 } from '@seamline/codecs/f32'
import { codecSuite, framingSuite } from '@seamline/conformance'
import { protobuf } from '@seamline/framing/protobuf'

codecSuite({ describe, it, codec: f32 })
codecSuite({
  describe,
  it,
  codec: f16,
  refused: [NaN, Infinity, -Infinity, 70000, -1e5, 65520],
  tolerance: (value) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25),
})
framingSuite({ describe, it, framing: protobuf })
