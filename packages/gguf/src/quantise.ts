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

function encodeF32(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  const view = new DataView(out.buffer, out.byteOffset + at)
  for (let i = 0; i < count; i++) view.setFloat32(4 * i, values[i]!, true)
  return 4 * count
}

function encodeF16(values: Float32Array, count: number, out: Uint8Array, at: number): number {
  for (let i = 0; i < count; i++) putFloat16(out, at + 2 * i, values[i]!)
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

/** Encoder of each tensor type that can be made here. Q8_0 and Q4_0 take whole blocks of 32. */
export const blockEncoders = {
  F32: encodeF32,
  F16: encodeF16,
  Q8_0: encodeQ8_0,
  Q4_0: encodeQ4_0,
} as const satisfies Record<string, BlockEncoder>
