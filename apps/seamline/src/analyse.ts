import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError, SPAN_RECORD_LENGTH, SpanName, SpanPort } from '@seamline/core'
import {
  type Attribution,
  alignClocks,
  alignRun,
  attribute,
  attributionTotals,
  type BytesRow,
  type Category,
  type Change,
  type ClockAlignment,
  type Cost,
  chromeTrace,
  coalesced,
  costsOf,
  type FloorRow,
  type Gains,
  type MetricRow,
  metrics,
  otel,
  overlapped,
  type Prediction,
  portName,
  type Quantiles,
  type ReplayModel,
  type RunMetrics,
  type RunSummary,
  type RunTrace,
  replayModel,
  reportData,
  reportHtml,
  runSummary,
  type StructureRow,
  type SummaryInputs,
  scaled,
  shrunk,
  speedscope,
  summaryJson,
  type WhatIf,
  type WhatIfPrediction,
  type WhatIfRow,
  whatIf,
  widened,
} from '@seamline/profiler'
import { colours, table, type Ui } from './ui.ts'

export interface Analysis {
  readonly alignment: ClockAlignment
  /** Absent where the record does not allow one. */
  readonly attribution: Attribution | undefined
  readonly metrics: RunMetrics
  readonly summary: RunSummary
}

/** More of a token than this without a name, and no bottleneck is named. */
const MOST_UNATTRIBUTED_PCT = 5

/** Everything that follows from a record. What it does not allow is left out and says why. */
export function analyse(trace: RunTrace): Analysis {
  const missing: Record<string, string> = {}
  const alignment = alignClocks(trace, { sameHost: trace.settings.severalHosts !== true })
  const found = metrics(trace, alignment)
  let attribution: Attribution | undefined
  if (trace.level === 0) missing.attribution = 'level 0 records no spans'
  else {
    try {
      attribution = attribute(trace, alignment)
    } catch (error) {
      missing.attribution = (error as Error).message
    }
  }
  let predictions: readonly WhatIfRow[] = []
  let others: Partial<Pick<SummaryInputs, 'structures' | 'floors'>> = {}
  const decoded = trace.sequences.map(({ tokens }) => tokens.length - 1)
  if (attribution === undefined) missing.whatIf = 'there is no attribution'
  else if (Math.max(0, ...decoded) < LEAST_DECODED)
    missing.whatIf = `no sequence has ${LEAST_DECODED} tokens after its first: a time per token of fewer says nothing`
  else if (trace.settings.busyThreads > trace.settings.cores) {
    missing.whatIf = `${trace.settings.busyThreads} busy threads shared ${trace.settings.cores} cores: waiting for a CPU is not what another machine would do`
  } else {
    const model = replayModel(alignRun(trace, alignment))
    const replayed = whatIf(model)
    if (replayed.ok) {
      predictions = replayed.predictions().flatMap(rowOf)
      others = { structures: structuresOf(model, replayed), floors: floorsOf(model, replayed) }
    } else missing.whatIf = replayed.reason
  }
  const spans = trace.processes.reduce((sum, process) => sum + process.spans.length / SPAN_RECORD_LENGTH, 0)
  if (spans > MOST_TRACED)
    missing.traces = `${spans} spans, more than ${MOST_TRACED}: files for other viewers would be too large for them; record fewer tokens`
  const bytes = bytesOf(trace, found)
  if (trace.level > 0 && bytes.some(({ wireBytes }) => wireBytes === null))
    missing.wireBytes =
      'the kernel of this host (ss, Linux) tells of direct links between its own processes only'
  const summary = runSummary({
    ...{ trace, alignment, whatIf: predictions, ...others, missing, bytes },
    ...(attribution === undefined ? {} : { attribution }),
    metrics: metricRows(found),
    verdict: verdictOf(trace, attribution, predictions),
    commands: [trace.settings.command],
    limits: limitsOf(trace),
  })
  return { alignment, attribution, metrics: found, summary }
}

/**
 * Writes `summary.json`, `report.html` and the traces for other viewers into `dir`, each whole or not at all. Throws `FILE` where the folder
 * does not take them, and the reason of `signal` between two of them.
 */
export async function writeAnalysis(
  dir: string,
  trace: RunTrace,
  { alignment, attribution, summary }: Analysis,
  signal?: AbortSignal,
): Promise<void> {
  const files: Record<string, () => string> = {
    'summary.json': () => summaryJson(summary),
    'report.html': () => reportHtml(summary, reportData(trace, alignment, attribution)),
  }
  if (summary.missing.traces === undefined) {
    files['trace.perfetto.json'] = () => JSON.stringify(chromeTrace(trace, alignment, attribution))
    files['trace.speedscope.json'] = () => JSON.stringify(speedscope(trace, alignment))
    files['trace.otlp.json'] = () => JSON.stringify(otel(trace, alignment))
  }
  for (const [name, content] of Object.entries(files)) {
    signal?.throwIfAborted()
    await put(dir, name, content())
  }
}

async function put(dir: string, name: string, content: string): Promise<void> {
  const file = join(dir, name)
  const partial = `${file}.partial`
  try {
    await writeFile(partial, content)
    await rename(partial, file)
  } catch (error) {
    await rm(partial, { force: true }).catch(() => {})
    throw new SeamError(
      'FILE',
      `${file}, ${content.length} B, cannot be written: ${(error as Error).message}`,
      { cause: error },
    )
  }
}

/** The result on a terminal. */
export function printAnalysis(ui: Ui, { summary }: Analysis, dir: string): void {
  const { attribution, processes, verdict } = summary
  ui.print(`${verdict.kind}: ${verdict.text}`)
  for (const mark of summary.marks) ui.print(colours.yellow(mark))
  ui.print()
  ui.print(
    table(
      ['', ''],
      summary.metrics.flatMap(({ label, value, unit }) =>
        value === null ? [] : [[label, shown(value, unit)]],
      ),
      [1],
    ),
  )
  if (attribution !== null && attribution.decode.tokens > 0) {
    ui.print()
    const { decode } = attribution
    ui.print(
      table(
        ['where a token after the first spends its time', 'at', 'link', 'per token', 'share'],
        decode.rows
          .filter(({ sharePct }) => sharePct >= LEAST_SHOWN_PCT)
          .map(({ category, process, port, perTokenNs, uncertainNs, sharePct }) => [
            ...[category, processes[process]?.name ?? '', port === SpanPort.none ? '' : portName(port)],
            perTokenNs < uncertainNs ? `≤ ${shown(perTokenNs + uncertainNs, 'ns')}` : shown(perTokenNs, 'ns'),
            `${sharePct.toFixed(1)} %`,
          ]),
        [3, 4],
      ),
    )
    ui.print(
      `without a name, of tokens after the first: ${percent(decode.unattributedPct)} of all, median ${percent(decode.unattributedMedianPct)}, p95 ${percent(decode.unattributedP95Pct)} of a token`,
    )
  }
  if (attribution !== null && attribution.first.tokens > 0) {
    const { first } = attribution
    const parts = first.rows
      .slice(0, MOST_FIRST)
      .map(({ category, sharePct }) => `${category} ${sharePct.toFixed(1)} %`)
    ui.print(
      `first tokens, ${shown(first.wallNs / first.tokens, 'ns')} from the request to the sample: ${parts.join(', ')}; without a name ${first.unattributedPct.toFixed(2)} %`,
    )
  }
  const gains = bestGains(summary.whatIf)
    .filter(({ gainPctRequeued }) => gainPctRequeued >= LEAST_GAIN_PCT)
    .slice(0, MOST_GAINS)
  if (gains.length > 0) {
    ui.print()
    ui.print(
      table(
        ['if this took no time', 'at', 'tokens would come'],
        gains.map(({ category, process, gainPctFrozen, gainPctRequeued }) => [
          ...[category, process < 0 ? 'everywhere' : (processes[process]?.name ?? '')],
          range(gainPctFrozen, gainPctRequeued),
        ]),
        [2],
      ),
    )
  }
  if (summary.structures.length > 0) {
    ui.print()
    ui.print(
      table(
        ['another structure', 'of', 'first token', 'tokens', 'throughput'],
        summary.structures.map(({ change, where, ttftGainPct, tpotGainPct, throughputGainPct }) => [
          ...[
            change,
            where,
            ...[ttftGainPct, tpotGainPct, throughputGainPct].map((pct) => `${pct.toFixed(1)} %`),
          ],
        ]),
        [2, 3, 4],
      ),
    )
  }
  for (const [what, why] of Object.entries(summary.missing)) ui.print(`no ${what}: ${why}`)
  ui.print(`\nwritten to ${dir}; open report.html there`)
}

const LEAST_DECODED = 8
const MOST_TRACED = 100_000
const LEAST_SHOWN_PCT = 0.5
const MOST_GAINS = 8
const MOST_FIRST = 4
const LEAST_GAIN_PCT = 0.05

type Replayed = Extract<WhatIf, { ok: true }>

/** The lesser of what the two policies predict: a gain that is promised is there either way. */
function lesser({ frozen, requeued }: Prediction) {
  const both = [frozen, requeued].flatMap((gains) => gains ?? [])
  const least = (key: keyof Gains) => Math.min(...both.map((gains) => gains[key]))
  return {
    ttftGainPct: least('ttftPct'),
    tpotGainPct: least('tpotPct'),
    throughputGainPct: least('throughputPct'),
  }
}

function structuresOf(model: ReplayModel, { predict }: Replayed): StructureRow[] {
  const everywhere = { process: -1, port: -1 }
  const spends = new Set([...costsOf(model)].filter(({ ns }) => ns > 0).map(({ category }) => category))
  const changes: readonly (readonly [string, string, Change, boolean])[] = [
    [
      'the prompt follows what opens its sequence at once',
      'coordinator',
      scaled({ category: 'open', ...everywhere }, 0),
      spends.has('open'),
    ],
    [
      'twice as many steps on their way',
      'between stages',
      widened(-1, 2),
      model.stages.some(({ window }) => window !== Infinity),
    ],
    [
      'encoding beside the engine',
      'every stage',
      overlapped({ category: 'convert.encode', ...everywhere }),
      spends.has('convert.encode'),
    ],
    [
      'decoding beside the engine',
      'every stage',
      overlapped({ category: 'convert.decode', ...everywhere }),
      spends.has('convert.decode'),
    ],
    ['two frames in one', 'hidden rows', coalesced(SpanPort.hiddenOut, 2), model.stages.length > 1],
    ['half the bytes', 'hidden rows', shrunk(model, SpanPort.hiddenIn, 0.5), model.stages.length > 1],
  ]
  return changes.flatMap(([change, where, made, applies]) =>
    applies ? [{ change, where, ...lesser(predict(made)) }] : [],
  )
}

function floorsOf(model: ReplayModel, { predict }: Replayed): FloorRow[] {
  const placeOf = ({ category, process, port }: Cost) => `${category} ${process} ${port}`
  const least = new Map<string, number>()
  const categories = new Set<Category>()
  for (const cost of costsOf(model)) {
    if (cost.ns === 0) continue
    categories.add(cost.category)
    least.set(placeOf(cost), Math.min(least.get(placeOf(cost)) ?? Infinity, cost.ns))
  }
  return [...categories]
    .map((category) => {
      const duration = (cost: Cost) =>
        cost.category === category ? Math.min(cost.ns, least.get(placeOf(cost)) ?? 0) : cost.ns
      const { ttftGainPct, tpotGainPct } = lesser(predict({ duration }))
      return { category, ttftGainPct, tpotGainPct }
    })
    .sort((a, b) => b.tpotGainPct - a.tpotGainPct)
}

/** A policy that failed its gate predicts nothing: the other one stands for both. */
function rowOf({
  category,
  process,
  port,
  reductionPct,
  gainPctFrozen,
  gainPctRequeued,
}: WhatIfPrediction): WhatIfRow[] {
  if (reductionPct === null) return []
  const frozen = Number.isFinite(gainPctFrozen) ? gainPctFrozen : gainPctRequeued
  const requeued = Number.isFinite(gainPctRequeued) ? gainPctRequeued : gainPctFrozen
  return [{ category, process, port, reductionPct, gainPctFrozen: frozen, gainPctRequeued: requeued }]
}

/** What removing the whole of a category would gain, largest first. */
function bestGains(rows: readonly WhatIfRow[]): WhatIfRow[] {
  return rows
    .filter(({ reductionPct, process }) => reductionPct === 100 && process < 0)
    .sort((a, b) => b.gainPctRequeued - a.gainPctRequeued)
}

function range(a: number, b: number): string {
  const [low, high] = a < b ? [a, b] : [b, a]
  return high - low < 0.05
    ? `${high.toFixed(1)} % faster`
    : `${low.toFixed(1)} to ${high.toFixed(1)} % faster`
}

function percent(pct: number | null): string {
  return pct === null || !Number.isFinite(pct) ? '—' : `${pct.toFixed(2)} %`
}

function shown(value: number, unit: MetricRow['unit']): string {
  switch (unit) {
    case 'ns':
      return value >= 1e6 ? `${(value / 1e6).toFixed(2)} ms` : `${(value / 1e3).toFixed(1)} µs`
    case 'bytes':
      return value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${value.toFixed(0)} B`
    case 'tokens/s':
      return `${value.toFixed(2)} tok/s`
    case 'percent':
      return `${value.toFixed(2)} %`
    default:
      return String(value)
  }
}

/** Names what weighs most in the seam, as far as one run can: a choice between candidates takes several. */
function verdictOf(
  trace: RunTrace,
  attribution: Attribution | undefined,
  rows: readonly WhatIfRow[],
): { kind: string; text: string } {
  const { settings } = trace
  if (!trace.complete)
    return { kind: 'PARTIAL', text: 'the run was cut: what stands here is of the part that was recorded.' }
  if (attribution === undefined)
    return { kind: 'NO ATTRIBUTION', text: 'the record does not allow one; see below.' }
  const totals = attributionTotals(attribution.tokens.filter(({ index }) => index > 0))
  if (totals.unattributedMedianPct === null)
    return { kind: 'NO ATTRIBUTION', text: 'no token after a first one was recorded.' }
  if (totals.unattributedMedianPct > MOST_UNATTRIBUTED_PCT)
    return {
      kind: 'ATTRIBUTION INCOMPLETE',
      text: `${totals.unattributedMedianPct} % of a token has no name; no bottleneck is named.`,
    }
  if (settings.injected !== undefined)
    return {
      kind: 'EXPERIMENT',
      text: `a delay was put in at ${settings.injected.place}: no evidence of speed.`,
    }
  const slow = slowStage(trace, attribution)
  const largest = totals.rows.filter(({ category }) => category !== 'UNATTRIBUTED')[0]
  const computePct = totals.rows
    .filter(({ category }) => COMPUTE.includes(category))
    .reduce((sum, { sharePct }) => sum + sharePct, 0)
  const gain = bestGains(rows).find(({ category }) => !COMPUTE.includes(category as Category))
  const stages =
    slow === undefined
      ? ''
      : ` ${slow} computes much longer than the others${settings.sequences > 1 ? ', which wait for it (peer.slow)' : ''}.`
  const seam =
    gain === undefined
      ? ''
      : ` Of the seam, ${gain.category} is what removing would gain most: tokens ${range(gain.gainPctFrozen, gain.gainPctRequeued)} at K = ${settings.sequences}.`
  const kind = computePct > 90 ? 'COMPUTE-BOUND' : largest === undefined ? 'EMPTY' : 'ONE RUN'
  return {
    kind,
    text: `${computePct.toFixed(1)} % of a token is the engine's own time.${stages}${seam} One run chooses nothing: a selection takes ten.`,
  }
}

const COMPUTE: readonly Category[] = ['compute.device', 'compute.submit', 'compute.sync', 'sample']
/** A stage whose decode steps take so much longer than the next slowest one's, by the medians, is named. */
const SLOW_FACTOR = 1.5
const SLOW_NS = 1e6

function slowStage(trace: RunTrace, { tokens }: Attribution): string | undefined {
  const steps = new Map<number, number[]>()
  for (const { index, segments } of tokens) {
    if (index === 0) continue
    for (const { category, process, startNs, endNs } of segments) {
      if (category !== 'compute.device') continue
      const known = steps.get(process)
      if (known === undefined) steps.set(process, [endNs - startNs])
      else known.push(endNs - startNs)
    }
  }
  const [first, second] = [...steps]
    .map(([process, lengths]) => {
      lengths.sort((a, b) => a - b)
      return { process, ns: lengths[lengths.length >> 1]! }
    })
    .sort((a, b) => b.ns - a.ns)
  if (first === undefined || second === undefined) return undefined
  if (first.ns < SLOW_FACTOR * second.ns || first.ns - second.ns < SLOW_NS) return undefined
  return trace.processes[first.process]?.name
}

function metricRows(found: RunMetrics): MetricRow[] {
  const rows: MetricRow[] = []
  const add = (
    name: string,
    label: string,
    unit: MetricRow['unit'],
    value: number | undefined,
    samples: number,
    definition: string,
  ) =>
    rows.push({
      name,
      label,
      unit,
      value: value ?? null,
      samples,
      definition,
      ...(value === undefined ? { note: 'not enough of it was recorded' } : {}),
    })
  const { ttftNs, itlNs, sequences } = found
  const quantiles = (name: string, label: string, of: Quantiles, definition: string) => {
    for (const key of ['p50', 'p95', 'p99', 'max'] as const)
      if (of[key] !== undefined) add(`${name}_${key}`, `${label} ${key}`, 'ns', of[key], of.count, definition)
  }
  quantiles('ttft', 'TTFT', ttftNs, 'request accepted until its first token was handed to the caller')
  add(
    'prefill_tps',
    'prefill',
    'tokens/s',
    found.prefillTokensPerSecond,
    sequences.length,
    'prompt tokens over the time from the first chunk on stage 0 to the logits of the last row',
  )
  add(
    'tpot',
    'TPOT',
    'ns',
    found.tpotNs,
    itlNs.count,
    'time after the first token over tokens after the first',
  )
  add('decode_tps', 'decode', 'tokens/s', found.decodeTokensPerSecond, itlNs.count, '1 / TPOT')
  quantiles('itl', 'ITL', itlNs, 'between two tokens of a sequence')
  add(
    'throughput',
    'throughput',
    'tokens/s',
    found.steady?.tokensPerSecond,
    found.steady?.tokens ?? 0,
    'all tokens over the window in which all sequences were in flight',
  )
  add(
    'throughput_uncut',
    'throughput with fill and drain',
    'tokens/s',
    found.uncut?.tokensPerSecond,
    found.uncut?.tokens ?? 0,
    'all tokens over the time from the first request to the last token',
  )
  for (const { process, bytes } of found.peakRssBytes)
    if (bytes > 0)
      add(
        `peak_rss_${process}`,
        `peak RSS of ${process}`,
        'bytes',
        bytes,
        1,
        'highest resident memory since the record began',
      )
  return rows
}

function bytesOf(trace: RunTrace, found: RunMetrics): BytesRow[] {
  const tokens = trace.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
  const stages = trace.processes.filter(({ role }) => role === 'stage')
  return found.bytesPerToken.map(({ stage, logical, payload, framed, wire }) => ({
    ...{ from: stages[stage]?.name ?? '', to: stages[stage + 1]?.name ?? '', link: 'hidden rows, per token' },
    messages: tokens,
    ...{ logicalBytes: logical ?? null, payloadBytes: payload ?? null, framedBytes: framed ?? null },
    wireBytes: wire ?? null,
  }))
}

function limitsOf({ settings, level, complete, processes }: RunTrace): string[] {
  const hasText = processes.some(({ spans }) =>
    spans.some((value, i) => i % SPAN_RECORD_LENGTH === 0 && value === SpanName.tokenize),
  )
  const { paced, injected, link, busyThreads, cores } = settings
  return [
    settings.severalHosts === true
      ? 'Clocks of several hosts were aligned: what lies between two of them is known within the bands shown.'
      : 'All processes ran on one host and shared its memory, caches and cores.',
    ...(complete ? [] : ['The run was cut before its end.']),
    ...(level === 0
      ? []
      : ['Spans were recorded, which takes some microseconds a token; headline figures come from level 0.']),
    ...(level === 3
      ? ['A CPU profile was taken at the same time: no time of this run is to be quoted.']
      : []),
    ...(paced ? ['The stages waited instead of computing: compute times are chosen, not measured.'] : []),
    ...(injected === undefined
      ? []
      : [`A delay was put in at ${injected.place}: this is no evidence of speed.`]),
    ...(link === undefined
      ? []
      : ['The link is emulated in the process of each stage: a delay one way and a rate, no loss.']),
    ...(busyThreads > cores
      ? [`${busyThreads} busy threads shared ${cores} cores: times hold for this machine only.`]
      : []),
    ...(hasText ? [] : ['Random token ids, greedy sampling, no text: tokenizing is not part of it.']),
  ]
}
