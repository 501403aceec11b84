import { type MetricName, metricFacts } from '../session/record.ts'
import { colours, table } from '../ui.ts'
import type { Comparison, ComparisonRow, Verdict } from './comparison.ts'

/** The result on a terminal. */
export function comparisonText(comparison: Comparison): string {
  const rows = comparison.rows.map((row) => [
    row.cell,
    metricFacts[row.metric].label,
    row.role,
    valueText(row.metric, row.a),
    valueText(row.metric, row.b),
    row.effectPct === null ? '—' : signedPct(row.effectPct),
    row.lowPct === null || row.highPct === null
      ? '—'
      : `${signedPct(row.lowPct)} … ${signedPct(row.highPct)}`,
    row.aa === null ? '—' : `${signedPct(row.aa.lowPct)} … ${signedPct(row.aa.highPct)}`,
    coloured(row.verdict),
    row.note ?? '',
  ])
  const head = ['cell', 'metric', 'role', 'A', 'B', 'B to A', 'interval', 'A to its copy', 'verdict', '']
  const lines = [table(head, rows, [3, 4, 5, 6, 7]), '', `session: ${comparison.session}`]
  for (const reason of comparison.reasons) lines.push(`  ${reason}`)
  lines.push(`verdict: ${colours.bold(comparison.verdict)}`)
  return lines.join('\n')
}

export function valueText(metric: MetricName, value: number | null): string {
  if (value === null) return '—'
  switch (metricFacts[metric].unit) {
    case 'ns':
      return value >= 1e6 ? `${(value / 1e6).toFixed(2)} ms` : `${(value / 1e3).toFixed(2)} us`
    case 'bytes':
      return value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${value} B`
    default:
      return `${value.toFixed(1)} tok/s`
  }
}

export function signedPct(value: number): string {
  return `${value >= 0 ? '+' : ''}${value.toFixed(2)} %`
}

function coloured(verdict: ComparisonRow['verdict'] | Verdict): string {
  if (verdict === 'IMPROVED') return colours.green(verdict)
  return verdict === 'REGRESSED' ? colours.red(verdict) : verdict
}
