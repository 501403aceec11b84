import { valueText } from '../compare/print.ts'
import { bar } from '../plot.ts'
import { cellLabel } from '../session/cell.ts'
import { metricFacts } from '../session/record.ts'
import { colours, table } from '../ui.ts'
import type { SelectPlan } from './plan.ts'
import type { Selection, Survey } from './selection.ts'

const mostRows = 12
const leastShownPct = 0.05
const barCells = 16

export function surveyText(plan: SelectPlan, { rows }: Survey): string {
  const lines = rows.map((row) => [
    row.cell,
    metricFacts[row.target].label,
    valueText(row.target, row.value),
    `${row.computePct.toFixed(0)} %`,
    row.largest === null ? '—' : `${row.largest.category} ${row.largest.sharePct.toFixed(0)} %`,
    row.candidates
      .slice(0, 2)
      .map(({ name, gainPct }) => `${name} ${gainPct.toFixed(1)} %`)
      .join(', ') || '—',
    row.unattributedPct === null ? '—' : `${row.unattributedPct.toFixed(2)} %`,
    `${row.gatesPassed} of ${row.runs}`,
    cellLabel(plan.cells[row.cell]!),
  ])
  const head = ['cell', 'time', '', 'compute', 'largest', 'removing would gain', 'no name', 'replays', '']
  return table(head, lines, [2, 3, 6])
}

export function selectionText({
  ranked,
  places,
  rules,
  verdict,
  text,
  cell,
  target,
  value,
  runs,
}: Selection): string {
  const most = Math.max(0.01, ...ranked.map(({ gainPct }) => gainPct))
  const rows = ranked
    .slice(0, mostRows)
    .map((row) => [
      row.name,
      `${row.gainPct.toFixed(2)} %`,
      `${row.lowPct.toFixed(2)} … ${row.highPct.toFixed(2)}`,
      row.p === null ? '' : row.p.toPrecision(2),
      bar(Math.max(0, row.gainPct) / most, barCells),
      row.floor,
    ])
  const parts = places
    .filter(({ gainPct }) => gainPct >= leastShownPct)
    .slice(0, mostRows)
    .map((row) => [
      row.name,
      `${row.gainPct.toFixed(2)} %`,
      `${row.lowPct.toFixed(2)} … ${row.highPct.toFixed(2)}`,
      bar(row.gainPct / most, barCells),
    ])
  const checks = rules.map(({ rule, what, holds, found }) => [
    rule,
    holds ? colours.green('holds') : colours.red('fails'),
    what,
    found,
  ])
  return [
    `${cell}: ${metricFacts[target].label} ${valueText(target, value)}, ${runs} runs`,
    '',
    table(['candidate', 'gain', 'interval', 'p', '', 'floor'], rows, [1, 2, 3]),
    '',
    ...(parts.length === 0 ? [] : [table(['at one place', 'gain', 'interval', ''], parts, [1, 2]), '']),
    table(['rule', '', '', 'found'], checks, []),
    '',
    `${colours.bold(verdict)}: ${text}`,
  ].join('\n')
}
