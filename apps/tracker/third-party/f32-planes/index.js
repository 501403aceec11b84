import { asBytes, SeamError } from '@seamline/core'

const PLANES = 4

/** @type {import('@seamline/core').CodecFactory} */
export const f32Planes = () => ({
  id: 'f32-planes',
  lossy: false,
  dtypes: ['f32'],
  wireDType: 'f32',
  blockElements: 1,
  identity: false,
  maxEncodedBytes: (rows, columns) => count(rows, columns) * PLANES,
  encodeInto(src, rows, columns, dst) {
    const values = count(rows, columns)
    if (src.length < values) throw short('CODEC', 'the shape', values, src.length)
    if (dst.length < values * PLANES) throw short('LIMIT', 'the encoding', values * PLANES, dst.length)
    const bytes = asBytes(src)
    for (let plane = 0; plane < PLANES; plane++)
      for (let i = 0; i < values; i++) dst[plane * values + i] = bytes[i * PLANES + plane]
    return values * PLANES
  },
  decodeInto(src, rows, columns, dst) {
    const values = count(rows, columns)
    if (src.length !== values * PLANES) throw short('CODEC', 'the shape', values * PLANES, src.length)
    if (dst.length < values) throw short('LIMIT', 'the shape', values, dst.length)
    const bytes = asBytes(dst)
    for (let plane = 0; plane < PLANES; plane++)
      for (let i = 0; i < values; i++) bytes[i * PLANES + plane] = src[plane * values + i]
  },
})

/** @param {number} rows @param {number} columns */
function count(rows, columns) {
  if ([rows, columns].every((side) => Number.isInteger(side) && side >= 0)) return rows * columns
  throw new SeamError('CODEC', `${rows} rows of ${columns} columns are no shape`)
}

/** @param {'CODEC' | 'LIMIT'} code @param {string} what @param {number} due @param {number} given */
function short(code, what, due, given) {
  return new SeamError(code, `f32-planes: ${what} takes ${due}, ${given} are given`)
}
