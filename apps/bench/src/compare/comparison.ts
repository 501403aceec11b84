import { isSeamError } from '@seamline/core'
import { roundedAll } from '../session/numbers.ts'
import { type MetricName, type MetricValues, metricFacts } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { holm, median, pairedEstimate, pairedT, signedRankP } from '../statistics/index.ts'
import type { Lock } from './lock.ts'
import { differences, type GuardDifference, reasonsAgainst } from './validity.ts'

export type Verdict = 'IMPROVED' | 'REGRESSED' | 'EQUIVALENT' | 'INCONCLUSIVE' | 'EXACT' | 'NOT MEASURED'

/** One metric of one cell. Effects are in percent of A: -10 means that B has 10 % less. */
export interface ComparisonRow {
  readonly cell: string
  readonly metric: MetricName
  readonly role: 'primary' | 'secondary' | 'reported'
  /** Medians. */
  readonly a: number | null
  readonly b: number | null
  readonly pairs: number
  readonly effectPct: number | null
  readonly lowPct: number | null
  readonly highPct: number | null
  readonly confidence: number | null
  /** Exact, two-sided; among secondaries by Holm. */
  readonly p: number | null
  /** Mean and interval by the paired t on logarithms: a check on the other. */
  readonly tPct: readonly [mean: number, low: number, high: number] | null
  /** The base against its copy. */
  readonly aa: {
    readonly pairs: number
    readonly effectPct: number
    readonly lowPct: number
    readonly highPct: number
  } | null
  readonly verdict: Verdict
  readonly note: string | null
  /** Of each pair, in its order, in percent. */
  readonly pairsPct: readonly number[]
  readonly aaPairsPct: readonly number[]
}

export interface Comparison {
  readonly format: 'seamline-comparison/1'
  readonly lockId: string
  /** `VALID`, or why there is no verdict. */
  readonly session: 'VALID' | 'ENV-CHANGED' | 'INVALID'
  readonly reasons: readonly string[]
  /** Of the primary metric; that of the session where it is not valid. */
  readonly verdict: Verdict | 'ENV-CHANGED' | 'INVALID'
  readonly rows: readonly ComparisonRow[]
  readonly guardDifferences: readonly GuardDifference[]
  readonly runs: number
  readonly failed: number
  readonly builds: Readonly<Record<string, { readonly commit: string; readonly distSha256: string }>>
}

/** Always in the table of the primary cell, measured or not. */
const families: readonly MetricName[] = [
  'ttft',
  'prefill',
  'tpot',
  'throughput',
  'peak_rss',
  'bytes_per_token',
]
/** Within this of the figure that the lock recorded, the machine counts as the same. */
const baselinePct = 10
const leastPairs = 6
const byHolm = 'found alone, but not among all secondaries; '

/** What a session says of a change, from the lock and the raw records alone: the same input gives the same result. */
export function comparisonOf(lock: Lock, { session, records }: StoredSession): Comparison {
  const { primary, secondaries } = lock
  const guardDifferences = differences(lock, session.plan.runs, records)
  const reasons = reasonsAgainst(lock, session, records, guardDifferences)
  const values = new Map<number, MetricValues>()
  for (const [number, record] of records) {
    try {
      values.set(number, metricValues(record))
    } catch (error) {
      if (!isSeamError(error)) throw error
      reasons.push(`run ${number} cannot be evaluated: ${error.message}`)
    }
  }
  const isInvalid = reasons.length > 0

  const wanted = [
    { cell: primary.cell, metric: primary.metric, role: 'primary' as const },
    ...secondaries.map((each) => ({ ...each, role: 'secondary' as const })),
    ...Object.entries(lock.cells).flatMap(([cell, { kind }]) =>
      (kind === 'micro' ? (['time'] as const) : families).map((metric) => ({
        cell,
        metric,
        role: 'reported' as const,
      })),
    ),
  ].filter(
    ({ cell, metric }, i, all) =>
      all.findIndex((other) => other.cell === cell && other.metric === metric) === i,
  )
  const measured = wanted.map((each) => {
    const arms = (first: string, second: string) =>
      pairsOf(session.plan.runs, values, each.cell, each.metric, first, second)
    return { ...each, ab: arms('A', 'B'), aa: arms('A1', 'A2') }
  })
  const family = measured.filter(({ role }) => role === 'secondary')
  const adjusted = holm(family.map(({ ab }) => pOf(ab) ?? 1))
  const rows = measured.map((each): ComparisonRow => {
    const p = each.role === 'secondary' ? adjusted[family.indexOf(each)]! : pOf(each.ab)
    const planned = lock.design.pairs[each.cell]!.pairs
    return rowOf(each, planned, p, primary.minimumEffectPct, primary.alpha)
  })

  const main = rows[0]!
  const changed: string[] = []
  if (main.aa === null) changed.push('there are too few pairs of the base with its copy')
  else if (
    main.aa.lowPct > 0 ||
    main.aa.highPct < 0 ||
    Math.abs(main.aa.effectPct) >= primary.minimumEffectPct / 2
  )
    changed.push(
      `the base differs from its own copy by ${percent(main.aa.effectPct)} (${percent(main.aa.lowPct)} to ${percent(main.aa.highPct)})`,
    )
  const locked = lock.baseline[primary.cell]?.[primary.metric] ?? null
  if (locked !== null && main.a !== null && Math.abs(main.a / locked - 1) * 100 > baselinePct)
    changed.push(
      `the base is at ${percent((main.a / locked - 1) * 100)} of what the lock recorded; ${baselinePct} % are allowed`,
    )
  const failed = [...records.values()].filter(({ status }) => status === 'failed').length
  const state = isInvalid ? 'INVALID' : changed.length > 0 ? 'ENV-CHANGED' : 'VALID'
  return roundedAll({
    ...({ format: 'seamline-comparison/1', lockId: lock.lockId, session: state } as const),
    reasons: [...reasons, ...changed],
    verdict: state === 'VALID' ? main.verdict : state,
    ...{ rows, guardDifferences, runs: session.plan.runs.length, failed },
    builds: Object.fromEntries(
      Object.entries(session.builds).map(([name, { commit, distSha256 }]) => [name, { commit, distSha256 }]),
    ),
  })
}

interface Pair {
  readonly first: number
  readonly second: number
}

function pairsOf(
  runs: StoredSession['session']['plan']['runs'],
  values: ReadonlyMap<number, MetricValues>,
  cell: string,
  metric: MetricName,
  first: string,
  second: string,
): Pair[] {
  const found = new Map<number, Partial<Record<string, number>>>()
  for (const run of runs) {
    const value = values.get(run.number)?.[metric]
    if (run.cell !== cell || run.pair === null || value == null) continue
    if (run.arm !== first && run.arm !== second) continue
    found.set(run.pair, { ...found.get(run.pair), [run.arm]: value })
  }
  return [...found]
    .sort(([a], [b]) => a - b)
    .flatMap(([, arms]) => {
      const [one, two] = [arms[first], arms[second]]
      return one === undefined || two === undefined ? [] : [{ first: one, second: two }]
    })
}

function pOf(pairs: readonly Pair[]): number | null {
  return pairs.length < leastPairs ? null : signedRankP(logs(pairs))
}

function logs(pairs: readonly Pair[]): number[] {
  return pairs.map(({ first, second }) => Math.log(second / first))
}

function rowOf(
  {
    cell,
    metric,
    role,
    ab,
    aa,
  }: {
    cell: string
    metric: MetricName
    role: ComparisonRow['role']
    ab: readonly Pair[]
    aa: readonly Pair[]
  },
  planned: number,
  p: number | null,
  minimumEffectPct: number,
  alpha: number,
): ComparisonRow {
  const { better, exact } = metricFacts[metric]
  const base = { cell, metric, role, pairs: ab.length }
  const none = {
    effectPct: null,
    lowPct: null,
    highPct: null,
    confidence: null,
    p: null,
    tPct: null,
    aa: null,
  }
  const shown = { pairsPct: logs(ab).map(toPct), aaPairsPct: logs(aa).map(toPct) }
  const medians = { a: middle(ab.map(({ first }) => first)), b: middle(ab.map(({ second }) => second)) }
  if (ab.length === 0)
    return {
      ...base,
      ...none,
      ...medians,
      ...shown,
      verdict: 'NOT MEASURED',
      note: 'such runs do not measure it',
    }
  const partly =
    ab.length < planned ? `measured in ${ab.length} of ${planned} pairs; those left may be of one kind` : null
  if (exact && partly === null) return { ...base, ...none, ...medians, ...shown, ...countsOf(ab, better) }
  if (exact || ab.length < leastPairs)
    return { ...base, ...none, ...medians, ...shown, verdict: 'INCONCLUSIVE', note: partly }
  const estimate = pairedEstimate(logs(ab), 1 - alpha)
  const [effectPct, lowPct, highPct] = [estimate.center, estimate.low, estimate.high].map(toPct) as [
    number,
    number,
    number,
  ]
  const t = pairedT(logs(ab), 1 - alpha)
  const tPct = [toPct(t.mean), toPct(t.low), toPct(t.high)] as const
  const sign = (low: number, high: number) => (low > 0 ? 1 : high < 0 ? -1 : 0)
  const [rankSign, tSign] = [sign(lowPct, highPct), sign(tPct[1], tPct[2])]
  const isWithin = (low: number, high: number) => low > -minimumEffectPct && high < minimumEffectPct
  const detectable = `an effect beyond ${((highPct - lowPct) / 2).toFixed(2)} % would have been found`
  const { verdict, note } = ((): Pick<ComparisonRow, 'verdict' | 'note'> => {
    if (partly !== null) return { verdict: 'INCONCLUSIVE', note: partly }
    const isFound = rankSign !== 0 && p !== null && p <= alpha
    if (isFound && tSign === rankSign && Math.abs(effectPct) >= minimumEffectPct)
      return { verdict: rankSign > 0 === (better === 'higher') ? 'IMPROVED' : 'REGRESSED', note: null }
    if (isWithin(lowPct, highPct) && isWithin(tPct[1], tPct[2]))
      return { verdict: 'EQUIVALENT', note: `within ${minimumEffectPct} % either way` }
    const why = rankSign !== tSign ? 'ranks and t disagree; ' : rankSign !== 0 && !isFound ? byHolm : ''
    return { verdict: 'INCONCLUSIVE', note: `${why}${detectable}` }
  })()
  return {
    ...{
      ...base,
      ...medians,
      ...shown,
      effectPct,
      lowPct,
      highPct,
      confidence: estimate.confidence,
      p,
      tPct,
    },
    ...{ aa: aaOf(aa, alpha), verdict, note },
  }
}

/** What is counted is compared as it is, without a test: any two runs of a revision must agree. */
function countsOf(
  ab: readonly Pair[],
  better: 'lower' | 'higher',
): Pick<ComparisonRow, 'verdict' | 'note'> & Partial<ComparisonRow> {
  const counts = (side: keyof Pair) => [...new Set(ab.map((pair) => pair[side]))]
  const [a, b] = [counts('first'), counts('second')]
  if (a.length > 1 || b.length > 1)
    return {
      verdict: 'INCONCLUSIVE',
      note: `not the same in every run: A ${a.join(', ')}; B ${b.join(', ')}`,
    }
  const effectPct = 100 * (b[0]! / a[0]! - 1)
  const exactly = { effectPct, lowPct: effectPct, highPct: effectPct }
  if (effectPct === 0) return { ...exactly, verdict: 'EXACT', note: 'the same count in every run' }
  const isBetter = effectPct > 0 === (better === 'higher')
  return { ...exactly, verdict: isBetter ? 'IMPROVED' : 'REGRESSED', note: 'counted, not estimated' }
}

function aaOf(pairs: readonly Pair[], alpha: number): ComparisonRow['aa'] {
  if (pairs.length < leastPairs) return null
  const { center, low, high } = pairedEstimate(logs(pairs), 1 - alpha)
  return { pairs: pairs.length, effectPct: toPct(center), lowPct: toPct(low), highPct: toPct(high) }
}

function middle(values: readonly number[]): number | null {
  return values.length === 0 ? null : median([...values].sort((a, b) => a - b))
}

function toPct(log: number): number {
  return 100 * Math.expm1(log)
}

function percent(value: number): string {
  return `${value >= 0 ? '+' : ''}${value.toFixed(2)} %`
}
