import { SeamError } from '@seamline/core'
import type { Interval } from './quantile-interval.ts'
import { ascending, quantile } from './quantiles.ts'
import { random } from './random.ts'

/**
 * The percentile interval of a statistic of values that come in runs: `draws` times as many runs as there are, drawn with replacement,
 * and the statistic of all their values together. Runs are drawn whole, for values within one depend on each other. The same for the same
 * seed. With few runs it is too narrow; compare builds by pairs instead. Throws `USAGE` below 2 runs, and for an empty run.
 */
export function runBootstrap(
  seed: number,
  runs: readonly (readonly number[])[],
  statistic: (values: readonly number[]) => number,
  draws: number,
  confidence = 0.95,
): Interval {
  if (runs.length < 2 || runs.some((run) => run.length === 0))
    throw new SeamError('USAGE', `${runs.length} runs: at least 2 are needed, and a value in each`)
  if (!Number.isInteger(draws) || draws < 1 || draws > 1_000_000)
    throw new SeamError('USAGE', `${draws} draws: from 1 to 1000000 are possible`)
  const next = random(seed)
  const found = Array.from({ length: draws }, () =>
    statistic(runs.flatMap(() => runs[Math.floor(next() * runs.length)]!)),
  )
  const sorted = ascending(found)
  return {
    low: quantile(sorted, (1 - confidence) / 2),
    high: quantile(sorted, (1 + confidence) / 2),
  }
}
