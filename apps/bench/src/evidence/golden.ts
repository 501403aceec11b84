import { fileURLToPath } from 'node:url'
import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { type Lock, lockIdOf } from '../compare/lock.ts'
import { planOf } from '../compare/plan.ts'
import { parsePlan, selectionPlan, surveyPlan } from '../select/plan.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { StoredRecord } from '../session/record.ts'
import type { Build, Session, SessionPlan } from '../session/session.ts'
import { readRecord, type StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { random } from '../statistics/index.ts'
import type { Bundle } from './bundle.ts'

const folder = fileURLToPath(new URL('../../golden/run', import.meta.url))
/** Of a record: its start and its end; of a probe also the peer's two stamps. */
const stamps = [1, 2]
const probeStamps = [1, 2, 3, 4]
/** A tenth less time with the change, so that a comparison finds something. */
const changed = 0.9
const noise = 0.02

/** A recorded run of paced stages, of a few tokens: what an analyser is told apart by. */
export function goldenRecord(): Promise<StoredRecord> {
  return readRecord(folder)
}

/** The same run with all times stretched, begun at another one. Nothing else of it changes. */
export function stretched(
  record: StoredRecord,
  factor: number,
  startedAt: string,
  commit: string,
): StoredRecord {
  const trace = record.trace!
  const epochNs = Math.min(...trace.sequences.map(({ acceptedNs }) => acceptedNs))
  const moved = (ns: number) => Math.round(epochNs + (ns - epochNs) * factor)
  const processes = trace.processes.map((process) => ({
    ...process,
    spans: process.spans.map((value, i, all) => {
      const column = i % SPAN_RECORD_LENGTH
      const isProbe = all[i - column] === SpanName.probe
      return (isProbe ? probeStamps : stamps).includes(column) ? moved(value) : value
    }),
  }))
  const sequences = trace.sequences.map((sequence) => ({
    ...sequence,
    acceptedNs: moved(sequence.acceptedNs),
    emittedNs: sequence.emittedNs.map(moved),
  }))
  const endedAt = new Date(Date.parse(startedAt) + 500).toISOString()
  const environment = { ...record.environment, commit, dirty: false, startedAt }
  return { ...record, startedAt, endedAt, environment, trace: { ...trace, processes, sequences } }
}

/** A session of stretched runs, one a second. */
export function goldenSession(
  record: StoredRecord,
  plan: SessionPlan,
  commits: Record<string, string>,
): StoredSession {
  const next = random(plan.seed)
  const beginMs = Date.parse('2026-01-01T00:00:00.000Z')
  const at = (second: number) => new Date(beginMs + 1000 * second).toISOString()
  const builds: Record<string, Build> = {}
  for (const [name, commit] of Object.entries(commits))
    builds[name] = { commit, dirty: false, distSha256: commit }
  const session: Session = {
    ...{ plan, builds, environment: record.environment },
    ...{ startedAt: at(0), endedAt: at(plan.runs.length + 1), outcome: 'done', reason: null },
  }
  const records = plan.runs.map(({ number, cell: name, arm, build }): [number, StoredRecord] => {
    const factor = (arm === 'B' ? changed : 1) * (1 + noise * (next() - 0.5))
    const made = stretched(record, factor, at(number), commits[build]!)
    const cell = plan.cells[name] as PipelineCell
    return [number, { ...made, cell, trace: { ...made.trace!, level: cell.level } }]
  })
  return { dir: '', session, records: new Map(records) }
}

export const goldenCommits = { base: 'a'.repeat(40), copy: 'a'.repeat(40), head: 'b'.repeat(40) } as const

export function goldenLock(record: StoredRecord, analyserSha256: string): Lock {
  const cell = 'paced'
  const lock: Omit<Lock, 'lockId'> = {
    ...({
      schema: 'seamline-lock/1',
      createdAt: '2026-01-01T00:00:00.000Z',
      commit: goldenCommits.base,
    } as const),
    bottleneck: {
      category: 'frame.decode',
      place: 'everywhere',
      planSha256: 'none',
      selectionSha256: 'none',
    },
    hypothesis: {
      change: 'Less time for everything.',
      allowedPaths: ['packages/**'],
      predictedPct: [-12, -8],
    },
    primary: { cell, metric: 'tpot', minimumEffectPct: 3, alpha: 0.05 },
    secondaries: [{ cell, metric: 'ttft' }],
    design: {
      ...({ order: 'ABBA', seed: 7, freshProcesses: true, cooldownMs: 0, stop: 'fixed-n' } as const),
      pairs: { [cell]: { pairs: 6, aaPairs: 6 } },
    },
    cells: { [cell]: record.cell },
    guards: { [cell]: record.guards! },
    baseline: { [cell]: metricValues(record) },
    analyserSha256,
  }
  return { ...lock, lockId: lockIdOf(lock) }
}

/** In memory: a comparison under a lock, and what-if for its first run. */
export async function goldenBundle(): Promise<Bundle> {
  const record = await goldenRecord()
  const lock = goldenLock(record, 'none')
  const stored = goldenSession(record, planOf(lock), goldenCommits)
  return {
    spec: {
      ...({ format: 'seamline-evidence/1', title: 'golden', evidenceClass: 'golden' } as const),
      sessions: [{ name: 'main', path: 'main', purpose: 'comparison', lost: null }],
      ...{
        scenario: null,
        plan: null,
        lock: 'lock.json',
        base: goldenCommits.base,
        head: goldenCommits.head,
      },
      ...{
        commands: [],
        trace: { session: 'main', run: 1 },
        report: null,
        claims: [],
        artifacts: [],
        lossy: [],
      },
    },
    sessions: [{ name: 'main', purpose: 'comparison', lost: null, stored }],
    ...{ lock, plan: null, scenario: null, artifacts: [] },
  }
}

/** In memory: the sessions of a choice by a plan, and one of a scenario. */
export async function goldenChoice(): Promise<Bundle> {
  const record = await goldenRecord()
  const plan = parsePlan({
    ...{ schema: 'seamline-plan/1', name: 'golden', target: 'tpot', seed: 7, surveyRuns: 1 },
    // Few, for the time that replays take.
    candidates: ['frame.decode', 'send.call'],
    cells: { paced: record.cell },
  })
  const commits = { here: goldenCommits.base }
  const rounds = Array.from({ length: 6 }, (_, pair) => ({
    ...{ number: pair + 1, cell: 'paced', build: 'here', arm: 'paced', pair },
  }))
  const e2e: SessionPlan = {
    ...({ format: 'seamline-session/1', purpose: 'e2e', serves: null, seed: 7, cooldownMs: 0 } as const),
    ...{ cells: plan.cells, runs: rounds },
  }
  const sessions = [surveyPlan(plan), selectionPlan(plan, 'paced'), e2e].map((each) => ({
    ...{ name: each.purpose, purpose: each.purpose, lost: null },
    stored: goldenSession(record, each, commits),
  }))
  const golden = await goldenBundle()
  const spec = { ...golden.spec, plan: 'plan.json', lock: null, trace: null }
  return { ...golden, ...{ spec, sessions, plan, lock: null } }
}
