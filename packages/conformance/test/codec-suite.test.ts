import { describe, expect, it, vi } from 'vitest'
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
  'offset of the destination rounded down': 'encodes to and decodes from any offset in bytes',
  'no aligned allocation': 'allocates aligned and zeroed, apart from each other, until the arena is used up',
  'overlapping allocations':
    'allocates aligned and zeroed, apart from each other, until the arena is used up',
  'allocates without end': 'allocates aligned and zeroed, apart from each other, until the arena is used up',
  'writes past the shape in its arena':
    'writes nothing behind what it returns and leaves its source alone (arena)',
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
  'one value poisons its block': 'turns no value silently into NaN, an infinity or another value',
  'believes a length': 'decodes altered bytes to values or refuses them with CODEC',
  'unusable after a refusal': 'works on after it refused',
  'finite only when encoding': 'decodes altered bytes to values or refuses them with CODEC',
}

it('leaves out what is to be skipped, prints why, and refuses a name that no case has', () => {
  const test = 'encodes to the bytes of the tensor'
  const printed = vi.spyOn(console, 'log').mockImplementation(() => {})
  try {
    const skip = [{ test, reason: 'big-endian by design' }]
    const cases = collect((runner) => codecSuite({ ...runner, codec: plain('big-endian'), skip }))
    expect([cases.has(test), cases.has(`${test} (arena)`)]).toEqual([false, true])
    expect(printed.mock.calls).toEqual([[`skipped: ${test}: big-endian by design`]])
  } finally {
    printed.mockRestore()
  }
  const unknown = [{ test: 'no such case', reason: '' }]
  expect(() => collect((runner) => codecSuite({ ...runner, codec: plain(), skip: unknown }))).toThrow(
    /'no such case'/,
  )
})

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
