import { quantileSorted } from 'simple-statistics'

/** The `share` quantile of ascending values, linear between neighbours (type 7). NaN for none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted.length === 0 ? Number.NaN : quantileSorted(sorted, share)
}

export function ascending(values: readonly number[]): number[] {
  return Array.from(Float64Array.from(values).sort())
}

/** Of values in any order. NaN for none. */
export function median(values: readonly number[]): number {
  return quantile(ascending(values), 0.5)
}
