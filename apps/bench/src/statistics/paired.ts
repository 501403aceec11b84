import { SeamError } from '@seamline/core'
import { quantile } from './quantiles.ts'
import { sumShares } from './signed-rank.ts'

/** What pairs of measurements say of their difference. */
export interface PairedEstimate {
  /** Hodges-Lehmann: the median of all Walsh averages. */
  readonly center: number
  /** Ends of the interval that inverts the exact signed-rank test. */
  readonly low: number
  readonly high: number
  /** Of the interval, at least as asked for: the distribution has steps. */
  readonly confidence: number
  readonly pairs: number
}

/**
 * The Hodges-Lehmann estimate of `differences` and its distribution-free interval (Hollander and Wolfe, Nonparametric Statistical
 * Methods, chapter 3): the k-th smallest and largest Walsh average, k from the exact null distribution of the signed-rank statistic. Ties
 * are kept as they are. Throws `USAGE` below 6 pairs, where no 95 % interval is finite, and above 200.
 */
export function pairedEstimate(differences: readonly number[], confidence = 0.95): PairedEstimate {
  const pairs = differences.length
  if (pairs < 6 || pairs > 200)
    throw new SeamError('USAGE', `${pairs} pairs: at least 6 are needed for an interval, 200 are the most`)
  if (!differences.every(Number.isFinite)) throw new SeamError('USAGE', 'a difference is no number')
  const averages: number[] = []
  for (let i = 0; i < pairs; i++) {
    for (let j = i; j < pairs; j++) averages.push((differences[i]! + differences[j]!) / 2)
  }
  averages.sort((a, b) => a - b)
  const { rank, achieved } = criticalRank(pairs, confidence)
  return {
    center: quantile(averages, 0.5),
    low: averages[rank - 1]!,
    high: averages[averages.length - rank]!,
    confidence: achieved,
    pairs,
  }
}

/** The largest k for which P(W < k) + P(W > n(n+1)/2 - k) stays within 1 - confidence, W the signed-rank statistic under no difference. */
function criticalRank(
  pairs: number,
  confidence: number,
): { readonly rank: number; readonly achieved: number } {
  const shares = sumShares(Array.from({ length: pairs }, (_, i) => i + 1))
  let below = 0
  let rank = 0
  while (2 * (below + shares[rank]!) <= 1 - confidence) below += shares[rank++]!
  if (rank === 0) throw new SeamError('USAGE', `${pairs} pairs allow no interval of ${confidence}`)
  return { rank, achieved: 1 - 2 * below }
}
