import { SeamError } from '@seamline/core'
import { pairedEstimate } from './paired.ts'
import { random } from './random.ts'

export interface FalseVerdicts {
  /** Comparisons that found an improvement where nothing differed. */
  readonly improved: number
  readonly regressed: number
  readonly total: number
}

/** Runs that follow each other make two pairs: A B B A or B A A B. */
const blockRuns = 4

/**
 * What comparisons of a build with itself would find, made from recorded noise. Each series of `noise` has the values of one workload,
 * times or memory, in the order in which the runs were made, all of one build. A comparison takes one series, then for every two pairs four
 * runs that followed each other somewhere in it, and calls them A B B A or B A A B: drift within a block stays as it was. It is a verdict
 * where the 95 % interval of the log-ratio excludes 0 and the change is at least `minimumEffect`, a share. The same for the same seed.
 * Throws `USAGE` for a series below four runs, a value that is not above 0, and below 6 pairs.
 */
export function falseVerdicts(
  seed: number,
  noise: readonly (readonly number[])[],
  comparisons: number,
  pairs: number,
  minimumEffect = 0,
): FalseVerdicts {
  if (noise.length === 0 || noise.some((series) => series.length < blockRuns))
    throw new SeamError('USAGE', `every series needs ${blockRuns} runs or more, and there must be one`)
  if (noise.some((series) => !series.every((value) => value > 0 && value < Number.POSITIVE_INFINITY)))
    throw new SeamError('USAGE', 'a value of the noise is not above 0')
  const next = random(seed)
  const below = (count: number) => Math.floor(next() * count)
  let improved = 0
  let regressed = 0
  for (let comparison = 0; comparison < comparisons; comparison++) {
    const series = noise[below(noise.length)]!
    const differences: number[] = []
    while (differences.length < pairs) {
      const at = below(series.length - blockRuns + 1)
      const [first, second, third, fourth] = series.slice(at, at + blockRuns) as [
        number,
        number,
        number,
        number,
      ]
      const sign = below(2) === 0 ? 1 : -1
      differences.push(sign * Math.log(second / first), sign * Math.log(third / fourth))
    }
    const { center, low, high } = pairedEstimate(differences.slice(0, pairs))
    const effect = Math.expm1(center)
    if (high < 0 && effect <= -minimumEffect) improved += 1
    if (low > 0 && effect >= minimumEffect) regressed += 1
  }
  return { improved, regressed, total: comparisons }
}
