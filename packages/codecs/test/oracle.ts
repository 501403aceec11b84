/** Scalar encodings, written from the formats' definitions and independent of the kernels. Values are what the codecs carry. */

/** The binary16 pattern of an f32 pattern below 65520: integer arithmetic, to nearest, ties to even. */
export function halfOf(bits: number): number {
  const magnitude = bits & 0x7fffffff
  const sign = (bits >>> 16) & 0x8000
  if (magnitude >= 0x38800000)
    return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13)
  // In units of 2^-24; half a unit and less is 0, from 25 bits down nothing is left to round.
  const shift = 126 - (magnitude >>> 23)
  const significand = (magnitude & 0x7fffff) | 0x800000
  if (shift > 24) return sign
  return sign | ((significand + (1 << (shift - 1)) - 1 + ((significand >>> shift) & 1)) >>> shift)
}

/** The value of a binary16 bit pattern, by the formula of IEEE 754. */
export function valueOfHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1
  const exponent = (half >> 10) & 31
  const fraction = half & 0x3ff
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25)
}

/** The bfloat16 pattern of a finite f32 pattern: the nearer of its upper half and the next, ties to even. */
export function brainHalfOf(bits: number): number {
  const upper = bits >>> 16
  const rest = bits & 0xffff
  return rest > 0x8000 || (rest === 0x8000 && (upper & 1) === 1) ? upper + 1 : upper
}

/** The value of a bfloat16 bit pattern, by the formula of IEEE 754 with 8 exponent bits. */
export function valueOfBrainHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1
  const exponent = (half >> 7) & 255
  const fraction = half & 0x7f
  if (exponent === 255) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return exponent === 0 ? sign * fraction * 2 ** -133 : sign * (128 + fraction) * 2 ** (exponent - 134)
}

/** Blocks of q8_0, each step in f32 as ggml's reference has it. */
export function blocksOf(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array((values.length / 32) * 34)
  const view = new DataView(bytes.buffer)
  for (let block = 0; block < values.length / 32; block++) {
    const row = values.subarray(block * 32, block * 32 + 32)
    const scale = Math.fround(row.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) / 127)
    const inverse = Math.fround(1 / scale)
    view.setUint16(block * 34, halfOf(bitsOf(scale)), true)
    row.forEach((value, i) => {
      // ggml leaves open what a scale without a finite inverse gives; it is 2^-128 or less, and 0 as f16.
      const scaled = Number.isFinite(inverse) ? Math.fround(value * inverse) : 0
      // In doubles the sum is exact.
      view.setInt8(block * 34 + 2 + i, Math.trunc(scaled + (scaled < 0 ? -0.5 : 0.5)))
    })
  }
  return bytes
}

const float = new Float32Array(1)
const word = new Uint32Array(float.buffer)

export function bitsOf(value: number): number {
  float[0] = value
  return word[0]!
}

export function floatOf(bits: number): number {
  word[0] = bits
  return float[0]!
}

/**
 * Calls `check` with f32 patterns of magnitudes below `limit` in batches, some 4 million in all: for each sign and exponent
 * random fractions, and the pattern `step / 2` around each multiple of `step` with its neighbours, the ties of a format that drops the bits below `step`.
 */
export function sweep(limit: number, step: number, check: (bits: Uint32Array<ArrayBuffer>) => void): number {
  const random = 4096
  let count = 0
  let state = 1
  for (let top = 0; top < 512; top++) {
    const base = (top << 23) >>> 0
    const bits: number[] = []
    const add = (pattern: number) => {
      if ((pattern & 0x7fffffff) < limit) bits.push(pattern >>> 0)
    }
    for (let fraction = 0; fraction < 1 << 23; fraction += step)
      for (const offset of [-1, 0, 1, step / 2 - 1, step / 2, step / 2 + 1])
        add(base + Math.max(fraction + offset, 0))
    for (let i = 0; i < random; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      add(base + (state >>> 9))
    }
    count += bits.length
    if (bits.length > 0) check(Uint32Array.from(bits))
  }
  return count
}
