import { categoryGroups, categoryLabel, groupOf } from '../categories.ts'
import { portName } from '../export-tracks.ts'
import type { AttributionTotals, RunSummary } from '../summary.ts'
import { fill, legend, placeOf, positionColumns, shareBar, waterfall } from './charts.ts'
import type { ReportData } from './data.ts'
import { clientFile, commandLine, numbersOf, pageHtml, type Section, table, uplotFile } from './document.ts'
import { formatBytes, formatCount, formatNs, formatPct, formatUnit } from './format.ts'
import { type Html, html } from './html.ts'

/**
 * The report of a run as one HTML file that opens from disk and requests nothing: style, scripts, uPlot and data are inside, and
 * its content policy forbids anything else. Numbers in it are those of the summary; each names its place there in
 * `data-path` and `title`. Sections without data say why (`summary.missing`).
 */
export function reportHtml(summary: RunSummary, data: ReportData): string {
  return pageHtml({
    title: `${summary.settings.model}: ${summary.settings.stages} stages, ${summary.settings.sequences} in flight`,
    subtitle: subtitle(summary),
    marks: summary.marks,
    sections: sectionsOf(summary, data),
    footer:
      'Times are on the last stage’s clock. Hover over a number to see where it stands in summary.json; focus a chart and use the arrow keys to step through it.',
    styles: [uplotFile('uPlot.min.css')],
    scripts: [uplotFile('uPlot.iife.min.js')],
    modules: ['lanes.js', 'curves.js'].map(clientFile),
    data: clientData(summary, data),
  })
}

function sectionsOf(summary: RunSummary, data: ReportData): readonly Section[] {
  const { attribution } = summary
  const or = (id: string, present: boolean, body: () => Html): Html =>
    present
      ? body()
      : html`<p class="empty">Nothing to show: ${summary.missing[id] ?? absence(summary, id)}</p>`
  return [
    ['verdict', 'Verdict', '', verdict(summary)],
    [
      'metrics',
      'Metrics',
      'As the caller saw them, on one clock; no alignment enters.',
      or('metrics', summary.metrics.length > 0, () => metrics(summary)),
    ],
    [
      'time',
      'Where a token’s time goes',
      'Every instant of a token is charged to exactly one place, so the rows add up to its wall time.',
      or(
        'attribution',
        attribution !== null && attribution.decode.tokens + attribution.first.tokens > 0,
        () => attributionTables(summary),
      ),
    ],
    [
      'tokens',
      'Three tokens in full',
      'From the sample of the former token to that of this one. Hatched edges: how far the clocks of two machines allow an edge to lie elsewhere. Grey: unattributed.',
      or(
        'attribution',
        data.waterfalls.length > 0,
        () =>
          html`${data.waterfalls.map(({ label, token }) => waterfall(summary, label, token, `sequence ${token.sequence}, index ${token.index}`))}${legend(categoryGroups.filter((group) => data.waterfalls.some(({ token }) => token.segments.some((segment) => groupOf(segment.category) === group))))}`,
      ),
    ],
    [
      'lanes',
      'Lanes over time',
      'What each process did. Zoom with the buttons, + and −, or Ctrl and the wheel; drag to move; arrow keys step through spans. What is thinner than a pixel is a bar as high as its share of that pixel.',
      or(
        'lanes',
        data.tracks.some((track) => track.spans.length > 0),
        () => lanes(summary, data),
      ),
    ],
    [
      'positions',
      'Attribution along the sequence',
      'Mean over the sequences in flight, for each token after the first.',
      or('attribution', data.positions.length > 0, () => positionColumns(data.positions)),
    ],
    [
      'whatif',
      'What if it were faster',
      'Gain in time per token when one category shrinks, from a replay of this run. Solid: work in order of arrival; dashed: the recorded order kept. The truth is expected between them.',
      or('whatIf', summary.whatIf.length > 0, () => whatIf(summary)),
    ],
    [
      'itl',
      'Time between tokens',
      'As handed to the caller.',
      or(
        'itl',
        data.interTokenNs.length > 0,
        () =>
          html`<div class="two">${curve('ecdf', 'Share of tokens at or below a time', `Cumulative share of ${data.interTokenNs.length} times between tokens`)}${curve('order', 'In the order of the run', `${data.interTokenNs.length} times between tokens in the order in which they were handed over`)}</div>`,
      ),
    ],
    ['memory', 'Memory', '', or('memory', summary.memory.length > 0, () => memory(summary, data))],
    [
      'bytes',
      'Bytes',
      'Summed over the run. Logical: rows times width times element. Payload: after the codec. Framed: with headers. Wire: as the kernel or the link counted, with everything around.',
      or('bytes', summary.bytes.length > 0, () => bytes(summary)),
    ],
    [
      'clocks',
      'Clocks',
      'Each process against the last stage. The band is what messages in both directions allow, whatever the distribution of delays; the estimate assumes nothing tighter.',
      or('clocks', summary.clocks.length > 0, () => clocks(summary)),
    ],
    ['settings', 'Commands and settings', '', settings(summary)],
    [
      'limits',
      'Limits',
      '',
      or(
        'limits',
        summary.limits.length > 0,
        () => html`<ul class="plain">${summary.limits.map((limit) => html`<li>${limit}</li>`)}</ul>`,
      ),
    ],
  ]
}

/** Why a section is empty, where nobody said. */
function absence(summary: RunSummary, id: string): string {
  if (summary.level === 0 && ['attribution', 'lanes', 'whatIf', 'clocks'].includes(id))
    return 'the run was recorded at level 0, without spans.'
  return summary.complete ? 'the run has none.' : 'the run was cut before it had any.'
}

function subtitle({ settings: s, complete }: RunSummary): string {
  const link =
    s.link === undefined
      ? ''
      : `, emulated link ${s.link.delayMs} ms one way${s.link.bitsPerSecond === undefined ? '' : ` at ${formatCount(s.link.bitsPerSecond / 1e6)} Mbit/s`}`
  return `${complete ? '' : 'Partial run · '}${s.startedAt} · ${s.engine}, ${s.backend}, ${s.threads} threads a stage · ${s.transport}, ${s.framing}, ${s.codec}${link}`
}

const num = numbersOf('summary.json')

function verdict(summary: RunSummary): Html {
  const keys = ['tpot', 'throughput', 'ttft'].flatMap((name) => {
    const index = summary.metrics.findIndex((metric) => metric.name === name)
    const metric = summary.metrics[index]
    if (metric === undefined) return []
    const interval =
      metric.low === undefined || metric.high === undefined
        ? ''
        : `${formatUnit(metric.low, metric.unit)} to ${formatUnit(metric.high, metric.unit)}`
    return [
      html`<div><dt>${metric.label}</dt><dd>${num(metric.value, (value) => formatUnit(value, metric.unit), `metrics.${index}.value`, metric.definition)}<small>${interval}</small></dd></div>`,
    ]
  })
  const decode = summary.attribution?.decode
  return html`<div class="verdict"><div><p class="kind">${summary.verdict.kind}</p><p class="say">${summary.verdict.text}</p></div>
<dl class="keys">${keys}${decode !== undefined && html`<div><dt>Unattributed</dt><dd>${num(decode.unattributedPct, formatPct, 'attribution.decode.unattributedPct', 'Sum over decode tokens / their wall time')}<small>median ${num(decode.unattributedMedianPct, formatPct, 'attribution.decode.unattributedMedianPct')}, p95 ${num(decode.unattributedP95Pct, formatPct, 'attribution.decode.unattributedP95Pct')}</small></dd></div>`}<div><dt>In flight</dt><dd>${num(summary.settings.sequences, formatCount, 'settings.sequences')}<small>on ${summary.settings.stages} stages</small></dd></div></dl>
${decode !== undefined && decode.tokens > 0 && shareBar(decode)}</div>`
}

function metrics(summary: RunSummary): Html {
  const intervals = summary.metrics.some((metric) => metric.low !== undefined && metric.high !== undefined)
  return table(
    'Metrics',
    ['Metric', ['Value'], ...(intervals ? [['95 % interval'] as const] : []), ['Samples'], 'Definition'],
    summary.metrics.map((metric, at) => {
      const format = (value: number): string => formatUnit(value, metric.unit)
      const path = `metrics.${at}`
      const { low, high } = metric
      const interval =
        low !== undefined &&
        high !== undefined &&
        html`${num(low, format, `${path}.low`)} to ${num(high, format, `${path}.high`)}`
      return html`<tr><td>${metric.label}</td><td class="r">${num(metric.value, format, `${path}.value`, metric.definition)}</td>${intervals && html`<td class="r">${interval}</td>`}<td class="r">${num(metric.samples, formatCount, `${path}.samples`)}</td><td class="def">${metric.definition}${metric.note !== undefined && html` <b>${metric.note}</b>`}</td></tr>`
    }),
  )
}

/** Rows of an attribution that are shown at once; the smaller ones are one click away. */
const mainRows = 12

function attributionTables(summary: RunSummary): Html {
  const hidden = Object.entries(summary.attribution!.decode.hiddenNs)
    .filter(([, ns]) => ns > 0)
    .sort((a, b) => b[1] - a[1])
  return html`<h3>Tokens after the first</h3>${attributionTable(summary, 'decode', 'Tokens after the first')}${
    hidden.length > 0 &&
    html`<p class="note">Beside this, in parallel and so not part of the sum, over all of these tokens: ${hidden.map(([category, ns], at) => html`${at > 0 && ', '}${categoryLabel(category)} ${num(ns, formatNs, `attribution.decode.hiddenNs.${category}`)}`)}.</p>`
  }<details><summary>First tokens, from acceptance of the request</summary>${attributionTable(summary, 'first', 'First tokens')}</details>`
}

function attributionTable(summary: RunSummary, key: 'decode' | 'first', name: string): Html {
  const totals: AttributionTotals = summary.attribution![key]
  if (totals.tokens === 0) return html`<p class="empty">${name}: the run has none.</p>`
  const path = `attribution.${key}`
  const top = totals.rows[0]!.sharePct
  const head = ['What', 'Where', ['A token'], ['Share'], '', ['Total']] as const
  const rows = totals.rows.map((row, at) => {
    const group = groupOf(row.category)
    return html`<tr><td><span class="key ${group}" style="--c:var(--${group})"></span>${categoryLabel(row.category)} <code class="sub">${row.category}</code></td><td>${placeOf(summary, row.category, row.process, row.port)}</td><td class="r">${perToken(row, `${path}.rows.${at}.perTokenNs`)}</td><td class="r">${num(row.sharePct, formatPct, `${path}.rows.${at}.sharePct`)}</td><td class="grow" aria-hidden="true"><svg width="100%" height="10"><rect width="${((100 * row.sharePct) / top).toFixed(2)}%" height="10" rx="2" style="${fill(group)}"/></svg></td><td class="r">${num(row.totalNs, formatNs, `${path}.rows.${at}.totalNs`)}</td></tr>`
  })
  // Unattributed time is never among what is folded away.
  const shown = rows.filter((_, at) => at < mainRows || totals.rows[at]!.category === 'UNATTRIBUTED')
  const folded = rows.filter((row) => !shown.includes(row))
  const foldedNs = sum(totals.rows.filter((_, at) => folded.includes(rows[at]!)).map((row) => row.totalNs))
  const rest =
    folded.length > 0 &&
    html`<tr><td>${folded.length} smaller ones</td><td></td><td class="r">${formatNs(foldedNs / totals.tokens)}</td><td class="r">${formatPct((100 * foldedNs) / Math.max(1, totals.wallNs))}</td><td></td><td class="r">${formatNs(foldedNs)}</td></tr>`
  return html`${table(
    name,
    head,
    shown,
    html`${rest}<tr><td>All</td><td>${num(totals.tokens, formatCount, `${path}.tokens`)} tokens</td><td class="r"><span class="n" title="wallNs / tokens">${formatNs(totals.wallNs / totals.tokens)}</span></td><td class="r">100 %</td><td></td><td class="r">${num(totals.wallNs, formatNs, `${path}.wallNs`)}</td></tr>`,
  )}${folded.length > 0 && html`<details><summary>The ${folded.length} smaller ones</summary>${table(`${name}, smaller ones`, head, folded)}</details>`}`
}

/** Less than what the clocks can be off by is only a bound. */
function perToken({ perTokenNs, uncertainNs }: AttributionTotals['rows'][number], path: string): Html {
  return perTokenNs >= uncertainNs
    ? num(perTokenNs, formatNs, path, 'Mean over tokens')
    : html`≤ ${num(perTokenNs + uncertainNs, formatNs, path, `${perTokenNs} ns, and the clocks can be off by ${uncertainNs} ns`)}`
}

function lanes(summary: RunSummary, data: ReportData): Html {
  const rows = summary.lanes
  return html`<div class="tools" id="lane-tools"></div><div class="lanes chart" id="lane-chart" role="img" tabindex="0" aria-label="Spans of ${summary.processes.length} processes on ${data.tracks.length} lanes over time; the table below has their sums"><noscript>Needs scripts; the table below has the sums.</noscript></div>${legend(categoryGroups.filter((group) => group !== 'unattributed'))}${data.tracksCut !== null && html`<p class="note">Cut at ${formatNs(data.tracksCut.fromNs)}: ${formatCount(data.tracksCut.spans)} later spans are in the trace only.</p>`}${
    rows.length > 0 &&
    html`<details open><summary>Each lane over the whole window</summary>${table(
      'Lanes',
      ['Process', 'Lane', ['Window'], ['Busy'], ['Waits'], ['Idle'], 'Busy with', 'Waits for'],
      rows.map((row, at) => {
        const busy = sum(Object.values(row.busyNs))
        const wait = sum(Object.values(row.waitNs))
        const window = Math.max(1, row.endNs - row.startNs)
        const share = (ns: number): Html =>
          html`<span class="n" title="From summary.json: lanes.${at}; ${ns} ns of ${window} ns">${formatPct((100 * ns) / window)}</span>`
        const list = (times: Readonly<Record<string, number>>): string =>
          Object.entries(times)
            .filter(([, ns]) => ns > 0)
            .sort((a, b) => b[1] - a[1])
            .slice(0, 4)
            .map(([name, ns]) => `${name} ${formatPct((100 * ns) / window)}`)
            .join(', ')
        return html`<tr><td>${summary.processes[row.process]?.name ?? row.process}</td><td>${row.lane}${row.port > 0 && ` ${portName(row.port)}`}</td><td class="r"><span class="n">${formatNs(window)}</span></td><td class="r">${share(busy)}</td><td class="r">${share(wait)}</td><td class="r">${share(row.bubbleNs)}</td><td class="def">${list(row.busyNs)}</td><td class="def">${list(row.waitNs)}</td></tr>`
      }),
    )}</details>`
  }`
}

function whatIf(summary: RunSummary): Html {
  const reductions = [...new Set(summary.whatIf.map((row) => row.reductionPct))].sort((a, b) => a - b)
  const subjects = new Map<string, { row: RunSummary['whatIf'][number]; at: Map<number, number> }>()
  summary.whatIf.forEach((row, at) => {
    const key = `${row.category}/${row.process}/${row.port}`
    const subject = subjects.get(key) ?? { row, at: new Map<number, number>() }
    subject.at.set(row.reductionPct, at)
    subjects.set(key, subject)
  })
  const cell = (at: number | undefined): Html =>
    at === undefined
      ? html`<td class="r">—</td>`
      : html`<td class="r">${num(summary.whatIf[at]!.gainPctFrozen, formatPct, `whatIf.${at}.gainPctFrozen`, 'Recorded order kept; predicted by replay, not measured')} / ${num(summary.whatIf[at]!.gainPctRequeued, formatPct, `whatIf.${at}.gainPctRequeued`, 'Work in order of arrival; predicted by replay, not measured')}</td>`
  return html`${curve('whatif', 'Gain against reduction', 'Predicted gain in time per token against how much shorter one category gets; the table below has all points')}<h3>Gain: recorded order kept / in order of arrival</h3>${table(
    'What if',
    ['What', 'Where', ...reductions.map((pct) => [`−${formatCount(pct)} %`] as const)],
    [...subjects.values()].map(({ row, at }) => {
      const group = groupOf(row.category)
      return html`<tr><td><span class="key ${group}" style="--c:var(--${group})"></span>${categoryLabel(row.category)}</td><td>${placeOf(summary, row.category, row.process, row.port)}</td>${reductions.map((pct) => cell(at.get(pct)))}</tr>`
    }),
  )}${summary.floors.length > 0 && floors(summary)}${summary.structures.length > 0 && structures(summary)}`
}

function floors(summary: RunSummary): Html {
  return html`<h3>Down to the smallest that this run has at each place</h3>${table(
    'Floors',
    ['What', ['First token sooner'], ['Tokens faster']],
    summary.floors.map((row, at) => {
      const group = groupOf(row.category)
      return html`<tr><td><span class="key ${group}" style="--c:var(--${group})"></span>${categoryLabel(row.category)}</td><td class="r">${num(row.ttftGainPct, formatPct, `floors.${at}.ttftGainPct`, 'Predicted by replay, not measured')}</td><td class="r">${num(row.tpotGainPct, formatPct, `floors.${at}.tpotGainPct`, 'Predicted by replay, not measured')}</td></tr>`
    }),
  )}`
}

function structures(summary: RunSummary): Html {
  return html`<h3>Another structure</h3>${table(
    'Other structures',
    ['Change', 'Where', ['First token sooner'], ['Tokens faster'], ['Throughput']],
    summary.structures.map(
      (row, at) =>
        html`<tr><td>${row.change}</td><td>${row.where}</td>${(['ttftGainPct', 'tpotGainPct', 'throughputGainPct'] as const).map((key) => html`<td class="r">${num(row[key], formatPct, `structures.${at}.${key}`, 'Predicted by replay, not measured')}</td>`)}</tr>`,
    ),
  )}`
}

function memory(summary: RunSummary, data: ReportData): Html {
  return html`${table(
    'Memory',
    ['Process', 'Layers', ['Peak resident'], ['Spans'], ['Cost of a span']],
    summary.memory.map((row, at) => {
      const process = summary.processes[row.process]
      return html`<tr><td>${process?.name ?? row.process}</td><td>${process?.role === 'stage' ? `${process.layerFirst}–${process.layerEnd - 1}` : ''}</td><td class="r">${num(row.peakRssBytes, formatBytes, `memory.${at}.peakRssBytes`)}</td><td class="r">${num(process?.spans, formatCount, `processes.${row.process}.spans`)}</td><td class="r">${num(process?.spanCostNs, formatNs, `processes.${row.process}.spanCostNs`)}</td></tr>`
    }),
  )}${data.memory.length > 0 && curve('memory', 'Resident memory over time', `Resident memory of ${data.memory.length} processes over the run`)}`
}

function bytes(summary: RunSummary): Html {
  const layers = ['logicalBytes', 'payloadBytes', 'framedBytes', 'wireBytes'] as const
  return table(
    'Bytes',
    [
      'From',
      'To',
      'Link',
      ['Messages'],
      ['Logical'],
      ['Payload'],
      ['Framed'],
      ['Wire'],
      ['Framed / logical'],
    ],
    summary.bytes.map(
      (row, at) =>
        html`<tr><td>${row.from}</td><td>${row.to}</td><td>${row.link}</td><td class="r">${num(row.messages, formatCount, `bytes.${at}.messages`)}</td>${layers.map((layer) => html`<td class="r">${num(row[layer], formatBytes, `bytes.${at}.${layer}`)}</td>`)}<td class="r">${row.framedBytes !== null && row.logicalBytes !== null && row.logicalBytes > 0 && (row.framedBytes / row.logicalBytes).toFixed(3)}</td></tr>`,
    ),
  )
}

function clocks(summary: RunSummary): Html {
  return html`${table(
    'Clocks',
    [
      'Process',
      ['Offset'],
      ['Drift'],
      ['Band at start'],
      ['middle'],
      ['end'],
      ['Shortest round trip'],
      ['Probes'],
      ['Residual p50'],
      ['p95'],
    ],
    summary.clocks.map((row, at) => {
      const name = summary.processes[row.process]?.name ?? row.process
      return html`<tr><td>${name}</td><td class="r">${num(row.offsetNs, formatNs, `clocks.${at}.offsetNs`)}</td><td class="r">${num(row.driftPpm, (ppm) => formatUnit(ppm, 'ppm'), `clocks.${at}.driftPpm`)}</td>${[
        0, 1, 2,
      ].map((part) => {
        const band = row.bands[part]
        return html`<td class="r">${band !== undefined && html`<span class="n" title="summary.json: clocks.${at}.bands.${part}: ${band.lowNs} to ${band.highNs} ns">± ${formatNs((band.highNs - band.lowNs) / 2)}</span>`}</td>`
      })}<td class="r">${num(row.minRttNs, formatNs, `clocks.${at}.minRttNs`)}</td><td class="r">${num(row.probes, formatCount, `clocks.${at}.probes`)}</td><td class="r">${num(row.residualP50Ns, formatNs, `clocks.${at}.residualP50Ns`)}</td><td class="r">${num(row.residualP95Ns, formatNs, `clocks.${at}.residualP95Ns`)}</td></tr>`
    }),
  )}${summary.closures.map((ring, at) => html`<p class="note">Around ${ring.processes.map((process) => summary.processes[process]?.name ?? process).join(' → ')} the offsets add up to ${num(ring.residualNs, formatNs, `closures.${at}.residualNs`)}; the bands allow ${num(ring.allowedNs, formatNs, `closures.${at}.allowedNs`)}.</p>`)}${
    summary.attribution !== null &&
    html`<p class="note">Messages that arrived before they were sent, by every clock that the probes allow: ${num(summary.attribution.causalityViolations, formatCount, 'attribution.causalityViolations')}.</p>`
  }`
}

function settings(summary: RunSummary): Html {
  const rows = Object.entries(summary.settings).filter(([name]) => name !== 'command')
  return html`${summary.commands.map((command) => html`<pre tabindex="0">${commandLine(command)}</pre>`)}<details><summary>Settings</summary>${table(
    'Settings',
    ['Setting', 'Value'],
    rows.map(
      ([name, value]) =>
        html`<tr><td><code>${name}</code></td><td><code>${typeof value === 'string' ? value : JSON.stringify(value)}</code></td></tr>`,
    ),
  )}</details>`
}

function curve(id: string, name: string, label: string): Html {
  return html`<figure><figcaption><b>${name}</b></figcaption><div class="chart" id="curve-${id}" data-curve="${id}" role="img" tabindex="0" aria-label="${label}"></div></figure>`
}

/** What the scripts draw; the rest of the page needs none. */
function clientData(summary: RunSummary, data: ReportData): unknown {
  return {
    processes: summary.processes.map((process) => process.name),
    spanNames: data.spanNames,
    tracks: data.tracks,
    interTokenNs: data.interTokenNs,
    memory: data.memory,
    whatIf: summary.whatIf.map((row) => ({
      name: `${categoryLabel(row.category)}, ${placeOf(summary, row.category, row.process, row.port)}`,
      group: groupOf(row.category),
      reductionPct: row.reductionPct,
      gainPctFrozen: row.gainPctFrozen,
      gainPctRequeued: row.gainPctRequeued,
    })),
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
