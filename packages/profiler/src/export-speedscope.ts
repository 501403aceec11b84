import { earliestNs } from './export-chrome.ts'
import { spanNames, tracks } from './export-tracks.ts'
import type { ClockAlignment, RunTrace } from './trace.ts'

export interface SpeedscopeEvent {
  readonly type: 'O' | 'C'
  readonly frame: number
  readonly at: number
}

export interface SpeedscopeProfile {
  readonly type: 'evented'
  readonly name: string
  readonly unit: 'nanoseconds'
  readonly startValue: number
  readonly endValue: number
  readonly events: readonly SpeedscopeEvent[]
}

export interface SpeedscopeFile {
  readonly $schema: 'https://www.speedscope.app/file-format-schema.json'
  readonly name: string
  readonly exporter: string
  readonly activeProfileIndex: number
  readonly shared: { readonly frames: readonly { readonly name: string }[] }
  readonly profiles: readonly SpeedscopeProfile[]
}

/**
 * The run as evented profiles of speedscope's own file format: one for each track, all on the last stage's clock with the
 * earliest record at 0, in ns. The first profile shown is that of the first engine.
 */
export function speedscope(trace: RunTrace, alignment: ClockAlignment): SpeedscopeFile {
  const originNs = earliestNs(trace, alignment)
  const frames: { name: string }[] = []
  const frameOf = new Map<number, number>()
  const frame = (span: number): number => {
    const known = frameOf.get(span)
    if (known !== undefined) return known
    frames.push({ name: spanNames.get(span) ?? `span ${span}` })
    frameOf.set(span, frames.length - 1)
    return frames.length - 1
  }
  const drawn = tracks(trace, alignment)
  const profiles = drawn.map((track): SpeedscopeProfile => {
    const events: SpeedscopeEvent[] = []
    const open: { frame: number; endNs: number }[] = []
    const closeUntil = (ns: number): void => {
      while (open.length > 0 && open.at(-1)!.endNs <= ns) {
        const top = open.pop()!
        events.push({ type: 'C', frame: top.frame, at: top.endNs - originNs })
      }
    }
    for (const span of track.spans) {
      closeUntil(span.startNs)
      const number = frame(span.name)
      events.push({ type: 'O', frame: number, at: span.startNs - originNs })
      open.push({ frame: number, endNs: span.endNs })
    }
    closeUntil(Number.POSITIVE_INFINITY)
    return {
      type: 'evented',
      name: `${trace.processes[track.process]!.name}: ${track.name}`,
      unit: 'nanoseconds',
      startValue: 0,
      endValue: events.at(-1)?.at ?? 0,
      events,
    }
  })
  return {
    $schema: 'https://www.speedscope.app/file-format-schema.json',
    name: `${trace.settings.model}, ${trace.settings.startedAt}`,
    exporter: 'seamline',
    activeProfileIndex: Math.max(
      0,
      drawn.findIndex((track) => track.name === 'engine'),
    ),
    shared: { frames },
    profiles,
  }
}
