import { type Comparison, comparisonOf } from '../src/compare/comparison.ts'
import { type Lock, lockIdOf } from '../src/compare/lock.ts'
import { planOf } from '../src/compare/plan.ts'
import type { Environment } from '../src/environment.ts'
import { parseCell } from '../src/session/cell.ts'
import { type Guards, guardNames, type StoredRecord } from '../src/session/record.ts'
import type { PlannedRun } from '../src/session/session.ts'
import type { StoredSession } from '../src/session/store.ts'

export const guards = Object.fromEntries(guardNames.map((name) => [name, `${name} of then`])) as Guards
export const cell = { kind: 'micro', id: 'codec/f16/encode/16KiB', timeMs: 50 } as const
export const unmeasured = {
  ...{ ttft: null, prefill: null, tpot: null, itl_p50: null, itl_p95: null },
  ...{ throughput: null, peak_rss: null, bytes_per_token: null },
}

export function lockOf(change: Partial<Lock> = {}): Lock {
  const made: Omit<Lock, 'lockId'> = {
    ...{ schema: 'seamline-lock/1', createdAt: '2026-12-01T00:00:00.000Z', commit: 'a'.repeat(40) },
    bottleneck: { category: 'convert.encode', place: 'everywhere', planSha256: 'p', selectionSha256: 's' },
    hypothesis: {
      change: 'Something gets shorter.',
      allowedPaths: ['packages/codecs/**'],
      predictedPct: [-12, -8],
    },
    primary: { cell: 'one', metric: 'time', minimumEffectPct: 3, alpha: 0.05 },
    secondaries: [],
    design: {
      ...{ order: 'ABBA', seed: 63, freshProcesses: true, cooldownMs: 0, stop: 'fixed-n' },
      pairs: { one: { pairs: 12, aaPairs: 8 } },
    },
    ...{ cells: { one: cell }, guards: { one: guards }, baseline: { one: { ...unmeasured, time: 1000 } } },
    analyserSha256: 'x',
    ...change,
  }
  return { ...made, lockId: lockIdOf(made) }
}

/** Noise that adds up to nothing over four runs, so that medians are known. */
export const wobble = [1, 1.002, 0.999, 1.001]

export function sessionOf(
  lock: Lock,
  value: (run: PlannedRun) => number,
  change: (run: PlannedRun) => Partial<StoredRecord> | null = () => ({}),
): StoredSession {
  const plan = planOf(lock)
  const environment = {} as Environment
  const records = plan.runs.flatMap((run): [number, StoredRecord][] => {
    const changed = change(run)
    if (changed === null) return []
    const p50Ns = value(run)
    const micro = { samples: 100, p50Ns, minNs: p50Ns, roundsNs: [p50Ns], bytes: null }
    const at = { startedAt: '', endedAt: '', environment }
    const record = {
      format: 'seamline-run/1',
      cell: lock.cells[run.cell]!,
      status: 'done',
      reason: null,
      ...at,
      guards,
      micro,
    } as const
    return [[run.number, { ...record, external: null, hasTrace: false, trace: undefined, ...changed }]]
  })
  const base = { commit: 'a', dirty: false, distSha256: '1' }
  const builds = { base, copy: base, head: { commit: 'b', dirty: false, distSha256: '2' } }
  return {
    dir: '',
    session: { plan, builds, environment, startedAt: '', endedAt: '', outcome: 'done', reason: null },
    records: new Map(records),
  }
}

/** A cell with two figures in each run: tokens a second of prefill, which is the primary metric, and of decode. */
export function externalLock(secondaries: Lock['secondaries']): Lock {
  return lockOf({
    cells: { one: parseCell({ executor: 'llama-rpc', model: 'a model' }, 'cell') },
    primary: { cell: 'one', metric: 'prefill', minimumEffectPct: 3, alpha: 0.05 },
    secondaries,
    baseline: { one: { ...unmeasured, prefill: 100, time: null } },
  })
}

export function external(
  lock: Lock,
  figures: (run: PlannedRun) => [prefill: number, decode: number],
): StoredSession {
  return sessionOf(
    lock,
    () => 1,
    (run) => {
      const [prefillTokensPerSecond, decodeTokensPerSecond] = figures(run)
      return { micro: null, external: { prefillTokensPerSecond, decodeTokensPerSecond, raw: null } }
    },
  )
}

/** `factor` times the base in B; everything else as the base, give or take a little. */
export function compared(factor: number, noise: readonly number[] = wobble): Comparison {
  const lock = lockOf()
  return comparisonOf(
    lock,
    sessionOf(lock, ({ arm, number }) => 1000 * (arm === 'B' ? factor : 1) * noise[number % noise.length]!),
  )
}
