import type { CodecFactory } from '@seamline/core'
import { wasm } from './generated/bf16.ts'
import { kernelCodec } from './kernel-codec.ts'

/**
 * bfloat16, the upper half of an f32, 2 bytes each, little-endian; rounded to nearest, ties to even. The error is at most
 * 2^-8 of a value, and at most 2^-134 below 2^-126, where denormals are used. Zeros keep their sign. NaN, infinities and
 * values that would round above the largest bf16, 255 * 2^120 (magnitudes from 2^128 - 2^119), are refused with `CODEC` when
 * encoding, and NaN and infinities when decoding; the message names row, column and value. What `dst` holds then is
 * not stated, and the codec remains usable.
 */
export const bf16: CodecFactory = kernelCodec({
  id: 'bf16',
  blockElements: 1,
  blockBytes: 2,
  exponentMask: 0x7f80,
  limit: 2 ** 128 - 2 ** 119,
  policy: `bf16 carries finite values up to ${255 * 2 ** 120}`,
  verb: 'is',
  wasm,
})
