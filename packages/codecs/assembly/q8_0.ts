// ggml's block_q8_0: a scale in f16 and 32 signed bytes. A group is one block; both kernels stop before the first block that
// is refused and return the index of its first element, or -1 when there is none.

const BLOCK_BYTES: usize = 34

/** Rounds one finite f32 of 0 or more below 65520 to f16, ties to even. */
function scaleBits(d: f32): u32 {
  const bits = reinterpret<u32>(d)
  // The unit in the last place of 0.5 is 2^-24, that of every f16 below 2^-14: the sum is rounded where f16 is.
  if (bits < (127 - 14) << 23) return reinterpret<u32>(d + <f32>0.5) - 0x3f000000
  return (bits - ((127 - 15) << 23) + 0xfff + ((bits >> 13) & 1)) >> 13
}

/** The value of a finite f16. */
function scaleValue(half: u32): f32 {
  const bits = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13)
  return reinterpret<f32>(bits) * reinterpret<f32>((127 + 127 - 15) << 23)
}

function magnitudes(bits: v128): v128 {
  return v128.and(bits, i32x4.splat(0x7fffffff))
}

/**
 * Four products, rounded half away from zero, as bytes in 32-bit lanes. The largest f32 below a half is added in place of a
 * half, which would carry 0.49999997 to 1; ties still reach the next integer, as their sum is rounded to even.
 */
function quantize(values: v128, inverse: v128): v128 {
  const scaled = f32x4.mul(values, inverse)
  const half = v128.or(v128.and(scaled, f32x4.splat(-0.0)), f32x4.splat(0.49999997))
  const rounded = f32x4.trunc(f32x4.add(scaled, half))
  // 1.5 * 2^23 has a unit in the last place of 1: the integer is in the low bits of the sum, as two's complement.
  return v128.and(f32x4.add(rounded, f32x4.splat(12582912)), i32x4.splat(0xff))
}

export function encode(src: usize, dst: usize, elements: i32): i32 {
  for (let i: i32 = 0; i < elements; i += 32) {
    const a = v128.load(src)
    const b = v128.load(src, 16)
    const c = v128.load(src, 32)
    const d = v128.load(src, 48)
    const e = v128.load(src, 64)
    const f = v128.load(src, 80)
    const g = v128.load(src, 96)
    const h = v128.load(src, 112)
    // As integers magnitudes have the same order, with infinity and NaN on top.
    let largest = i32x4.max_s(
      i32x4.max_s(i32x4.max_s(magnitudes(a), magnitudes(b)), i32x4.max_s(magnitudes(c), magnitudes(d))),
      i32x4.max_s(i32x4.max_s(magnitudes(e), magnitudes(f)), i32x4.max_s(magnitudes(g), magnitudes(h))),
    )
    largest = i32x4.max_s(largest, v128.shuffle<i32>(largest, largest, 2, 3, 0, 1))
    largest = i32x4.max_s(largest, v128.shuffle<i32>(largest, largest, 1, 0, 3, 2))
    const scale = f32x4.extract_lane(largest, 0) / 127
    // Written so that NaN is refused too: from 65520 on rounding to f16 reaches infinity.
    if (!(scale < 65520)) return i
    // A scale below 2^-128 has no finite inverse; the block is stored as zeros, as it is when all values are.
    const reciprocal = <f32>1 / scale
    const inverse = f32x4.splat(reciprocal < Infinity ? reciprocal : 0)
    store<u16>(dst, scaleBits(scale))
    const ab = i16x8.narrow_i32x4_u(quantize(a, inverse), quantize(b, inverse))
    const cd = i16x8.narrow_i32x4_u(quantize(c, inverse), quantize(d, inverse))
    const ef = i16x8.narrow_i32x4_u(quantize(e, inverse), quantize(f, inverse))
    const gh = i16x8.narrow_i32x4_u(quantize(g, inverse), quantize(h, inverse))
    v128.store(dst, i8x16.narrow_i16x8_u(ab, cd), 2)
    v128.store(dst, i8x16.narrow_i16x8_u(ef, gh), 18)
    src += 128
    dst += BLOCK_BYTES
  }
  return -1
}

/** Stores 16 products of signed bytes and the scale. */
function scaleBytes(bytes: v128, scale: v128, dst: usize): void {
  // 2^23 + 128 + byte is an f32 whose low byte is 128 + byte: interleaving builds it, a difference gives the byte, exactly.
  const shifted = v128.xor(bytes, i8x16.splat(-128))
  const zero = i8x16.splat(0)
  const exponent = i16x8.splat(0x4b00)
  const low = v128.shuffle<i8>(shifted, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
  const high = v128.shuffle<i8>(shifted, zero, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
  const offset = f32x4.splat(8388736)
  const a = v128.shuffle<i16>(low, exponent, 0, 8, 1, 9, 2, 10, 3, 11)
  const b = v128.shuffle<i16>(low, exponent, 4, 12, 5, 13, 6, 14, 7, 15)
  const c = v128.shuffle<i16>(high, exponent, 0, 8, 1, 9, 2, 10, 3, 11)
  const d = v128.shuffle<i16>(high, exponent, 4, 12, 5, 13, 6, 14, 7, 15)
  v128.store(dst, f32x4.mul(f32x4.sub(a, offset), scale))
  v128.store(dst, f32x4.mul(f32x4.sub(b, offset), scale), 16)
  v128.store(dst, f32x4.mul(f32x4.sub(c, offset), scale), 32)
  v128.store(dst, f32x4.mul(f32x4.sub(d, offset), scale), 48)
}

export function decode(src: usize, dst: usize, elements: i32): i32 {
  for (let i: i32 = 0; i < elements; i += 32) {
    const half = <u32>load<u16>(src)
    if ((half & 0x7c00) === 0x7c00) return i
    const scale = f32x4.splat(scaleValue(half))
    scaleBytes(v128.load(src, 2), scale, dst)
    scaleBytes(v128.load(src, 18), scale, dst + 64)
    src += BLOCK_BYTES
    dst += 128
  }
  return -1
}
