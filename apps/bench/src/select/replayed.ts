import { SeamError } from '@seamline/core'
import {
  alignClocks,
  alignRun,
  attribute,
  attributionTotals,
  type ClockAlignment,
  type ClockMap,
  type ReplayModel,
  type RunTrace,
  replayModel,
  type WhatIf,
  whatIf,
} from '@seamline/profiler'
import type { StoredRecord } from '../session/record.ts'
import type { Target } from './targets.ts'

/** One run, ready for replays. */
export interface Replayed {
  readonly model: ReplayModel
  readonly whatIf: WhatIf
  readonly settings: RunTrace['settings']
  /** Of the processes, in the order of the trace. */
  readonly names: readonly string[]
  /** The fastest probe there and back between two processes, where there was one. */
  readonly roundTrips: readonly { readonly from: number; readonly to: number; readonly minRttNs: number }[]
  /** Of the tokens that the target is made of. */
  readonly unattributedMedianPct: number
  readonly unattributedP95Pct: number
  readonly tokenNs: number
  readonly causalityViolations: number
  readonly recordingErrors: readonly string[]
  /** Shares of these tokens by category, in percent. */
  readonly shares: Readonly<Record<string, number>>
}

/** Takes every clock to one end of what the probes allow; absent: the estimates themselves. */
export type BandEnd = 'low' | 'high'

/** Throws `MISMATCH` for a record without a trace. */
export function replayed({ trace, reason }: StoredRecord, target: Target, end?: BandEnd): Replayed {
  if (trace === undefined)
    throw new SeamError(
      'MISMATCH',
      `a run without a trace cannot be replayed: ${reason ?? 'none was written'}`,
    )
  const { settings, processes } = trace
  const clocks = alignClocks(trace, { sameHost: settings.severalHosts !== true })
  const alignment = end === undefined ? clocks : atBandEnd(clocks, end)
  const attribution = attribute(trace, alignment)
  const model = replayModel(alignRun(trace, alignment))
  const tokens = attribution.tokens.filter(({ index }) => (target === 'tpot' ? index > 0 : index === 0))
  const { rows, unattributedMedianPct, unattributedP95Pct, wallNs } = attributionTotals(tokens)
  const shares: Record<string, number> = {}
  for (const { category, sharePct } of rows) shares[category] = (shares[category] ?? 0) + sharePct
  return {
    ...{ model, whatIf: whatIf(model), settings, shares },
    names: processes.map(({ name }) => name),
    roundTrips: clocks.pairs.filter(({ probes }) => probes > 0),
    unattributedMedianPct: unattributedMedianPct ?? 100,
    unattributedP95Pct: unattributedP95Pct ?? 100,
    tokenNs: wallNs / Math.max(1, tokens.length),
    causalityViolations: attribution.causalityViolations,
    recordingErrors: attribution.recordingErrors,
  }
}

/** The line through the ends of each map's band; a map without a band stays as it is. */
export function atBandEnd(alignment: ClockAlignment, end: BandEnd): ClockAlignment {
  const moved = (map: ClockMap): ClockMap => {
    const [first, last] = [map.band[0], map.band.at(-1)]
    if (first === undefined || last === undefined) return map
    const [from, to] = end === 'low' ? [first.lowNs, last.lowNs] : [first.highNs, last.highNs]
    const lengthNs = last.atNs - first.atNs
    return {
      ...map,
      epochNs: first.atNs,
      offsetNs: Math.round(from),
      drift: lengthNs === 0 ? 0 : (to - from) / lengthNs,
    }
  }
  return { ...alignment, maps: alignment.maps.map(moved) }
}
