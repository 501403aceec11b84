import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import type { Category, InjectionPlace, RunTrace } from '@seamline/profiler'
import type { Place } from 'seamline/profile'
import { roundedAll } from '../session/numbers.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { median } from '../statistics/index.ts'
import { type Decision, decide, type Facts } from './decide.ts'
import { candidatesOf, floorsOf, gainPct, type Replayed, replayed } from './gains.ts'
import { planSha256, type SelectPlan } from './plan.ts'

export interface Selection extends Decision {
  readonly format: 'seamline-selection/1'
  readonly planSha256: string
  readonly cell: string
  readonly target: SelectPlan['target']
  /** Median of the target over the runs, in its own unit. */
  readonly value: number | null
  readonly runs: number
  readonly shares: Readonly<Record<string, number>>
}

/** A row of a survey: what a few runs say of a cell. It may choose where to look, not what to change. */
export interface SurveyRow {
  readonly cell: string
  readonly runs: number
  readonly failed: number
  readonly value: number | null
  readonly unattributedPct: number | null
  readonly gatesPassed: number
  readonly largest: { readonly category: string; readonly sharePct: number } | null
  /** Largest first. */
  readonly candidates: readonly { readonly name: string; readonly gainPct: number }[]
}

export interface Survey {
  readonly format: 'seamline-survey/1'
  readonly planSha256: string
  readonly target: SelectPlan['target']
  readonly rows: readonly SurveyRow[]
}

/** Where a delay stands for more of a category, by the injector's and the replay's names. */
export const injectors: Partial<
  Readonly<
    Record<Category, { readonly place: Place; readonly replay: InjectionPlace; readonly stage: number }>
  >
> = {
  open: { place: 'open', replay: 'open', stage: 0 },
  'wire.first': { place: 'wire', replay: 'wire', stage: 1 },
  'frame.encode': { place: 'framing', replay: 'framing', stage: 0 },
  'convert.encode': { place: 'codec', replay: 'codec', stage: 0 },
  'send.queue': { place: 'sender-queue', replay: 'sender queue', stage: 0 },
  emit: { place: 'emit', replay: 'emit', stage: 0 },
}

const mostCandidates = 5

export function surveyOf(plan: SelectPlan, { session, records }: StoredSession): Survey {
  const rows = Object.keys(plan.cells).map((cell): SurveyRow => {
    const all = session.plan.runs
      .filter((run) => run.cell === cell)
      .flatMap(({ number }) => records.get(number) ?? [])
    const done = all.filter(({ status, trace }) => status === 'done' && trace !== undefined)
    const runs = done.map((record) => replayed(record, plan.target))
    const floors = floorsOf(runs)
    const passed = runs.filter(({ whatIf }) => whatIf.ok)
    const candidates = candidatesOf(passed).map((candidate) => ({
      name: candidate.name,
      gainPct: middle(passed.map((run) => gainPct(run, candidate, floors, plan.target))) ?? 0,
    }))
    const shares = meanShares(runs)
    const [category, sharePct] = Object.entries(shares).sort((a, b) => b[1] - a[1])[0] ?? []
    return {
      ...{ cell, runs: all.length, failed: all.length - done.length },
      value: middle(done.flatMap((record) => metricValues(record)[plan.target] ?? [])),
      unattributedPct: middle(runs.map((run) => run.unattributedMedianPct)),
      gatesPassed: passed.length,
      largest: category === undefined || sharePct === undefined ? null : { category, sharePct },
      candidates: candidates.sort((a, b) => b.gainPct - a.gainPct).slice(0, mostCandidates),
    }
  })
  return roundedAll({
    format: 'seamline-survey/1',
    planSha256: planSha256(plan),
    target: plan.target,
    rows,
  } as const)
}

/**
 * Chooses from the runs of one cell: `selected` holds those at level 1 and 2, `injection` those with a delay at what they chose, where
 * that has been done. From raw records and the plan alone.
 */
export function selectionOf(
  plan: SelectPlan,
  cell: string,
  selected: StoredSession,
  injection: StoredSession | undefined,
): Selection {
  const of = (stored: StoredSession, name: string) =>
    stored.session.plan.runs
      .filter((run) => run.cell === name)
      .flatMap(({ number }) => stored.records.get(number) ?? [])
  const done = of(selected, cell).filter(({ trace }) => trace !== undefined)
  const runs = done.map((record) => replayed(record, plan.target))
  const more = of(selected, `${cell} level 2`).flatMap((record) =>
    record.trace === undefined ? [] : [replayed(record, plan.target)],
  )
  const floors = floorsOf(runs)
  const candidates = candidatesOf(runs)
  const gainsOf = (some: readonly Replayed[]) =>
    candidates.map((candidate) => some.map((run) => gainPct(run, candidate, floors, plan.target)))
  const shares = meanShares(runs)
  const facts: Facts = {
    minimumEffectPct: plan.minimumEffectPct,
    alpha: plan.alpha,
    ...{ candidates, gains: gainsOf(runs), level2Gains: gainsOf(more), shares },
    gatePassed: runs.map(({ whatIf }) => whatIf.ok),
    residue: runs.map((run) => ({
      ...{ medianPct: run.unattributedMedianPct, p95Pct: run.unattributedP95Pct, tokenNs: run.tokenNs },
      ...{ violations: run.causalityViolations, errors: run.recordingErrors.length },
    })),
    oversubscribed: runs.some(({ busyThreads, cores }) => busyThreads > cores),
    clocks: 'one host',
    injection: null,
  }
  const first = decide(facts)
  const winner = candidates.find(({ name }) => name === first.ranked[0]?.name)
  const tried =
    injection === undefined || winner === undefined
      ? null
      : slopesOf(plan, cell, winner.category, injection, runs)
  return {
    ...({ format: 'seamline-selection/1', planSha256: planSha256(plan), cell, target: plan.target } as const),
    ...roundedAll({
      value: middle(done.flatMap((record) => metricValues(record)[plan.target] ?? [])),
      runs: runs.length,
      shares,
    }),
    ...decide({ ...facts, injection: tried }),
  }
}

/** Of each pair of a delayed and an undisturbed run, by how much the target moved for each ns that was really put in on each occasion. */
function slopesOf(
  plan: SelectPlan,
  cell: string,
  category: Category,
  { session, records }: StoredSession,
  runs: readonly Replayed[],
): Facts['injection'] {
  const injector = injectors[category]
  if (injector === undefined || plan.target === 'prefill') return null
  const pairs = new Map<number, { quiet?: number; delayed?: number; delayNs?: number | undefined }>()
  for (const { number, cell: name, pair } of session.plan.runs) {
    const record = records.get(number)
    const value = record === undefined ? null : metricValues(record)[plan.target]
    if (pair === null || record?.trace === undefined || value === null) continue
    const found = pairs.get(pair) ?? {}
    pairs.set(pair, found)
    if (name === cell) found.quiet = value
    else {
      found.delayed = value
      found.delayNs = injectedNs(record)
    }
  }
  const slopes = [...pairs.values()].flatMap(({ quiet, delayed, delayNs }) =>
    quiet === undefined || delayed === undefined || delayNs === undefined
      ? []
      : [(delayed - quiet) / delayNs],
  )
  const key = plan.target === 'ttft' ? 'ttftPerNs' : 'tpotPerNs'
  const predicted = middle(
    runs.flatMap(({ whatIf }) => (whatIf.ok ? [whatIf.injectionSlope(injector.replay)[key]] : [])),
  )
  return slopes.length === 0 || predicted === null ? null : { slopes, predicted }
}

/** Mean of what the injectors recorded. */
function injectedNs({ trace }: NonNullable<ReturnType<StoredSession['records']['get']>>): number | undefined {
  const lengths = injectedSpans(trace!)
  return lengths.length === 0 ? undefined : lengths.reduce((sum, ns) => sum + ns, 0) / lengths.length
}

function injectedSpans({ processes, sequences }: RunTrace): number[] {
  // What came before the first request was of the warm-up.
  const fromNs = Math.min(...sequences.map(({ acceptedNs }) => acceptedNs))
  return processes.flatMap(({ spans }) => {
    const found: number[] = []
    for (let at = 0; at < spans.length; at += SPAN_RECORD_LENGTH) {
      const isIt = spans[at] === SpanName.injected && spans[at + 1]! >= fromNs
      if (isIt) found.push(spans[at + 2]! - spans[at + 1]!)
    }
    return found
  })
}

function meanShares(runs: readonly Replayed[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const { shares } of runs) {
    for (const [category, share] of Object.entries(shares))
      sums[category] = (sums[category] ?? 0) + share / runs.length
  }
  return sums
}

function middle(values: readonly number[]): number | null {
  return values.length === 0 ? null : median(values)
}
