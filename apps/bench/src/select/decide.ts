import { roundedAll } from '../session/numbers.ts'
import { holm, signedRankP } from '../statistics/index.ts'
import { byGain, type Estimate, estimateOf, leastRuns, pct } from './estimate.ts'
import type { Facts, Ranked } from './facts.ts'
import type { Candidate } from './gains.ts'
import { type Rule, type RuleName, rulesOf } from './rules.ts'

export type SelectVerdict =
  | 'SELECTED'
  | 'TIE'
  | 'COMPUTE-BOUND'
  /** What takes longest is not compute, but as short as it can be. */
  | 'FLOOR-BOUND'
  | 'NOISE-LIMITED'
  | 'ATTRIBUTION INCOMPLETE'
  | 'OVERSUBSCRIBED'

export interface Decision {
  readonly verdict: SelectVerdict
  readonly text: string
  readonly winner: string | null
  /** That could not be told from the winner. */
  readonly tied: readonly string[]
  /** Candidates everywhere, the largest gain first. */
  readonly ranked: readonly Ranked[]
  /** The same at one place each. */
  readonly places: readonly (Pick<Candidate, 'name' | 'category' | 'process' | 'port'> & Estimate)[]
  readonly rules: readonly Rule[]
}

/** Names one bottleneck when all rules hold, or says why not. A pure function of its facts. */
export function decide(facts: Facts): Decision {
  const { alpha, candidates, gains } = facts
  const all = candidates
    .map((candidate, i) => ({ ...candidate, gainsPct: gains[i]!, ...estimateOf(gains[i]!, 1 - alpha) }))
    .sort(byGain)
  const wholes = all.filter(({ partOf }) => partOf === null)
  const first = wholes[0]
  // Other ways to remove the same category are no rivals: the category is what is chosen.
  const rivals = wholes.filter(({ category }) => category !== first?.category)
  const ahead = rivals.map(({ gainsPct }) => gainsPct.map((gain, run) => first!.gainsPct[run]! - gain))
  const ps = holm(ahead.map(pOf))
  const ranked = wholes.map((each): Ranked => {
    const i = rivals.indexOf(each)
    if (i < 0) return { ...each, p: null, aheadLowPct: null }
    return { ...each, p: ps[i]!, aheadLowPct: estimateOf(ahead[i]!, 1 - alpha).lowPct }
  })
  const tied = ranked
    .filter(({ p, aheadLowPct }) => p !== null && !(aheadLowPct! > 0 && p <= alpha))
    .map(({ name }) => name)
  const places = all
    .filter(({ partOf }) => partOf !== null)
    .map(({ name, category, process, port, gainPct, lowPct, highPct }) => ({
      ...{ name, category, process, port, gainPct, lowPct, highPct },
    }))
  const rules = rulesOf(facts, ranked, tied)
  return roundedAll({ ...verdictOf(facts, ranked, tied, rules), ranked, places, rules })
}

function verdictOf(
  facts: Facts,
  ranked: readonly Ranked[],
  tied: readonly string[],
  rules: readonly Rule[],
): Pick<Decision, 'verdict' | 'text' | 'winner' | 'tied'> {
  const { minimumEffectPct, alpha, busyThreads, cores } = facts
  const failing = (...names: readonly RuleName[]) =>
    rules.filter(({ rule, holds }) => !holds && (names.length === 0 || names.includes(rule)))
  const said = (failed: readonly Rule[]) =>
    failed.map(({ rule, what, found }) => `rule ${rule} (${what}) does not hold: ${found}`).join('; ')
  const none = { winner: null, tied: [] }
  const [first] = ranked
  if (busyThreads > cores)
    return {
      ...{ ...none, verdict: 'OVERSUBSCRIBED' },
      text: `${busyThreads} threads were busy on ${cores} cores: nothing is chosen from such runs`,
    }
  const unknown = failing('c', 'd')
  if (unknown.length > 0 || first === undefined)
    return {
      ...{ ...none, verdict: 'ATTRIBUTION INCOMPLETE' },
      text: said(unknown) || 'there is no candidate',
    }
  const runs = first.gainsPct.length
  const rivals = ranked.filter(({ p }) => p !== null).length
  // The least p that all runs together can have, by Holm's first step.
  const needed = Math.max(leastRuns, Math.ceil(1 + Math.log2(Math.max(1, rivals) / alpha)))
  if (runs < needed)
    return {
      ...{ ...none, verdict: 'NOISE-LIMITED' },
      text: `${runs} runs, need n = ${needed}: fewer cannot tell a winner from ${rivals} others`,
    }
  if (first.highPct < minimumEffectPct) return { ...none, ...boundBy(facts, first) }
  if (first.lowPct < minimumEffectPct)
    return {
      ...{ ...none, verdict: 'NOISE-LIMITED' },
      text: `${first.name} gains ${shown(first)}, ${minimumEffectPct} % are asked for: ${runsNeeded(first, runs, minimumEffectPct)}`,
    }
  if (tied.length > 0)
    return {
      ...{ verdict: 'TIE', winner: first.name, tied },
      text: `TIE{${[first.name, ...tied].join('; ')}}: these cannot be told apart in ${runs} runs`,
    }
  const open = failing()
  if (open.length > 0)
    return { verdict: 'ATTRIBUTION INCOMPLETE', winner: first.name, tied: [], text: said(open) }
  return {
    ...{ verdict: 'SELECTED', winner: first.name, tied: [] },
    text: `${first.name}: removing it takes ${shown(first)} off`,
  }
}

/** The engine, and waits until it is done with others. */
const engine = ['compute.submit', 'compute.device', 'compute.sync', 'cpu.wait', 'sample']
const forEngine = ['wait.sequence', 'stage.queue']

function boundBy({ shares, minimumEffectPct }: Facts, nearest: Ranked): Pick<Decision, 'verdict' | 'text'> {
  const all = [...engine, ...forEngine]
  const computePct = all.reduce((sum, category) => sum + (shares[category] ?? 0), 0)
  const [most, share] = Object.entries(shares)
    .filter(([category]) => !all.includes(category))
    .sort((a, b) => b[1] - a[1])[0] ?? ['nothing else', 0]
  const none = `no candidate gains ${minimumEffectPct} %, ${nearest.name} comes nearest with ${shown(nearest)}`
  return computePct >= share
    ? { verdict: 'COMPUTE-BOUND', text: `the engine takes ${pct(computePct)} of the time; ${none}` }
    : { verdict: 'FLOOR-BOUND', text: `${most} takes ${pct(share)} of the time at its floor; ${none}` }
}

/** An interval shrinks with the root of n. */
function runsNeeded({ gainPct, lowPct, highPct }: Estimate, runs: number, minimumPct: number): string {
  const distance = Math.abs(gainPct - minimumPct)
  const half = gainPct > minimumPct ? gainPct - lowPct : highPct - gainPct
  const n = Math.ceil(runs * (half / distance) ** 2)
  return n <= mostRuns ? `need n about ${Math.max(n, runs + 1)}` : `more than ${mostRuns} runs are needed`
}

const mostRuns = 10_000

function pOf(differences: readonly number[]): number {
  return differences.length === 0 || !differences.every(Number.isFinite) ? 1 : signedRankP(differences)
}

function shown({ gainPct, lowPct, highPct }: Estimate): string {
  return `${pct(gainPct)} (${pct(lowPct)} to ${pct(highPct)})`
}
