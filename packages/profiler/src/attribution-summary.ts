import type { Attribution, Category, TokenAttribution } from './trace.ts'

/** What one category took in one process, over the tokens of a summary; tokens without it count as 0. */
export interface CategorySummary {
  readonly category: Category
  /** -1: in all processes together. */
  readonly process: number
  readonly totalNs: number
  readonly meanNs: number
  readonly medianNs: number
  readonly p95Ns: number
  /** Of the tokens' wall time. */
  readonly sharePct: number
}

export interface AttributionSummary {
  readonly tokens: number
  readonly wallNs: number
  /** By category and process, largest total first; behind each category's total over all processes, where it has several. */
  readonly rows: readonly CategorySummary[]
  readonly unattributed: {
    readonly medianNs: number
    readonly p95Ns: number
    readonly medianPct: number
    readonly p95Pct: number
  }
  /** Means per token of work beside what the tokens' segments are charged to. */
  readonly hiddenMeanNs: Readonly<Partial<Record<Category, number>>>
  /** The share that nobody explains is too large to call anything the bottleneck: over 5 % in the median. */
  readonly incomplete: boolean
}

const MOST_UNATTRIBUTED_PCT = 5

/** Sums `tokens` up, those behind the first of each sequence by default. Quantiles are of type 7, NaN without tokens. */
export function summarizeAttribution(
  attribution: Attribution,
  isWanted: (token: TokenAttribution) => boolean = ({ index }) => index > 0,
): AttributionSummary {
  const tokens = attribution.tokens.filter(isWanted)
  const wallNs = tokens.reduce((sum, { startNs, endNs }) => sum + endNs - startNs, 0)
  /** By category and process, and over all processes, one number a token. */
  const series = new Map<Category, Map<number, Float64Array>>()
  const add = (category: Category, process: number, token: number, ns: number) => {
    const places = series.get(category) ?? new Map<number, Float64Array>()
    series.set(category, places)
    const values = places.get(process) ?? new Float64Array(tokens.length)
    places.set(process, values)
    values[token]! += ns
  }
  const hidden: Partial<Record<Category, number>> = {}
  for (const [i, { segments, hiddenNs }] of tokens.entries()) {
    for (const { category, process, startNs, endNs } of segments) {
      add(category, -1, i, endNs - startNs)
      add(category, process, i, endNs - startNs)
    }
    for (const [category, ns] of Object.entries(hiddenNs) as [Category, number][])
      hidden[category] = (hidden[category] ?? 0) + ns / tokens.length
  }
  const rows = [...series].flatMap(([category, places]) =>
    [...places]
      .filter(([process]) => process !== -1 || places.size > 2)
      .map(([process, values]): CategorySummary => {
        const totalNs = values.reduce((sum, ns) => sum + ns, 0)
        return {
          ...{ category, process, totalNs, meanNs: totalNs / tokens.length },
          ...{ medianNs: quantile(values, 0.5), p95Ns: quantile(values, 0.95) },
          sharePct: (totalNs / wallNs) * 100,
        }
      }),
  )
  rows.sort((a, b) => b.totalNs - a.totalNs || a.process - b.process)
  const lost = series.get('UNATTRIBUTED')?.get(-1) ?? new Float64Array(tokens.length)
  const shares = lost.map((ns, i) => (ns / (tokens[i]!.endNs - tokens[i]!.startNs)) * 100)
  const medianPct = quantile(shares, 0.5)
  return {
    ...{ tokens: tokens.length, wallNs, rows, hiddenMeanNs: hidden },
    unattributed: {
      ...{ medianNs: quantile(lost, 0.5), p95Ns: quantile(lost, 0.95) },
      ...{ medianPct, p95Pct: quantile(shares, 0.95) },
    },
    incomplete: !(medianPct <= MOST_UNATTRIBUTED_PCT),
  }
}

/** Hyndman and Fan's type 7. */
function quantile(values: Float64Array, share: number): number {
  const sorted = values.slice().sort()
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)]
  if (below === undefined) return Number.NaN
  return below + (at - Math.floor(at)) * ((sorted[Math.ceil(at)] ?? below) - below)
}
