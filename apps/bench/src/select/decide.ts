import { roundedAll } from '../session/numbers.ts'
import { holm, median, pairedEstimate, signedRankP } from '../statistics/index.ts'
import type { Candidate } from './gains.ts'

/** What is known of the runs of the chosen cell, as numbers alone. */
export interface Facts {
  readonly minimumEffectPct: number
  readonly alpha: number
  readonly candidates: readonly Candidate[]
  /** By candidate, then by run: what removing it would take off the target, in percent. NaN where a replay failed its gate. */
  readonly gains: readonly (readonly number[])[]
  /** The same for runs that recorded more. */
  readonly level2Gains: readonly (readonly number[])[]
  readonly gatePassed: readonly boolean[]
  /** Of each run's tokens, as the limits of residue are given. */
  readonly residue: readonly {
    readonly medianPct: number
    readonly p95Pct: number
    readonly tokenNs: number
    readonly violations: number
    readonly errors: number
  }[]
  /** Busy threads were more than cores in some run. */
  readonly oversubscribed: boolean
  /** Mean shares of the target's time by category, in percent. */
  readonly shares: Readonly<Record<string, number>>
  /** One clock for all processes; otherwise whether the winner stays the same at both ends of the clocks' band. */
  readonly clocks: 'one host' | 'same winner at both ends' | 'another winner at one end'
  /** With a delay at the winner: ns of the target for each ns of delay, in pairs; null where it was not tried or has no place for one. */
  readonly injection: { readonly slopes: readonly number[]; readonly predicted: number } | null
}

export interface Ranked extends Candidate {
  readonly gainPct: number
  readonly lowPct: number
  readonly highPct: number
  /** Of the winner over this one, adjusted by Holm; null for the winner. */
  readonly p: number | null
  readonly aheadLowPct: number | null
  readonly gainsPct: readonly number[]
}

export interface Rule {
  readonly rule: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g'
  readonly what: string
  readonly holds: boolean
  readonly found: string
}

export type SelectVerdict =
  | 'SELECTED'
  | 'TIE'
  | 'COMPUTE-BOUND'
  | 'NOISE-LIMITED'
  | 'ATTRIBUTION INCOMPLETE'
  | 'OVERSUBSCRIBED'

export interface Decision {
  readonly verdict: SelectVerdict
  readonly text: string
  readonly winner: string | null
  /** That could not be told from the winner. */
  readonly tied: readonly string[]
  readonly ranked: readonly Ranked[]
  readonly rules: readonly Rule[]
}

const leastRuns = 10
const residueLimits = { medianPct: 2, medianNs: 30_000, p95Pct: 5, p95Ns: 60_000 }

/** Names one bottleneck when all rules hold, or says why not. A pure function of its facts. */
export function decide(facts: Facts): Decision {
  const { minimumEffectPct, alpha, candidates, gains, shares } = facts
  const confidence = 1 - alpha
  const ranked = candidates
    .map((candidate, i) => ({
      ...candidate,
      gainsPct: gains[i]!,
      level2: gains.length === 0 ? [] : (facts.level2Gains[i] ?? []),
    }))
    .map((each) => ({ ...each, ...centreOf(each.gainsPct, confidence) }))
    .sort((a, b) => b.gainPct - a.gainPct || (a.name < b.name ? -1 : 1))
  const [first, ...others] = ranked
  const runs = gains[0]?.length ?? 0
  const ahead = others.map((other) => first!.gainsPct.map((gain, run) => gain - other.gainsPct[run]!))
  const ps = holm(ahead.map((each) => pOf(each)))
  const rows: Ranked[] = ranked.map(({ level2: _, ...each }, i) => ({
    ...each,
    p: i === 0 ? null : ps[i - 1]!,
    aheadLowPct: i === 0 ? null : centreOf(ahead[i - 1]!, confidence).lowPct,
  }))
  const tied = rows
    .filter(({ p, aheadLowPct }) => p !== null && !(aheadLowPct! > 0 && p <= alpha))
    .map(({ name }) => name)
  const level2Winner = [...ranked].sort((a, b) => mean(b.level2) - mean(a.level2))[0]?.name

  const rules: Rule[] = [
    {
      ...({ rule: 'a', what: `removing it gains at least ${minimumEffectPct} %` } as const),
      holds: first !== undefined && first.lowPct >= minimumEffectPct,
      found:
        first === undefined
          ? 'no candidate'
          : `${pct(first.gainPct)} (${pct(first.lowPct)} to ${pct(first.highPct)}), ${runs} runs`,
    },
    {
      ...({ rule: 'b', what: 'and more than any other candidate' } as const),
      holds: tied.length === 0,
      found: tied.length === 0 ? `ahead of all ${others.length}` : `not told apart from ${tied.join(', ')}`,
    },
    { rule: 'c', what: 'every part of a token has a name', ...residueOf(facts) },
    {
      ...({ rule: 'd', what: 'replays repeat the runs' } as const),
      holds: facts.gatePassed.length > 0 && facts.gatePassed.every(Boolean),
      found: `${facts.gatePassed.filter(Boolean).length} of ${facts.gatePassed.length} runs`,
    },
    { rule: 'e', what: 'a delay put in there has the predicted effect', ...injected(facts, confidence) },
    {
      ...({ rule: 'f', what: 'the same winner within the clocks’ band and with more recorded' } as const),
      holds: facts.clocks !== 'another winner at one end' && level2Winner === first?.name,
      found: `${facts.clocks}; at level 2: ${level2Winner ?? 'not recorded'}`,
    },
    {
      ...({ rule: 'g', what: 'on other hosts too' } as const),
      holds: true,
      found: 'one host: the choice is stated for it alone',
    },
  ]
  return roundedAll({ ...verdictOf(facts, rows, rules, tied, runs), ranked: rows, rules })

  function verdictOf(
    { oversubscribed }: Facts,
    rows: readonly Ranked[],
    rules: readonly Rule[],
    tied: readonly string[],
    runs: number,
  ): Pick<Decision, 'verdict' | 'text' | 'winner' | 'tied'> {
    const holds = (rule: Rule['rule']) => rules.find((each) => each.rule === rule)!.holds
    const first = rows[0]
    const [most = 'nothing', share = 0] = Object.entries(shares).sort((a, b) => b[1] - a[1])[0] ?? []
    const none = { winner: null, tied: [] }
    if (oversubscribed)
      return {
        ...none,
        verdict: 'OVERSUBSCRIBED',
        text: 'more threads were busy than there are cores: nothing is chosen from such runs',
      }
    if (!holds('d') || !holds('c') || first === undefined) {
      const why = rules
        .filter(({ rule, holds }) => !holds && (rule === 'c' || rule === 'd'))
        .map(({ found }) => found)
      return { ...none, verdict: 'ATTRIBUTION INCOMPLETE', text: why.join('; ') || 'there is no candidate' }
    }
    if (first.highPct < minimumEffectPct)
      return {
        ...{ ...none, verdict: 'COMPUTE-BOUND' },
        text: `the largest part is ${most} with ${pct(share)}; no candidate gains ${minimumEffectPct} %, ${first.name} comes nearest with ${pct(first.gainPct)}`,
      }
    if (!holds('a')) {
      const half = (first.highPct - first.lowPct) / 2
      const distance = first.gainPct - minimumEffectPct
      const needed =
        distance > 0
          ? `about ${Math.ceil(runs * (half / distance) ** 2)} runs are needed`
          : 'no number of runs may do'
      return {
        ...none,
        verdict: 'NOISE-LIMITED',
        text: `${first.name} gains ${pct(first.gainPct)}, its interval reaches down to ${pct(first.lowPct)}: ${needed}`,
      }
    }
    if (!holds('b'))
      return {
        verdict: 'TIE',
        winner: first.name,
        tied,
        text: `${first.name} and ${tied.join(', ')} cannot be told apart`,
      }
    const open = rules.filter(({ holds }) => !holds)
    if (open.length > 0)
      return {
        ...{ verdict: 'ATTRIBUTION INCOMPLETE', winner: first.name, tied: [] },
        text: open
          .map(({ rule, what, found }) => `rule ${rule} (${what}) does not hold: ${found}`)
          .join('; '),
      }
    return {
      verdict: 'SELECTED',
      winner: first.name,
      tied: [],
      text: `${first.name}: removing it takes ${pct(first.gainPct)} off (${pct(first.lowPct)} to ${pct(first.highPct)})`,
    }
  }
}

function centreOf(gains: readonly number[], confidence: number) {
  const known = gains.filter(Number.isFinite)
  if (known.length !== gains.length || gains.length < 6) {
    const middle = known.length === 0 ? 0 : median(known)
    return { gainPct: middle, lowPct: Math.min(middle, ...known), highPct: Math.max(middle, ...known) }
  }
  const { center, low, high } = pairedEstimate(gains, confidence)
  return { gainPct: center, lowPct: low, highPct: high }
}

function pOf(differences: readonly number[]): number {
  return differences.length < leastRuns || !differences.every(Number.isFinite) ? 1 : signedRankP(differences)
}

function residueOf({ residue }: Facts): Pick<Rule, 'holds' | 'found'> {
  const { medianPct, medianNs, p95Pct, p95Ns } = residueLimits
  const bad = residue.filter(
    (run) =>
      run.medianPct > Math.max(medianPct, (100 * medianNs) / run.tokenNs) ||
      run.p95Pct > Math.max(p95Pct, (100 * p95Ns) / run.tokenNs) ||
      run.violations > 0 ||
      run.errors > 0,
  )
  const worst = Math.max(0, ...residue.map(({ medianPct }) => medianPct))
  return {
    holds: residue.length > 0 && bad.length === 0,
    found:
      bad.length === 0
        ? `at most ${pct(worst)} without a name, no violation`
        : `${bad.length} of ${residue.length} runs are beyond the limits, up to ${pct(worst)} without a name`,
  }
}

function injected({ injection }: Facts, confidence: number): Pick<Rule, 'holds' | 'found'> {
  if (injection === null) return { holds: false, found: 'not tried' }
  const { slopes, predicted } = injection
  const { gainPct: centre, lowPct: low, highPct: high } = centreOf(slopes, confidence)
  const interval = `${centre.toFixed(2)} ns a ns (${low.toFixed(2)} to ${high.toFixed(2)}), predicted ${predicted.toFixed(2)}`
  return { holds: (low > 0 || high < 0) && low <= predicted && predicted <= high, found: interval }
}

function mean(values: readonly number[]): number {
  return values.length === 0
    ? Number.NEGATIVE_INFINITY
    : values.reduce((sum, value) => sum + value, 0) / values.length
}

function pct(value: number): string {
  return `${value.toFixed(2)} %`
}
