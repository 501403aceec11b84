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
  /** From the least to the most: of what each undisturbed run predicts, and of what is measured against each of them. */
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

/**
 * Sets what replays of `quiet` runs predict for a delay of `injectedNs` in `place` of `stage` against the run `trace` that had it. Throws
 * `PROTOCOL` where no replay repeats its run.
 */
export function slopesOf(
  place: InjectionPlace,
  stage: number,
  injectedNs: number,
  trace: RunTrace,
  quiet: readonly Undisturbed[],
): Slopes {
  const isOpen = place === 'open'
  const isOfStage = !isOpen && place !== 'emit' && place !== 'relay'
  const found = callerTimes(trace)
  const predicted: number[] = []
  const reasons: string[] = []
  for (const { model, processes } of quiet) {
    const replayed = whatIf(model)
    if (!replayed.ok) {
      reasons.push(replayed.reason)
      continue
    }
    const where = isOfStage ? { process: processes[stage]! } : {}
    const { tpotPerNs, ttftPerNs } = replayed.injectionSlope(place, { ...where, delayNs: injectedNs })
    predicted.push(isOpen ? ttftPerNs : tpotPerNs)
  }
  if (predicted.length === 0)
    throw new SeamError(
      'PROTOCOL',
      `nothing can be predicted from ${quiet.length} undisturbed runs: ${reasons[0]}`,
    )
  const key = isOpen ? 'ttftNs' : 'tpotNs'
  return compareSlopes(
    predicted,
    quiet.map((run) => (found[key] - run[key]) / injectedNs),
  )
}

/** Of slopes predicted by several runs, and measured against each of them. */
export function compareSlopes(predictions: readonly number[], measurements: readonly number[]): Slopes {
  const [predicted, measured] = [median(predictions), median(measurements)]
  const spread = width(predictions) + width(measurements)
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
