import type { Estimate } from './estimate.ts'
import type { Candidate } from './gains.ts'

/** What is known of the runs of the chosen cell, as numbers alone. */
export interface Facts {
  readonly minimumEffectPct: number
  readonly alpha: number
  readonly candidates: readonly Candidate[]
  /** By candidate, then by run: what removing it would take off the target, in percent. NaN where a replay failed its gate. */
  readonly gains: readonly (readonly number[])[]
  /** The same for runs that recorded more. */
  readonly level2Gains: readonly (readonly number[])[]
  /** Of each run: whether a replay repeated it, and by how much the better one missed its makespan. */
  readonly replays: readonly { readonly passed: boolean; readonly errorPct: number }[]
  /** Of each run's tokens, as the limits of residue are given. */
  readonly residue: readonly {
    readonly medianPct: number
    readonly p95Pct: number
    readonly tokenNs: number
    readonly violations: number
    readonly errors: number
  }[]
  /** The most threads that were busy at once in any run, and the fewest cores. */
  readonly busyThreads: number
  readonly cores: number
  /** Mean shares of the target's time by category, in percent. */
  readonly shares: Readonly<Record<string, number>>
  /** Null: all processes share one clock. Otherwise the same as `gains` with every clock at either end of its band. */
  readonly bandGains: Readonly<Record<'low' | 'high', readonly (readonly number[])[]>> | null
  /** With a delay at the winner: ns of the target for each ns of delay, in pairs; null where it was not tried or has no place for one. */
  readonly injection: { readonly slopes: readonly number[]; readonly predicted: number } | null
}

export interface Ranked extends Candidate, Estimate {
  /** Of the winner over this one, adjusted by Holm; null for the winner and other ways to remove its category. */
  readonly p: number | null
  readonly aheadLowPct: number | null
  readonly gainsPct: readonly number[]
}
