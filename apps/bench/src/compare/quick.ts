import type { MicroCell } from '../session/cell.ts'
import { guardNames, type MetricValues } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import type { Lock } from './lock.ts'

/** Stands where a comparison names its lock. */
export const quickId = 'no lock, no evidence'
const cellName = 'case'
const unknown: MetricValues = {
  ...{ ttft: null, prefill: null, tpot: null, itl_p50: null, itl_p95: null },
  ...{ throughput: null, peak_rss: null, bytes_per_token: null, time: null },
}

/** For a quick look at one case: a design as that of locks, with nothing recorded beforehand. No file ever holds it. */
export function quickLock(cell: MicroCell, pairs: number): Lock {
  const none = 'none'
  return {
    ...({ schema: 'seamline-lock/1', lockId: quickId, createdAt: none, commit: none } as const),
    bottleneck: { category: none, place: none, planSha256: none, selectionSha256: none },
    hypothesis: { change: none, allowedPaths: ['**'], predictedPct: null },
    primary: { cell: cellName, metric: 'time', minimumEffectPct: 3, alpha: 0.05 },
    secondaries: [],
    design: {
      ...({ order: 'ABBA', seed: 63, freshProcesses: true, cooldownMs: 0, stop: 'fixed-n' } as const),
      pairs: { [cellName]: { pairs, aaPairs: Math.max(6, Math.ceil(pairs / 2)) } },
    },
    cells: { [cellName]: cell },
    guards: {
      [cellName]: Object.fromEntries(guardNames.map((name) => [name, none])) as Lock['guards'][string],
    },
    baseline: { [cellName]: unknown },
    analyserSha256: none,
  }
}

/** The same with the guards of the first run that came to its end: all others must agree with it. */
export function closedBy(open: Lock, { records }: StoredSession): Lock {
  const first = [...records.values()].find(({ guards }) => guards !== null)?.guards
  return first == null ? open : { ...open, guards: { [cellName]: first } }
}
