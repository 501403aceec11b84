import { compressUsingDict, createCCtx, init } from '@bokuweb/zstd-wasm'
import { f16, f32 } from '@seamline/codecs'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseFrame } from '../src/frame.ts'
import { zstd } from '../src/index.ts'
import { compressed, endlessTree, expanding, frame, raw, rle } from './frames.ts'
import {
  activations,
  compressors,
  contents,
  decoders,
  decompress,
  encoders,
  random,
  refused,
} from './support.ts'

const SIXTEEN = Array.from({ length: 16 }, (_, i) => i + 1)

beforeAll(() => init())

/** Fails when `body` takes 16 MB or more, at any time or afterwards. */
function frugally(body: () => void): void {
  const peakKiB = process.resourceUsage().maxRSS
  const { external } = process.memoryUsage()
  body()
  expect(process.resourceUsage().maxRSS - peakKiB).toBeLessThan(16 * 1024)
  expect(process.memoryUsage().external - external).toBeLessThan(16e6)
}

for (const decoder of decoders) {
  describe(`${decoder} refuses`, () => {
    const corrupt = (encoded: Uint8Array, maxBytes = 2 ** 17) =>
      refused('CODEC', () => decompress(decoder, encoded, maxBytes))

    it('25 KB that are 800 MB, before anything is allocated', () => {
      const blocks = 6104
      const bomb = frame(
        blocks * 2 ** 17,
        [...new Array(blocks - 1).fill(rle(0, 2 ** 17)), rle(0, 2 ** 17, true)],
        128,
      )
      expect(bomb.byteLength).toBeLessThan(25_000)
      const [rows, columns] = [16, 4096]
      const dst = new Float32Array(rows * columns)
      for (const codec of [zstd(f32, { decoder })(), zstd(f16, { decoder })()])
        frugally(() => {
          const message = refused('CODEC', () => codec.decodeInto(bomb, rows, columns, dst))
          expect(message).toContain(`${blocks * 2 ** 17} B`)
          expect(message).toContain(`${codec.wireDType === 'f32' ? 262144 : 131072} B`)
        })
    })

    it('25 KB that declare little and are 800 MB', () => {
      const blocks = 6104
      for (const declared of [0, 1000, 2 ** 17, 2 ** 18]) {
        const bomb = frame(
          declared,
          [...new Array(blocks - 1).fill(rle(0, 2 ** 17)), rle(0, 2 ** 17, true)],
          128,
        )
        frugally(() => corrupt(bomb, 2 ** 18))
      }
    })

    it('compressed blocks that declare little and are 20 GB', () => {
      // 1,700 blocks of 98,047 sequences of 34 B, or of 131,074 B that pretend to have bits.
      for (const matchCode of [31, 52]) {
        const blocks = new Array(1700).fill(compressed(expanding(0x7f00 + 0xffff, matchCode)))
        const bomb = frame(2 ** 18, [raw(SIXTEEN), ...blocks, compressed(expanding(1), true)], 128)
        frugally(() => corrupt(bomb, 2 ** 18))
      }
    })

    it('a block that holds more or less than was declared', () => {
      const held = 16 + 100 * 34 + 1
      const blocks = [raw(SIXTEEN), compressed(expanding(100), true)]
      expect(decompress(decoder, frame(held, blocks, 4), held)).toHaveLength(held)
      for (const declared of [16, 1000, held - 1, held + 1, held + 500]) corrupt(frame(declared, blocks, 4))
      for (const declared of [16, 1000, held - 1, held + 1]) corrupt(frame(declared, blocks))
    })

    it('a raw or repeated block that holds more or less than was declared', () => {
      for (const declared of [0, 15, 17, 2 ** 16]) {
        corrupt(frame(declared, [raw(SIXTEEN, true)], 64))
        corrupt(frame(declared, [rle(1, 16, true)], 64))
      }
    })

    it('sequences that leave bits over', () => {
      const block = expanding(100)
      expect(block.at(-1)).toBe(1)
      corrupt(frame(16 + 3400 + 1, [raw(SIXTEEN), compressed([...block.slice(0, -1), 2], true)], 4))
    })

    it('literals whose tree never ends', () => {
      corrupt(frame(16, [compressed(endlessTree(), true)], 1))
    })

    it('what reaches in front of the content', () => {
      corrupt(frame(1 + 34, [compressed(expanding(1), true)], 1))
    })

    it('a second frame, a skippable frame, and trailing bytes', () => {
      const content = contents(1000).skewed!
      const encoded = compressors.bokuweb!(content, 1)
      const skippable = Uint8Array.from([0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7])
      for (const [first, second] of [
        [encoded, encoded],
        [encoded, compressors.bokuweb!(new Uint8Array(), 1)],
        [encoded, skippable],
        [skippable, encoded],
        [skippable, new Uint8Array()],
        [encoded, Uint8Array.of(0)],
        [encoded, new Uint8Array(4)],
      ] as const)
        corrupt(Uint8Array.from([...first, ...second]))
    })

    it('dictionaries, named or not', () => {
      const content = contents(4000).repeats!
      const unnamed = compressUsingDict(createCCtx(), content, content, 3)
      corrupt(unnamed)
      const plain = compressors.bokuweb!(content, 1)
      for (const bytes of [1, 2, 4]) {
        const named = [...plain.subarray(0, 5), ...new Array(bytes).fill(9), ...plain.subarray(5)]
        named[4]! |= bytes === 4 ? 3 : bytes
        expect(corrupt(Uint8Array.from(named))).toContain('dictionary')
      }
    })

    it('headers that ask for what is not taken', () => {
      const whole = frame(16, [raw(SIXTEEN, true)])
      expect([...decompress(decoder, whole, 16)]).toEqual(SIXTEEN)
      refused('CODEC', () => decompress(decoder, whole, 15))
      for (const [byte, value] of [
        [0, 0x29],
        [4, 0xa8],
        [4, 0xa4],
        [4, 0x00],
        [9, 0x07],
      ] as const) {
        const altered = whole.slice()
        altered[byte] = value
        corrupt(altered)
      }
      corrupt(frame(16, [raw(SIXTEEN, true)], 16 * 1024))
      expect([...decompress(decoder, frame(16, [raw(SIXTEEN, true)], 8 * 1024), 16)]).toEqual(SIXTEEN)
      // No size declared; 2^63 B declared.
      corrupt(Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38, ...raw(SIXTEEN, true)]))
      corrupt(
        Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0xe0, 16, 0, 0, 0, 0, 0, 0, 0x80, ...raw(SIXTEEN, true)]),
      )
    })

    it('every truncation', () => {
      for (const content of Object.values(contents(3000)))
        for (const encoder of encoders) {
          const encoded = compressors[encoder]!(content, 1)
          for (let bytes = 0; bytes < encoded.byteLength; bytes++) corrupt(encoded.subarray(0, bytes))
        }
    })
  })

  it(`${decoder} takes flipped bits as CODEC or as values that depend on nothing else`, () => {
    const next = random(5)
    let [taken, refusals] = [0, 0]
    for (const bytes of [700, 9000, 300_000])
      for (const [kind, content] of Object.entries(contents(bytes))) {
        const encoded = compressors.wasm!(content, kind === 'mixed' ? 5 : 1)
        for (let i = 0; i < (bytes > 100_000 ? 12 : 200); i++) {
          const altered = encoded.slice()
          for (let flips = 1 + Math.floor(3 * next()); flips > 0; flips--) {
            // Half of them where the headers are.
            const at = Math.floor(next() * (next() < 0.5 ? Math.min(64, altered.length) : altered.length))
            altered[at]! ^= 1 << Math.floor(8 * next())
          }
          let first: Uint8Array
          try {
            first = decompress(decoder, altered, bytes, 0xa5)
          } catch {
            refusals++
            refused('CODEC', () => decompress(decoder, altered, bytes))
            continue
          }
          taken++
          // Something else in between, so that memory used before would show.
          decompress(decoder, encoded, bytes)
          expect(Buffer.compare(first, decompress(decoder, altered, bytes, 0x5a))).toBe(0)
        }
      }
    expect(taken).toBeGreaterThan(100)
    expect(refusals).toBeGreaterThan(100)
  })

  it(`${decoder} takes bytes without meaning behind a header as CODEC`, () => {
    const next = random(6)
    for (let i = 0; i < 3000; i++) {
      const noise = Array.from({ length: 2 + Math.floor(120 * next()) }, () => Math.floor(next() * 256))
      noise[0] = (noise[0]! & ~3) | Math.floor(4 * next())
      const encoded = frame(Math.floor(next() * 2000), [raw(SIXTEEN), compressed(noise, true)], 2)
      try {
        decompress(decoder, encoded, 2000)
      } catch {
        refused('CODEC', () => decompress(decoder, encoded, 2000))
      }
    }
  })
}

describe('the headers alone refuse', () => {
  it('blocks that hold more or less than was declared', () => {
    for (const declared of [15, 17]) {
      refused('CODEC', () => parseFrame(frame(declared, [raw(SIXTEEN, true)], 64), 2 ** 20))
      refused('CODEC', () => parseFrame(frame(declared, [rle(0, 7), rle(1, 9, true)], 64), 2 ** 20))
    }
    const block = compressed(expanding(1), true)
    expect(parseFrame(frame(16 + 4096, [raw(SIXTEEN), block], 4), 2 ** 20).contentBytes).toBe(16 + 4096)
    refused('CODEC', () => parseFrame(frame(16 + 4097, [raw(SIXTEEN), block], 4), 2 ** 20))
    refused('CODEC', () => parseFrame(frame(15, [raw(SIXTEEN), block], 4), 2 ** 20))
  })

  it('blocks above 128 KiB, above the window, and above the content', () => {
    const split = (bytes: number, first: number, windowKiB?: number) =>
      frame(bytes, [rle(0, first), rle(0, bytes - first, true)], windowKiB)
    expect(parseFrame(split(2 ** 17 + 1, 2 ** 17), 2 ** 20).blocks).toHaveLength(2)
    refused('CODEC', () => parseFrame(split(2 ** 17 + 1, 2 ** 17 + 1), 2 ** 20))
    expect(parseFrame(split(2048, 1024, 1), 2 ** 20).maxBlockBytes).toBe(1024)
    refused('CODEC', () => parseFrame(split(2048, 1025, 1), 2 ** 20))
  })
})

it('a decoded shape is the one that was asked for', () => {
  const codec = zstd(f16)()
  const values = activations(3, 64)
  const dst = new Uint8Array(codec.maxEncodedBytes(3, 64))
  const encoded = dst.subarray(0, codec.encodeInto(values, 3, 64, dst))
  refused('CODEC', () => codec.decodeInto(encoded, 2, 64, new Float32Array(192)))
  refused('CODEC', () => codec.decodeInto(encoded, 4, 64, new Float32Array(256)))
  refused('LIMIT', () => codec.decodeInto(encoded, 3, 64, new Float32Array(191)))
  refused('CODEC', () => codec.encodeInto(values, 1e6, 1e6, dst))
})
