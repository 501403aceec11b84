import { valueText } from '../compare/print.ts'
import { type E2eCell, type E2eFigure, type E2eMetric, e2eMetrics } from '../e2e/table.ts'
import type { Cell } from '../session/cell.ts'
import { metricFacts } from '../session/record.ts'
import { cellClass } from './derivations.ts'
import { markdownTable } from './macros.ts'
import type { ClaimClass } from './spec.ts'

const dash = '—'

/** Cells of a session with the classes of their figures. */
export interface E2eRows {
  readonly session: string
  readonly cells: readonly E2eCell[]
  readonly planned: Readonly<Record<string, Cell>>
}

/** Medians over runs, with their intervals. */
export function e2eFigures(sessions: readonly E2eRows[]): string {
  const text = (metric: E2eMetric) => (value: number) => valueText(metric, value)
  return made(sessions, ['Shows', 'Link'], 'measured', (cell) => [
    ...[cell.role, cell.emulated ? 'emulated' : 'bare'],
    ...e2eMetrics.map((metric) => figureText(cell.figures[metric], text(metric))),
  ])
}

/** Times the unsplit model, of runs of the same round. */
export function e2eRatios(sessions: readonly E2eRows[]): string {
  const times = (value: number) => `${value.toPrecision(3)} times`
  const compared = sessions.map(({ cells, ...rest }) => ({
    ...rest,
    cells: cells.filter(({ ratios }) => e2eMetrics.some((metric) => ratios[metric] !== null)),
  }))
  return made(compared, ['Unsplit'], 'derived', (cell) => [
    cell.unsplit ?? dash,
    ...e2eMetrics.map((metric) => figureText(cell.ratios[metric], times)),
  ])
}

function made(
  sessions: readonly E2eRows[],
  between: readonly string[],
  said: ClaimClass,
  columns: (cell: E2eCell) => readonly string[],
): string {
  const labels = e2eMetrics.map((metric) => metricFacts[metric].label)
  return markdownTable(
    ['Session', 'Cell', 'Runs', ...between, ...labels, 'Class'],
    sessions.flatMap(({ session, cells, planned }) =>
      cells.map((cell) => {
        const runs = cell.done === cell.planned ? String(cell.done) : `${cell.done} of ${cell.planned}`
        const kind = cellClass(planned[cell.name]!)
        return [session, cell.name, runs, ...columns(cell), kind === 'measured' ? said : kind]
      }),
    ),
  )
}

function figureText(figure: E2eFigure | null, text: (value: number) => string): string {
  if (figure === null) return dash
  const { median, low, high } = figure
  return low === null || high === null ? text(median) : `${text(median)} (${text(low)} … ${text(high)})`
}
