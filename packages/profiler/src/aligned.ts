import { SeamError } from '@seamline/core'
import { type Hops, hops } from './hops.ts'
import { indexRun, type RunIndex } from './steps.ts'
import type { ClockAlignment, RunTrace } from './trace.ts'

/** What `attribute` starts from, joined once and for all analyses. */
export interface AlignedRun {
  readonly run: RunIndex
  readonly alignment: ClockAlignment
  readonly hops: Hops
}

/** Joins the records of a trace. Throws as `attribute` does. */
export function alignRun(trace: RunTrace, alignment: ClockAlignment): AlignedRun {
  for (const { name, dropped } of trace.processes) {
    if (dropped > 0)
      throw new SeamError(
        'USAGE',
        `${name} lost ${dropped} spans, so that what they were is unknown: record again with more capacity or fewer tokens`,
      )
  }
  if (alignment.maps.length !== trace.processes.length)
    throw new SeamError(
      'USAGE',
      `${alignment.maps.length} clock maps for ${trace.processes.length} processes: align the clocks of this trace`,
    )
  const run = indexRun(trace)
  return { run, alignment, hops: hops(run, alignment) }
}
