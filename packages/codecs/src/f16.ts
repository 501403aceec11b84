import type { CodecFactory } from '@seamline/core'
import { wasm } from './generated/f16.ts'
import { kernelCodec } from './kernel-codec.ts'

/**
 * IEEE 754 binary16, 2 bytes each, little-endian; rounded to nearest, ties to even. The error is at most
 * 2^-11 of a value, and at most 2^-25 below 2^-14, where denormals are used; up to 2^-25 a value comes back as zero.
 * Zeros keep their sign. NaN, infinities and values that would round above 65504 (magnitudes from 65520) are refused with
 * `CODEC` when encoding, and NaN and infinities when decoding; the message names row, column and value. What `dst`
 * holds then is not stated, and the codec remains usable.
 */
export const f16: CodecFactory = kernelCodec({
  id: 'f16',
  blockElements: 1,
  blockBytes: 2,
  exponentMask: 0x7c00,
  limit: 65520,
  policy: 'f16 carries finite values up to 65504',
  verb: 'is',
  wasm,
})
