import { alignRun, replayModel, whatIf } from '@seamline/profiler'
import { comparisonOf } from '../compare/comparison.ts'
import { e2eTable } from '../e2e/table.ts'
import { planSha256 } from '../select/plan.ts'
import { selectionOf, surveyOf } from '../select/selection.ts'
import { type Cell, cellLabel } from '../session/cell.ts'
import { notRecorded } from '../session/guards.ts'
import { type MetricName, type MetricValues, metricNames, type StoredRecord } from '../session/record.ts'
import { metricValues } from '../session/values.ts'
import { median, quantileInterval } from '../statistics/index.ts'
import { type AttributionTotals, alignmentOf, isAttributable, runAttribution } from './attribution.ts'
import type { Bundle, BundleSession } from './bundle.ts'
import type { ClaimClass } from './spec.ts'

/** One file of `derived/`, a pure function of what the bundle rests on: the same input gives the same bytes. */
export interface Derivation {
  /** Of the file, and the root of its macros. */
  readonly name: string
  readonly class: ClaimClass
  /** Whether the bundle holds what it is made from. */
  readonly needs: (bundle: Bundle) => boolean
  readonly derive: (bundle: Bundle) => unknown
}

export interface RunRow {
  readonly number: number
  readonly cell: string
  readonly build: string
  readonly arm: string
  readonly pair: number | null
  readonly status: 'done' | 'failed' | 'missing'
  readonly reason: string | null
  readonly values: MetricValues | null
}

export interface MedianRow {
  readonly label: string
  readonly class: ClaimClass
  readonly runs: number
  readonly metrics: Partial<
    Record<
      MetricName,
      {
        readonly n: number
        readonly median: number
        readonly low: number | null
        readonly high: number | null
      }
    >
  >
}

export interface FidelityRow {
  readonly workload: string
  /** SHA-256 of the token ids with the cells that made them; several where runs differ. */
  readonly tokens: readonly { readonly sha256: string; readonly cells: readonly string[] }[]
  readonly runs: number
  readonly unsplitRuns: number
}

const confidence = 0.95

export const derivations: readonly Derivation[] = [
  { name: 'runs', class: 'measured', needs: () => true, derive: (bundle) => bySession(bundle, runRows) },
  { name: 'medians', class: 'derived', needs: () => true, derive: (bundle) => bySession(bundle, medianRows) },
  {
    name: 'attribution',
    class: 'derived',
    needs: ({ sessions }) => sessions.some(({ stored }) => [...stored.records.values()].some(isAttributable)),
    derive: (bundle) => bySession(bundle, attributionRows),
  },
  { name: 'fidelity', class: 'derived', needs: () => true, derive: fidelityRows },
  { name: 'whatIf', class: 'predicted', needs: ({ spec }) => spec.trace !== null, derive: whatIfRows },
  {
    name: 'e2e',
    class: 'derived',
    needs: ({ sessions }) => sessions.some(isE2e),
    derive: (bundle) =>
      bySession({ sessions: bundle.sessions.filter(isE2e) }, ({ stored }) => e2eTable(stored)),
  },
  {
    name: 'survey',
    class: 'predicted',
    needs: (bundle) => planned(bundle, 'survey').length > 0,
    derive: (bundle) =>
      bySession({ sessions: planned(bundle, 'survey') }, ({ stored }) => surveyOf(bundle.plan!, stored)),
  },
  {
    name: 'selection',
    class: 'predicted',
    needs: (bundle) => planned(bundle, 'select').length > 0,
    derive: (bundle) =>
      bySession({ sessions: planned(bundle, 'select') }, (session) => selectionIn(bundle, session)),
  },
  {
    name: 'comparison',
    class: 'derived',
    needs: (bundle) => bundle.lock !== null && compared(bundle).length > 0,
    derive: (bundle) =>
      bySession({ sessions: compared(bundle) }, ({ stored }) => comparisonOf(bundle.lock!, stored)),
  },
]

export function isE2e({ stored: { session } }: BundleSession): boolean {
  return session.plan.purpose === 'e2e'
}

/** Sessions that were made by the plan of the bundle. */
export function planned(
  { sessions, plan }: Bundle,
  purpose: 'survey' | 'select' | 'inject',
): BundleSession[] {
  return sessions.filter(({ stored: { session } }) => {
    return plan !== null && session.plan.purpose === purpose && session.plan.serves === planSha256(plan)
  })
}

/** What a session chose, with the delays that were put in for the same cell. */
export function selectionIn(bundle: Bundle, { stored }: BundleSession) {
  const plan = bundle.plan!
  const cell = Object.keys(stored.session.plan.cells).find((name) => Object.hasOwn(plan.cells, name))!
  const injection = planned(bundle, 'inject').find((each) =>
    Object.hasOwn(each.stored.session.plan.cells, cell),
  )
  return selectionOf(plan, cell, stored, injection?.stored)
}

/** Sessions that were made by the lock of the bundle. */
export function compared({ sessions, lock }: Bundle): BundleSession[] {
  return sessions.filter(
    ({ stored: { session } }) => session.plan.purpose === 'compare' && session.plan.serves === lock?.lockId,
  )
}

/** The record that {@link Spec.trace} names; undefined where it is not there or has no spans. */
export function chosenRecord({ spec, sessions }: Bundle): StoredRecord | undefined {
  const session = sessions.find(({ name }) => name === spec.trace?.session)
  const record = session?.stored.records.get(spec.trace?.run ?? 0)
  return record !== undefined && isAttributable(record) ? record : undefined
}

function bySession<T>(
  { sessions }: Pick<Bundle, 'sessions'>,
  of: (session: BundleSession) => T,
): Record<string, T> {
  const entries = sessions.flatMap((session): [string, T][] => {
    try {
      return [[session.name, of(session)]]
    } catch (error) {
      // What proves nothing may hold too little to say anything.
      if (session.lost !== null) return []
      throw error
    }
  })
  return Object.fromEntries(entries)
}

function runRows({ stored }: BundleSession): RunRow[] {
  return stored.session.plan.runs.map(({ number, cell, build, arm, pair }) => {
    const record = stored.records.get(number)
    return {
      ...{ number, cell, build, arm, pair },
      status: record?.status ?? 'missing',
      reason: record?.reason ?? null,
      values: record === undefined ? null : metricValues(record),
    }
  })
}

/** Median and order-statistic interval over the runs of each arm. */
function medianRows({ stored }: BundleSession): Record<string, MedianRow> {
  const { plan } = stored.session
  const groups = new Map<string, { cell: Cell; values: MetricValues[] }>()
  for (const { number, cell, arm } of plan.runs) {
    const record = stored.records.get(number)
    if (record?.status !== 'done') continue
    const name = arm === cell ? cell : `${cell} ${arm}`
    const group = groups.get(name) ?? { cell: plan.cells[cell]!, values: [] }
    groups.set(name, group)
    group.values.push(metricValues(record))
  }
  return Object.fromEntries(
    [...groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { cell, values }]): [string, MedianRow] => {
        const metrics: Partial<Record<MetricName, object>> = {}
        for (const metric of metricNames) {
          const known = values.flatMap((each) => each[metric] ?? [])
          if (known.length === 0) continue
          const interval = quantileInterval(known, 0.5, confidence)
          metrics[metric] = {
            ...{ n: known.length, median: median(known) },
            ...{ low: interval?.low ?? null, high: interval?.high ?? null },
          }
        }
        return [
          name,
          {
            label: cellLabel(cell),
            class: cellClass(cell),
            runs: values.length,
            metrics: metrics as MedianRow['metrics'],
          },
        ]
      }),
  )
}

/** A stage that waits instead of computing simulates; what it costs around that is measured all the same, which its label says. */
export function cellClass(cell: Cell): ClaimClass {
  return cell.kind === 'pipeline' && cell.executor === 'paced' ? 'simulated' : 'measured'
}

function attributionRows({ stored }: BundleSession) {
  const runs = [...stored.records].filter(([, record]) => isAttributable(record))
  return Object.fromEntries(
    runs.map(([number, record]) => {
      const { decode, first, causalityViolations, omitted } = runAttribution(record)
      const names = record.trace!.processes.map(({ name }) => name)
      const named = ({ rows, ...rest }: AttributionTotals) => ({
        ...rest,
        rows: rows.map((row) => ({ ...row, process: names[row.process] })),
      })
      return [number, { decode: named(decode), first: named(first), causalityViolations, omitted }]
    }),
  )
}

/** Runs of real models on the same prompts, whatever carries them; of others those of the same cell. */
export function workloadOf(cell: Cell): string | null {
  if (cell.kind === 'micro' || cell.executor === 'llama-rpc') return null
  const { model, k, promptTokens, tokens } = cell
  if (model !== null) return `${model} K=${k} ${promptTokens}+${tokens}`
  return cellLabel(cell)
}

function fidelityRows({ sessions, spec }: Bundle): FidelityRow[] {
  const rows = new Map<string, { tokens: Map<string, Set<string>>; runs: number; unsplitRuns: number }>()
  for (const { stored, lost } of sessions) {
    for (const { cell, guards, status } of lost === null ? stored.records.values() : []) {
      const workload = workloadOf(cell)
      if (cell.kind !== 'pipeline' || workload === null || status !== 'done' || guards === null) continue
      const isLossy = spec.lossy.some(({ codec }) => codec === cell.codec) && cell.executor !== 'unsplit'
      const name = isLossy ? `${workload} ${cell.codec}` : workload
      const row = rows.get(name) ?? { tokens: new Map(), runs: 0, unsplitRuns: 0 }
      rows.set(name, row)
      row.runs++
      if (cell.executor === 'unsplit') row.unsplitRuns++
      if (guards.tokens === notRecorded) continue
      const cells = row.tokens.get(guards.tokens) ?? new Set()
      row.tokens.set(guards.tokens, cells.add(cellLabel(cell)))
    }
  }
  return [...rows].map(([workload, { tokens, ...counts }]) => ({
    ...{ workload, ...counts },
    tokens: [...tokens].map(([sha256, cells]) => ({ sha256, cells: [...cells].sort() })),
  }))
}

function whatIfRows(bundle: Bundle) {
  const record = chosenRecord(bundle)
  if (record === undefined) return { ok: false, reason: 'the run has no spans', gates: [], rows: [] }
  const found = whatIf(replayModel(alignRun(record.trace!, alignmentOf(record))))
  if (!found.ok) return { ok: false, reason: found.reason, gates: found.gates, rows: [] }
  const names = record.trace!.processes.map(({ name }) => name)
  const rows = found
    .predictions()
    .map(({ category, process, port, reductionPct, gainPctFrozen, gainPctRequeued }) => ({
      ...{ category, port, reductionPct },
      process: names[process] ?? 'everywhere',
      // A policy whose replay does not repeat the run predicts nothing.
      gainPctFrozen: Number.isNaN(gainPctFrozen) ? null : gainPctFrozen,
      gainPctRequeued: Number.isNaN(gainPctRequeued) ? null : gainPctRequeued,
    }))
  return { ok: true, reason: null, gates: found.gates, rows }
}
