import { SpanName, spanTagParts } from '@seamline/core'
import { type CategoryGroup, categoryGroups, groupOf } from '../categories.ts'
import { earliestNs } from '../export-chrome.ts'
import { commonSpans, spanNames, toCommonNs, tracks } from '../export-tracks.ts'
import type { Attribution, ClockAlignment, RunTrace, TokenAttribution } from '../trace.ts'

/** Spans that a report shows over time; of a longer run, those that began first. */
const maxTrackSpans = 60_000
/** Columns of the chart over positions; with more positions, neighbours share one. */
const maxColumns = 160

/** What the report draws beyond the summary. Plain JSON; times are ns since `originNs` on the last stage's clock. */
export interface ReportData {
  readonly originNs: number
  /** Decode tokens by length of their interval. */
  readonly waterfalls: readonly { readonly label: string; readonly token: TokenAttribution }[]
  readonly tracks: readonly {
    readonly process: number
    readonly name: string
    /** Six numbers a span: index in `spanNames`, start, length, depth, sequence (-1: none), position. */
    readonly spans: readonly number[]
  }[]
  readonly spanNames: readonly { readonly name: string; readonly group: CategoryGroup }[]
  /** Spans left out because there were too many, and from when on. */
  readonly tracksCut: { readonly spans: number; readonly fromNs: number } | null
  /** Mean ns a token, by group in the order of `categoryGroups`. */
  readonly positions: readonly {
    readonly from: number
    readonly to: number
    readonly tokens: number
    readonly ns: readonly number[]
  }[]
  /** Time between tokens as the caller saw them, in the order in which they were handed over. */
  readonly interTokenNs: readonly { readonly atNs: number; readonly ns: number; readonly sequence: number }[]
  readonly memory: readonly {
    readonly process: number
    readonly atNs: readonly number[]
    readonly bytes: readonly number[]
  }[]
}

const groupOfSpan: Readonly<Record<string, CategoryGroup>> = {
  compute: 'compute',
  sample: 'compute',
  resume: 'compute',
  codecEncode: 'convert',
  codecDecode: 'convert',
  copy: 'convert',
  frameEncode: 'frame',
  frameDecode: 'frame',
  checksum: 'frame',
  send: 'send',
  sendQueue: 'send',
  receive: 'wire',
  relayIn: 'relay',
  relayQueue: 'relay',
  relayOut: 'relay',
  stageQueue: 'wait',
  submit: 'wait',
  creditWait: 'wait',
  cpuWait: 'wait',
  loopCpuWait: 'wait',
}

/** Takes from a run what its report draws. Without an attribution (it was refused, or the level was 0) the rest is still there. */
export function reportData(
  trace: RunTrace,
  alignment: ClockAlignment,
  attribution?: Attribution,
): ReportData {
  const originNs = earliestNs(trace, alignment)
  const names = [...spanNames]
  const nameIndex = new Map(names.map(([value], index) => [value, index]))

  const all = tracks(trace, alignment)
  const starts = all.flatMap((track) => track.spans.map((span) => span.startNs)).sort((a, b) => a - b)
  const cutNs = starts[maxTrackSpans] ?? Number.POSITIVE_INFINITY

  const coordinator = trace.processes.findIndex((process) => process.role === 'coordinator')
  return {
    originNs,
    waterfalls: attribution === undefined ? [] : chosenTokens(attribution.tokens),
    spanNames: names.map(([, name]) => ({ name, group: groupOfSpan[name] ?? 'runtime' })),
    tracks: all.map((track) => {
      const flat: number[] = []
      const open: number[] = []
      for (const span of track.spans) {
        if (span.startNs >= cutNs) break
        while (open.length > 0 && open.at(-1)! <= span.startNs) open.pop()
        const { sequence, position } = spanTagParts(span.tag)
        const tagged = span.name !== SpanName.gc && span.name !== SpanName.loopCpuWait
        flat.push(
          nameIndex.get(span.name) ?? 0,
          span.startNs - originNs,
          span.endNs - span.startNs,
          open.length,
          tagged ? sequence : -1,
          position,
        )
        open.push(span.endNs)
      }
      return { process: track.process, name: track.name, spans: flat }
    }),
    tracksCut:
      starts.length > maxTrackSpans
        ? { spans: starts.length - maxTrackSpans, fromNs: cutNs - originNs }
        : null,
    positions: byPosition(attribution?.tokens ?? []),
    interTokenNs: trace.sequences
      .flatMap(({ sequence, emittedNs }) =>
        emittedNs.slice(1).map((ns, index) => ({
          atNs: toCommonNs(alignment, coordinator, ns) - originNs,
          ns: ns - emittedNs[index]!,
          sequence,
        })),
      )
      .sort((a, b) => a.atNs - b.atNs || a.sequence - b.sequence),
    memory: trace.processes.flatMap((process, index) => {
      const samples = commonSpans(process, index, alignment).filter((span) => span.name === SpanName.memory)
      if (samples.length < 2) return []
      return [
        {
          process: index,
          atNs: samples.map((span) => span.startNs - originNs),
          bytes: samples.map((span) => span.bytes),
        },
      ]
    }),
  }
}

function chosenTokens(tokens: readonly TokenAttribution[]): ReportData['waterfalls'] {
  const sorted = tokens
    .filter((token) => token.index > 0)
    .sort(
      (a, b) => a.endNs - a.startNs - (b.endNs - b.startNs) || a.sequence - b.sequence || a.index - b.index,
    )
  if (sorted.length === 0) return []
  const at = (p: number): TokenAttribution => sorted[Math.round((sorted.length - 1) * p)]!
  return [
    { label: 'Median token', token: at(0.5) },
    { label: '95th percentile', token: at(0.95) },
    { label: 'Slowest token', token: at(1) },
  ]
}

function byPosition(tokens: readonly TokenAttribution[]): ReportData['positions'] {
  const decode = tokens.filter((token) => token.index > 0)
  if (decode.length === 0) return []
  const first = decode.reduce((min, token) => Math.min(min, token.index), Number.POSITIVE_INFINITY)
  const last = decode.reduce((max, token) => Math.max(max, token.index), 0)
  const width = Math.ceil((last - first + 1) / maxColumns)
  const columns = Array.from({ length: Math.ceil((last - first + 1) / width) }, (_, column) => ({
    from: first + column * width,
    to: Math.min(last, first + (column + 1) * width - 1),
    tokens: 0,
    sums: categoryGroups.map(() => 0),
  }))
  for (const token of decode) {
    const column = columns[Math.floor((token.index - first) / width)]!
    column.tokens++
    for (const { category, startNs, endNs } of token.segments)
      column.sums[categoryGroups.indexOf(groupOf(category))]! += endNs - startNs
  }
  return columns
    .filter((column) => column.tokens > 0)
    .map(({ from, to, tokens: count, sums }) => ({
      from,
      to,
      tokens: count,
      ns: sums.map((sum) => sum / count),
    }))
}
