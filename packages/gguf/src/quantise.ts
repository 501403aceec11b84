/** Encodes `count` values of `values` as one tensor type into `out` at `at`; returns the bytes written. */
export type BlockEncoder = (values: Float32Array, count: number, out: Uint8Array, at: number) => number

/** Elements that share a scale in Q8_0 and Q4_0. */
const BLOCK = 32

const floatView = new Float32Array(1)
const bitsView = new Uint32Array(floatView.buffer)

/** Bits of the f16 nearest to `value`, ties to even; beyond the range becomes infinity. NaN stays NaN. */
export function float16Bits(value: number): number {
  floatView[0] = value
  const bits = bitsView[0]!
  const sign = (bits >>> 16) & 0x8000
  const exponent = (bits >>> 23) & 0xff
  const mantissa = bits & 0x7fffff
  if (exponent === 255) return sign | 0x7c00 | (mantissa === 0 ? 0 : 0x200)
  const shift = exponent < 113 ? 126 - exponent : 13
  if (shift > 24) return sign
  const significand = exponent < 113 ? mantissa | 0x800000 : mantissa + ((exponent - 112) << 23)
  let half = significand >>> shift
  const rest = significand & ((1 << shift) - 1)
  const middle = 1 << (shift - 1)
  if (rest > middle || (rest === middle && (half & 1) === 1)) half++
  return sign | Math.min(half, 0x7c00)
}

/** Value of the f16 with these bits; they must not be those of an infinity or NaN. */
function float16Value(bits: number): number {
  const exponent = (bits >>> 10) & 31
  const fraction = bits & 0x3ff
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25)
  return bits & 0x8000 ? -size : size
}

function encodeF32(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  const view = new DataView(out.buffer, out.byteOffset + at)
  for (let i = 0; i < count; i++) view.setFloat32(4 * i, values[i]!, true)
  return 4 * count
}

function encodeF16(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  for (let i = 0; i < count; i++) putFloat16(out, at + 2 * i, values[i]!)
  return 2 * count
}

/** The upper half of an f32, rounded to the nearest, ties to even. */
function encodeBF16(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  for (let i = 0; i < count; i++) {
    floatView[0] = values[i]!
    const bits = bitsView[0]!
    const half = (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
    out[at + 2 * i] = half & 0xff
    out[at + 2 * i + 1] = half >>> 8
  }
  return 2 * count
}

function putFloat16(out: Uint8Array, at: number, value: number): void {
  const half = float16Bits(value)
  out[at] = half & 0xff
  out[at + 1] = half >>> 8
}

/** ggml's Q8_0 (`quantize_row_q8_0_ref`): an f16 scale of amax / 127, then 32 int8, rounded half away from zero. */
function encodeQ8_0(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  let to = at
  for (let block = 0; block < count; block += BLOCK) {
    let largest = 0
    for (let i = block; i < block + BLOCK; i++) largest = Math.max(largest, Math.abs(values[i]!))
    const scale = Math.fround(largest / 127)
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale)
    putFloat16(out, to, scale)
    to += 2
    for (let i = block; i < block + BLOCK; i++) {
      const scaled = Math.fround(values[i]! * inverse)
      out[to++] = scaled < 0 ? -Math.floor(0.5 - scaled) : Math.floor(scaled + 0.5)
    }
  }
  return to - at
}

/**
 * ggml's Q4_0 (`quantize_row_q4_0_ref`): an f16 scale of the value farthest from zero / -8, then 16 bytes; byte j holds element j
 * in its low and element j + 16 in its high half, each 8 above its value.
 */
function encodeQ4_0(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  let to = at
  for (let block = 0; block < count; block += BLOCK) {
    let farthest = 0
    for (let i = block; i < block + BLOCK; i++) {
      const value = values[i]!
      if (Math.abs(value) > Math.abs(farthest)) farthest = value
    }
    const scale = Math.fround(farthest / -8)
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale)
    putFloat16(out, to, scale)
    to += 2
    for (let i = block; i < block + BLOCK / 2; i++) {
      const low = Math.min(15, Math.fround(Math.fround(values[i]! * inverse) + 8.5) | 0)
      const high = Math.min(15, Math.fround(Math.fround(values[i + BLOCK / 2]! * inverse) + 8.5) | 0)
      out[to++] = low | (high << 4)
    }
  }
  return to - at
}

/** Elements of a super-block of the K types. */
const SUPER_BLOCK = 256

/** Writes the f16 nearest to `value` and returns what it stands for. */
function putScale(out: Uint8Array, at: number, value: number): number {
  const bits = float16Bits(value)
  out[at] = bits & 0xff
  out[at + 1] = bits >>> 8
  return float16Value(bits)
}

const divided = (value: number, by: number) => (by === 0 ? 0 : value / by)
const between = (value: number, low: number, high: number) => Math.min(high, Math.max(low, Math.round(value)))

/**
 * ggml's Q4_K (`highBits` 0) and Q5_K (1), laid out as `dequantize_row_q4_K` and `dequantize_row_q5_K` read them: f16 d and dmin, eight
 * 6-bit scales and minima in 12 bytes, for Q5_K 32 bytes of fifth bits, then 4-bit halves in the order of 64 elements.
 * An element is d * scale * q - dmin * minimum, each of 32 elements on the line from their least (at most 0) to their greatest value.
 */
function lineEncoder(highBits: 0 | 1): BlockEncoder {
  const most = highBits === 0 ? 15 : 31
  const lineBytes = 16 + 32 * highBits
  const minima = new Float64Array(8)
  const steps = new Float64Array(8)
  return (values, count, out, at) => {
    let to = at
    for (let block = 0; block < count; block += SUPER_BLOCK, to += lineBytes + 128) {
      let [mostMinimum, mostStep] = [0, 0]
      for (let line = 0; line < 8; line++) {
        let [least, greatest] = [0, -Infinity]
        for (let i = block + 32 * line; i < block + 32 * line + 32; i++) {
          const value = values[i]!
          if (value < least) least = value
          if (value > greatest) greatest = value
        }
        minima[line] = -least
        steps[line] = Math.max(0, (greatest - least) / most)
        mostMinimum = Math.max(mostMinimum, minima[line]!)
        mostStep = Math.max(mostStep, steps[line]!)
      }
      out.fill(0, to, to + lineBytes + 128)
      const d = putScale(out, to, mostStep / 63)
      const dmin = putScale(out, to + 2, mostMinimum / 63)
      for (let line = 0; line < 8; line++) {
        const scale = between(divided(steps[line]!, d), 0, 63)
        const minimum = between(divided(minima[line]!, dmin), 0, 63)
        if (line < 4) {
          out[to + 4 + line]! |= scale
          out[to + 8 + line]! |= minimum
        } else {
          out[to + 8 + line] = (scale & 15) | ((minimum & 15) << 4)
          out[to + line]! |= (scale >> 4) << 6
          out[to + 4 + line]! |= (minimum >> 4) << 6
        }
        const low = to + lineBytes + 32 * (line >> 1)
        for (let j = 0; j < 32; j++) {
          const value = values[block + 32 * line + j]! + dmin * minimum
          const q = between(divided(value, d * scale), 0, most)
          out[low + j]! |= (q & 15) << (4 * (line & 1))
          if (highBits === 1) out[to + 16 + j]! |= (q >> 4) << line
        }
      }
    }
    return to - at
  }
}

/**
 * ggml's Q6_K, laid out as `dequantize_row_q6_K` reads it: for each 128 elements the low 4 bits in 64 bytes; then the upper 2 bits in 32 bytes
 * each; 16 int8 scales; f16 d. An element is d * scale * (q - 32), the scale that of its 16 elements.
 */
function encodeQ6_K(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  let to = at
  for (let block = 0; block < count; block += SUPER_BLOCK, to += 210) {
    const steps = new Float64Array(16)
    for (let i = 0; i < SUPER_BLOCK; i++) {
      steps[i >> 4] = Math.max(steps[i >> 4]!, Math.abs(values[block + i]!) / 31)
    }
    out.fill(0, to, to + 210)
    const d = putScale(out, to + 208, Math.max(...steps) / 127)
    for (let group = 0; group < 16; group++) {
      const scale = between(divided(steps[group]!, d), 0, 127)
      out[to + 192 + group] = scale
      for (let element = 16 * group; element < 16 * group + 16; element++) {
        const q = between(divided(values[block + element]!, d * scale), -32, 31) + 32
        const [half, quarter, place] = [element >> 7, (element >> 5) & 3, element & 31]
        out[to + 64 * half + 32 * (quarter & 1) + place]! |= (q & 15) << (4 * (quarter >> 1))
        out[to + 128 + 32 * half + place]! |= (q >> 4) << (2 * quarter)
      }
    }
  }
  return to - at
}

/** Encoder of each tensor type that can be made here. Q8_0 and Q4_0 take whole blocks of 32, the K types of 256. */
export const blockEncoders = {
  F32: encodeF32,
  F16: encodeF16,
  Q8_0: encodeQ8_0,
  Q4_0: encodeQ4_0,
  BF16: encodeBF16,
  Q4_K: lineEncoder(0),
  Q5_K: lineEncoder(1),
  Q6_K: encodeQ6_K,
} as const satisfies Record<string, BlockEncoder>
