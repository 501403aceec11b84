// bfloat16: the upper half of an f32. A group is 32 values; both kernels stop before the first group that holds a refused
// value and return the index of its first element, or -1 when there is none.

/** Rounds four finite f32 to bf16, sign-extended to 32 bits. */
function round(bits: v128): v128 {
  const odd = v128.and(i32x4.shr_u(bits, 16), i32x4.splat(1))
  return i32x4.shr_s(i32x4.add(i32x4.add(bits, i32x4.splat(0x7fff)), odd), 16)
}

function larger(a: v128, b: v128): v128 {
  const magnitude = i32x4.splat(0x7fffffff)
  return i32x4.max_s(v128.and(a, magnitude), v128.and(b, magnitude))
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
    const ab = i32x4.max_s(larger(a0, a1), larger(b0, b1))
    const cd = i32x4.max_s(larger(c0, c1), larger(d0, d1))
    // From 0x7f7f8000, the tie between the largest bf16 and 2^128, rounding reaches infinity.
    if (v128.any_true(i32x4.gt_s(i32x4.max_s(ab, cd), i32x4.splat(0x7f7f7fff)))) return i
    v128.store(dst, i16x8.narrow_i32x4_s(round(a0), round(a1)))
    v128.store(dst, i16x8.narrow_i32x4_s(round(b0), round(b1)), 16)
    v128.store(dst, i16x8.narrow_i32x4_s(round(c0), round(c1)), 32)
    v128.store(dst, i16x8.narrow_i32x4_s(round(d0), round(d1)), 48)
    src += 128
    dst += 64
  }
  return -1
}

function widenLow(halves: v128): v128 {
  return v128.shuffle<i16>(i16x8.splat(0), halves, 0, 8, 1, 9, 2, 10, 3, 11)
}

function widenHigh(halves: v128): v128 {
  return v128.shuffle<i16>(i16x8.splat(0), halves, 4, 12, 5, 13, 6, 14, 7, 15)
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
    if (v128.any_true(i16x8.gt_s(i16x8.max_s(ab, cd), i16x8.splat(0x7f7f)))) return i
    v128.store(dst, widenLow(a))
    v128.store(dst, widenHigh(a), 16)
    v128.store(dst, widenLow(b), 32)
    v128.store(dst, widenHigh(b), 48)
    v128.store(dst, widenLow(c), 64)
    v128.store(dst, widenHigh(c), 80)
    v128.store(dst, widenLow(d), 96)
    v128.store(dst, widenHigh(d), 112)
    src += 64
    dst += 128
  }
  return -1
}
