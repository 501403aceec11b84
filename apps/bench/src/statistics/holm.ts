import { SeamError } from '@seamline/core'

/**
 * Holm's adjusted p of each test, in the order given: a test is rejected at a family-wise level where its adjusted p is at most that.
 * Throws `USAGE` for what is no probability.
 */
export function holm(ps: readonly number[]): number[] {
  for (const p of ps) if (!(p >= 0 && p <= 1)) throw new SeamError('USAGE', `${p} is no probability`)
  const order = ps.map((_, i) => i).sort((a, b) => ps[a]! - ps[b]!)
  const adjusted = new Array<number>(ps.length)
  let least = 0
  for (const [rank, i] of order.entries()) {
    least = Math.min(1, Math.max(least, (ps.length - rank) * ps[i]!))
    adjusted[i] = least
  }
  return adjusted
}
