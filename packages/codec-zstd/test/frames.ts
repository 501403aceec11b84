// Frames written by hand after RFC 8878, to say what no encoder says.

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd]

/** A frame of `parts` that declares `contentBytes`, with a window of its own in KiB (a power of two) or of that size. */
export function frame(contentBytes: number, parts: readonly number[][], windowKiB?: number): Uint8Array {
  const size = [0, 8, 16, 24].map((shift) => (contentBytes >>> shift) & 255)
  const header = windowKiB === undefined ? [0xa0] : [0x80, Math.log2(windowKiB) << 3]
  return Uint8Array.from([MAGIC, header, size, ...parts].flat())
}

export const raw = (bytes: readonly number[], last = false): number[] => [
  ...blockHeader(0, bytes.length, last),
  ...bytes,
]

export const rle = (byte: number, count: number, last = false): number[] => [
  ...blockHeader(1, count, last),
  byte,
]

export const compressed = (bytes: readonly number[], last = false): number[] => [
  ...blockHeader(2, bytes.length, last),
  ...bytes,
]

/**
 * The content of a compressed block: one raw literal, then `count` sequences of no literals that repeat 34 B from 4 B back.
 * Each takes no bits at all: all three tables have one symbol.
 */
export function expanding(count: number, matchCode = 31): number[] {
  const number =
    count < 128
      ? [count]
      : count < 0x7f00
        ? [128 + (count >> 8), count & 255]
        : [255, (count - 0x7f00) & 255, (count - 0x7f00) >> 8]
  return [1 << 3, 65, ...number, 0b0101_0100, 0, 0, matchCode, 1]
}

/** Literals whose Huffman tree has weights of one symbol only: reading them takes no bits, so that an end never comes. */
export function endlessTree(): number[] {
  const tree = [12, 0xf0, 0x03, ...new Array<number>(10).fill(0xff)]
  const stored = [...tree, 1, 2, 3]
  const sizes = 2 | (0 << 2) | (16 << 4) | (stored.length << 14)
  return [sizes & 255, (sizes >> 8) & 255, sizes >> 16, ...stored, 0]
}

function blockHeader(type: number, size: number, last: boolean): number[] {
  const header = Number(last) | (type << 1) | (size << 3)
  return [header & 255, (header >> 8) & 255, header >> 16]
}
