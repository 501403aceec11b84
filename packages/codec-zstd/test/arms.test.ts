import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { init, decompress as otherDecompress } from '@bokuweb/zstd-wasm'
import { isLoaded, compressBound as libzstdBound } from '@foxglove/wasm-zstd'
import { f16, f32 } from '@seamline/codecs'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { compressBound } from '../src/frame.ts'
import { zstd, zstdArm } from '../src/index.ts'
import { frame, raw, rle } from './frames.ts'
import { activations, compressors, contents, decoders, decompress, encoders } from './support.ts'

const KIB = 1024
const SIZES = [
  0,
  1,
  2,
  3,
  255,
  256,
  1000,
  65535,
  65536,
  65792,
  128 * KIB - 1,
  128 * KIB,
  128 * KIB + 1,
  256 * KIB,
  256 * KIB + 7,
]

beforeAll(() => Promise.all([init(), isLoaded]))

describe('every encoder to every decoder', () => {
  for (const encoder of ['bokuweb', ...encoders]) {
    it(`${encoder}, around the size of a block and at several levels`, () => {
      for (const bytes of SIZES)
        for (const [kind, content] of Object.entries(contents(bytes)))
          for (const level of bytes > 100_000 ? [1, 5] : [1, 3, 9, 19]) {
            const encoded = compressors[encoder]!(content, level)
            expect(encoded.byteLength).toBeLessThanOrEqual(compressBound(bytes))
            for (const decoder of decoders)
              assertSame(
                decompress(decoder, encoded, bytes),
                content,
                `${kind}, ${bytes} B, level ${level}, ${decoder}`,
              )
            if (bytes > 0)
              assertSame(otherDecompress(encoded), content, `${kind}, ${bytes} B, level ${level}, bokuweb`)
          }
    })

    it(`${encoder}, 3 MiB and a byte, beyond the window of level 1`, () => {
      const bytes = 3 * KIB * KIB + 1
      for (const [kind, content] of Object.entries(contents(bytes))) {
        const encoded = compressors[encoder]!(content, 1)
        expect(encoded.byteLength).toBeLessThanOrEqual(compressBound(bytes))
        for (const decoder of decoders)
          assertSame(decompress(decoder, encoded, bytes), content, `${kind}, ${decoder}`)
      }
    })
  }

  it('any bits of f32', () => {
    for (const encoder of encoders)
      for (const decoder of decoders) {
        const codec = zstd(f32, { encoder, decoder })()
        fc.assert(
          fc.property(fc.uint32Array({ maxLength: 300 }), (bits) => {
            const values = new Float32Array(bits.slice().buffer)
            const dst = new Uint8Array(codec.maxEncodedBytes(1, values.length))
            const back = new Float32Array(values.length)
            codec.decodeInto(
              dst.subarray(0, codec.encodeInto(values, 1, values.length, dst)),
              1,
              values.length,
              back,
            )
            assertSame(
              new Uint8Array(back.buffer),
              new Uint8Array(bits.slice().buffer),
              `${encoder} to ${decoder}`,
            )
          }),
          { seed: 2, numRuns: 200 },
        )
      }
  })
})

it('any blocks that make up the content are taken', () => {
  const block = fc.oneof(
    fc
      .uint8Array({ maxLength: 300 })
      .map((bytes) => ({ bytes: [...bytes], write: (last: boolean) => raw([...bytes], last) })),
    fc.tuple(fc.nat(255), fc.nat(3000)).map(([byte, count]) => ({
      bytes: new Array<number>(count).fill(byte),
      write: (last: boolean) => rle(byte, count, last),
    })),
  )
  fc.assert(
    fc.property(fc.array(block, { minLength: 1, maxLength: 12 }), fc.boolean(), (blocks, single) => {
      const content = Uint8Array.from(blocks.flatMap(({ bytes }) => bytes))
      const parts = blocks.map(({ write }, i) => write(i === blocks.length - 1))
      const encoded = frame(content.byteLength, parts, single ? undefined : 4)
      for (const decoder of decoders)
        assertSame(decompress(decoder, encoded, content.byteLength), content, decoder)
    }),
    { seed: 3, numRuns: 300 },
  )
})

it('the bound is what libzstd itself says', () => {
  for (const bytes of [...SIZES, 2047, 2048, 2049, 1_000_000, 3_000_001, 2 ** 30 + 12_345])
    expect(compressBound(bytes)).toBe(libzstdBound(bytes))
})

describe('memory', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void

  for (const encoder of encoders)
    for (const decoder of decoders)
      it(`1,000 encodings by ${encoder} and decodings by ${decoder} leave it flat`, () => {
        const [rows, columns] = [4, 4096]
        const values = activations(rows, columns)
        const back = new Float32Array(values.length)
        const run = (times: number) => {
          for (let i = 0; i < times; i++) {
            const codec = zstd(f16, { encoder, decoder })()
            const dst = new Uint8Array(codec.maxEncodedBytes(rows, columns))
            codec.decodeInto(
              dst.subarray(0, codec.encodeInto(values, rows, columns, dst)),
              rows,
              columns,
              back,
            )
          }
          collect()
          collect()
          return process.memoryUsage()
        }
        // An allocator settles over the first thousand and wavers afterwards; a leak grows from each round to the next.
        const [first, second, third, fourth] = [run(500), run(500), run(500), run(500)]
        const growth = (key: 'rss' | 'external' | 'heapUsed') =>
          Math.min(third[key], fourth[key]) - Math.max(first[key], second[key])
        // V8 lets its own pages waver by 30 MB. The smallest thing to leak, the state of one decompression, has 160 KB: 160 MB.
        expect(growth('rss')).toBeLessThan(64 * KIB * KIB)
        expect(growth('external')).toBeLessThan(KIB * KIB)
        expect(growth('heapUsed')).toBeLessThan(KIB * KIB)
      })
})

it('keeps the source and what lies behind a frame', () => {
  for (const name of encoders) {
    const content = contents(5000).skewed!
    const dst = new Uint8Array(compressBound(5000)).fill(0xa5)
    const copy = content.slice()
    const bytes = zstdArm(name).compress!(content, 1, dst)
    expect(dst.subarray(bytes).every((byte) => byte === 0xa5)).toBe(true)
    expect(Buffer.compare(content, copy)).toBe(0)
  }
})

function assertSame(found: Uint8Array, expected: Uint8Array, what: string): void {
  if (Buffer.compare(found, expected) !== 0)
    expect.fail(`${what}: ${found.byteLength} B differ from ${expected.byteLength} B`)
}
