import { SeamError } from '@seamline/core'
import {
  alignClocks,
  alignRun,
  attribute,
  attributionTotals,
  type Category,
  type Change,
  type Cost,
  costsOf,
  overlapped,
  type Prediction,
  type ReplayModel,
  replayModel,
  scaled,
  type WhatIf,
  whatIf,
  widened,
} from '@seamline/profiler'
import type { StoredRecord } from '../session/record.ts'
import type { Target } from './plan.ts'

/** What may be removed: a category wherever it is, down to its floor, or a change of structure. */
export interface Candidate {
  readonly name: string
  readonly category: Category
  /** Where its floor comes from, in words. */
  readonly floor: string
}

/** The engine's own work, which no seam takes away. */
export const notRemovable: ReadonlySet<Category> = new Set<Category>([
  'compute.device',
  'sample',
  'UNATTRIBUTED',
])

/** Changes that no smaller duration stands for. */
const structural: readonly {
  readonly name: string
  readonly category: Category
  readonly floor: string
  readonly change: Change
}[] = [
  {
    ...{ name: 'open, pipelined', category: 'open', floor: 'replay in which the prompt follows at once' },
    change: scaled({ category: 'open', process: -1, port: -1 }, 0),
  },
  {
    ...{
      name: 'wait.credit, window 8 x',
      category: 'wait.credit',
      floor: 'replay with a window 8 times as wide',
    },
    change: widened(-1, 8),
  },
  {
    ...{
      name: 'convert.encode, beside the engine',
      category: 'convert.encode',
      floor: 'replay with the codec in parallel',
    },
    change: overlapped({ category: 'convert.encode', process: -1, port: -1 }),
  },
]
const smallest = 'smallest seen at each place in these runs'

/** One run, ready for replays. */
export interface Replayed {
  readonly model: ReplayModel
  readonly whatIf: WhatIf
  /** Of the tokens that the target is made of. */
  readonly unattributedMedianPct: number
  readonly unattributedP95Pct: number
  readonly tokenNs: number
  readonly causalityViolations: number
  readonly recordingErrors: readonly string[]
  readonly busyThreads: number
  readonly cores: number
  /** Shares of these tokens by category, in percent. */
  readonly shares: Readonly<Record<string, number>>
}

/** Throws `MISMATCH` for a record without a trace. */
export function replayed({ trace, reason }: StoredRecord, target: Target): Replayed {
  if (trace === undefined)
    throw new SeamError(
      'MISMATCH',
      `a run without a trace cannot be replayed: ${reason ?? 'none was written'}`,
    )
  const alignment = alignClocks(trace, { sameHost: trace.settings.severalHosts !== true })
  const attribution = attribute(trace, alignment)
  const model = replayModel(alignRun(trace, alignment))
  const tokens = attribution.tokens.filter(({ index }) => (target === 'tpot' ? index > 0 : index === 0))
  const { rows, unattributedMedianPct, unattributedP95Pct, wallNs } = attributionTotals(tokens)
  const shares: Record<string, number> = {}
  for (const { category, sharePct } of rows) shares[category] = (shares[category] ?? 0) + sharePct
  return {
    ...{ model, whatIf: whatIf(model), shares },
    unattributedMedianPct: unattributedMedianPct ?? 100,
    unattributedP95Pct: unattributedP95Pct ?? 100,
    tokenNs: wallNs / Math.max(1, tokens.length),
    causalityViolations: attribution.causalityViolations,
    recordingErrors: attribution.recordingErrors,
    busyThreads: trace.settings.busyThreads,
    cores: trace.settings.cores,
  }
}

/** The smallest duration of each category at each place, over all runs. */
export function floorsOf(runs: readonly Replayed[]): ReadonlyMap<string, number> {
  const floors = new Map<string, number>()
  for (const { model } of runs) {
    for (const cost of costsOf(model)) {
      if (cost.ns > 0) floors.set(placeOf(cost), Math.min(floors.get(placeOf(cost)) ?? Infinity, cost.ns))
    }
  }
  return floors
}

export function candidatesOf(runs: readonly Replayed[]): Candidate[] {
  const spent = new Set<Category>()
  for (const { model, shares } of runs) {
    for (const { category, ns } of costsOf(model)) if (ns > 0) spent.add(category)
    for (const category of Object.keys(shares)) spent.add(category as Category)
  }
  const changed = structural.filter(({ category }) => spent.has(category))
  const isReplaced = new Set(
    changed.filter(({ category }) => category !== 'convert.encode').map(({ category }) => category),
  )
  const plain = [...spent]
    .filter((category) => !notRemovable.has(category) && !isReplaced.has(category) && !isWait(category))
    .map((category) => ({ name: category as string, category, floor: smallest }))
  return [...changed.map(({ name, category, floor }) => ({ name, category, floor })), ...plain].sort(
    (a, b) => (a.name < b.name ? -1 : 1),
  )
}

/** Waits for something else end when that gets shorter; nothing removes them themselves. */
function isWait(category: Category): boolean {
  return (
    category === 'wait.sequence' ||
    category === 'wait.loop' ||
    category === 'stage.queue' ||
    category === 'wait.credit'
  )
}

/**
 * What removing `candidate` down to its floor would take off the target, in percent of it; the lesser of the two replay policies. NaN where
 * the replay did not pass its gate.
 */
export function gainPct(
  run: Replayed,
  { name, category }: Candidate,
  floors: ReadonlyMap<string, number>,
  target: Target,
): number {
  if (!run.whatIf.ok) return Number.NaN
  const found = structural.find((each) => each.name === name)
  const change: Change = found?.change ?? {
    duration: (cost) =>
      cost.category === category ? Math.min(cost.ns, floors.get(placeOf(cost)) ?? 0) : cost.ns,
  }
  return lesser(run.whatIf.predict(change), target)
}

function lesser({ frozen, requeued }: Prediction, target: Target): number {
  const of = { ttft: 'ttftPct', prefill: 'prefillPct', tpot: 'tpotPct' } as const
  const fasterPct = Math.min(
    ...[frozen, requeued].flatMap((gains) => (gains === null ? [] : gains[of[target]])),
  )
  // So many tokens more in the same time is so much less time for each.
  return 100 * (1 - 1 / (1 + fasterPct / 100))
}

function placeOf({ category, process, port }: Cost): string {
  return `${category} ${process} ${port}`
}
