import { SeamError, SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { comparisonOf } from '../src/compare/comparison.ts'
import { type Lock, outsideOf, parseLock } from '../src/compare/lock.ts'
import { planOf } from '../src/compare/plan.ts'
import { goldenCommits, goldenLock, goldenRecord, goldenSession } from '../src/evidence/golden.ts'
import type { PlannedRun, Session } from '../src/session/session.ts'
import { cell, compared, external, externalLock, guards, lockOf, sessionOf } from './compare-fixture.ts'

describe('the order of a comparison', () => {
  const { runs } = planOf(lockOf())

  it('has all pairs, each side by side, and turns around from pair to pair', () => {
    expect(runs.map(({ number }) => number)).toEqual(runs.map((_, i) => i + 1))
    for (const [arms, pairs] of [
      ['A,B', 12],
      ['A1,A2', 8],
    ] as const) {
      const [one, two] = arms.split(',')
      const first = Array.from({ length: pairs }, (_, pair) => {
        const at = runs.findIndex((run) => run.pair === pair && (run.arm === one || run.arm === two))
        const both = runs.slice(at, at + 2)
        expect(both.map(({ pair }) => pair)).toEqual([pair, pair])
        expect(both.map(({ arm }) => arm).sort()).toEqual([one, two])
        return both[0]!.arm
      })
      for (const [i, arm] of first.entries()) if (i > 0) expect(arm).not.toBe(first[i - 1])
    }
    expect(runs.filter(({ build }) => build === 'head').every(({ arm }) => arm === 'B')).toBe(true)
    expect(new Set(runs.filter(({ build }) => build === 'copy').map(({ arm }) => arm))).toEqual(
      new Set(['A2']),
    )
  })

  it('follows from the lock alone', () => {
    expect(planOf(lockOf()).runs).toEqual(runs)
    const { design } = lockOf()
    expect(planOf(lockOf({ design: { ...design, seed: 64 } })).runs).not.toEqual(runs)
  })
})

describe('a comparison', () => {
  it('finds an effect and its size', () => {
    const { verdict, session, rows } = compared(0.9, [1])
    expect({ verdict, session }).toEqual({ verdict: 'IMPROVED', session: 'VALID' })
    expect(rows[0]).toMatchObject({ a: 1000, b: 900, pairs: 12, metric: 'time', role: 'primary' })
    expect(rows[0]!.effectPct).toBeCloseTo(-10, 6)
    // All 12 differences have one sign: 2 of 4096 ways.
    expect(rows[0]!.p).toBeCloseTo(2 / 4096, 8)
  })

  it('tells slower, the same and too little from each other', () => {
    expect(compared(1.1).verdict).toBe('REGRESSED')
    expect(compared(1).verdict).toBe('EQUIVALENT')
    // Found for sure, and less than what counts.
    expect(compared(0.98).verdict).toBe('EQUIVALENT')
  })

  it('says nothing where the noise is larger than the effect', () => {
    const { verdict, rows } = compared(0.97, [1, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9])
    expect(verdict).toMatch(/INCONCLUSIVE|ENV-CHANGED/)
    expect(rows[0]!.verdict).toBe('INCONCLUSIVE')
    expect(rows[0]!.note).toMatch(/would have been found/)
  })

  it('counts a machine that has changed for nothing', () => {
    const lock = lockOf()
    const copySlower = sessionOf(lock, ({ arm }) => (arm === 'A2' ? 1050 : arm === 'B' ? 900 : 1000))
    expect(comparisonOf(lock, copySlower)).toMatchObject({
      ...{ verdict: 'ENV-CHANGED', session: 'ENV-CHANGED' },
      reasons: [expect.stringMatching(/differs from its own copy by \+5.00 %/)],
    })
    const allSlower = sessionOf(lock, ({ arm }) => (arm === 'B' ? 1080 : 1200))
    expect(comparisonOf(lock, allSlower).reasons).toEqual([
      expect.stringMatching(/\+20.00 % of what the lock recorded/),
    ])
  })

  it.each(['protocolIds', 'bytesPerToken', 'tokens', 'modelSha256', 'node'] as const)(
    'is invalid where %s differs, and names it',
    (guard) => {
      const lock = lockOf()
      const other = { guards: { ...guards, [guard]: 'another' } }
      const found = comparisonOf(
        lock,
        sessionOf(
          lock,
          () => 1000,
          ({ arm }) => (arm === 'B' ? other : {}),
        ),
      )
      expect(found).toMatchObject({ verdict: 'INVALID', session: 'INVALID' })
      expect(found.reasons).toEqual([expect.stringContaining(`${guard} differs`)])
      expect(found.guardDifferences).toHaveLength(12)
    },
  )

  it('is invalid with runs that failed or are missing, and where it was cut', () => {
    const lock = lockOf()
    const failed = sessionOf(
      lock,
      () => 1000,
      ({ number }) => (number === 3 ? { status: 'failed', reason: 'why', micro: null } : {}),
    )
    expect(comparisonOf(lock, failed).reasons).toEqual([
      expect.stringMatching(/1 runs failed, run 3 first: why/),
    ])
    const missing = sessionOf(
      lock,
      () => 1000,
      ({ number }) => (number === 3 ? null : {}),
    )
    expect(comparisonOf(lock, missing).reasons).toEqual(['1 of 40 runs have no record'])
    const whole = sessionOf(lock, () => 1000)
    const cut = { ...whole, session: { ...whole.session, outcome: 'cut' as const, reason: 'interrupted' } }
    expect(comparisonOf(lock, cut)).toMatchObject({
      verdict: 'INVALID',
      reasons: [expect.stringMatching(/interrupted/)],
    })
  })

  it('is invalid for runs of another plan or another cell, and for builds that no commit holds', () => {
    const lock = lockOf()
    const { dir, records, session } = sessionOf(lock, () => 1000)
    const reasonsOf = (change: Partial<Session>) =>
      comparisonOf(lock, { dir, records, session: { ...session, ...change } }).reasons
    const { plan, builds } = session
    expect(reasonsOf({})).toEqual([])
    const other = lockOf({ createdAt: '2026-12-02T00:00:00.000Z' })
    expect(reasonsOf({ plan: { ...plan, serves: other.lockId } })).toEqual([
      `the session was made by another lock: ${other.lockId}`,
    ])
    const swapped = plan.runs.map((run) => (run.arm === 'A' ? { ...run, arm: 'B' } : run))
    expect(reasonsOf({ plan: { ...plan, runs: swapped } })[0]).toMatch(/not those that follow from the lock/)
    expect(reasonsOf({ builds: { ...builds, head: { ...builds.head!, dirty: true } } })).toEqual([
      'not built from a commit alone: head',
    ])
    expect(reasonsOf({ builds: { ...builds, copy: builds.head! } })).toEqual([
      'the copy of the base is another build',
    ])
    const longer = sessionOf(
      lock,
      () => 1000,
      ({ number }) => (number === 5 ? { cell: { ...cell, timeMs: 51 } } : {}),
    )
    expect(comparisonOf(lock, longer).reasons).toEqual([
      expect.stringMatching(/^cell differs, in run 5 .*"timeMs":51/),
    ])
  })

  it('says what ranks and t both say, and nothing where they disagree', () => {
    // Eleven of twelve a little faster, one much slower: ranks find it, the t interval reaches past 0.
    const lock = lockOf()
    const found = comparisonOf(
      lock,
      sessionOf(lock, ({ arm, pair }) => (arm !== 'B' ? 1000 : pair === 0 ? 1400 : 960 - 0.1 * pair!)),
    )
    const [row] = found.rows
    expect(row).toMatchObject({
      verdict: 'INCONCLUSIVE',
      note: expect.stringMatching(/^ranks and t disagree/),
    })
    expect(row!.p).toBeCloseTo((2 * 70) / 4096, 8)
    expect(row!.highPct).toBeLessThan(0)
    expect(row!.tPct![2]).toBeGreaterThan(0)
  })

  it('concludes nothing from some of the pairs', () => {
    const lock = externalLock([{ cell: 'one', metric: 'tpot' }])
    const session = external(lock, ({ arm }) => (arm === 'B' ? [110, 22] : [100, 20]))
    const [number] = session.session.plan.runs.filter(({ arm }) => arm === 'B').map(({ number }) => number)
    const failed = { ...session.records.get(number!)!, status: 'failed', reason: 'why' } as const
    const records = new Map([...session.records, [number!, failed]])
    expect(comparisonOf(lock, { ...session, records }).rows.slice(0, 2)).toEqual([
      expect.objectContaining({
        pairs: 11,
        verdict: 'INCONCLUSIVE',
        note: expect.stringMatching(/11 of 12/),
      }),
      expect.objectContaining({
        pairs: 11,
        verdict: 'INCONCLUSIVE',
        note: expect.stringMatching(/11 of 12/),
      }),
    ])
  })

  it('knows that more tokens a second are better', () => {
    const lock = externalLock([{ cell: 'one', metric: 'tpot' }])
    const found = comparisonOf(
      lock,
      external(lock, ({ arm }) => (arm === 'B' ? [110, 20] : [100, 20])),
    )
    expect(found.verdict).toBe('IMPROVED')
    expect(found.rows.map(({ metric, verdict }) => [metric, verdict])).toEqual([
      ['prefill', 'IMPROVED'],
      ['tpot', 'EQUIVALENT'],
      ...['ttft', 'throughput', 'peak_rss', 'bytes_per_token'].map((metric) => [metric, 'NOT MEASURED']),
    ])
  })

  it('adjusts secondaries among each other, and says where one would have been found alone', () => {
    // Decode of B is better in 11 of 12 pairs and by far worse in one, whose rank is 12.
    const slower = ({ arm, pair }: PlannedRun): [number, number] =>
      arm !== 'B' ? [100, 20] : [100, pair === 0 ? 18.9 : 20 * (1.035 + 0.001 * pair!)]
    const alone = externalLock([{ cell: 'one', metric: 'tpot' }])
    const row = (lock: Lock) => comparisonOf(lock, external(lock, slower)).rows[1]!
    const unadjusted = row(alone)
    // Ways to have a rank sum of at most 12: partitions of 0 to 12 into different parts, 1 1 1 2 2 3 4 5 6 8 10 12 15, are 70 of 4096.
    expect(unadjusted.p).toBeCloseTo((2 * 70) / 4096, 8)
    expect(unadjusted.verdict).toBe('IMPROVED')
    const both = externalLock([
      { cell: 'one', metric: 'tpot' },
      { cell: 'one', metric: 'ttft' },
    ])
    const adjusted = row(both)
    expect(adjusted.p).toBeCloseTo((2 * 2 * 70) / 4096, 8)
    expect(adjusted).toMatchObject({
      verdict: 'INCONCLUSIVE',
      note: expect.stringMatching(/^found alone, but not among all secondaries/),
    })
  })
})

describe('what is counted', () => {
  /** All frames of the runs that `doubles` names have twice the bytes. */
  async function bytesRow(doubles: (run: PlannedRun) => boolean) {
    const golden = await goldenRecord()
    const lock = goldenLock(golden, 'x')
    const stored = goldenSession(golden, planOf(lock), goldenCommits)
    const records = new Map(stored.records)
    for (const run of stored.session.plan.runs.filter(doubles)) {
      const record = records.get(run.number)!
      const trace = record.trace!
      const processes = trace.processes.map((process) => ({
        ...process,
        spans: process.spans.map((value, i, all) =>
          i % SPAN_RECORD_LENGTH === 4 && all[i - 4] === SpanName.frameEncode ? 2 * value : value,
        ),
      }))
      records.set(run.number, { ...record, trace: { ...trace, processes } })
    }
    return comparisonOf(lock, { ...stored, records }).rows.find(({ metric }) => metric === 'bytes_per_token')!
  }

  it('is compared as it is, without a test', async () => {
    expect(await bytesRow(() => false)).toMatchObject({ verdict: 'EXACT', effectPct: 0, p: null })
    expect(await bytesRow(({ arm }) => arm === 'B')).toMatchObject({ verdict: 'REGRESSED', effectPct: 100 })
    expect(await bytesRow(({ build }) => build !== 'head')).toMatchObject({
      verdict: 'IMPROVED',
      effectPct: -50,
    })
  })

  it('says nothing where runs of one revision differ', async () => {
    const row = await bytesRow(({ arm, pair }) => arm === 'B' && pair === 2)
    expect(row).toMatchObject({
      verdict: 'INCONCLUSIVE',
      note: expect.stringMatching(/not the same in every run/),
    })
  })
})

describe('a run whose spans cannot be evaluated', () => {
  it('makes the session invalid, and is named', async () => {
    const golden = await goldenRecord()
    const lock = goldenLock(golden, 'x')
    const stored = goldenSession(golden, planOf(lock), goldenCommits)
    const record = stored.records.get(2)!
    const trace = record.trace!
    // The peer's stamps of its probes jump: no clock goes like that.
    const processes = trace.processes.map((process) => ({
      ...process,
      spans: process.spans.map((value, i, all) =>
        i % SPAN_RECORD_LENGTH === 4 && all[i - 4] === SpanName.probe ? 2 * value : value,
      ),
    }))
    const records = new Map([...stored.records, [2, { ...record, trace: { ...trace, processes } }]])
    expect(comparisonOf(lock, { ...stored, records })).toMatchObject({
      verdict: 'INVALID',
      reasons: expect.arrayContaining([expect.stringMatching(/^run 2 cannot be evaluated: no offset/)]),
    })
  })
})

describe('a lock', () => {
  it('is known by its content, and refused once that is changed', () => {
    const lock = lockOf()
    const stored = JSON.parse(JSON.stringify(lock))
    const parsing = (value: unknown) => () => parseLock(value)
    const withCell = { ...stored, cells: { one: { kind: 'micro', id: 'x', timeMs: 50 } } }
    expect(parsing(stored)).not.toThrow()
    expect(parsing({ ...stored, createdAt: '2026-12-02' })).toThrow(/was changed after it was made/)
    expect(parsing(withCell)).toThrow(SeamError)
  })

  it('names a field that is wrong', () => {
    const stored = JSON.parse(JSON.stringify(lockOf()))
    expect(() => parseLock({ ...stored, primary: { ...stored.primary, metric: 'speed' } })).toThrow(
      /lock.primary.metric/,
    )
    expect(() => parseLock({ ...stored, surprise: 1 })).toThrow(/lock.surprise/)
    const design = { ...stored.design, pairs: { one: { pairs: 3, aaPairs: 8 } } }
    expect(() => parseLock({ ...stored, design })).toThrow(/lock.design.pairs.one.pairs.*from 6/)
  })

  it('allows what its globs match, whole folders and names that begin with a dot too', () => {
    const { hypothesis } = lockOf()
    const lock = lockOf({
      hypothesis: { ...hypothesis, allowedPaths: ['packages/codecs/**', 'docs/*.md'] },
    })
    const inside = ['packages/codecs/src/f16.ts', 'packages/codecs/.hidden/a', 'docs/codecs.md']
    const outside = ['packages/codecs-extra/a.ts', 'docs/deep/a.md', 'pnpm-lock.yaml', 'packages/core/a.ts']
    expect(outsideOf(lock, [...inside, ...outside])).toEqual(outside)
  })
})
