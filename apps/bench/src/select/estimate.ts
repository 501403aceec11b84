import { median, pairedEstimate } from '../statistics/index.ts'
import type { Candidate } from './gains.ts'

/** A Hodges-Lehmann centre with its signed-rank interval; the range where there are too few values for one. */
export interface Estimate {
  readonly gainPct: number
  readonly lowPct: number
  readonly highPct: number
}

/** Of a choice, whatever a plan says. */
export const leastRuns = 10

export function estimateOf(values: readonly number[], confidence: number): Estimate {
  const known = values.filter(Number.isFinite)
  if (known.length !== values.length || values.length < 6) {
    const middle = known.length === 0 ? 0 : median(known)
    return { gainPct: middle, lowPct: Math.min(middle, ...known), highPct: Math.max(middle, ...known) }
  }
  const { center, low, high } = pairedEstimate(values, confidence)
  return { gainPct: center, lowPct: low, highPct: high }
}

/** The candidate everywhere with the largest centre; undefined without runs, or where a replay failed. */
export function winnerOf(
  candidates: readonly Candidate[],
  gains: readonly (readonly number[])[],
  confidence: number,
): Candidate | undefined {
  return candidates
    .map((candidate, i) => ({ candidate, name: candidate.name, values: gains[i] ?? [] }))
    .filter(({ candidate }) => candidate.partOf === null)
    .filter(({ values }) => values.length > 0 && values.every(Number.isFinite))
    .map((each) => ({ ...each, ...estimateOf(each.values, confidence) }))
    .sort(byGain)[0]?.candidate
}

type Named = Estimate & { readonly name: string }

export function byGain(a: Named, b: Named): number {
  return b.gainPct - a.gainPct || (a.name < b.name ? -1 : 1)
}

export function pct(value: number): string {
  return `${value.toFixed(2)} %`
}
