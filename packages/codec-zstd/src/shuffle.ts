/**
 * Byte shuffle of 16-bit elements: all low bytes, then all high bytes, then the last byte of an odd length. Sign and
 * exponent, which repeat, come to lie side by side. `src` and `dst` have one length and do not overlap.
 */
export function shuffle16(src: Uint8Array, dst: Uint8Array): void {
  const elements = src.byteLength >> 1
  for (let i = 0, from = 0; i < elements; i++, from += 2) {
    dst[i] = src[from]!
    dst[elements + i] = src[from + 1]!
  }
  if (src.byteLength & 1) dst[src.byteLength - 1] = src[src.byteLength - 1]!
}

/** Undoes {@link shuffle16}. */
export function unshuffle16(src: Uint8Array, dst: Uint8Array): void {
  const elements = src.byteLength >> 1
  for (let i = 0, to = 0; i < elements; i++, to += 2) {
    dst[to] = src[i]!
    dst[to + 1] = src[elements + i]!
  }
  if (src.byteLength & 1) dst[src.byteLength - 1] = src[src.byteLength - 1]!
}
