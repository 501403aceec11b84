import { canonicalJson } from '../session/canonical.ts'
import { type Cell, cellLabel, type PipelineCell } from '../session/cell.ts'
import { roundedAll } from '../session/numbers.ts'
import { type MetricName, metricNames, type StoredRecord } from '../session/record.ts'
import type { PlannedRun } from '../session/session.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { median, quantileInterval } from '../statistics/index.ts'

/** What a cell shows: a chain of stages, or one of the controls beside it. */
export type E2eRole = (typeof roles)[number]

/** In the order of the result. */
const roles = ['split', 'unsplit', 'one process', 'transport alone', 'seam alone', 'llama-rpc'] as const

/** Times, rates and bytes of a pipeline, in the units of {@link MetricName}. */
export type E2eMetric = Exclude<MetricName, 'time'>

/** Over runs, each of which counts once. */
export interface E2eFigure {
  /** Runs that measured it. */
  readonly n: number
  readonly median: number
  /** Of the median, by order statistics at 95 %; null below 6 runs. */
  readonly low: number | null
  readonly high: number | null
}

export interface E2eCell {
  readonly name: string
  readonly label: string
  readonly role: E2eRole
  /** The link is emulated. */
  readonly emulated: boolean
  /** The cell without a seam that it is set against; null where none is in the session. */
  readonly unsplit: string | null
  readonly planned: number
  readonly done: number
  readonly failed: readonly { readonly run: number; readonly reason: string }[]
  /** Runs without a record: those of a session that was cut. */
  readonly missing: readonly number[]
  readonly figures: Readonly<Record<E2eMetric, E2eFigure | null>>
  /** Against the unsplit run of the same round. */
  readonly ratios: Readonly<Record<E2eMetric, E2eFigure | null>>
}

export interface E2eResult {
  readonly format: 'seamline-e2e/1'
  readonly cells: readonly E2eCell[]
}

export const e2eMetrics: readonly E2eMetric[] = metricNames.filter((name) => name !== 'time')

type Values = Readonly<Record<MetricName, number | null>>

/** The figures of an end-to-end session, from its raw records alone; the same bytes for the same records. */
export function e2eTable({ session: { plan }, records }: StoredSession): E2eResult {
  const values = new Map<number, Values>()
  for (const [number, record] of records) values.set(number, metricValues(record))
  const runsOf = (name: string) => plan.runs.filter((run) => run.cell === name)
  const cells = Object.entries(plan.cells).flatMap(([name, cell]): E2eCell[] => {
    if (cell.kind !== 'pipeline') return []
    const runs = runsOf(name)
    const unsplit = unsplitOf(cell, plan.cells)
    const beside = unsplit === null || unsplit === name ? [] : runsOf(unsplit)
    const figures = figuresOf((metric) => runs.flatMap(({ number }) => values.get(number)?.[metric] ?? []))
    const ratios = figuresOf((metric) =>
      ratiosOf(runs, beside, (run) => values.get(run.number)?.[metric] ?? null),
    )
    return [
      {
        ...{ name, label: cellLabel(cell), role: roleOf(cell), emulated: cell.link !== null, unsplit },
        ...{ planned: runs.length, ...outcomesOf(runs, records), figures, ratios },
      },
    ]
  })
  // Sessions are stored with sorted keys, so that a scenario's own order is not known here.
  cells.sort((a, b) => roles.indexOf(a.role) - roles.indexOf(b.role))
  return roundedAll({ format: 'seamline-e2e/1', cells })
}

export function roleOf({ executor, transport }: PipelineCell): E2eRole {
  if (executor === 'unsplit' || executor === 'llama-rpc') return executor
  if (executor === 'fake') return transport === 'memory' ? 'seam alone' : 'transport alone'
  return transport === 'memory' ? 'one process' : 'split'
}

/** The cell of the whole model with the same work. */
function unsplitOf(cell: PipelineCell, cells: Readonly<Record<string, Cell>>): string | null {
  const work = workOf(cell)
  const found = Object.entries(cells).find(
    ([, each]) => each.kind === 'pipeline' && each.executor === 'unsplit' && workOf(each) === work,
  )
  return found?.[0] ?? null
}

function workOf({
  model,
  k,
  promptTokens,
  tokens,
  warmupTokens,
  chunk,
  ctx,
  threads,
  level,
}: PipelineCell): string {
  return canonicalJson({ model, k, promptTokens, tokens, warmupTokens, chunk, ctx, threads, level })
}

function outcomesOf(runs: readonly PlannedRun[], records: ReadonlyMap<number, StoredRecord>) {
  const found = runs.map(({ number }) => ({ number, record: records.get(number) }))
  return {
    done: found.filter(({ record }) => record?.status === 'done').length,
    failed: found.flatMap(({ number, record }) =>
      record?.status === 'failed' ? [{ run: number, reason: record.reason ?? 'not recorded' }] : [],
    ),
    missing: found.flatMap(({ number, record }) => (record === undefined ? [number] : [])),
  }
}

function figuresOf(valuesOf: (metric: E2eMetric) => readonly number[]): E2eCell['figures'] {
  return Object.fromEntries(
    e2eMetrics.map((metric) => [metric, figureOf(valuesOf(metric))]),
  ) as E2eCell['figures']
}

function figureOf(values: readonly number[]): E2eFigure | null {
  if (values.length === 0) return null
  const { low, high } = quantileInterval(values, 0.5) ?? { low: null, high: null }
  return { n: values.length, median: median(values), low, high }
}

/** Of runs of one round: what slows the machine down for longer than that does so for both. */
function ratiosOf(
  runs: readonly PlannedRun[],
  beside: readonly PlannedRun[],
  valueIn: (run: PlannedRun) => number | null,
): number[] {
  return runs.flatMap((run) => {
    const other = beside.find(({ pair }) => pair !== null && pair === run.pair)
    const [value, base] = [valueIn(run), other === undefined ? null : valueIn(other)]
    return value === null || base === null || base === 0 ? [] : value / base
  })
}
