import { SeamError } from '@seamline/core'
import {
  alignRun,
  type InjectionPlace,
  injectionPlaces,
  type ReplayModel,
  type RunTrace,
  replayModel,
  whatIf,
} from '@seamline/profiler'
import { analyse, type Place } from 'seamline/profile'

/** A run without a delay: what was measured of it, and what a replay needs. */
export interface Undisturbed {
  readonly tpotNs: number
  readonly ttftNs: number
  /** Index of the process of each stage. */
  readonly processes: readonly number[]
  readonly model: ReplayModel
}

/** By how much a token, of `open` a first one, takes longer for each ns of delay on each occasion. */
export interface Slopes {
  readonly predicted: number
  readonly measured: number
  /** From the least to the most: of what undisturbed runs predict, of what is measured, and of undisturbed runs themselves. */
  readonly spread: number
  /** `confirmed`: apart by a tenth of the delay at most. `within the spread`: by more, but runs differ by as much without a delay. */
  readonly outcome: 'confirmed' | 'within the spread' | 'missed'
}

const TOLERANCE = 0.1

export function undisturbed(trace: RunTrace): Undisturbed {
  const processes = trace.processes.flatMap(({ role }, index) => (role === 'stage' ? [index] : []))
  const model = replayModel(alignRun(trace, analyse(trace).alignment))
  return { ...callerTimes(trace), processes, model }
}

/** Where the replay has the delay that an experiment puts into `place`; undefined for a place that it does not know. */
export function injectionPlaceOf(place: Place): InjectionPlace | undefined {
  return injectionPlaces.find((known) => known === place.replaceAll('-', ' '))
}

/** A run with a delay, and the mean of what its injector recorded. */
export interface Delayed {
  readonly trace: RunTrace
  readonly injectedNs: number
}

/**
 * Sets what replays of `quiet` runs predict for a delay in `place` of `stage` against the runs that had it. Throws `PROTOCOL` where no
 * replay repeats its run, or has no such place.
 */
export function slopesOf(
  place: InjectionPlace,
  stage: number,
  delayed: readonly Delayed[],
  quiet: readonly Undisturbed[],
): Slopes {
  const isOpen = place === 'open'
  const isOfStage = !isOpen && place !== 'emit' && place !== 'relay'
  const delayNs = median(delayed.map(({ injectedNs }) => injectedNs))
  const predicted: number[] = []
  const reasons: string[] = []
  for (const { model, processes } of quiet) {
    const replayed = whatIf(model)
    if (!replayed.ok) {
      reasons.push(replayed.reason)
      continue
    }
    const where = isOfStage ? { process: processes[stage]! } : {}
    const found = replayed.injectionSlope(place, { ...where, delayNs })
    if (found.occasionsPerToken === 0) reasons.push(`the replay has no ${place}`)
    else predicted.push(isOpen ? found.ttftPerNs : found.tpotPerNs)
  }
  if (predicted.length === 0)
    throw new SeamError(
      'PROTOCOL',
      `nothing can be predicted from ${quiet.length} undisturbed runs: ${reasons[0]}`,
    )
  const key = isOpen ? 'ttftNs' : 'tpotNs'
  const before = median(quiet.map((run) => run[key]))
  const after = delayed.map(({ trace, injectedNs }) => ({ ns: callerTimes(trace)[key], injectedNs }))
  return compareSlopes(
    predicted,
    after.map(({ ns, injectedNs }) => (ns - before) / injectedNs),
    width(quiet.map((run) => run[key])) / delayNs,
  )
}

/** Of slopes predicted by several runs and measured by several; `quiet`: how far the runs without a delay are apart, as a slope. */
export function compareSlopes(
  predictions: readonly number[],
  measurements: readonly number[],
  quiet: number,
): Slopes {
  const [predicted, measured] = [median(predictions), median(measurements)]
  const spread = width(predictions) + width(measurements) + quiet
  const apart = Math.abs(measured - predicted)
  const outcome = apart <= TOLERANCE ? 'confirmed' : apart <= spread ? 'within the spread' : 'missed'
  return { predicted, measured, spread, outcome }
}

/** Means over the sequences, on the caller's clock. */
function callerTimes({ sequences }: RunTrace): { readonly tpotNs: number; readonly ttftNs: number } {
  const mean = (of: readonly number[]) => of.reduce((sum, ns) => sum + ns, 0) / of.length
  return {
    ttftNs: mean(sequences.map(({ acceptedNs, emittedNs }) => emittedNs[0]! - acceptedNs)),
    tpotNs: mean(
      sequences.map(({ emittedNs }) => (emittedNs.at(-1)! - emittedNs[0]!) / (emittedNs.length - 1)),
    ),
  }
}

function width(values: readonly number[]): number {
  return Math.max(...values) - Math.min(...values)
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
