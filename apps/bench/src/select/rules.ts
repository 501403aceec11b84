import { estimateOf, leastRuns, pct, winnerOf } from './estimate.ts'
import type { Facts, Ranked } from './facts.ts'

export type RuleName = 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g'

/** One of what must hold before a bottleneck is named. */
export interface Rule {
  readonly rule: RuleName
  readonly what: string
  readonly holds: boolean
  /** In numbers. */
  readonly found: string
}

type Outcome = Pick<Rule, 'holds' | 'found'>

/** Of a token, or so much of its time if that is more: what a clock and a span cannot tell. */
const residueLimits = { medianPct: 2, medianNs: 30_000, p95Pct: 5, p95Ns: 60_000 }
const leastLevel2Runs = 3

export function rulesOf(facts: Facts, ranked: readonly Ranked[], tied: readonly string[]): Rule[] {
  const first = ranked[0]
  const runs = first?.gainsPct.length ?? 0
  const { minimumEffectPct } = facts
  return [
    {
      ...({ rule: 'a', what: `removing it gains at least ${minimumEffectPct} %` } as const),
      holds: first !== undefined && runs >= leastRuns && first.lowPct >= minimumEffectPct,
      found:
        first === undefined
          ? 'no candidate'
          : `${pct(first.gainPct)} (${pct(first.lowPct)} to ${pct(first.highPct)}), ${runs} runs`,
    },
    { rule: 'b', what: 'and more than any other candidate', ...aheadOfAll(ranked, tied) },
    { rule: 'c', what: 'every part of a token has a name', ...named(facts, first) },
    { rule: 'd', what: 'replays repeat the runs', ...repeated(facts) },
    { rule: 'e', what: 'a delay put in there has the predicted effect', ...injected(facts) },
    {
      ...({ rule: 'f', what: 'the same winner within the clocks’ band and with more recorded' } as const),
      ...same(facts, first),
    },
    {
      ...({ rule: 'g', what: 'on other hosts too' } as const),
      holds: true,
      found:
        facts.bandGains === null
          ? 'one host: the choice is stated for it alone'
          : 'none of the hosts was left out: the choice is stated for these alone',
    },
  ]
}

function aheadOfAll(ranked: readonly Ranked[], tied: readonly string[]): Outcome {
  const rivals = ranked.filter(({ p }) => p !== null)
  if (tied.length > 0)
    return { holds: false, found: `not told apart from ${tied.join(', ')} of ${rivals.length}` }
  const least = Math.min(...rivals.map(({ aheadLowPct }) => aheadLowPct!))
  const most = Math.max(...rivals.map(({ p }) => p!))
  return {
    holds: ranked.length > 0,
    found:
      rivals.length === 0
        ? 'there is no other'
        : `ahead of all ${rivals.length} by at least ${pct(least)}, largest p ${most.toPrecision(2)}`,
  }
}

/** Also not where what has no name could be more than the winner. */
function named({ residue, shares, minimumEffectPct }: Facts, first: Ranked | undefined): Outcome {
  const { medianPct, medianNs, p95Pct, p95Ns } = residueLimits
  const bad = residue.filter(
    (run) =>
      run.medianPct > Math.max(medianPct, (100 * medianNs) / run.tokenNs) ||
      run.p95Pct > Math.max(p95Pct, (100 * p95Ns) / run.tokenNs),
  )
  const worst = Math.max(0, ...residue.map(({ medianPct }) => medianPct))
  const violations = residue.reduce((sum, run) => sum + run.violations, 0)
  const errors = residue.reduce((sum, run) => sum + run.errors, 0)
  const share = shares.UNATTRIBUTED ?? 0
  const couldWin = share >= Math.max(minimumEffectPct, first?.gainPct ?? 0)
  const found = [
    `median without a name at most ${pct(worst)}`,
    ...(bad.length === 0 ? [] : [`${bad.length} of ${residue.length} runs are beyond the limits`]),
    ...(couldWin ? [`${pct(share)} without a name could be more than the winner`] : []),
    `${violations} messages before they were sent, ${errors} errors of the recording`,
  ]
  return {
    holds: residue.length > 0 && bad.length === 0 && !couldWin && violations === 0 && errors === 0,
    found: found.join('; '),
  }
}

function repeated({ replays }: Facts): Outcome {
  const passed = replays.filter((each) => each.passed)
  const worst = Math.max(0, ...replays.map(({ errorPct }) => errorPct))
  return {
    holds: replays.length > 0 && passed.length === replays.length,
    found: `${passed.length} of ${replays.length} runs, makespan off by at most ${pct(worst)}`,
  }
}

function injected({ injection, alpha }: Facts): Outcome {
  if (injection === null) return { holds: false, found: 'not tried' }
  const { slopes, predicted } = injection
  const { gainPct: centre, lowPct: low, highPct: high } = estimateOf(slopes, 1 - alpha)
  const enough = slopes.length >= 6
  return {
    holds: enough && (low > 0 || high < 0) && low <= predicted && predicted <= high,
    found: `${centre.toFixed(3)} ns a ns (${low.toFixed(3)} to ${high.toFixed(3)}), predicted ${predicted.toFixed(3)}, ${slopes.length} pairs`,
  }
}

function same({ candidates, alpha, level2Gains, bandGains }: Facts, first: Ranked | undefined): Outcome {
  const at = (gains: readonly (readonly number[])[]) => winnerOf(candidates, gains, 1 - alpha)
  const runs = level2Gains[0]?.length ?? 0
  const recorded = runs < leastLevel2Runs ? undefined : at(level2Gains)
  const ends = bandGains === null ? [] : [at(bandGains.low), at(bandGains.high)]
  const isSame = (winner: { readonly category: string } | undefined) =>
    winner !== undefined && winner.category === first?.category
  const name = (winner: { readonly name: string } | undefined) => winner?.name ?? 'none'
  return {
    holds: isSame(recorded) && ends.every(isSame),
    found: [
      ends.length === 0
        ? 'one clock'
        : `clocks at the low ends: ${name(ends[0])}, at the high ends: ${name(ends[1])}`,
      `at level 2: ${name(recorded)}, ${runs} runs`,
    ].join('; '),
  }
}
