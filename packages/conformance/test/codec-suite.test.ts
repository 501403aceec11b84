import { describe, expect, it } from 'vitest'
import { codecSuite } from '../src/index.ts'
import { collect } from './collect.ts'
import { type CodecFault, plain, wholes } from './plain-codecs.ts'

const lossy = {
  refused: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 2 ** 31, -3e38],
  tolerance: () => 0.5,
}

codecSuite({ describe, it, codec: plain() })
codecSuite({ describe, it, codec: wholes(), ...lossy })

const plainFaults: Partial<Record<CodecFault, string>> = {
  'one byte too many': 'writes nothing behind what it returns and leaves its source alone',
  'one value too many': 'writes nothing behind what it returns and leaves its source alone',
  'source changed': 'writes nothing behind what it returns and leaves its source alone',
  'any destination': 'refuses a destination that is too small with LIMIT',
  'any source': 'refuses encoded bytes of any other length with CODEC',
  'any shape': 'refuses shapes that are none with CODEC',
  'offset of the source ignored': 'works at every offset that is a multiple of 4 bytes',
  'big-endian': 'encodes to the bytes of the tensor',
  'NaN to a fixed pattern': 'encodes to the bytes of the tensor',
}

const lossyFaults: Partial<Record<CodecFault, string>> = {
  'any shape': 'refuses shapes that are none with CODEC',
  'size understated': 'carries every shape, within a size that it states beforehand',
  'memory kept': 'keeps no argument and no state of another instance',
  'state shared by instances': 'keeps no argument and no state of another instance',
  'zero for NaN': 'turns no value silently into NaN, an infinity or another value',
  'infinity for large values': 'turns no value silently into NaN, an infinity or another value',
  'nothing named': 'refuses what its policy refuses, naming row, column and value',
  'wrong code': 'refuses what its policy refuses, naming row, column and value',
  truncates: 'carries every shape, within a size that it states beforehand',
  'finite only when encoding': 'decodes altered bytes to values or refuses them with CODEC',
}

describe('the codec suite fails', () => {
  for (const [fault, name] of Object.entries(plainFaults)) {
    it(`a lossless codec with the fault: ${fault}`, () => {
      const cases = collect((runner) => codecSuite({ ...runner, codec: plain(fault as CodecFault) }))
      expect(cases.get(name)).toThrow()
    })
  }
  for (const [fault, name] of Object.entries(lossyFaults)) {
    it(`a lossy codec with the fault: ${fault}`, () => {
      const cases = collect((runner) =>
        codecSuite({ ...runner, codec: wholes(fault as CodecFault), ...lossy }),
      )
      expect(cases.get(name)).toThrow()
    })
  }
})
