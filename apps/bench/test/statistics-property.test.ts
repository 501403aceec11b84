import wilcoxon from '@stdlib/stats-wilcoxon'
import { describe, expect, it } from 'vitest'
import { holm, pairedEstimate, quantile, quantileInterval, signedRankP } from '../src/statistics/index.ts'

// Everything here is written from definitions and shares nothing with what it checks, random numbers included.
const sets = 1000

/** Park and Miller's minimal standard generator. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

const whole = (next: () => number, least: number, most: number) =>
  least + Math.floor(next() * (most - least + 1))

/** Around a centre between -1 and 1, with long tails in half of them; no two are tied. */
function continuous(next: () => number, count: number): number[] {
  const center = 2 * next() - 1
  const power = next() < 0.5 ? 1 : 3
  return Array.from({ length: count }, () => center + (4 * next() - 2) ** power)
}

/** Whole numbers from -4 to 4: ties and zeros. */
function tied(next: () => number, count: number): number[] {
  return Array.from({ length: count }, () => whole(next, -4, 4))
}

/** All 2^n signs on mean ranks of the absolute values that are not zero. */
function bruteP(differences: readonly number[]): number {
  const left = differences.filter((value) => value !== 0)
  const sizes = left.map(Math.abs)
  const ranks = sizes.map((size) => {
    const lower = sizes.filter((other) => other < size).length
    const same = sizes.filter((other) => other === size).length
    return lower + (same + 1) / 2
  })
  const all = ranks.reduce((sum, rank) => sum + rank, 0)
  const positive = ranks.reduce((sum, rank, i) => sum + (left[i]! > 0 ? rank : 0), 0)
  let extreme = 0
  for (let signs = 0; signs < 1 << ranks.length; signs++) {
    let sum = 0
    for (let i = 0; i < ranks.length; i++) if (signs & (1 << i)) sum += ranks[i]!
    if (Math.abs(sum - all / 2) >= Math.abs(positive - all / 2)) extreme++
  }
  return extreme / 2 ** ranks.length
}

describe(`${sets} random data sets`, () => {
  it('have the signed-rank p of stdlib, up to 50 pairs without ties', () => {
    const next = generator(11)
    for (let set = 0; set < sets; set++) {
      const values = continuous(next, whole(next, 5, 50))
      // It doubles a tail of more than a half to above 1.
      const expected = Math.min(1, wilcoxon(values, { exact: true }).pValue)
      expect(signedRankP(values)).toBeCloseTo(expected, 9)
    }
  })

  it('have the p of all signs, with ties and zeros', () => {
    const next = generator(12)
    for (let set = 0; set < sets; set++) {
      const values = tied(next, whole(next, 1, 12))
      expect(signedRankP(values), values.join(' ')).toBeCloseTo(bruteP(values), 12)
    }
  })

  it('have the median of all pair means as centre, and the interval outside of which the test rejects', () => {
    const next = generator(13)
    for (let set = 0; set < sets; set++) {
      const values = continuous(next, whole(next, 6, 40))
      const means: number[] = []
      for (const [i, a] of values.entries())
        for (const [j, b] of values.entries()) if (i <= j) means.push((a + b) / 2)
      means.sort((a, b) => a - b)
      const { center, low, high, confidence } = pairedEstimate(values)
      expect(center).toBeCloseTo(
        (means[Math.floor((means.length - 1) / 2)]! + means[Math.ceil((means.length - 1) / 2)]!) / 2,
        12,
      )
      // Moved by a value just inside of the interval the sample is not rejected at 5 %, by one just outside it is.
      const p = (shift: number) =>
        wilcoxon(
          values.map((value) => value - shift),
          { exact: true },
        ).pValue
      const step = 1e-9
      expect(p(low + step)).toBeGreaterThan(0.05)
      expect(p(high - step)).toBeGreaterThan(0.05)
      expect(p(low - step)).toBeCloseTo(1 - confidence, 9)
      expect(p(high + step)).toBeCloseTo(1 - confidence, 9)
      expect(confidence).toBeGreaterThanOrEqual(0.95)
    }
  })

  it('have intervals of tied values at the pair means that counting signs gives', () => {
    const next = generator(14)
    const counts = new Map<number, number[]>()
    for (let set = 0; set < sets; set++) {
      const values = tied(next, whole(next, 6, 12))
      const n = values.length
      const means = values.flatMap((a, i) => values.filter((_, j) => i <= j).map((b) => (a + b) / 2))
      means.sort((a, b) => a - b)
      if (!counts.has(n)) counts.set(n, countsOfSums(n))
      let rank = 0
      for (let below = 0; 2 * (below + counts.get(n)![rank]!) <= 0.05 * 2 ** n; rank++)
        below += counts.get(n)![rank]!
      const { low, high } = pairedEstimate(values)
      expect([low, high]).toEqual([means[rank - 1], means[means.length - rank]])
    }
  })

  it('have the adjusted p of the definition of Holm', () => {
    const next = generator(15)
    for (let set = 0; set < sets; set++) {
      const ps = Array.from({ length: whole(next, 1, 12) }, () =>
        next() < 0.3 ? whole(next, 0, 5) / 100 : next(),
      )
      const sorted = [...ps].sort((a, b) => a - b)
      const expected = ps.map((p) => {
        const steps = sorted.slice(0, sorted.lastIndexOf(p) + 1)
        return Math.min(1, Math.max(...steps.map((each, j) => (ps.length - j) * each)))
      })
      const found = holm(ps)
      for (const [i, p] of expected.entries()) expect(found[i]).toBeCloseTo(p, 12)
    }
  })

  it('have quantiles whose sum over neighbours is that of type 7', () => {
    const next = generator(16)
    for (let set = 0; set < sets; set++) {
      const sorted = continuous(next, whole(next, 1, 40)).sort((a, b) => a - b)
      const share = next()
      // Hyndman and Fan: Q = (1 - g) x_j + g x_(j+1), where j + g = 1 + (n - 1) p and g < 1.
      const at = 1 + (sorted.length - 1) * share
      const j = Math.floor(at)
      const expected = (1 - (at - j)) * sorted[j - 1]! + (at - j) * (sorted[j] ?? 0)
      expect(quantile(sorted, share)).toBeCloseTo(expected, 9)
    }
  })

  it('have the order-statistic interval that counting by factorials gives', () => {
    const next = generator(17)
    for (let set = 0; set < sets; set++) {
      const values = continuous(next, whole(next, 1, 120))
      const share = [0.5, 0.9, 0.95, 0.25][whole(next, 0, 3)]!
      const sorted = [...values].sort((a, b) => a - b)
      const n = values.length
      const chance = (k: number) => binomial(n, k) * share ** k * (1 - share) ** (n - k)
      const total = (from: number, to: number) => {
        let sum = 0
        for (let k = from; k <= to; k++) sum += chance(k)
        return sum
      }
      let low = 0
      while (total(0, low) <= 0.025) low++
      let high = n
      while (total(high, n) <= 0.025) high--
      const expected = low === 0 || high === n ? null : { low: sorted[low - 1], high: sorted[high] }
      expect(quantileInterval(values, share, 0.95)).toEqual(expected)
    }
  })
})

/** How many of all signs on 1..n have each sum. */
function countsOfSums(n: number): number[] {
  const counts = new Array<number>((n * (n + 1)) / 2 + 1).fill(0)
  for (let signs = 0; signs < 1 << n; signs++) {
    let sum = 0
    for (let rank = 1; rank <= n; rank++) if (signs & (1 << (rank - 1))) sum += rank
    counts[sum]!++
  }
  return counts
}

function binomial(n: number, k: number): number {
  let found = 1
  for (let i = 1; i <= k; i++) found = (found * (n - k + i)) / i
  return found
}
