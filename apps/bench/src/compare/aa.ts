import type { Cell } from '../session/cell.ts'
import { roundedAll } from '../session/numbers.ts'
import type { MetricName } from '../session/record.ts'
import type { SessionPlan } from '../session/session.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { falseVerdicts, pairedEstimate, signedRankP } from '../statistics/index.ts'

/** One build against a copy of itself: whatever is found is false. */
export interface AaRow {
  readonly cell: string
  readonly metric: MetricName
  readonly pairs: number
  readonly effectPct: number
  readonly lowPct: number
  readonly highPct: number
  readonly p: number
  /** What a comparison would have said, with a least effect of {@link AaResult.minimumEffectPct}. */
  readonly verdict: 'IMPROVED' | 'REGRESSED' | 'none'
  /** Values in the order of the runs. */
  readonly series: readonly number[]
}

export interface AaResult {
  readonly format: 'seamline-aa/1'
  readonly minimumEffectPct: number
  readonly alpha: number
  readonly rows: readonly AaRow[]
  readonly falseOnes: number
  /** Comparisons made up from the recorded noise. */
  readonly resampled: {
    readonly improved: number
    readonly regressed: number
    readonly total: number
    readonly falsePct: number
  }
}

/** Cell by cell, as comparisons are made: pairs of a build with its copy, turning around from pair to pair. */
export function aaPlan(cells: Readonly<Record<string, Cell>>, pairs: number): SessionPlan {
  const arms = [
    { build: 'base', arm: 'A1' },
    { build: 'copy', arm: 'A2' },
  ] as const
  const runs = Object.keys(cells).flatMap((cell) =>
    Array.from({ length: pairs }, (_, pair) =>
      (pair % 2 === 0 ? arms : [arms[1], arms[0]]).map((arm) => ({ cell, pair, ...arm })),
    ).flat(),
  )
  return {
    ...({
      format: 'seamline-session/1',
      purpose: 'aa',
      serves: null,
      seed: 0,
      cells,
      cooldownMs: 0,
    } as const),
    runs: runs.map((run, i) => ({ number: i + 1, ...run })),
  }
}

/** What the session says, by the rule of comparisons; micro cells by their time, others by TPOT. */
export function aaOf(
  { session, records }: StoredSession,
  {
    minimumEffectPct,
    alpha,
    comparisons,
  }: { readonly minimumEffectPct: number; readonly alpha: number; readonly comparisons: number },
): AaResult {
  const { plan } = session
  const rows = Object.entries(plan.cells).map(([cell, { kind }]): AaRow => {
    const metric = kind === 'micro' ? 'time' : 'tpot'
    const pairs = new Map<number, { A1?: number; A2?: number }>()
    const series: number[] = []
    for (const run of plan.runs) {
      const record = records.get(run.number)
      const value = record === undefined ? null : metricValues(record)[metric]
      if (run.cell !== cell || value === null || run.pair === null) continue
      series.push(value)
      pairs.set(run.pair, { ...pairs.get(run.pair), [run.arm]: value })
    }
    const logs = [...pairs.values()].flatMap(({ A1, A2 }) =>
      A1 === undefined || A2 === undefined ? [] : [Math.log(A2 / A1)],
    )
    const { center, low, high } = pairedEstimate(logs, 1 - alpha)
    const [effectPct, lowPct, highPct] = [center, low, high].map((log) => 100 * Math.expm1(log)) as [
      number,
      number,
      number,
    ]
    const p = signedRankP(logs)
    const isFound = (low > 0 || high < 0) && p <= alpha && Math.abs(effectPct) >= minimumEffectPct
    return {
      cell,
      metric,
      pairs: logs.length,
      effectPct,
      lowPct,
      highPct,
      p,
      verdict: !isFound ? 'none' : effectPct < 0 ? 'IMPROVED' : 'REGRESSED',
      series,
    }
  })
  const least = Math.min(...rows.map(({ pairs }) => pairs))
  const { improved, regressed, total } = falseVerdicts(
    ...([63, rows.map(({ series }) => series), comparisons, least, minimumEffectPct / 100] as const),
  )
  return roundedAll({
    ...({ format: 'seamline-aa/1', minimumEffectPct, alpha, rows } as const),
    falseOnes: rows.filter(({ verdict }) => verdict !== 'none').length,
    resampled: { improved, regressed, total, falsePct: (100 * (improved + regressed)) / total },
  })
}
