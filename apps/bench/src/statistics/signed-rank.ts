import { SeamError } from '@seamline/core'

/** One way out of 2^1074 is the least that a double can hold, and the rank sums take 8 MB. */
const maxDifferences = 1000

/**
 * Two-sided p of Wilcoxon's signed-rank test: the share of all ways to put signs on the ranks at hand whose rank sum is at least as far
 * from its middle as the one found. Exact, also with ties, which share the mean of their ranks. Differences of exactly zero are left
 * out, as Wilcoxon did, so p is 1 where there is no other. Throws `USAGE` for none, for more than 1000, and for what is no number.
 */
export function signedRankP(differences: readonly number[]): number {
  const { length } = differences
  if (length === 0 || length > maxDifferences)
    throw new SeamError('USAGE', `${length} differences: from 1 to ${maxDifferences} are needed`)
  if (!differences.every(Number.isFinite)) throw new SeamError('USAGE', 'a difference is no number')
  const ordered = differences.filter((value) => value !== 0).sort((a, b) => Math.abs(a) - Math.abs(b))
  const ranks = doubledRanks(ordered.map(Math.abs))
  const shares = sumShares(ranks)
  const positive = ordered.reduce((sum, value, i) => sum + (value > 0 ? ranks[i]! : 0), 0)
  const smaller = Math.min(positive, shares.length - 1 - positive)
  let tail = 0
  for (let sum = 0; sum <= smaller; sum++) tail += shares[sum]!
  return Math.min(1, 2 * tail)
}

/** Twice the rank of each of ascending values: with ties a mean of ranks may end in a half, and its double is whole. */
function doubledRanks(sorted: readonly number[]): number[] {
  const ranks: number[] = []
  for (let first = 0; first < sorted.length; ) {
    let last = first
    while (sorted[last + 1] === sorted[first]) last++
    const doubled = first + 1 + last + 1
    for (; first <= last; first++) ranks.push(doubled)
  }
  return ranks
}

/** Of all subsets of `ranks`, which are whole, the share that adds up to each sum from 0 on. */
export function sumShares(ranks: readonly number[]): Float64Array {
  const shares = new Float64Array(ranks.reduce((sum, rank) => sum + rank, 0) + 1)
  shares[0] = 1
  let most = 0
  for (const rank of ranks) {
    most += rank
    for (let sum = most; sum >= 0; sum--)
      shares[sum] = (shares[sum]! + (sum >= rank ? shares[sum - rank]! : 0)) / 2
  }
  return shares
}
