import { compress as otherCompress } from '@bokuweb/zstd-wasm'
import { type CodecFactory, isSeamError, SeamError } from '@seamline/core'
import { expect } from 'vitest'
import { compressBound, parseFrame } from '../src/frame.ts'
import { type ZstdArmName, zstdArm, zstdArms } from '../src/index.ts'

/** Everything this host can decompress with. */
export const decoders: readonly ZstdArmName[] = zstdArms()
/** Everything this host can compress with. */
export const encoders = decoders.filter((name) => name !== 'fzstd')

/** Encoders here and one of another project; call `init` of `@bokuweb/zstd-wasm` first. */
export const compressors: Record<string, (content: Uint8Array, level: number) => Uint8Array> = {
  bokuweb: (content, level) => otherCompress(content, level),
  ...Object.fromEntries(
    encoders.map((name) => [
      name,
      (content: Uint8Array, level: number) => {
        const dst = new Uint8Array(compressBound(content.byteLength))
        return dst.slice(0, zstdArm(name).compress!(content, level, dst))
      },
    ]),
  ),
}

/** What the codec does to a frame: parse it against a bound, then fill memory of the declared size. */
export function decompress(name: ZstdArmName, frame: Uint8Array, maxBytes: number, fill = 0xa5): Uint8Array {
  const parsed = parseFrame(frame, maxBytes)
  const dst = new Uint8Array(parsed.contentBytes).fill(fill)
  zstdArm(name).decompress(frame, dst, parsed)
  return dst
}

/** Fails unless `body` ends in a SeamError of that code; returns its message. */
export function refused(code: string, body: () => unknown): string {
  try {
    body()
  } catch (error) {
    if (!isSeamError(error)) throw error
    expect(error.code, error.message).toBe(code)
    return error.message
  }
  return expect.fail(`was not refused with ${code}`)
}

export function random(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
}

/** Bytes of every kind that makes another kind of block: noise, zeros, a skewed alphabet, repeats of itself, and all in turn. */
export function contents(bytes: number): Record<string, Uint8Array> {
  const next = random(bytes)
  const noise = Uint8Array.from({ length: bytes }, () => next() * 256)
  const skewed = Uint8Array.from({ length: bytes }, () => 120 + Math.floor(8 * next() * next() * next()))
  const repeats = new Uint8Array(bytes)
  for (let i = 0; i < bytes; ) {
    const length = Math.min(bytes - i, 3 + Math.floor(200 * next() ** 3))
    const back = Math.floor(next() * Math.min(i, 100_000))
    for (let end = i + length; i < end; i++)
      repeats[i] = next() < 0.02 || i === 0 ? next() * 256 : repeats[i - 1 - (back % i)]!
  }
  const zeros = new Uint8Array(bytes)
  const turns = [noise, skewed, repeats, zeros]
  const mixed = Uint8Array.from({ length: bytes }, (_, i) => turns[(i >> 15) & 3]![i]!)
  return { noise, zeros, skewed, repeats, mixed }
}

/** Hidden states: gaussian, times a lognormal scale of the channel, times 30 in one channel of 911. */
export function activations(rows: number, columns: number, seed = 1): Float32Array {
  const next = random(seed)
  const gaussian = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
  const scales = Float64Array.from(
    { length: columns },
    (_, i) => Math.exp(gaussian() / 2) * (i % 911 === 5 ? 30 : 1),
  )
  return Float32Array.from({ length: rows * columns }, (_, i) => gaussian() * scales[i % columns]!)
}

/** The upper half of f32, cut off: an inner codec of 16 bits for every value. NaN stays NaN when its upper half says so. */
export const cut16: CodecFactory = () => ({
  id: 'cut16',
  lossy: true,
  dtypes: ['f32'],
  wireDType: 'bf16',
  blockElements: 1,
  identity: false,
  maxEncodedBytes: (rows, columns) => count(rows, columns) * 2,
  encodeInto(src, rows, columns, dst) {
    const elements = count(rows, columns)
    if (dst.byteLength < elements * 2) throw new SeamError('LIMIT', 'too small')
    const [from, to] = [viewOf(src), viewOf(dst)]
    for (let i = 0; i < elements; i++) to.setUint16(2 * i, from.getUint16(4 * i + 2, true), true)
    return elements * 2
  },
  decodeInto(src, rows, columns, dst) {
    if (src.byteLength !== count(rows, columns) * 2) throw new SeamError('CODEC', 'another length')
    const [from, to] = [viewOf(src), viewOf(dst)]
    for (let i = 0; i < rows * columns; i++) to.setUint32(4 * i, from.getUint16(2 * i, true) << 16, true)
  },
})

const F32_LARGEST = 3.4028234663852886e38

/** Blocks of 32 values as an f32 scale and 32 i8. */
export const blocks32: CodecFactory = () => ({
  id: 'blocks32',
  lossy: true,
  dtypes: ['f32'],
  wireDType: 'q8_0',
  blockElements: 32,
  identity: false,
  maxEncodedBytes: (rows, columns) => (count(rows, columns, 32) / 32) * 36,
  encodeInto(src, rows, columns, dst) {
    const blocks = count(rows, columns, 32) / 32
    if (dst.byteLength < blocks * 36) throw new SeamError('LIMIT', 'too small')
    const to = viewOf(dst)
    for (let block = 0; block < blocks; block++) {
      const values = src.subarray(block * 32, block * 32 + 32)
      const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
      const scale = Math.fround(largest / 127)
      if (!Number.isFinite(largest)) throw new SeamError('CODEC', 'not finite')
      to.setFloat32(block * 36, scale, true)
      for (let i = 0; i < 32; i++)
        to.setInt8(
          block * 36 + 4 + i,
          scale === 0 ? 0 : Math.max(-127, Math.min(127, Math.round(values[i]! / scale))),
        )
    }
    return blocks * 36
  },
  decodeInto(src, rows, columns, dst) {
    const blocks = count(rows, columns, 32) / 32
    if (src.byteLength !== blocks * 36) throw new SeamError('CODEC', 'another length')
    const from = viewOf(src)
    for (let i = 0; i < blocks * 32; i++)
      dst[i] = Math.max(
        -F32_LARGEST,
        Math.min(
          F32_LARGEST,
          from.getInt8((i >> 5) * 36 + 4 + (i & 31)) * from.getFloat32((i >> 5) * 36, true),
        ),
      )
  },
})

function count(rows: number, columns: number, block = 1): number {
  if (
    !(
      Number.isInteger(rows) &&
      rows >= 0 &&
      Number.isInteger(columns) &&
      columns >= 0 &&
      columns % block === 0
    )
  )
    throw new SeamError('CODEC', `${rows} x ${columns} is no shape`)
  return rows * columns
}

function viewOf(view: ArrayBufferView): DataView {
  return new DataView(view.buffer, view.byteOffset, view.byteLength)
}
