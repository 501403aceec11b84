import { SeamError } from '@seamline/core'
import { studentQuantile } from './student.ts'

/** Mean of the differences and its two-sided interval by the paired t test. Throws `USAGE` below 2 pairs. */
export function pairedT(
  differences: readonly number[],
  confidence = 0.95,
): { readonly mean: number; readonly low: number; readonly high: number } {
  const n = differences.length
  if (n < 2) throw new SeamError('USAGE', `${n} pairs: at least 2 are needed for a t interval`)
  const mean = differences.reduce((sum, value) => sum + value, 0) / n
  const squares = differences.reduce((sum, value) => sum + (value - mean) ** 2, 0)
  const half = studentQuantile((1 + confidence) / 2, n - 1) * Math.sqrt(squares / (n - 1) / n)
  return { mean, low: mean - half, high: mean + half }
}
