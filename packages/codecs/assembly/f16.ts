// IEEE 754 binary16. A group is 32 values; both kernels stop before the first group that holds a refused value and
// return the index of its first element, or -1 when there is none.

/**
 * Rounds four f32 to the f16 of their magnitudes. Right where that is a normal f16. Smaller values end below 0x400, the
 * largest of them right at 0x400; values from 65520 on and NaN end above 0x7bff.
 */
function roundNormal(bits: v128): v128 {
  const magnitude = v128.and(bits, i32x4.splat(0x7fffffff))
  const odd = v128.and(i32x4.shr_u(bits, 13), i32x4.splat(1))
  // Exponent bias 127 to 15, and one less than half a unit in the last place.
  const biased = i32x4.add(magnitude, i32x4.splat(0xfff - ((127 - 15) << 23)))
  return i32x4.shr_s(i32x4.add(biased, odd), 13)
}

/** Rounds four f32 to the f16 of their magnitudes. Right up to 2^-14. */
function roundDenormal(bits: v128): v128 {
  // The unit in the last place of 0.5 is 2^-24, that of every f16 below 2^-14: the sum is rounded where f16 is.
  const sum = f32x4.add(v128.and(bits, i32x4.splat(0x7fffffff)), f32x4.splat(0.5))
  return i32x4.sub(sum, i32x4.splat(0x3f000000))
}

/** `halves`, the eight that roundNormal made of `low` and `high`, with those below 0x400 set right. */
function withDenormals(halves: v128, low: v128, high: v128): v128 {
  const denormals = i16x8.narrow_i32x4_u(roundDenormal(low), roundDenormal(high))
  return v128.bitselect(denormals, halves, i16x8.lt_s(halves, i16x8.splat(0x400)))
}

/** `halves` with the signs of the eight f32 that they were made of. */
function withSigns(halves: v128, low: v128, high: v128): v128 {
  const tops = i16x8.narrow_i32x4_s(i32x4.shr_s(low, 16), i32x4.shr_s(high, 16))
  return v128.or(halves, v128.and(tops, i16x8.splat(-0x8000)))
}

export function encode(src: usize, dst: usize, elements: i32): i32 {
  const smallest = i16x8.splat(0x400)
  const largest = i16x8.splat(0x7bff)
  for (let i: i32 = 0; i < elements; i += 32) {
    const a0 = v128.load(src)
    const a1 = v128.load(src, 16)
    const b0 = v128.load(src, 32)
    const b1 = v128.load(src, 48)
    const c0 = v128.load(src, 64)
    const c1 = v128.load(src, 80)
    const d0 = v128.load(src, 96)
    const d1 = v128.load(src, 112)
    // Saturates to 0 and 0xffff, so that lanes outside of 0x400 to 0x7bff stay there.
    let a = i16x8.narrow_i32x4_u(roundNormal(a0), roundNormal(a1))
    let b = i16x8.narrow_i32x4_u(roundNormal(b0), roundNormal(b1))
    let c = i16x8.narrow_i32x4_u(roundNormal(c0), roundNormal(c1))
    let d = i16x8.narrow_i32x4_u(roundNormal(d0), roundNormal(d1))
    const ab = i16x8.max_u(i16x8.sub(a, smallest), i16x8.sub(b, smallest))
    const cd = i16x8.max_u(i16x8.sub(c, smallest), i16x8.sub(d, smallest))
    // One branch for all that is rare: most groups hold normal numbers alone.
    if (v128.any_true(i16x8.gt_u(i16x8.max_u(ab, cd), i16x8.splat(0x7bff - 0x400)))) {
      const top = i16x8.max_u(i16x8.max_u(a, b), i16x8.max_u(c, d))
      if (v128.any_true(i16x8.gt_u(top, largest))) return i
      a = withDenormals(a, a0, a1)
      b = withDenormals(b, b0, b1)
      c = withDenormals(c, c0, c1)
      d = withDenormals(d, d0, d1)
    }
    v128.store(dst, withSigns(a, a0, a1))
    v128.store(dst, withSigns(b, b0, b1), 16)
    v128.store(dst, withSigns(c, c0, c1), 32)
    v128.store(dst, withSigns(d, d0, d1), 48)
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
