import type {
  Attribution,
  Category,
  ClockAlignment,
  LaneAttribution,
  RunSettings,
  RunTrace,
} from './trace.ts'

/** A figure with its definition. */
export interface MetricRow {
  readonly name: string
  readonly label: string
  readonly unit: 'ns' | 'bytes' | 'tokens/s' | 'percent' | 'count' | 'ratio'
  /** Null where it could not be had; `note` says why. */
  readonly value: number | null
  /** Ends of a 95 % interval. */
  readonly low?: number
  readonly high?: number
  /** How many observations it rests on. */
  readonly samples: number
  readonly definition: string
  readonly note?: string
}

/** What becomes of the time per token when a category gets shorter. `process` and `port` -1: everywhere. */
export interface WhatIfRow {
  readonly category: string
  readonly process: number
  readonly port: number
  readonly reductionPct: number
  /** Gain with the recorded order of every lane kept, and with work taken in order of arrival. */
  readonly gainPctFrozen: number
  readonly gainPctRequeued: number
}

/** Bytes of one link, summed over the run, at the four layers; null where a layer was not measured. */
/** What a change of structure would bring: no duration gets shorter, something happens at another time or once instead of often. */
export interface StructureRow {
  readonly change: string
  readonly where: string
  readonly ttftGainPct: number
  readonly tpotGainPct: number
  readonly throughputGainPct: number
}

/** Removing a category down to the smallest that was seen of it at each place in this run. */
export interface FloorRow {
  readonly category: string
  readonly ttftGainPct: number
  readonly tpotGainPct: number
}

export interface BytesRow {
  readonly from: string
  readonly to: string
  readonly link: string
  readonly messages: number
  readonly logicalBytes: number | null
  readonly payloadBytes: number | null
  readonly framedBytes: number | null
  readonly wireBytes: number | null
}

export interface VerdictText {
  /** One word or two: what the run shows, or why nothing can be said. */
  readonly kind: string
  readonly text: string
}

/** What others computed, and prose. */
export interface SummaryInputs {
  readonly trace: RunTrace
  readonly alignment?: ClockAlignment
  readonly attribution?: Attribution
  readonly verdict: VerdictText
  readonly metrics: readonly MetricRow[]
  readonly whatIf?: readonly WhatIfRow[]
  readonly structures?: readonly StructureRow[]
  readonly floors?: readonly FloorRow[]
  readonly bytes?: readonly BytesRow[]
  readonly commands: readonly (readonly string[])[]
  readonly limits: readonly string[]
  /** For each section that is absent, why. */
  readonly missing?: Readonly<Record<string, string>>
}

/** Time charged to one category at one place. */
export interface AttributionRow {
  readonly category: Category
  readonly process: number
  readonly port: number
  readonly totalNs: number
  readonly perTokenNs: number
  readonly sharePct: number
  /** Half of the width of what the clocks allow for {@link perTokenNs}: a smaller figure is only a bound. 0 within one process. */
  readonly uncertainNs: number
}

export interface AttributionTotals {
  readonly tokens: number
  readonly wallNs: number
  /** Largest first, so that their totals add up to `wallNs`; `UNATTRIBUTED` is among them. */
  readonly rows: readonly AttributionRow[]
  readonly unattributedNs: number
  readonly unattributedPct: number
  /** Over tokens, of each token's own share; null without tokens. */
  readonly unattributedMedianPct: number | null
  readonly unattributedP95Pct: number | null
  /** Work in parallel with what the tokens were charged, by category; not part of `wallNs`. */
  readonly hiddenNs: Readonly<Record<string, number>>
}

export interface ClockRow {
  readonly process: number
  readonly offsetNs: number
  readonly driftPpm: number
  readonly bands: readonly { readonly atNs: number; readonly lowNs: number; readonly highNs: number }[]
  readonly minRttNs: number
  readonly probes: number
  readonly residualP50Ns: number
  readonly residualP95Ns: number
}

/** What `summary.json` holds. Indices `process` point into `processes`; `port` is a `SpanPort`. */
export interface RunSummary {
  readonly format: 'seamline-summary/1'
  readonly complete: boolean
  readonly level: number
  /** What keeps the run from being evidence: each a sentence. Empty for a clean run. */
  readonly marks: readonly string[]
  readonly verdict: VerdictText
  readonly settings: RunSettings
  readonly processes: readonly {
    readonly name: string
    readonly role: string
    readonly stage: number
    readonly layerFirst: number
    readonly layerEnd: number
    readonly spans: number
    readonly dropped: number
    readonly spanCostNs: number
  }[]
  readonly metrics: readonly MetricRow[]
  /** Tokens after the first of each sequence, and the first ones. */
  readonly attribution: {
    readonly decode: AttributionTotals
    readonly first: AttributionTotals
    readonly causalityViolations: number
    /** Tokens that the trace holds only in part. */
    readonly omitted: number
    readonly recordingErrors: readonly string[]
  } | null
  readonly lanes: readonly LaneAttribution[]
  readonly whatIf: readonly WhatIfRow[]
  readonly structures: readonly StructureRow[]
  readonly floors: readonly FloorRow[]
  readonly clocks: readonly ClockRow[]
  readonly closures: ClockAlignment['closures']
  readonly memory: readonly { readonly process: number; readonly peakRssBytes: number }[]
  readonly bytes: readonly BytesRow[]
  readonly commands: readonly (readonly string[])[]
  readonly limits: readonly string[]
  readonly missing: Readonly<Record<string, string>>
}

/** Puts a run's results together. Numbers are those of {@link rounded}; the same inputs give the same summary. */
export function runSummary(inputs: SummaryInputs): RunSummary {
  const { trace, alignment, attribution } = inputs
  const tokens = attribution?.tokens ?? []
  const summary: RunSummary = {
    format: 'seamline-summary/1',
    complete: trace.complete,
    level: trace.level,
    marks: marksOf(trace, attribution),
    verdict: inputs.verdict,
    settings: trace.settings,
    processes: trace.processes.map((process) => ({
      name: process.name,
      role: process.role,
      stage: process.stage,
      layerFirst: process.layerFirst,
      layerEnd: process.layerEnd,
      spans: process.spans.length / 6,
      dropped: process.dropped,
      spanCostNs: process.spanCostNs,
    })),
    metrics: inputs.metrics,
    attribution:
      attribution === undefined
        ? null
        : {
            decode: attributionTotals(tokens.filter((token) => token.index > 0)),
            first: attributionTotals(tokens.filter((token) => token.index === 0)),
            causalityViolations: attribution.causalityViolations,
            omitted: attribution.omitted.length,
            recordingErrors: attribution.recordingErrors,
          },
    lanes: attribution?.lanes ?? [],
    whatIf: inputs.whatIf ?? [],
    structures: inputs.structures ?? [],
    floors: inputs.floors ?? [],
    clocks: (alignment?.maps ?? []).map((map) => ({
      process: map.process,
      offsetNs: map.offsetNs,
      driftPpm: map.drift * 1e6,
      bands: map.band,
      minRttNs: map.minRttNs,
      probes: map.probes,
      residualP50Ns: map.residualP50Ns,
      residualP95Ns: map.residualP95Ns,
    })),
    closures: alignment?.closures ?? [],
    memory: trace.processes.map(({ peakRssBytes }, process) => ({ process, peakRssBytes })),
    bytes: inputs.bytes ?? [],
    commands: inputs.commands,
    limits: inputs.limits,
    missing: inputs.missing ?? {},
  }
  return canonical(summary) as RunSummary
}

/** `summary.json`: keys sorted, two spaces, a newline at the end. */
export function summaryJson(summary: RunSummary): string {
  return `${JSON.stringify(canonical(summary), null, 2)}\n`
}

/** The one rule of rounding: integers stay as they are, other numbers have six significant digits. NaN and infinities become null. */
export function rounded(value: number): number | null {
  if (!Number.isFinite(value)) return null
  if (Number.isInteger(value)) return value === 0 ? 0 : value
  return Number(value.toPrecision(6))
}

function canonical(value: unknown): unknown {
  if (typeof value === 'number') return rounded(value)
  if (Array.isArray(value)) return value.map(canonical)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, canonical(item)]),
  )
}

/** Sums segments by category and place. The rows' totals add up to the tokens' wall time exactly. */
export function attributionTotals(tokens: Attribution['tokens']): AttributionTotals {
  const rows = new Map<
    string,
    { category: Category; process: number; port: number; totalNs: number; uncertainNs: number }
  >()
  const shares: number[] = []
  const hiddenNs: Record<string, number> = {}
  let wallNs = 0
  let unattributedNs = 0
  for (const token of tokens) {
    let unknownNs = 0
    for (const { category, process, port, startNs, endNs, uncertainNs } of token.segments) {
      const key = `${category}/${process}/${port}`
      const row = rows.get(key)
      if (row === undefined) rows.set(key, { category, process, port, totalNs: endNs - startNs, uncertainNs })
      else {
        row.totalNs += endNs - startNs
        row.uncertainNs = Math.max(row.uncertainNs, uncertainNs)
      }
      if (category === 'UNATTRIBUTED') unknownNs += endNs - startNs
    }
    for (const [category, ns] of Object.entries(token.hiddenNs))
      hiddenNs[category] = (hiddenNs[category] ?? 0) + ns
    const ownNs = token.endNs - token.startNs
    wallNs += ownNs
    unattributedNs += unknownNs
    if (ownNs > 0) shares.push((100 * unknownNs) / ownNs)
  }
  shares.sort((a, b) => a - b)
  return {
    tokens: tokens.length,
    wallNs,
    rows: [...rows.values()]
      .sort((a, b) => b.totalNs - a.totalNs || compare(a.category, b.category) || a.process - b.process)
      .map((row) => ({
        ...row,
        perTokenNs: row.totalNs / tokens.length,
        sharePct: wallNs === 0 ? 0 : (100 * row.totalNs) / wallNs,
      })),
    unattributedNs,
    unattributedPct: wallNs === 0 ? 0 : (100 * unattributedNs) / wallNs,
    unattributedMedianPct: quantile(shares, 0.5),
    unattributedP95Pct: quantile(shares, 0.95),
    hiddenNs,
  }
}

/** Linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996). */
export function quantile(sorted: readonly number[], p: number): number | null {
  if (sorted.length === 0) return null
  const at = (sorted.length - 1) * p
  const low = sorted[Math.floor(at)]!
  const high = sorted[Math.ceil(at)]!
  return low + (high - low) * (at - Math.floor(at))
}

function marksOf(trace: RunTrace, attribution: Attribution | undefined): string[] {
  const { settings } = trace
  const dropped = trace.processes.reduce((sum, process) => sum + process.dropped, 0)
  return [
    trace.complete ? '' : 'Partial run: it was cut before its end, and every figure is of what was recorded.',
    settings.paced ? 'Paced: the stages wait instead of computing. Nothing here is a speed of a model.' : '',
    settings.injected === undefined
      ? ''
      : `A delay of ${settings.injected.delayNs} ns was put in at ${settings.injected.place}: never evidence of speed.`,
    settings.busyThreads > settings.cores
      ? `${settings.busyThreads} threads were busy on ${settings.cores} cores: times include waits for a CPU.`
      : '',
    starvedPct(attribution) > MOST_STARVED_PCT
      ? `Engines waited ${starvedPct(attribution).toFixed(1)} % of a token for a CPU: more wanted to run than there are cores, and times hold for this machine only.`
      : '',
    dropped > 0 ? `${dropped} spans were lost: no attribution can be trusted.` : '',
    (attribution?.causalityViolations ?? 0) > 0
      ? `${attribution?.causalityViolations} messages arrived before they were sent, by every clock that the probes allow.`
      : '',
    (attribution?.recordingErrors.length ?? 0) > 0
      ? `Errors of the recording: ${attribution?.recordingErrors.join('; ')}.`
      : '',
    (attribution?.omitted.length ?? 0) > 0
      ? `${attribution?.omitted.length} tokens are left out: the trace lacks their beginning or end.`
      : '',
  ].filter((mark) => mark !== '')
}

/** A share of waiting for a CPU that another machine would not have. */
const MOST_STARVED_PCT = 5

function starvedPct(attribution: Attribution | undefined): number {
  const { rows } = attributionTotals((attribution?.tokens ?? []).filter(({ index }) => index > 0))
  return rows
    .filter(({ category }) => category === 'cpu.wait')
    .reduce((sum, { sharePct }) => sum + sharePct, 0)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
