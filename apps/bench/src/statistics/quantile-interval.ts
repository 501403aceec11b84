import { SeamError } from '@seamline/core'
import { ascending } from './quantiles.ts'

export interface Interval {
  readonly low: number
  readonly high: number
}

/**
 * Values of the sample between which the `share` quantile lies with at least `confidence`, whatever the distribution (Hahn and Meeker,
 * Statistical Intervals, chapter 5): on each side the quantile lies beyond with at most half of what is left. Null where the sample is too
 * small for that: at 95 % below 6 values for the median, 36 for p90, 72 for p95 and 368 for p99. Values must be independent: not
 * the tokens of one run. Throws `USAGE` unless both are between 0 and 1 and every value is a number.
 */
export function quantileInterval(
  values: readonly number[],
  share: number,
  confidence = 0.95,
): Interval | null {
  for (const each of [share, confidence])
    if (!(each > 0 && each < 1)) throw new SeamError('USAGE', `${each} is not between 0 and 1`)
  if (!values.every(Number.isFinite)) throw new SeamError('USAGE', 'a value is no number')
  const sorted = ascending(values)
  // The k-th value lies above the quantile when fewer than k do not: the tail below it of a binomial distribution.
  const low = lastRank(sorted.length, share, (1 - confidence) / 2)
  const fromTop = lastRank(sorted.length, 1 - share, (1 - confidence) / 2)
  if (low === 0 || fromTop === 0) return null
  return { low: sorted[low - 1]!, high: sorted[sorted.length - fromTop]! }
}

/** The largest k with P(X < k) <= `tail` for X binomial of `count` and `share`. */
function lastRank(count: number, share: number, tail: number): number {
  // By logarithms: the first terms of long samples are below the least double.
  let log = count * Math.log1p(-share)
  let below = 0
  for (let k = 0; k < count; k++) {
    below += Math.exp(log)
    if (below > tail) return k
    log += Math.log((count - k) / (k + 1)) + Math.log(share) - Math.log1p(-share)
  }
  return count
}
