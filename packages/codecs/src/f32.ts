import { asBytes, type CodecFactory } from '@seamline/core'
import { checkDecode, checkEncode, elementCount } from './shape.ts'

/**
 * The values as they are, 4 bytes each, little-endian. Every bit pattern passes unchanged, also NaN with its
 * payload, infinities, -0 and denormals.
 */
export const f32: CodecFactory = () => ({
  id: 'f32',
  lossy: false,
  dtypes: ['f32'],
  wireDType: 'f32',
  blockElements: 1,
  identity: true,
  maxEncodedBytes: (rows, columns) => elementCount(rows, columns) * 4,
  encodeInto(src, rows, columns, dst) {
    const elements = elementCount(rows, columns)
    checkEncode(src, elements, dst, elements * 4)
    dst.set(asBytes(src.subarray(0, elements)))
    return elements * 4
  },
  decodeInto(src, rows, columns, dst) {
    const elements = elementCount(rows, columns)
    checkDecode(src, elements * 4, dst, elements)
    asBytes(dst).set(src)
  },
})
