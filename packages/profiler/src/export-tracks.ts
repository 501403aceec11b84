import { SPAN_RECORD_LENGTH, SpanName, SpanPort } from '@seamline/core'
import type { ClockAlignment, ProcessTrace, RunTrace } from './trace.ts'

/** One record on the common clock. */
export interface TrackSpan {
  readonly name: SpanName
  /** On the clock of the last stage, integer ns. */
  readonly startNs: number
  readonly endNs: number
  readonly tag: number
  readonly bytes: number
  readonly port: number
}

/** Spans of one process of which any two are either apart or one inside the other: what trace viewers can draw. */
export interface Track {
  readonly process: number
  readonly name: string
  /** By start; of two with the same start the longer one first. */
  readonly spans: readonly TrackSpan[]
}

/** Names of {@link SpanName} by number. */
export const spanNames: ReadonlyMap<number, string> = new Map(
  Object.entries(SpanName).map(([name, value]) => [value, name]),
)

/** Names of {@link SpanPort} by number; 100 and up are the coordinator's probes of stages. */
export function portName(port: number): string {
  const known = Object.entries(SpanPort).find(([, value]) => value === port)
  return known === undefined ? `link ${port}` : known[0]
}

/** Records that mark an instant or describe another record. */
const notDrawn: ReadonlySet<number> = new Set([
  SpanName.member,
  SpanName.request,
  SpanName.memory,
  SpanName.wireBytes,
  // Hundreds, one beside the other: what they tell stands in the table of clocks.
  SpanName.probe,
  SpanName.calibration,
])

const engine: ReadonlySet<number> = new Set([SpanName.compute, SpanName.sample, SpanName.cpuWait])

function trackName(span: TrackSpan): string {
  if (engine.has(span.name)) return 'engine'
  switch (span.name) {
    case SpanName.stageQueue:
    case SpanName.creditWait:
    case SpanName.open:
    case SpanName.submit:
    case SpanName.resume:
      return 'queue'
    case SpanName.sendQueue:
    case SpanName.receive:
      return `link ${portName(span.port)}`
    case SpanName.relayIn:
    case SpanName.relayQueue:
    case SpanName.relayOut:
      return `relay direction ${span.port}`
    case SpanName.gc:
      return 'gc'
    case SpanName.loopCpuWait:
      return 'event loop without a CPU'
    default:
      return 'event loop'
  }
}

const trackOrder = ['engine', 'event loop', 'queue', 'link', 'relay', 'gc', 'event loop without a CPU']

/** Reading of the last stage's clock when that of `process` read `ns`, to the nearest ns; monotone in `ns`. */
export function toCommonNs(alignment: ClockAlignment, process: number, ns: number): number {
  const map = alignment.maps[process]
  if (map === undefined) return Math.round(ns)
  return Math.round(ns + map.offsetNs + map.drift * (ns - map.epochNs))
}

/** Records of a process on the common clock, in the order in which they were made. Damaged ones (an end before its start) are left out. */
export function commonSpans(process: ProcessTrace, index: number, alignment: ClockAlignment): TrackSpan[] {
  const { spans } = process
  const result: TrackSpan[] = []
  for (let at = 0; at + SPAN_RECORD_LENGTH <= spans.length; at += SPAN_RECORD_LENGTH) {
    const startNs = toCommonNs(alignment, index, spans[at + 1]!)
    const endNs = toCommonNs(alignment, index, spans[at + 2]!)
    if (!(endNs >= startNs)) continue
    result.push({
      name: spans[at]! as SpanName,
      startNs,
      endNs,
      tag: spans[at + 3]!,
      bytes: spans[at + 4]!,
      port: spans[at + 5]!,
    })
  }
  return result
}

/**
 * All drawn spans of a run as tracks that nest. Spans that overlap without nesting (steps that wait at the same time, messages
 * under way at the same time) go to further tracks of the same name with a number.
 */
export function tracks(trace: RunTrace, alignment: ClockAlignment): Track[] {
  return trace.processes.flatMap((process, index) => {
    const groups = new Map<string, TrackSpan[]>()
    for (const span of commonSpans(process, index, alignment)) {
      if (notDrawn.has(span.name)) continue
      const name = trackName(span)
      const group = groups.get(name)
      if (group === undefined) groups.set(name, [span])
      else group.push(span)
    }
    return [...groups]
      .sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
      .flatMap(([name, spans]) =>
        nested(spans).map((part, number) => ({
          process: index,
          name: number === 0 ? name : `${name} ${number + 1}`,
          spans: part,
        })),
      )
  })
}

function rank(name: string): number {
  const exact = trackOrder.indexOf(name)
  return exact >= 0 ? exact : trackOrder.findIndex((prefix) => name.startsWith(prefix))
}

function nested(spans: readonly TrackSpan[]): TrackSpan[][] {
  const sorted = [...spans].sort((a, b) => a.startNs - b.startNs || b.endNs - a.endNs)
  const parts: { spans: TrackSpan[]; open: number[] }[] = []
  for (const span of sorted) {
    const part = parts.find(({ open }) => {
      while (open.length > 0 && open.at(-1)! <= span.startNs) open.pop()
      return open.length === 0 || open.at(-1)! >= span.endNs
    })
    if (part === undefined) parts.push({ spans: [span], open: [span.endNs] })
    else {
      part.spans.push(span)
      part.open.push(span.endNs)
    }
  }
  return parts.map((part) => part.spans)
}

/** A message that left one process and arrived at another. */
export interface Message {
  readonly from: number
  readonly to: number
  readonly sent: TrackSpan
  readonly received: TrackSpan
}

/** Messages whose two ends were recorded, joined by port and tag; the n-th with the n-th where a tag occurs again. */
export function messages(trace: RunTrace, alignment: ClockAlignment): Message[] {
  const stages = trace.processes
    .map((process, index) => ({ process, index }))
    .filter(({ process }) => process.role === 'stage')
    .sort((a, b) => a.process.stage - b.process.stage)
    .map(({ index }) => index)
  const coordinator = trace.processes.findIndex((process) => process.role === 'coordinator')
  const first = stages[0]
  const last = stages.at(-1)
  const routes: [number | undefined, SpanPort, number | undefined, SpanPort][] = [
    ...stages
      .slice(1)
      .map((to, at): [number, SpanPort, number, SpanPort] => [
        stages[at]!,
        SpanPort.hiddenOut,
        to,
        SpanPort.hiddenIn,
      ]),
    [last, SpanPort.tokensOut, first, SpanPort.tokensIn],
    [coordinator, SpanPort.tokensOut, first, SpanPort.tokensIn],
    [coordinator, SpanPort.promptOut, first, SpanPort.promptIn],
    [last, SpanPort.resultOut, coordinator, SpanPort.resultIn],
  ]
  const ends = trace.processes.map((process, index) => {
    const byKey = new Map<string, TrackSpan[]>()
    for (const span of commonSpans(process, index, alignment)) {
      if (span.name !== SpanName.sendQueue && span.name !== SpanName.frameDecode) continue
      const key = `${span.name}/${span.port}/${span.tag}`
      const list = byKey.get(key)
      if (list === undefined) byKey.set(key, [span])
      else list.push(span)
    }
    return byKey
  })
  return routes.flatMap(([from, outPort, to, inPort]) => {
    if (from === undefined || to === undefined || from < 0 || to < 0) return []
    return [...ends[from]!].flatMap(([key, sentList]) => {
      const [name, port, tag] = key.split('/')
      if (Number(name) !== SpanName.sendQueue || Number(port) !== outPort) return []
      const arrived = ends[to]!.get(`${SpanName.frameDecode}/${inPort}/${tag}`) ?? []
      return sentList.flatMap((sent, at) => {
        const received = arrived[at]
        return received === undefined ? [] : [{ from, to, sent, received }]
      })
    })
  })
}
