import { asBytes, type CodecFactory, SeamError } from '@seamline/core'
import { checkDecode, checkEncode, elementCount } from './shape.ts'

// Bit patterns of f32 magnitudes.
/** 2^-14, the smallest normal f16. */
const SMALLEST_NORMAL = 0x38800000
/** 65520, the tie between 65504 (the largest f16) and 65536, and all above it including infinity and NaN. */
const TOO_LARGE = 0x477ff000
/** The difference of the exponent biases, 127 - 15, in the place of the exponent. */
const REBIAS = 0x38000000
/** Magnitude of the f16 infinity; NaN is above. */
const F16_INFINITY = 0x7c00

/**
 * IEEE 754 binary16, 2 bytes each, little-endian; rounded to nearest, ties to even. The error is at most
 * 2^-11 of a value, and at most 2^-25 below 2^-14. NaN, infinities and values that would round above 65504 are
 * refused with `CODEC` in both directions; the message names row, column and value.
 */
export const f16: CodecFactory = () => ({
  id: 'f16',
  lossy: true,
  dtypes: ['f32'],
  wireDType: 'f16',
  blockElements: 1,
  identity: false,
  maxEncodedBytes: (rows, columns) => elementCount(rows, columns) * 2,
  encodeInto(src, rows, columns, dst) {
    const elements = elementCount(rows, columns)
    const bytes = elements * 2
    checkEncode(src, elements, dst, bytes)
    const aligned = dst.byteOffset % 2 === 0
    const halves = aligned ? new Uint16Array(dst.buffer, dst.byteOffset, elements) : new Uint16Array(elements)
    const refused = encode(new Uint32Array(src.buffer, src.byteOffset, elements), halves)
    if (refused >= 0) throw outOfRange(refused, columns, src[refused]!)
    if (!aligned) dst.set(asBytes(halves))
    return bytes
  },
  decodeInto(src, rows, columns, dst) {
    const elements = elementCount(rows, columns)
    checkDecode(src, elements * 2, dst, elements)
    const from = src.byteOffset % 2 === 0 ? src : src.slice()
    const halves = new Uint16Array(from.buffer, from.byteOffset, elements)
    const refused = decode(halves, dst, new Uint32Array(dst.buffer, dst.byteOffset, elements))
    if (refused >= 0) {
      const half = halves[refused]!
      const sign = half & 0x8000 ? -1 : 1
      throw outOfRange(refused, columns, (half & 0x3ff) === 0 ? sign * Infinity : Number.NaN)
    }
  },
})

/** Returns the index of the first value that f16 cannot carry, or -1. */
function encode(src: Uint32Array, dst: Uint16Array): number {
  for (let i = 0; i < src.length; i++) {
    const bits = src[i]!
    const magnitude = bits & 0x7fffffff
    let half: number
    if (magnitude >= SMALLEST_NORMAL) {
      if (magnitude >= TOO_LARGE) return i
      half = (magnitude - REBIAS + 0xfff + ((magnitude >>> 13) & 1)) >>> 13
    } else {
      // In units of 2^-24; half a unit and less is 0, from 25 bits down nothing is left to round.
      const shift = 126 - (magnitude >>> 23)
      const significand = (magnitude & 0x7fffff) | 0x800000
      half = shift > 24 ? 0 : (significand + (1 << (shift - 1)) - 1 + ((significand >>> shift) & 1)) >>> shift
    }
    dst[i] = ((bits >>> 16) & 0x8000) | half
  }
  return -1
}

/** Writes through `values` or `bits`, two views of the same memory. Returns the index of the first non-finite, or -1. */
function decode(src: Uint16Array, values: Float32Array, bits: Uint32Array): number {
  for (let i = 0; i < src.length; i++) {
    const half = src[i]!
    const magnitude = half & 0x7fff
    if (magnitude >= F16_INFINITY) return i
    if (magnitude >= 0x400) bits[i] = ((half & 0x8000) << 16) | ((magnitude << 13) + REBIAS)
    else values[i] = (half & 0x8000 ? -magnitude : magnitude) * 2 ** -24
  }
  return -1
}

function outOfRange(index: number, columns: number, value: number): SeamError {
  return new SeamError(
    'CODEC',
    `f16 carries finite values up to 65504: row ${Math.floor(index / columns)}, column ${index % columns} is ${value}; the f32 codec carries any value`,
  )
}
