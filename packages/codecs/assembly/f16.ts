// IEEE 754 binary16. A group is 32 values; both kernels stop before the first group that holds a refused value and
// return the index of its first element, or -1 when there is none.

/**
 * Rounds four f32 to the f16 of their magnitudes. Right where that is a normal f16 or would be infinite; other lanes end
 * below 0x400 or, for values from 2^17 on and NaN, above 0x7bff.
 */
function roundNormal(bits: v128): v128 {
  const magnitude = v128.and(bits, i32x4.splat(0x7fffffff))
  const odd = v128.and(i32x4.shr_u(bits, 13), i32x4.splat(1))
  // Exponent bias 127 to 15, and one less than half a unit in the last place.
  const biased = i32x4.add(magnitude, i32x4.splat(0xfff - ((127 - 15) << 23)))
  return i32x4.shr_s(i32x4.add(biased, odd), 13)
}

/** Rounds four f32 to the f16 of their magnitudes, right below 65520. */
function roundAny(bits: v128): v128 {
  const magnitude = v128.and(bits, i32x4.splat(0x7fffffff))
  // The unit in the last place of 0.5 is 2^-24, that of every f16 below 2^-14: the sum is rounded where f16 is.
  const denormal = i32x4.sub(f32x4.add(magnitude, f32x4.splat(0.5)), i32x4.splat(0x3f000000))
  const small = i32x4.lt_s(magnitude, i32x4.splat((127 - 14) << 23))
  return v128.bitselect(denormal, roundNormal(bits), small)
}

/** The signs of eight f32 in the place where f16 has them. */
function signs(low: v128, high: v128): v128 {
  const tops = i16x8.narrow_i32x4_s(i32x4.shr_s(low, 16), i32x4.shr_s(high, 16))
  return v128.and(tops, i16x8.splat(-0x8000))
}

/** Encodes 8 values, also denormal ones. */
function encodeRare(src: usize, dst: usize): void {
  const low = v128.load(src)
  const high = v128.load(src, 16)
  v128.store(dst, v128.or(i16x8.narrow_i32x4_u(roundAny(low), roundAny(high)), signs(low, high)))
}

/** True when one of 32 values is 65520 or more, infinite or NaN. */
function holdsRefused(src: usize): bool {
  let largest = i32x4.splat(0)
  for (let at: usize = 0; at < 128; at += 16) {
    largest = i32x4.max_s(largest, v128.and(v128.load(src + at), i32x4.splat(0x7fffffff)))
  }
  return v128.any_true(i32x4.ge_s(largest, i32x4.splat(0x477ff000)))
}

export function encode(src: usize, dst: usize, elements: i32): i32 {
  for (let i: i32 = 0; i < elements; i += 32) {
    const a0 = v128.load(src)
    const a1 = v128.load(src, 16)
    const b0 = v128.load(src, 32)
    const b1 = v128.load(src, 48)
    const c0 = v128.load(src, 64)
    const c1 = v128.load(src, 80)
    const d0 = v128.load(src, 96)
    const d1 = v128.load(src, 112)
    // Saturates: lanes that roundNormal has wrong stay outside of 0x400 to 0x7bff.
    const a = i16x8.narrow_i32x4_u(roundNormal(a0), roundNormal(a1))
    const b = i16x8.narrow_i32x4_u(roundNormal(b0), roundNormal(b1))
    const c = i16x8.narrow_i32x4_u(roundNormal(c0), roundNormal(c1))
    const d = i16x8.narrow_i32x4_u(roundNormal(d0), roundNormal(d1))
    v128.store(dst, v128.or(a, signs(a0, a1)))
    v128.store(dst, v128.or(b, signs(b0, b1)), 16)
    v128.store(dst, v128.or(c, signs(c0, c1)), 32)
    v128.store(dst, v128.or(d, signs(d0, d1)), 48)
    const smallest = i16x8.splat(0x400)
    const ab = i16x8.max_u(i16x8.sub(a, smallest), i16x8.sub(b, smallest))
    const cd = i16x8.max_u(i16x8.sub(c, smallest), i16x8.sub(d, smallest))
    if (v128.any_true(i16x8.gt_u(i16x8.max_u(ab, cd), i16x8.splat(0x7bff - 0x400)))) {
      if (holdsRefused(src)) return i
      encodeRare(src, dst)
      encodeRare(src + 32, dst + 16)
      encodeRare(src + 64, dst + 32)
      encodeRare(src + 96, dst + 48)
    }
    src += 128
    dst += 64
  }
  return -1
}

/** Widens four finite f16, sign-extended to 32 bits. */
function widen(halves: v128): v128 {
  // Exponent and fraction where f32 has them: a denormal f16 is a denormal f32 now. The product is exact.
  const bits = v128.and(i32x4.shl(halves, 13), i32x4.splat(0x8fffe000))
  return f32x4.mul(bits, f32x4.splat(reinterpret<f32>((127 + 127 - 15) << 23)))
}

export function decode(src: usize, dst: usize, elements: i32): i32 {
  const magnitude = i16x8.splat(0x7fff)
  for (let i: i32 = 0; i < elements; i += 32) {
    const a = v128.load(src)
    const b = v128.load(src, 16)
    const c = v128.load(src, 32)
    const d = v128.load(src, 48)
    const ab = i16x8.max_s(v128.and(a, magnitude), v128.and(b, magnitude))
    const cd = i16x8.max_s(v128.and(c, magnitude), v128.and(d, magnitude))
    if (v128.any_true(i16x8.gt_s(i16x8.max_s(ab, cd), i16x8.splat(0x7bff)))) return i
    v128.store(dst, widen(i32x4.extend_low_i16x8_s(a)))
    v128.store(dst, widen(i32x4.extend_high_i16x8_s(a)), 16)
    v128.store(dst, widen(i32x4.extend_low_i16x8_s(b)), 32)
    v128.store(dst, widen(i32x4.extend_high_i16x8_s(b)), 48)
    v128.store(dst, widen(i32x4.extend_low_i16x8_s(c)), 64)
    v128.store(dst, widen(i32x4.extend_high_i16x8_s(c)), 80)
    v128.store(dst, widen(i32x4.extend_low_i16x8_s(d)), 96)
    v128.store(dst, widen(i32x4.extend_high_i16x8_s(d)), 112)
    src += 64
    dst += 128
  }
  return -1
}
