import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { blockEncoders, float16Bits } from '../src/quantise.ts'
import { normalSource } from '../src/random.ts'
import { arrayValues, countValue, openGguf } from '../src/read.ts'
import { synthArchitectures, synthModel, synthPresets } from '../src/synth.ts'
import { RESERVED_TOKENS, vocabulary } from '../src/vocabulary.ts'
import { expectCode, sha256, smallModel, smallShape, temporaryFolder, tensorData } from './support.ts'

const folder = temporaryFolder()

/** Value of a half by its definition (IEEE 754 binary16). */
function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25)
}

describe('encoders', () => {
  test('f16: every half comes back, and midpoints go to the even neighbour', () => {
    const wrong: number[] = []
    for (let bits = 0; bits < 0x7c00; bits++) {
      const next = bits + 1 === 0x7c00 ? 65536 : halfValue(bits + 1)
      const middle = (halfValue(bits) + next) / 2
      const step = middle * 2 ** -23
      const isRight =
        float16Bits(halfValue(bits)) === bits &&
        float16Bits(halfValue(bits | 0x8000)) === (bits | 0x8000) &&
        float16Bits(middle) === bits + (bits & 1) &&
        float16Bits(Math.fround(middle - step)) === bits &&
        float16Bits(Math.fround(middle + step)) === bits + 1
      if (!isRight) wrong.push(bits)
    }
    expect(wrong).toEqual([])
    expect([Number.POSITIVE_INFINITY, -1e9].map(float16Bits)).toEqual([0x7c00, 0xfc00])
    expect(halfValue(float16Bits(Number.NaN))).toBeNaN()
  })

  // A block by the definition of the format: one scale, each element its nearest multiple. Plain double arithmetic.
  const anyBlock = fc.array(fc.double({ min: -4, max: 4, noNaN: true }), { minLength: 64, maxLength: 64 })
  const view = (bytes: Uint8Array) => new DataView(bytes.buffer)

  test('Q8_0: f16 scale of amax / 127, then the nearest int8 of each element', () => {
    fc.assert(
      fc.property(anyBlock, (doubles) => {
        const values = Float32Array.from(doubles)
        const bytes = new Uint8Array(68)
        expect(blockEncoders.Q8_0(values, 64, bytes, 0)).toBe(68)
        for (const block of [0, 1]) {
          const part = values.subarray(32 * block, 32 * block + 32)
          const scale = Math.max(...part.map(Math.abs)) / 127
          expect(halfValue(view(bytes).getUint16(34 * block, true))).toBeCloseTo(scale, 4)
          for (const [i, value] of part.entries()) {
            const quantum = view(bytes).getInt8(34 * block + 2 + i)
            const exact = scale < 2 ** -126 ? 0 : value / scale
            expect(Math.abs(quantum - exact)).toBeLessThan(0.5 + 1e-4)
          }
        }
      }),
      { seed: 8, numRuns: 200 },
    )
  })

  test('Q4_0: f16 scale of the farthest value / -8; byte j holds elements j and j + 16, offset by 8', () => {
    fc.assert(
      fc.property(anyBlock, (doubles) => {
        const values = Float32Array.from(doubles)
        const bytes = new Uint8Array(36)
        expect(blockEncoders.Q4_0(values, 64, bytes, 0)).toBe(36)
        for (const block of [0, 1]) {
          const part = values.subarray(32 * block, 32 * block + 32)
          const farthest = part.find((value) => Math.abs(value) === Math.max(...part.map(Math.abs)))!
          const scale = farthest / -8
          expect(halfValue(view(bytes).getUint16(18 * block, true))).toBeCloseTo(scale, 3)
          for (const [i, value] of part.entries()) {
            const pair = bytes[18 * block + 2 + (i % 16)]!
            const quantum = (i < 16 ? pair & 15 : pair >> 4) - 8
            const exact = Math.abs(scale) < 2 ** -126 ? 0 : Math.min(7, value / scale)
            expect(Math.abs(quantum - exact)).toBeLessThan(0.5 + 1e-4)
          }
        }
      }),
      { seed: 4, numRuns: 200 },
    )
  })

  test('hand-computed blocks', () => {
    const ramp = Float32Array.from({ length: 32 }, (_, i) => i - 16)
    const hex = (type: 'Q8_0' | 'Q4_0' | 'F16' | 'F32', values: number[]) => {
      const bytes = new Uint8Array(128)
      return Buffer.from(
        bytes.subarray(0, blockEncoders[type](Float32Array.from(values), values.length, bytes, 0)),
      ).toString('hex')
    }
    // -16 / -8 = 2 = 0x4000; x / 2 + 8 rounded half up: -16 to 0, -15 to 1, 15 to 16, cut to 15.
    expect(hex('Q4_0', [...ramp])).toBe('0040809191a2a2b3b3c4c4d5d5e6e6f7f7f8')
    // 127 / 127 = 1 = 0x3c00; halves round away from zero.
    expect(hex('Q8_0', [127, 2.5, -2.5, 1.25, ...new Array(28).fill(0)])).toBe(
      `003c7f03fd01${'00'.repeat(28)}`,
    )
    expect(hex('Q8_0', new Array(32).fill(0))).toBe('00'.repeat(34))
    expect(hex('F16', [1, -2])).toBe('003c00c0')
    expect(hex('F32', [1, -2])).toBe('0000803f000000c0')
  })
})

test('random values come from xoshiro128**, whose published sequence for the state 1 2 3 4 begins so', () => {
  const published = [
    11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804,
  ]
  const byteSum = (draw: number) =>
    (draw & 255) + ((draw >>> 8) & 255) + ((draw >>> 16) & 255) + (draw >>> 24)
  const values = new Float32Array(10)
  normalSource(Uint32Array.of(1, 2, 3, 4))(values, 10, Math.sqrt((256 ** 2 - 1) / 3))
  expect([...values].map((value) => value + 510)).toEqual(published.map(byteSum))
})

/** Values of a super-block by ggml's dequantize_row_* of the K types, bit by bit from the layouts in ggml-common.h. */
const superBlocks = {
  Q4_K: { bytes: 144, read: (b: Uint8Array) => lines(b, (j) => nibble(b.subarray(16), j)) },
  Q5_K: {
    bytes: 176,
    read: (b: Uint8Array) =>
      lines(b, (j) => nibble(b.subarray(48), j) + 16 * ((b[16 + (j % 32)]! >> Math.floor(j / 32)) & 1)),
  },
  Q6_K: {
    bytes: 210,
    read: (b: Uint8Array) =>
      Array.from({ length: 256 }, (_, j) => {
        const half = Math.floor(j / 128)
        const quarter = Math.floor((j % 128) / 32)
        const low = (b[64 * half + 32 * (quarter % 2) + (j % 32)]! >> (quarter < 2 ? 0 : 4)) & 15
        const high = (b[128 + 32 * half + (j % 32)]! >> (2 * quarter)) & 3
        const scale = new Int8Array(b.buffer, b.byteOffset + 192, 16)[Math.floor(j / 16)]!
        return halfAt(b, 208) * scale * (low + 16 * high - 32)
      }),
  },
} as const

const halfAt = (bytes: Uint8Array, at: number) => halfValue(bytes[at]! + 256 * bytes[at + 1]!)
const nibble = (bytes: Uint8Array, j: number) =>
  (bytes[32 * Math.floor(j / 64) + (j % 32)]! >> (j % 64 < 32 ? 0 : 4)) & 15

function lines(b: Uint8Array, quantum: (j: number) => number): number[] {
  const packed = b.subarray(4, 16)
  return Array.from({ length: 256 }, (_, j) => {
    const line = Math.floor(j / 32)
    const upper = (from: number) => (packed[from]! >> 6) << 4
    const scale = line < 4 ? packed[line]! & 63 : (packed[line + 4]! & 15) + upper(line - 4)
    const minimum = line < 4 ? packed[line + 4]! & 63 : (packed[line + 4]! >> 4) + upper(line)
    return halfAt(b, 0) * scale * quantum(j) - halfAt(b, 2) * minimum
  })
}

describe('encoders of super-blocks', () => {
  test.each(['Q4_K', 'Q5_K', 'Q6_K'] as const)('%s: come back within a step of 256 normal values', (type) => {
    const { bytes, read } = superBlocks[type]
    const steps = { Q4_K: 15, Q5_K: 31, Q6_K: 62 }[type]
    const values = new Float32Array(512)
    for (let seed = 0; seed < 50; seed++) {
      normalSource(Uint32Array.of(seed, 1, 2, 3))(values, 512, 10 ** (seed % 5) / 100)
      const out = new Uint8Array(2 * bytes).fill(255)
      expect(blockEncoders[type](values, 512, out, 0)).toBe(2 * bytes)
      for (const block of [0, 1]) {
        const own = values.subarray(256 * block, 256 * block + 256)
        const range = Math.max(...own) - Math.min(...own)
        for (const [j, value] of read(out.subarray(bytes * block, bytes * block + bytes)).entries()) {
          expect(Math.abs(value - own[j]!)).toBeLessThan((1.2 * range) / steps)
        }
      }
    }
  })

  test.each(['Q4_K', 'Q5_K', 'Q6_K'] as const)('%s: keep zeros and a block of one value', (type) => {
    const { bytes, read } = superBlocks[type]
    for (const value of [0, 2, -2]) {
      const out = new Uint8Array(bytes)
      blockEncoders[type](new Float32Array(256).fill(value), 256, out, 0)
      for (const found of read(out)) expect(Math.abs(found - value)).toBeLessThan(0.02)
    }
  })

  test('BF16: the upper half of a float, ties to even', () => {
    const out = new Uint8Array(10)
    blockEncoders.BF16(Float32Array.of(1, -2.5, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 0), 5, out, 0)
    expect(Buffer.from(out).toString('hex')).toBe('803f20c0803f823f0000')
  })
})

describe('a synthetic model', () => {
  test('has the same bytes for the same seed on every machine', async () => {
    const hash = async (changes: object) =>
      (
        await synthModel({
          ...smallShape,
          path: join(folder, `same-${JSON.stringify(changes)}.gguf`),
          ...changes,
        })
      ).sha256
    const pinned = {
      F32: '7f6651744cef9a4ad7f79c00314d626f812ec90f80fa51c1e33b382271e19191',
      F16: 'eb7efa9cb6ee33ad9b4322b0cc399b93cf455ee51aea28be3be826a13cfa36fe',
      Q8_0: '175768821d314501e8151a1e6ede5edf2ef7aadc6ac210097b9932153969c1ea',
      Q4_0: 'eb6856e2564bc702b4747bf3c079e0d8ec98772ceb63254883410d2bfdbd33b3',
    }
    const found: Record<string, string> = {}
    for (const type of ['F32', 'F16', 'Q8_0', 'Q4_0'] as const) found[type] = await hash({ type })
    expect(found).toEqual(pinned)
    const kTypes = ['BF16', 'Q4_K', 'Q5_K', 'Q6_K', 'Q4_K_M', 'Q5_K_M'] as const
    const kHashes = await Promise.all(kTypes.map((type) => hash({ type, width: 256, feedForward: 256 })))
    expect(sha256(Buffer.from(kHashes.join()))).toBe(
      '923b8ddf8ca735b6404e7e5198eaee537a2c3e054c0d06fdc7a2b6863531677c',
    )
    const hashes = await Promise.all(
      synthArchitectures.map((architecture) => hash({ architecture, layers: 2 })),
    )
    expect(sha256(Buffer.from(hashes.join()))).toBe(
      '8076978f3754b37f173db1cf4d00480fb761eaf2c78f546a3b0b4e56e08c5c63',
    )
    expect(await hash({ type: 'F32', seed: 8 })).not.toBe(pinned.F32)
  })

  test('has weights of the stated spread and distinct rows', async () => {
    const file = await smallModel(join(folder, 'spread.gguf'), { type: 'F32', width: 256, heads: 8 })
    const floats = (name: string) => new Float32Array(Uint8Array.from(tensorData(file, name)).buffer)
    const weights = floats('blk.1.ffn_up.weight')
    const mean = weights.reduce((sum, value) => sum + value, 0) / weights.length
    const sigma = Math.sqrt(weights.reduce((sum, value) => sum + (value - mean) ** 2, 0) / weights.length)
    expect(Math.abs(mean)).toBeLessThan(0.002)
    expect(sigma * Math.sqrt(256)).toBeCloseTo(1, 1)
    const rows = new Set(
      Array.from({ length: 96 }, (_, i) => weights.subarray(256 * i, 256 * i + 256).join()),
    )
    expect(rows.size).toBe(96)
    const norm = floats('output_norm.weight')
    expect(Math.min(...norm)).toBeGreaterThan(0.75)
    expect(Math.max(...norm)).toBeLessThan(1.25)
  })

  test('shares its weights between types, up to rounding', async () => {
    const f32 = await smallModel(join(folder, 'shared-f32.gguf'), { type: 'F32' })
    const f16 = await smallModel(join(folder, 'shared-f16.gguf'), { type: 'F16' })
    const exact = tensorData(f32, 'blk.2.attn_k.weight')
    const rounded = tensorData(f16, 'blk.2.attn_k.weight')
    for (let i = 0; i < rounded.length / 2; i++) {
      const value = exact.readFloatLE(4 * i)
      expect(Math.abs(halfValue(rounded.readUInt16LE(2 * i)) - value)).toBeLessThanOrEqual(
        Math.abs(value) * 2 ** -11 + 2 ** -25,
      )
    }
  })

  test('ties the head to the embedding on request', async () => {
    const tied = await smallModel(join(folder, 'tied.gguf'), { tied: true })
    expect(tied.tensors.has('output.weight')).toBe(false)
    expect((await smallModel(join(folder, 'untied.gguf'))).tensors.has('output.weight')).toBe(true)
  })

  test('1.1b holds 1.1 billion weights', () => {
    const { width, layers, feedForward, heads, kvHeads, vocabulary } = synthPresets['1.1b']
    const attention = 2 * width * width + 2 * width * (width / heads) * kvHeads
    const weights = 2 * vocabulary * width + layers * (attention + 3 * width * feedForward)
    expect(weights).toBe(1_104_150_528)
  })

  test.each([
    [{ width: 80, heads: 4 }, /width 80 is not a multiple of 32, the block of Q8_0/],
    [{ feedForward: 100 }, /feedForward 100 is not a multiple of 32/],
    [{ width: 64, heads: 3 }, /width 64 is not 3 heads of an even size/],
    [{ width: 96, heads: 32 }, /width 96 is not 32 heads of an even size/],
    [{ kvHeads: 3 }, /3 KV heads do not divide 4 heads/],
    [{ vocabulary: 300 }, /vocabulary 300 is below 354/],
    [{ layers: 0 }, /layers 0 is not a whole number from 1/],
    [{ seed: -1 }, /seed -1 is not a whole number/],
    [{ type: 'Q3_K' as 'Q8_0' }, /type Q3_K is not one of F32, F16, Q8_0, Q4_0, BF16, Q4_K/],
    [{ type: 'Q5_K_M' as const }, /width 64 is not a multiple of 256, the block of Q5_K_M/],
    [{ architecture: 'bert' as 'llama' }, /architecture bert is not one of llama, llama-moe, qwen2/],
    [{ layers: 513 }, '513 layers; llama.cpp takes at most 512'],
  ])('is refused for %o', async (changes, message) => {
    await expectCode(
      () => synthModel({ ...smallShape, ...changes, path: join(folder, 'no.gguf') }),
      'USAGE',
      message,
    )
  })

  test('may have any width in F32 and F16', async () => {
    const file = await smallModel(join(folder, 'odd.gguf'), {
      type: 'F16',
      width: 76,
      heads: 2,
      kvHeads: 1,
      feedForward: 101,
    })
    expect(file.tensors.get('blk.0.ffn_down.weight')?.dims).toEqual([101, 76])
  })
})

test('a vocabulary has distinct tokens, and each piece is the join of two better ones', async () => {
  const { tokens, scores, kinds } = vocabulary(5000)
  expect(new Set(tokens).size).toBe(5000)
  expect([tokens[0], tokens[1], tokens[2], tokens[3], tokens[258]]).toEqual([
    '<unk>',
    '<s>',
    '</s>',
    '<0x00>',
    '<0xFF>',
  ])
  const score = new Map(tokens.map((token, i) => [token, scores[i]!]))
  for (const token of tokens.slice(RESERVED_TOKENS).filter(({ length }) => length > 1)) {
    const cuts = Array.from(
      { length: token.length - 1 },
      (_, i) => [token.slice(0, i + 1), token.slice(i + 1)] as const,
    )
    expect(
      cuts.some((pair) => pair.every((piece) => (score.get(piece) ?? -Infinity) > score.get(token)!)),
      token,
    ).toBe(true)
  }
  const file = openGguf((await smallModel(join(folder, 'tokens.gguf'))).path)
  expect(arrayValues(file.metadata.get('tokenizer.ggml.tokens')!)).toEqual(tokens.slice(0, 384))
  expect(arrayValues(file.metadata.get('tokenizer.ggml.token_type')!)).toEqual(kinds.slice(0, 384))
  expect(countValue(file, 'llama.vocab_size')).toBe(384)
  expect(sha256(tensorData(file, 'output.weight'))).toHaveLength(64)
})
