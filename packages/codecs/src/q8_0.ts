import type { CodecFactory } from '@seamline/core'
import { wasm } from './generated/q8_0.ts'
import { kernelCodec } from './kernel-codec.ts'

/**
 * ggml's `block_q8_0`, 34 bytes for 32 values of a row: a scale in f16, little-endian, then 32 signed bytes; a value is scale
 * times byte. As in ggml's reference the scale d is the block's largest magnitude over 127 and bytes are `x * (1 / d)`,
 * rounded half away from zero, with d still in f32: the bytes are those of `quantize_row_q8_0_ref`. The error is at
 * most the largest magnitude times 0.0045, and at most 2^-25 * 127 in addition where that is below 127 * 2^-14, as
 * the scale is a denormal f16 then; a block up to 127 * 2^-25 comes back as zeros. A block of zeros has the scale 0; -0
 * comes back as 0. NaN, infinities and magnitudes from 8321040, whose scale would be an infinite f16, are refused with `CODEC` when
 * encoding, and scales that are NaN or infinite when decoding; the message names row, column and value. What `dst`
 * holds then is not stated, and the codec remains usable.
 */
export const q8_0: CodecFactory = kernelCodec({
  id: 'q8_0',
  blockElements: 32,
  blockBytes: 34,
  exponentMask: 0x7c00,
  limit: 127 * 65520,
  policy: 'q8_0 carries finite values below 8321040',
  verb: 'begins a block with the scale',
  wasm,
})
