import type { Category } from '@seamline/profiler'
import { describe, expect, it } from 'vitest'
import { decide } from '../src/select/decide.ts'
import type { Facts } from '../src/select/facts.ts'
import type { Candidate } from '../src/select/gains.ts'

const whole = (category: Category, name: string = category): Candidate => ({
  ...{ name, category, process: -1, port: -1, partOf: null, floor: 'by hand' },
})
const candidates = [whole('frame.encode'), whole('wire.first'), whole('checksum')]

/** `from`, and a tenth more with each of ten runs. */
const rising = (from: number, runs = 10) => Array.from({ length: runs }, (_, i) => from + i / 10)
/** The others rise more slowly, so that no two differences are equal. */
const slower = (from: number, runs = 10) => Array.from({ length: runs }, (_, i) => from + i / 100)
const residue = { medianPct: 0.5, p95Pct: 1, tokenNs: 10e6, violations: 0, errors: 0 }

function facts(changes: Partial<Facts> = {}): Facts {
  const gains = [slower(1), rising(10), slower(0.5)]
  return {
    ...{ minimumEffectPct: 3, alpha: 0.05, candidates, gains, bandGains: null },
    level2Gains: gains.map((values) => values.slice(0, 3)),
    replays: Array.from({ length: 10 }, () => ({ passed: true, errorPct: 0.1 })),
    residue: Array.from({ length: 10 }, () => residue),
    ...{ busyThreads: 2, cores: 2, shares: { 'wire.first': 30, 'compute.device': 60 } },
    injection: { slopes: [0.9, 0.95, 1, 1.02, 1.05, 1.1], predicted: 1 },
    ...changes,
  }
}

const ruleOf = (changes: Partial<Facts>, name: string) =>
  decide(facts(changes)).rules.find(({ rule }) => rule === name)!

describe('a choice', () => {
  it('is made when all rules hold, with figures that follow by hand', () => {
    const found = decide(facts())
    expect(found.verdict).toBe('SELECTED')
    expect(found.winner).toBe('wire.first')
    expect(found.rules.map(({ rule, holds }) => rule + holds)).toEqual([...'abcdefg'].map((r) => `${r}true`))
    const [first, second, third] = found.ranked
    // Of ten values in equal steps the 9th and the 47th of 55 Walsh averages: 4 and 14 half steps above the least.
    expect([first!.gainPct, first!.lowPct, first!.highPct]).toEqual([10.45, 10.2, 10.7])
    expect([second!.name, third!.name]).toEqual(['frame.encode', 'checksum'])
    // All ten signs alike: 2 of 1024 ways, and two tests.
    expect([first!.p, second!.p, third!.p]).toEqual([null, 4 / 1024, 4 / 1024])
    // 9 + 0.09 i: the 9th Walsh average is two steps above the least.
    expect(second!.aheadLowPct).toBeCloseTo(9.18, 9)
  })

  it('does not depend on the order of candidates', () => {
    const { gains, level2Gains } = facts()
    const turned = decide(
      facts({
        candidates: candidates.toReversed(),
        gains: gains.toReversed(),
        level2Gains: level2Gains.toReversed(),
      }),
    )
    expect(turned).toEqual(decide(facts()))
  })

  it('lists places apart and lets none of them compete', () => {
    const part = { ...whole('wire.first', 'wire.first at one'), process: 1, port: 4, partOf: 'wire.first' }
    const { gains, level2Gains } = facts()
    const found = decide(
      facts({
        candidates: [...candidates, part],
        gains: [...gains, rising(10)],
        level2Gains: [...level2Gains, [99, 99, 99]],
      }),
    )
    expect(found.verdict).toBe('SELECTED')
    expect(found.ranked.map(({ name }) => name)).toEqual(['wire.first', 'frame.encode', 'checksum'])
    expect(found.places).toEqual([
      {
        name: part.name,
        category: 'wire.first',
        process: 1,
        port: 4,
        gainPct: 10.45,
        lowPct: 10.2,
        highPct: 10.7,
      },
    ])
  })

  it('does not count another way to remove the same category as a rival', () => {
    const { gains, level2Gains } = facts()
    const found = decide(
      facts({
        candidates: [...candidates, whole('wire.first', 'wire.first, otherwise')],
        gains: [...gains, rising(9.99)],
        level2Gains: [...level2Gains, [99, 99, 99]],
      }),
    )
    expect(found.verdict).toBe('SELECTED')
    expect(found.ranked[1]).toMatchObject({ name: 'wire.first, otherwise', p: null, aheadLowPct: null })
    expect(found.ranked[2]!.p).toBe(4 / 1024)
  })
})

describe('rule a', () => {
  it('says how many runs would do where the interval reaches below', () => {
    const found = decide(facts({ minimumEffectPct: 10.3 }))
    expect(found.verdict).toBe('NOISE-LIMITED')
    expect(found.winner).toBeNull()
    // Half a width of 0.25 must shrink to 0.15: 10 * (0.25 / 0.15)^2 = 27.8.
    expect(found.text).toContain('need n about 28')
    expect(ruleOf({ minimumEffectPct: 10.3 }, 'a').holds).toBe(false)
  })

  it('also where the centre lies below', () => {
    // 0.25 above 10.45 must shrink to 0.15 as well.
    expect(decide(facts({ minimumEffectPct: 10.6 })).text).toContain('need n about 28')
  })

  it.each([
    ['COMPUTE-BOUND', { 'compute.device': 40, sample: 15, 'wire.first': 45 }, 'the engine takes 55.00 %'],
    ['COMPUTE-BOUND', { 'compute.device': 20, 'wait.sequence': 35, 'wire.first': 45 }, 'takes 55.00 %'],
    ['FLOOR-BOUND', { 'compute.device': 40, 'wire.first': 60 }, 'wire.first takes 60.00 %'],
  ])('is %s when nothing can gain enough', (verdict, shares, text) => {
    const found = decide(facts({ minimumEffectPct: 10.8, shares, injection: null }))
    expect(found.verdict).toBe(verdict)
    expect(found.text).toContain(text)
    expect(found.text).toContain('wire.first comes nearest with 10.45 % (10.20 % to 10.70 %)')
    expect(found.winner).toBeNull()
  })

  it('does not hold for nine runs', () => {
    const found = decide(facts({ gains: [slower(1, 9), rising(10, 9), slower(0.5, 9)] }))
    expect(found.verdict).toBe('NOISE-LIMITED')
    expect(found.text).toContain('9 runs, need n = 10')
  })

  it('asks for a run more where ten cannot beat so many others', () => {
    // 2^(1 - n) * 29 <= 0.05 from n = 10.18 on.
    const others = Array.from({ length: 29 }, (_, i) => whole('gc', `other ${i}`))
    const found = decide(
      facts({
        candidates: [whole('wire.first'), ...others],
        gains: [rising(10), ...others.map((_, i) => slower(i / 100))],
        level2Gains: [[10, 10, 10], ...others.map(() => [0, 0, 0])],
      }),
    )
    expect(found.text).toContain('need n = 11')
  })
})

describe('rule b', () => {
  it('names everything that cannot be told from the winner', () => {
    // Ahead in six runs and behind in four, by 1 to 10 tenths: signed ranks 34 and 21.
    const signs = [1, -1, 1, -1, 1, -1, 1, 1, -1, 1]
    const close = rising(10).map((gain, i) => gain - (signs[i]! * (i + 1)) / 10)
    const found = decide(facts({ gains: [close, rising(10), slower(0.5)] }))
    expect(found).toMatchObject({ verdict: 'TIE', winner: 'wire.first', tied: ['frame.encode'] })
    expect(found.text).toContain('TIE{wire.first; frame.encode}')
    // Exact two-sided p of Wilcoxon's W = 21 at n = 10 is 0.5566 (tables: 0.278 in one tail).
    expect(found.ranked.find(({ name }) => name === 'frame.encode')!.p).toBeCloseTo(0.5566, 3)
  })
})

describe('rule c', () => {
  const bad = (change: Partial<typeof residue>) => ({
    residue: [{ ...residue, ...change }, ...Array.from({ length: 9 }, () => residue)],
  })
  it.each([
    ['a median above 2 %', bad({ medianPct: 2.1 })],
    ['a p95 above 5 %', bad({ p95Pct: 5.1 })],
    ['a message before it was sent', bad({ violations: 1 })],
    ['an error of the recording', bad({ errors: 1 })],
    ['no run at all', { residue: [] }],
    ['more without a name than the winner gains', { shares: { UNATTRIBUTED: 10.5 } }],
  ])('refuses %s', (_, change) => {
    const found = decide(facts(change))
    expect(found.verdict).toBe('ATTRIBUTION INCOMPLETE')
    expect(found.winner).toBeNull()
    expect(ruleOf(change, 'c').holds).toBe(false)
  })

  it('allows 30 µs and 60 µs of short tokens', () => {
    const short = { tokenNs: 1e6, medianPct: 2.9, p95Pct: 5.9 }
    expect(ruleOf(bad(short), 'c').holds).toBe(true)
    expect(ruleOf(bad({ ...short, medianPct: 3.1 }), 'c').holds).toBe(false)
    expect(ruleOf(bad({ ...short, p95Pct: 6.1 }), 'c').holds).toBe(false)
  })

  it('allows what could not reach the effect that is asked for', () => {
    const change = { shares: { UNATTRIBUTED: 2.9, 'compute.device': 97 }, minimumEffectPct: 3 }
    const gains = [slower(1), slower(1.5), slower(0.5)]
    expect(decide(facts({ ...change, gains })).verdict).toBe('COMPUTE-BOUND')
  })
})

describe('rule d', () => {
  it('refuses a run that its replay does not repeat', () => {
    const replays = facts().replays.map((each, i) => (i === 3 ? { passed: false, errorPct: 4 } : each))
    const gains = facts().gains.map((values) => values.map((gain, i) => (i === 3 ? Number.NaN : gain)))
    const found = decide(facts({ replays, gains }))
    expect(found.verdict).toBe('ATTRIBUTION INCOMPLETE')
    expect(found.text).toContain('9 of 10 runs, makespan off by at most 4.00 %')
  })
})

describe('rule e', () => {
  it.each([
    ['was not tried', null, 'not tried'],
    ['shows nothing', { slopes: [-0.2, -0.1, 0, 0.1, 0.2, 1.1], predicted: 1 }, '(-0.200 to 1.100)'],
    ['shows something else', { slopes: [1.1, 1.2, 1.3, 1.4, 1.5, 1.6], predicted: 1 }, '(1.100 to 1.600)'],
    ['was tried in five pairs', { slopes: [0.9, 0.95, 1, 1.05, 1.1], predicted: 1 }, '5 pairs'],
  ])('leaves the choice open where a delay %s', (_, injection, text) => {
    const found = decide(facts({ injection }))
    expect(found).toMatchObject({ verdict: 'ATTRIBUTION INCOMPLETE', winner: 'wire.first' })
    expect(found.rules.filter(({ holds }) => !holds).map(({ rule }) => rule)).toEqual(['e'])
    expect(found.text).toContain(text)
  })
})

describe('rule f', () => {
  const other = [rising(20), rising(10), slower(0.5)]
  it.each([
    [
      'another winner at level 2',
      {
        level2Gains: [
          [2, 2, 2],
          [1, 1, 1],
          [0, 0, 0],
        ],
      },
    ],
    [
      'two runs at level 2',
      {
        level2Gains: [
          [1, 1],
          [9, 9],
          [0, 0],
        ],
      },
    ],
    ['nothing at level 2', { level2Gains: [[], [], []] }],
    ['another winner at the low ends', { bandGains: { low: other, high: facts().gains } }],
    ['another winner at the high ends', { bandGains: { low: facts().gains, high: other } }],
    [
      'a replay that fails at one end',
      { bandGains: { low: facts().gains.map((g) => g.map(() => Number.NaN)), high: facts().gains } },
    ],
  ])('leaves the choice open with %s', (_, change) => {
    const found = decide(facts(change))
    expect(found.verdict).toBe('ATTRIBUTION INCOMPLETE')
    expect(found.rules.filter(({ holds }) => !holds).map(({ rule }) => rule)).toEqual(['f'])
  })

  it('holds on several hosts with the same winner at both ends, which are said', () => {
    const bandGains = { low: facts().gains, high: facts().gains }
    expect(decide(facts({ bandGains })).verdict).toBe('SELECTED')
    expect(ruleOf({ bandGains }, 'f').found).toContain('clocks at the low ends: wire.first')
    expect(ruleOf({ bandGains }, 'g').found).toContain('stated for these alone')
    expect(ruleOf({}, 'g').found).toContain('stated for it alone')
  })
})

it('chooses nothing where more threads were busy than there are cores', () => {
  expect(decide(facts({ busyThreads: 3 }))).toMatchObject({ verdict: 'OVERSUBSCRIBED', winner: null })
})

it('chooses nothing where there is nothing to choose from', () => {
  const found = decide(facts({ candidates: [], gains: [], level2Gains: [] }))
  expect(found).toMatchObject({ verdict: 'ATTRIBUTION INCOMPLETE', winner: null, ranked: [] })
})
