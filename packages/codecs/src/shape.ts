import { SeamError } from '@seamline/core'

/** `rows * columns`. Throws `CODEC` when either is no count. */
export function elementCount(rows: number, columns: number): number {
  if (!(Number.isInteger(rows) && rows >= 0 && Number.isInteger(columns) && columns >= 0))
    throw new SeamError('CODEC', `${rows} rows of ${columns} columns are no shape`)
  return rows * columns
}

/** Throws `CODEC` when `values` has fewer than `elements` and `LIMIT` when `dst` has fewer than `bytes`. */
export function checkEncode(values: Float32Array, elements: number, dst: Uint8Array, bytes: number): void {
  if (values.length < elements)
    throw new SeamError('CODEC', `the shape takes ${elements} values, the source holds ${values.length}`)
  if (dst.byteLength < bytes)
    throw new SeamError('LIMIT', `the encoding takes ${bytes} B, the destination holds ${dst.byteLength} B`)
}

/** Throws `CODEC` unless `src` has exactly `bytes` and `LIMIT` when `values` has fewer than `elements`. */
export function checkDecode(src: Uint8Array, bytes: number, values: Float32Array, elements: number): void {
  if (src.byteLength !== bytes)
    throw new SeamError('CODEC', `the shape takes ${bytes} encoded bytes, ${src.byteLength} B are given`)
  if (values.length < elements)
    throw new SeamError('LIMIT', `the shape takes ${elements} values, the destination holds ${values.length}`)
}
