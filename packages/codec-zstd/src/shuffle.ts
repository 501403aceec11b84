// Both directions move four elements at a time where the memory allows it: more than twice as fast as byte by byte.

/**
 * Byte shuffle of 16-bit elements: all low bytes, then all high bytes, then the last byte of an odd length. Sign and
 * exponent, which repeat, come to lie side by side. `src` and `dst` have one length and do not overlap.
 */
export function shuffle16(src: Uint8Array, dst: Uint8Array): void {
  const elements = src.byteLength >> 1
  const done = inWords(src, dst) ? (elements >> 2) << 2 : 0
  if (done > 0) {
    const words = new Int32Array(src.buffer, src.byteOffset, done >> 1)
    const low = new Int32Array(dst.buffer, dst.byteOffset, done >> 2)
    const high = new Int32Array(dst.buffer, dst.byteOffset + elements, done >> 2)
    for (let i = 0, from = 0; i < low.length; i++, from += 2) {
      const first = words[from]!
      const second = words[from + 1]!
      low[i] =
        (first & 0xff) | ((first >>> 8) & 0xff00) | ((second & 0xff) << 16) | ((second & 0xff0000) << 8)
      high[i] =
        ((first >>> 8) & 0xff) | ((first >>> 16) & 0xff00) | ((second & 0xff00) << 8) | (second & 0xff000000)
    }
  }
  for (let i = done, from = 2 * done; i < elements; i++, from += 2) {
    dst[i] = src[from]!
    dst[elements + i] = src[from + 1]!
  }
  if (src.byteLength & 1) dst[src.byteLength - 1] = src[src.byteLength - 1]!
}

/** Undoes {@link shuffle16}. */
export function unshuffle16(src: Uint8Array, dst: Uint8Array): void {
  const elements = src.byteLength >> 1
  const done = inWords(src, dst) ? (elements >> 2) << 2 : 0
  if (done > 0) {
    const words = new Int32Array(dst.buffer, dst.byteOffset, done >> 1)
    const low = new Int32Array(src.buffer, src.byteOffset, done >> 2)
    const high = new Int32Array(src.buffer, src.byteOffset + elements, done >> 2)
    for (let i = 0, to = 0; i < low.length; i++, to += 2) {
      const lows = low[i]!
      const highs = high[i]!
      words[to] = (lows & 0xff) | ((highs & 0xff) << 8) | ((lows & 0xff00) << 8) | ((highs & 0xff00) << 16)
      words[to + 1] =
        ((lows >>> 16) & 0xff) | ((highs >>> 8) & 0xff00) | ((lows >>> 8) & 0xff0000) | (highs & 0xff000000)
    }
  }
  for (let i = done, to = 2 * done; i < elements; i++, to += 2) {
    dst[to] = src[i]!
    dst[to + 1] = src[elements + i]!
  }
  if (src.byteLength & 1) dst[src.byteLength - 1] = src[src.byteLength - 1]!
}

/** True when both parts of both views begin at a multiple of 4 bytes. */
function inWords(src: Uint8Array, dst: Uint8Array): boolean {
  return ((src.byteOffset | dst.byteOffset | (src.byteLength >> 1)) & 3) === 0
}
