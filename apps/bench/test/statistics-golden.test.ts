import { describe, expect, it } from 'vitest'
import { holm, quantileInterval, random, runBootstrap, signedRankP } from '../src/statistics/index.ts'

describe('the signed-rank p', () => {
  it.each([
    // Two-sided, from P(W+ <= w) of the usual tables: 1/2^5, then 2/2^5 and 3/2^5 for w = 1 and 2; n = 10, w = 8: 25/1024.
    [[1, 2, 3, 4, 5], 2 / 32],
    [[-1, 2, 3, 4, 5], 4 / 32],
    [[1, -2, 3, 4, 5], 6 / 32],
    [[1, 2, 3, 4, 5, 6, 7, -8, 9, 10], 50 / 1024],
    // Cureton 1967, plant heights, the example of scipy.stats.wilcoxon: statistic 96 of 120, p 0.041259765625.
    [[6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75], 0.041259765625],
    // Hollander and Wolfe, table 3.1, the example of R's wilcox.test: V = 40, one-sided p 0.01953.
    [[0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01], 2 * (10 / 512)],
  ])('of %j is %f', (differences, p) => expect(signedRankP(differences)).toBeCloseTo(p, 12))

  it('with ties and zeros is that of exactRankTests', () => {
    // Bortz, Lienert and Boehnke, with wilcox.exact of R: V = 13, p-value = 0.1367.
    const x = [9, 14, 8, 11, 14, 10, 8, 14, 12, 14, 13, 9, 15, 12, 9]
    const y = [13, 15, 9, 12, 16, 10, 8, 13, 12, 16, 9, 10, 16, 12, 9]
    expect(signedRankP(x.map((value, i) => value - y[i]!))).toBeCloseTo(0.1367, 4)
  })

  it('is 1 without a difference, and whole at 200 of one sign: 2/2^200', () => {
    expect(signedRankP([0, 0, 0])).toBe(1)
    expect(signedRankP(Array.from({ length: 200 }, (_, i) => i + 1))).toBe(2 ** -199)
  })

  it.each([[[]], [[1, Number.NaN]], [[Number.POSITIVE_INFINITY]], [new Array(1001).fill(1)]])(
    'refuses %j',
    (values) => expect(() => signedRankP(values)).toThrow(expect.objectContaining({ code: 'USAGE' })),
  )
})

describe("Holm's adjustment", () => {
  it.each([
    // The example of the article "Holm-Bonferroni method" (Wikipedia), with the adjusted values that its rule gives by hand.
    [
      [0.01, 0.04, 0.03, 0.005],
      [0.03, 0.06, 0.06, 0.02],
    ],
    // The example in the documentation of pingouin.
    [
      [0.5, 0.003, 0.32, 0.054, 0.0003],
      [0.64, 0.012, 0.64, 0.162, 0.0015],
    ],
    // The example in the documentation of stdlib.
    [
      [0.319, 0.201, 0.4, 0.374, 0.113],
      [0.957, 0.804, 0.957, 0.957, 0.565],
    ],
    [[0.02], [0.02]],
    [[], []],
  ])('of %j is %j', (ps, adjusted) => {
    const found = holm(ps)
    expect(found).toHaveLength(adjusted.length)
    for (const [i, p] of adjusted.entries()) expect(found[i]).toBeCloseTo(p, 9)
  })

  it.each([[[1.1]], [[-0.1]], [[Number.NaN]]])('refuses %j', (ps) =>
    expect(() => holm(ps)).toThrow(expect.objectContaining({ code: 'USAGE' })),
  )
})

describe('the order-statistic interval', () => {
  const ranks = (count: number) => Array.from({ length: count }, (_, i) => i + 1)

  it.each([
    // 1 more than the two-sided 5 % critical value of the sign test, as printed in its tables.
    [6, 1],
    [7, 1],
    [8, 1],
    [9, 2],
    [10, 2],
    [11, 2],
    [12, 3],
    [14, 3],
    [15, 4],
    [17, 5],
    [20, 6],
    [23, 7],
    [25, 8],
    [30, 10],
    [40, 14],
    [50, 18],
    [100, 40],
  ])('of the median of %i values starts at value %i and is symmetric', (count, low) =>
    expect(quantileInterval(ranks(count), 0.5, 0.95)).toEqual({ low, high: count + 1 - low }),
  )

  it.each([
    [0.5, 6],
    [0.9, 36],
    [0.95, 72],
    [0.99, 368],
  ])('of quantile %f is finite from %i values on', (share, least) => {
    expect(quantileInterval(ranks(least - 1), share, 0.95)).toBeNull()
    expect(quantileInterval(ranks(least), share, 0.95)).toMatchObject({ high: least })
  })

  it('takes values in any order, and none gives null', () => {
    expect(quantileInterval([30, 10, 60, 20, 50, 40], 0.5, 0.95)).toEqual({ low: 10, high: 60 })
    expect(quantileInterval([], 0.5, 0.95)).toBeNull()
  })

  it('stays finite for long samples, where single terms are below the least double', () => {
    // Normal approximation of the ranks: np -+ 1.96 sqrt(np(1 - p)) = 99000 -+ 61.7.
    const found = quantileInterval(ranks(100_000), 0.99, 0.95)!
    expect(Math.abs(found.low - (99_000 - 61.7))).toBeLessThan(2)
    expect(Math.abs(found.high - (99_000 + 61.7))).toBeLessThan(2)
  })

  it.each([
    [[1], 0, 0.95],
    [[1], 0.5, 1],
    [[Number.NaN], 0.5, 0.95],
  ])('refuses %j, %f, %f', (values, share, confidence) =>
    expect(() => quantileInterval(values, share, confidence)).toThrow(
      expect.objectContaining({ code: 'USAGE' }),
    ),
  )
})

describe('random numbers', () => {
  it('are those of xoroshiro128+ and do not change: sessions are ordered by them', () => {
    const next = random(42)
    const again = random(42)
    const values = [next(), next(), next()]
    expect([again(), again(), again()]).toEqual(values)
    expect(values).toEqual(xoroshiro(42, 3))
    expect(random(43)()).not.toBe(values[0])
  })

  /** By 64-bit integers (Blackman and Vigna's reference): seeded with -1 above ~seed, and seed above 0. */
  function xoroshiro(seed: number, count: number): number[] {
    const mask = (1n << 64n) - 1n
    const rotated = (x: bigint, by: bigint) => ((x << by) | (x >> (64n - by))) & mask
    let s0 = (0xffffffffn << 32n) | BigInt(~seed >>> 0)
    let s1 = BigInt(seed >>> 0) << 32n
    const word = () => {
      const out = Number((s0 + s1) & 0xffffffffn)
      const mixed = s1 ^ s0
      s0 = (rotated(s0, 24n) ^ mixed ^ (mixed << 16n)) & mask
      s1 = rotated(mixed, 37n)
      return out
    }
    return Array.from({ length: count }, () => {
      const [high, low] = [word(), word()]
      return ((high % 2 ** 26) * 2 ** 27 + (low % 2 ** 27)) / 2 ** 53
    })
  }
})

describe('the bootstrap over runs', () => {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

  it('draws runs, not values: of runs without spread within, the mean takes only the means of runs', () => {
    const seen = new Set<number>()
    const statistic = (values: readonly number[]) => {
      seen.add(mean(values))
      return mean(values)
    }
    runBootstrap(
      1,
      [
        [1, 1, 1, 1],
        [3, 3, 3, 3],
      ],
      statistic,
      200,
    )
    expect([...seen].sort()).toEqual([1, 2, 3])
  })

  it('covers as theory says: of 40 normal run means the standard error is 1 / sqrt(40)', () => {
    const next = random(5)
    const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
    const runs = Array.from({ length: 40 }, () => [normal()])
    const { low, high } = runBootstrap(7, runs, mean, 4000)
    const m = mean(runs.flat())
    const deviation = Math.sqrt(mean(runs.flat().map((value) => (value - m) ** 2)) / 40)
    expect((high - low) / (2 * 1.96 * deviation)).toBeCloseTo(1, 1)
    expect((high + low) / 2).toBeCloseTo(m, 1)
  })

  it('is the same for the same seed', () => {
    const runs = [[1, 2], [5], [3, 9, 4]]
    expect(runBootstrap(3, runs, mean, 500)).toEqual(runBootstrap(3, runs, mean, 500))
  })

  it.each([
    [[[1]], 100],
    [[[1], []], 100],
    [[[1], [2]], 0],
  ])('refuses runs %j with %i draws', (runs, draws) =>
    expect(() => runBootstrap(1, runs, mean, draws)).toThrow(expect.objectContaining({ code: 'USAGE' })),
  )
})
