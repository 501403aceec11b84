import { valueText } from '../compare/print.ts'
import { bar } from '../plot.ts'
import { metricFacts } from '../session/record.ts'
import { colours, table } from '../ui.ts'
import { type E2eCell, type E2eFigure, type E2eMetric, type E2eResult, e2eMetrics } from './table.ts'

const barCells = 30
const plotted: readonly E2eMetric[] = ['tpot', 'ttft']

/** The result on a terminal: medians with their intervals, against the unsplit model, and bars. */
export function e2eText(result: E2eResult): string {
  const { cells } = result
  const parts = [figureTable(cells)]
  const compared = cells.filter(({ ratios }) => e2eMetrics.some((metric) => ratios[metric] !== null))
  if (compared.length > 0)
    parts.push(`${colours.bold('times the unsplit model')}, of runs of one round\n${ratioTable(compared)}`)
  for (const metric of plotted) {
    const plot = plotOf(cells, metric)
    if (plot !== '') parts.push(`${colours.bold(metricFacts[metric].label)}\n${plot}`)
  }
  parts.push(notesOf(cells).join('\n'))
  return parts.filter((part) => part !== '').join('\n\n')
}

function figureTable(cells: readonly E2eCell[]): string {
  const rows = cells.flatMap(({ name, role, done, planned, figures }) => {
    const head = [name, role, done === planned ? String(done) : `${done}/${planned}`]
    const medians = [...head, ...e2eMetrics.map((metric) => textOf(metric, figures[metric]?.median ?? null))]
    const intervals = e2eMetrics.map((metric) =>
      intervalText(figures[metric], (value) => textOf(metric, value)),
    )
    return intervals.every((text) => text === '') ? [medians] : [medians, ['', '', '', ...intervals]]
  })
  return table(headOf(['cell', 'shows', 'runs']), rows, columnsFrom(2))
}

function ratioTable(cells: readonly E2eCell[]): string {
  const times = (value: number) => value.toPrecision(3)
  const rows = cells.map(({ name, ratios }) => [
    name,
    ...e2eMetrics.map((metric) => {
      const ratio = ratios[metric]
      if (ratio === null) return '—'
      const interval = intervalText(ratio, times)
      return interval === '' ? times(ratio.median) : `${times(ratio.median)} (${interval})`
    }),
  ])
  return table(headOf(['cell']), rows, columnsFrom(1))
}

/** As short as they can be: the table is wide. */
const heads: Readonly<Record<E2eMetric, string>> = {
  ...{ ttft: 'TTFT', prefill: 'prefill', tpot: 'TPOT', itl_p50: 'ITL p50', itl_p95: 'ITL p95' },
  ...{ throughput: 'throughput', peak_rss: 'peak RSS', bytes_per_token: 'B/token' },
}

function headOf(first: readonly string[]): string[] {
  return [...first, ...e2eMetrics.map((metric) => heads[metric])]
}

function columnsFrom(first: number): number[] {
  return Array.from({ length: e2eMetrics.length + 1 }, (_, i) => first + i)
}

/** Bytes of a token are a mean: positions take more of them as they grow. */
function textOf(metric: E2eMetric, value: number | null): string {
  if (metric !== 'bytes_per_token' || value === null || value >= 1e6) return valueText(metric, value)
  return `${Number(value.toFixed(1))} B`
}

function intervalText(figure: E2eFigure | null, show: (value: number) => string): string {
  if (figure?.low == null || figure.high === null) return ''
  return `${show(figure.low).replace(/ \S+$/, '')} … ${show(figure.high)}`
}

function plotOf(cells: readonly E2eCell[], metric: E2eMetric): string {
  const shown = cells.flatMap(({ name, figures }) => {
    const figure = figures[metric]
    return figure === null ? [] : [{ name, value: figure.median }]
  })
  const longest = Math.max(...shown.map(({ value }) => value))
  return table(
    ['', '', ''],
    shown.map(({ name, value }) => [name, valueText(metric, value), bar(value / longest, barCells)]),
    [1],
  ).replace(/^\s*\n/, '')
}

function notesOf(cells: readonly E2eCell[]): string[] {
  const has = (which: (cell: E2eCell) => boolean) => cells.some(which)
  const notes = ['Medians of runs in fresh processes, below each its 95 % interval; a dash is not measured.']
  if (has(({ planned }) => planned < 6)) notes.push('Intervals need 6 runs.')
  if (has(({ emulated }) => emulated))
    notes.push('Links other than loopback are emulated in both processes: delay and rate, no losses.')
  if (has(({ role }) => role === 'seam alone' || role === 'transport alone'))
    notes.push('Fake stages compute a hash of their rows: what remains is the seam and that.')
  if (has(({ role }) => role === 'llama-rpc'))
    notes.push('llama-rpc: figures of llama-bench, which neither samples nor reports memory and bytes.')
  for (const { name, failed, missing } of cells) {
    for (const { run, reason } of failed) notes.push(`run ${run} of ${name} failed: ${reason}`)
    if (missing.length > 0) notes.push(`${name}: no record of run ${missing.join(', ')}`)
  }
  return notes
}
