import type { Line, Point } from './hull.ts'

/** Median of the slopes between all pairs of points, and the median offset that goes with it (Theil 1950, Sen 1968). */
export function theilSen(points: readonly Point[]): Line {
  const slopes: number[] = []
  for (const [i, p] of points.entries())
    for (const q of points.slice(i + 1)) if (p.x !== q.x) slopes.push((q.y - p.y) / (q.x - p.x))
  const b = slopes.length === 0 ? 0 : quantile(slopes, 0.5)!
  return {
    a: quantile(
      points.map(({ x, y }) => y - b * x),
      0.5,
    )!,
    b,
  }
}

/** Quantile `q` of 0 to 1, type 7 of Hyndman and Fan (1996): linear between the two nearest ranks. Undefined for no values. */
export function quantile(values: readonly number[], q: number): number | undefined {
  if (values.length === 0) return undefined
  const sorted = Float64Array.from(values).sort()
  const rank = q * (sorted.length - 1)
  const below = sorted[Math.floor(rank)]!
  const above = sorted[Math.ceil(rank)]!
  return below + (above - below) * (rank - Math.floor(rank))
}
