/** The `share` quantile of ascending values, linear between neighbours (type 7). NaN for none. */
export function quantile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) return Number.NaN
  const at = share * (sorted.length - 1)
  const below = sorted[Math.floor(at)]!
  const above = sorted[Math.ceil(at)]!
  return below + (above - below) * (at - Math.floor(at))
}

export function ascending(values: readonly number[]): number[] {
  return Array.from(Float64Array.from(values).sort())
}

export function median(values: readonly number[]): number {
  return quantile(ascending(values), 0.5)
}
