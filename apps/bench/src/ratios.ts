import { ascending, quantile } from './statistics/index.ts'

/** A comparison of two cases of one run, and what it should come to. */
export interface RatioSpec {
  readonly candidate: string
  readonly control: string
  /** `time`: how many times as long the candidate takes. `speed`: how many times as many bytes it does in the same time. */
  readonly of: 'time' | 'speed'
  /** What is taken of each round. @default p50 */
  readonly statistic?: 'p50' | 'p99'
  /** Left out: the ratio is only printed. */
  readonly target?: { readonly relation: '<=' | '>='; readonly value: number }
}

export interface Ratio {
  /** Median over the rounds of the ratios of each round. */
  readonly value: number
  readonly low: number
  readonly high: number
  readonly rounds: number
  /** Whether `value` is within the target; undefined without one. */
  readonly pass: boolean | undefined
}

/** One side of a ratio. */
export interface Timed {
  /** The median, or the statistic of the ratio, of each round. */
  readonly roundsNs: readonly number[]
  readonly bytes: number | undefined
}

/**
 * The ratio of each round, from what both cases took in it, then the median and the extremes of those: what slows a
 * whole round down cancels out. Throws a RangeError unless both have the same number of rounds.
 */
export function ratioOf(
  { of, target }: Pick<RatioSpec, 'of' | 'target'>,
  candidate: Timed,
  control: Timed,
): Ratio {
  if (candidate.roundsNs.length !== control.roundsNs.length || candidate.roundsNs.length === 0)
    throw new RangeError(`${candidate.roundsNs.length} and ${control.roundsNs.length} rounds do not compare`)
  const work = (candidate.bytes ?? 1) / (control.bytes ?? 1)
  const each = candidate.roundsNs.map((ns, round) => {
    const time = ns / control.roundsNs[round]!
    return of === 'time' ? time : work / time
  })
  const sorted = ascending(each)
  const value = quantile(sorted, 0.5)
  return {
    value,
    low: sorted[0]!,
    high: sorted.at(-1)!,
    rounds: sorted.length,
    pass:
      target === undefined
        ? undefined
        : target.relation === '<='
          ? value <= target.value
          : value >= target.value,
  }
}
