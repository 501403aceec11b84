import { SpanName, spanTagParts } from '@seamline/core'
import {
  commonSpans,
  messages,
  portName,
  spanNames,
  type TrackSpan,
  toCommonNs,
  tracks,
} from './export-tracks.ts'
import type { Attribution, ClockAlignment, RunTrace } from './trace.ts'

/** An event of the Chrome trace event format; `ts` and `dur` in µs with a fraction, so that every ns is kept. */
export interface ChromeEvent {
  readonly ph: 'X' | 'M' | 'b' | 'e' | 'n' | 's' | 'f' | 'C' | 'i'
  readonly name: string
  readonly pid: number
  readonly tid: number
  readonly ts: number
  readonly dur?: number
  readonly cat?: string
  readonly id?: string
  /** On a flow's end: it belongs to the slice around it. */
  readonly bp?: 'e'
  readonly s?: 't' | 'p'
  readonly args?: Readonly<Record<string, string | number>>
}

export interface ChromeTrace {
  readonly traceEvents: readonly ChromeEvent[]
  readonly displayTimeUnit: 'ns'
  readonly otherData: Readonly<Record<string, string | number>>
}

/**
 * The run in the Chrome trace event format (JSON object form), which Perfetto and chrome://tracing open. Every process is on
 * the last stage's clock. A thread is one track whose slices nest; a sequence is an async track with an instant for every token;
 * an arrow is a message. Time 0 is the earliest record; `otherData.originNs` is its reading of the common clock.
 * With `attribution`, one more process shows each token's segments, which tile its time.
 *
 * Format: "Trace Event Format", the Chromium project's public description.
 */
export function chromeTrace(
  trace: RunTrace,
  alignment: ClockAlignment,
  attribution?: Attribution,
): ChromeTrace {
  const allTracks = tracks(trace, alignment)
  const originNs = earliestNs(trace, alignment)
  const us = (ns: number): number => (ns - originNs) / 1000
  const events: ChromeEvent[] = []
  const meta = (name: string, pid: number, tid: number, args: ChromeEvent['args'] & object): void => {
    events.push({ ph: 'M', name, pid, tid, ts: 0, args })
  }

  trace.processes.forEach((process, index) => {
    const layers = process.role === 'stage' ? ` (layers ${process.layerFirst}–${process.layerEnd - 1})` : ''
    meta('process_name', index + 1, 0, { name: `${process.name}${layers}` })
    meta('process_sort_index', index + 1, 0, { sort_index: index })
  })

  // Where a message's ends lie, so that its arrow starts and ends on slices.
  const tids = new Map<string, number>()
  const key = (process: number, span: TrackSpan): string =>
    `${process}/${span.name}/${span.port}/${span.tag}/${span.startNs}`
  let tid = 0
  let lastProcess = -1
  for (const track of allTracks) {
    tid = track.process === lastProcess ? tid + 1 : 1
    lastProcess = track.process
    meta('thread_name', track.process + 1, tid, { name: track.name })
    meta('thread_sort_index', track.process + 1, tid, { sort_index: tid })
    for (const span of track.spans) {
      tids.set(key(track.process, span), tid)
      events.push({
        ph: 'X',
        name: spanNames.get(span.name) ?? `span ${span.name}`,
        cat: 'span',
        pid: track.process + 1,
        tid,
        ts: us(span.startNs),
        dur: durationUs(span.startNs - originNs, span.endNs - originNs),
        args: spanArgs(span),
      })
    }
  }

  messages(trace, alignment).forEach(({ from, to, sent, received }, index) => {
    const id = `message-${index}`
    const name = portName(sent.port)
    const start = { name, cat: 'message', id, pid: from + 1, tid: tids.get(key(from, sent))! }
    const end = { name, cat: 'message', id, pid: to + 1, tid: tids.get(key(to, received))! }
    events.push({ ph: 's', ...start, ts: us(sent.startNs) })
    // A viewer wants an arrow forwards in time; where the clocks' bands allow it to point back, its end is drawn at its start.
    const at = Math.max(received.startNs, sent.startNs)
    events.push({ ph: 'f', bp: 'e', ...end, ts: us(Math.min(at, received.endNs)) })
  })

  const coordinator = trace.processes.findIndex((process) => process.role === 'coordinator')
  for (const sequence of trace.sequences) {
    const last = sequence.emittedNs.at(-1) ?? sequence.acceptedNs
    const at = (ns: number): number => us(toCommonNs(alignment, coordinator, ns))
    const common = {
      name: `sequence ${sequence.sequence}`,
      cat: 'sequence',
      id: `sequence-${sequence.sequence}`,
      pid: coordinator + 1,
      tid: 0,
    }
    const counts = { promptTokens: sequence.promptTokens, tokens: sequence.emittedNs.length }
    events.push({ ph: 'b', ...common, ts: at(sequence.acceptedNs), args: counts })
    sequence.emittedNs.forEach((ns, index) => {
      events.push({ ph: 'n', ...common, name: `token ${index}`, ts: at(ns) })
    })
    events.push({ ph: 'e', ...common, ts: at(last) })
  }

  trace.processes.forEach((process, index) => {
    for (const span of commonSpans(process, index, alignment)) {
      const base = { pid: index + 1, tid: 0, ts: us(span.startNs) }
      if (span.name === SpanName.memory)
        events.push({ ph: 'C', name: 'resident memory', ...base, args: { bytes: span.bytes } })
      if (span.name === SpanName.wireBytes)
        events.push({ ph: 'C', name: `wire ${portName(span.port)}`, ...base, args: { bytes: span.bytes } })
    }
  })

  if (attribution !== undefined) {
    const pid = trace.processes.length + 1
    meta('process_name', pid, 0, { name: 'tokens, attributed' })
    meta('process_sort_index', pid, 0, { sort_index: -1 })
    for (const sequence of new Set(attribution.tokens.map((token) => token.sequence)))
      meta('thread_name', pid, sequence + 1, { name: `sequence ${sequence}` })
    for (const token of attribution.tokens)
      for (const segment of token.segments)
        events.push({
          ph: 'X',
          name: segment.category,
          cat: 'attribution',
          pid,
          tid: token.sequence + 1,
          ts: us(segment.startNs),
          dur: durationUs(segment.startNs - originNs, segment.endNs - originNs),
          args: {
            token: token.index,
            place: trace.processes[segment.process]?.name ?? '',
            uncertainNs: segment.uncertainNs,
            ...(segment.reason === undefined ? {} : { reason: segment.reason }),
          },
        })
  }

  return {
    traceEvents: events,
    displayTimeUnit: 'ns',
    otherData: {
      originNs,
      clock: 'last stage',
      complete: String(trace.complete),
      model: trace.settings.model,
    },
  }
}

/**
 * A length in µs that ends where the next slice begins for readers that add it to the start in floating point: 3 decimals where
 * that holds, else the difference of the two numbers.
 */
function durationUs(startNs: number, endNs: number): number {
  const short = (endNs - startNs) / 1000
  return startNs / 1000 + short === endNs / 1000 ? short : endNs / 1000 - startNs / 1000
}

function spanArgs(span: TrackSpan): Record<string, string | number> {
  const { sequence, position } = spanTagParts(span.tag)
  return {
    ...(span.tag > 0 && span.name !== SpanName.probe ? { sequence, position } : {}),
    ...(span.bytes > 0 && span.name !== SpanName.probe ? { bytes: span.bytes } : {}),
    ...(span.port > 0 ? { link: portName(span.port) } : {}),
  }
}

/** The earliest reading of the common clock in a trace; 0 where nothing was recorded. */
export function earliestNs(trace: RunTrace, alignment: ClockAlignment): number {
  let earliest = Number.POSITIVE_INFINITY
  trace.processes.forEach((process, index) => {
    for (const span of commonSpans(process, index, alignment)) earliest = Math.min(earliest, span.startNs)
  })
  const coordinator = trace.processes.findIndex((process) => process.role === 'coordinator')
  for (const { acceptedNs } of trace.sequences)
    earliest = Math.min(earliest, toCommonNs(alignment, coordinator, acceptedNs))
  return Number.isFinite(earliest) ? earliest : 0
}
