import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import type { RunTrace } from '@seamline/profiler'
import type { Cell } from '../session/cell.ts'
import { roundedAll } from '../session/numbers.ts'
import type { StoredRecord } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { median } from '../statistics/index.ts'
import { type Decision, decide } from './decide.ts'
import { winnerOf } from './estimate.ts'
import type { Facts } from './facts.ts'
import { floorsOf } from './floors.ts'
import { type Candidate, candidatesOf, gainPct, type Injector, injectors, predictedSlope } from './gains.ts'
import { planSha256, type SelectPlan } from './plan.ts'
import { type BandEnd, type Replayed, replayed } from './replayed.ts'
import type { Target } from './targets.ts'

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
  readonly target: Target
  readonly runs: number
  readonly failed: number
  readonly value: number | null
  readonly unattributedPct: number | null
  readonly gatesPassed: number
  readonly oversubscribed: boolean
  /** Of the engine's own work. */
  readonly computePct: number
  readonly largest: { readonly category: string; readonly sharePct: number } | null
  /** Largest first. */
  readonly candidates: readonly { readonly name: string; readonly gainPct: number }[]
}

export interface Survey {
  readonly format: 'seamline-survey/1'
  readonly planSha256: string
  readonly rows: readonly SurveyRow[]
}

const mostCandidates = 5

/** For every cell and target; the runs are the same for all targets. */
export function surveyOf(plan: SelectPlan, stored: StoredSession): Survey {
  const rows = Object.keys(plan.cells).flatMap((cell) => {
    const all = recordsOf(stored, cell)
    return surveyed.map((target) => surveyRow(plan, cell, target, all))
  })
  return roundedAll({ format: 'seamline-survey/1', planSha256: planSha256(plan), rows } as const)
}

function surveyRow(plan: SelectPlan, cell: string, target: Target, all: readonly StoredRecord[]): SurveyRow {
  const done = all.filter(isUsable)
  const runs = done.map((record) => replayed(record, target))
  const floors = floorsOf(runs, plan.floors)
  const passed = runs.filter(({ whatIf }) => whatIf.ok)
  const wholes = candidatesOf(passed, target, floors, plan.candidates).filter(({ partOf }) => partOf === null)
  const candidates = wholes.map((candidate) => ({
    name: candidate.name,
    gainPct: middle(passed.map((run) => gainPct(run, candidate, floors, target))) ?? 0,
  }))
  const shares = meanShares(runs)
  const [category, sharePct] = Object.entries(shares).sort((a, b) => b[1] - a[1])[0] ?? []
  return {
    ...{ cell, target, runs: all.length, failed: all.length - done.length },
    value: middle(done.flatMap((record) => metricValues(record)[target] ?? [])),
    unattributedPct: middle(runs.map((run) => run.unattributedMedianPct)),
    gatesPassed: passed.length,
    oversubscribed: runs.some(({ settings }) => settings.busyThreads > settings.cores),
    largest: category === undefined || sharePct === undefined ? null : { category, sharePct },
    computePct: shares['compute.device'] ?? 0,
    candidates: candidates.sort((a, b) => b.gainPct - a.gainPct).slice(0, mostCandidates),
  }
}

const surveyed = ['ttft', 'tpot'] as const

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
  const { target, minimumEffectPct, alpha } = plan
  const done = recordsOf(selected, cell).filter(isUsable)
  const at = (end?: BandEnd) => done.map((record) => replayed(record, target, end))
  const runs = at()
  const more = recordsOf(selected, `${cell} level 2`).filter(isUsable)
  const floors = floorsOf(runs, plan.floors)
  const candidates = candidatesOf(runs, target, floors, plan.candidates)
  const gainsOf = (some: readonly Replayed[]) =>
    candidates.map((candidate) => some.map((run) => gainPct(run, candidate, floors, target)))
  const severalHosts = runs.some(({ settings }) => settings.severalHosts === true)
  const gains = gainsOf(runs)
  const shares = meanShares(runs)
  return {
    ...({ format: 'seamline-selection/1', planSha256: planSha256(plan), cell, target } as const),
    ...roundedAll({
      value: middle(done.flatMap((record) => metricValues(record)[target] ?? [])),
      runs: runs.length,
      shares,
    }),
    ...decide({
      ...{ minimumEffectPct, alpha, candidates, gains, shares },
      level2Gains: gainsOf(more.map((record) => replayed(record, target))),
      replays: runs.map(({ whatIf: { ok, gates } }) => ({
        passed: ok,
        errorPct: Math.min(...gates.map(({ makespanErrorPct }) => makespanErrorPct)),
      })),
      residue: runs.map((run) => ({
        ...{ medianPct: run.unattributedMedianPct, p95Pct: run.unattributedP95Pct, tokenNs: run.tokenNs },
        ...{ violations: run.causalityViolations, errors: run.recordingErrors.length },
      })),
      busyThreads: Math.max(0, ...runs.map(({ settings }) => settings.busyThreads)),
      cores: Math.min(...runs.map(({ settings }) => settings.cores)),
      bandGains: severalHosts ? { low: gainsOf(at('low')), high: gainsOf(at('high')) } : null,
      injection:
        injection === undefined
          ? null
          : slopesOf(plan, cell, winnerOf(candidates, gains, 1 - alpha), injection, runs),
    }),
  }
}

/** Of each pair of a delayed and an undisturbed run, by how much the target moved for each ns that was really put in on each occasion. */
function slopesOf(
  plan: SelectPlan,
  cell: string,
  winner: Candidate | undefined,
  { session, records }: StoredSession,
  runs: readonly Replayed[],
): Facts['injection'] {
  const injector = winner === undefined ? undefined : injectors[winner.category]
  if (injector === undefined || !isAt(session.plan.cells[`${cell} delayed`], injector)) return null
  const pairs = new Map<number, { quietNs?: number; delayedNs?: number; delayNs?: number | undefined }>()
  for (const { number, cell: name, pair } of session.plan.runs) {
    const record = records.get(number)
    const valueNs = record === undefined ? null : targetNs(record, plan.target)
    if (pair === null || record?.trace === undefined || valueNs === null) continue
    const found = pairs.get(pair) ?? {}
    pairs.set(pair, found)
    if (name === cell) found.quietNs = valueNs
    else {
      found.delayedNs = valueNs
      found.delayNs = injectedNs(record.trace)
    }
  }
  const slopes = [...pairs.values()].flatMap(({ quietNs, delayedNs, delayNs }) =>
    quietNs === undefined || delayedNs === undefined || delayNs === undefined
      ? []
      : [(delayedNs - quietNs) / delayNs],
  )
  const predicted = middle(runs.flatMap((run) => predictedSlope(run, injector, plan.target) ?? []))
  return slopes.length === 0 || predicted === null ? null : { slopes, predicted }
}

function isAt(cell: Cell | undefined, { place, stage }: Injector): boolean {
  const injection = cell?.kind === 'pipeline' ? cell.injection : null
  return injection?.place === place && injection.stage === stage
}

/** Null where the run has no such figure. */
function targetNs(record: StoredRecord, target: SelectPlan['target']): number | null {
  const value = metricValues(record)[target]
  if (value === null || target !== 'prefill' || record.cell.kind !== 'pipeline') return value
  return (record.cell.promptTokens * 1e9) / value
}

function recordsOf({ session, records }: StoredSession, name: string): StoredRecord[] {
  return session.plan.runs
    .filter((run) => run.cell === name)
    .flatMap(({ number }) => records.get(number) ?? [])
}

function isUsable({ status, trace }: StoredRecord): boolean {
  return status === 'done' && trace?.complete === true && trace.settings.injected === undefined
}

/** Mean of what the injectors recorded. */
function injectedNs(trace: RunTrace): number | undefined {
  const lengths = injectedSpans(trace)
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
