import {
  type Attribution,
  alignClocks,
  attribute,
  attributionTotals,
  type ClockAlignment,
  type LaneAttribution,
  type TokenAttribution,
} from '@seamline/profiler'
import type { StoredRecord } from '../session/record.ts'

export type AttributionTotals = ReturnType<typeof attributionTotals>

/** Where the time of one run went, without its tokens, and whether everything adds up. */
export interface RunAttribution {
  /** Of tokens after the first of each sequence. */
  readonly decode: AttributionTotals
  readonly first: AttributionTotals
  readonly causalityViolations: number
  readonly omitted: number
  readonly recordingErrors: readonly string[]
  /** What does not add up, in words. */
  readonly faults: readonly string[]
}

const known = new WeakMap<StoredRecord, RunAttribution>()

/** Whether the record says where the time of its tokens went: a coordinator and stages with spans. */
export function isAttributable({ status, trace }: StoredRecord): boolean {
  if (status !== 'done' || trace === undefined || trace.level === 0) return false
  const roles = new Set(trace.processes.map(({ role }) => role))
  return roles.has('coordinator') && roles.has('stage')
}

export function alignmentOf({ trace }: StoredRecord): ClockAlignment {
  return alignClocks(trace!, { sameHost: trace!.settings.severalHosts !== true })
}

/** Of an attributable record; figured once. Throws what the profiler throws for a trace that contradicts itself. */
export function runAttribution(record: StoredRecord): RunAttribution {
  const before = known.get(record)
  if (before !== undefined) return before
  const attribution = attribute(record.trace!, alignmentOf(record))
  const { tokens, causalityViolations, omitted, recordingErrors } = attribution
  const made: RunAttribution = {
    decode: attributionTotals(tokens.filter(({ index }) => index > 0)),
    first: attributionTotals(tokens.filter(({ index }) => index === 0)),
    ...{ causalityViolations, recordingErrors, omitted: omitted.length },
    faults: faultsOf(attribution),
  }
  known.set(record, made)
  return made
}

function faultsOf({ tokens, lanes, causalityViolations, omitted }: Attribution): string[] {
  return [
    ...(causalityViolations === 0 ? [] : [`${causalityViolations} messages arrived before they were sent`]),
    ...(omitted.length === 0 ? [] : [`${omitted.length} tokens are in the trace only in part`]),
    ...tokens
      .filter((token) => !isTiled(token))
      .map(
        ({ sequence, index }) =>
          `segments of token ${index} of sequence ${sequence} do not add up to its time`,
      ),
    ...lanes
      .filter((lane) => laneNs(lane) !== lane.endNs - lane.startNs)
      .map(
        (lane) =>
          `lane ${lane.lane} of process ${lane.process}: ${laneNs(lane)} ns of ${lane.endNs - lane.startNs} ns`,
      ),
  ]
}

/** Segments follow each other without gap or overlap from the start of the token to its end. */
function isTiled({ startNs, endNs, segments }: TokenAttribution): boolean {
  let cursorNs = startNs
  for (const segment of segments) {
    if (segment.startNs !== cursorNs || segment.endNs < segment.startNs) return false
    cursorNs = segment.endNs
  }
  return cursorNs === endNs
}

function laneNs({ busyNs, waitNs, bubbleNs }: LaneAttribution): number {
  const parts = [...Object.values(busyNs), ...Object.values(waitNs), bubbleNs]
  return parts.reduce((sum, ns) => sum + ns, 0)
}
