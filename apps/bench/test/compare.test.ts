import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { type Comparison, comparisonOf } from '../src/compare/comparison.ts'
import { type Lock, lockIdOf, parseLock } from '../src/compare/lock.ts'
import { planOf } from '../src/compare/plan.ts'
import type { Environment } from '../src/environment.ts'
import { type Guards, guardNames, type StoredRecord } from '../src/session/record.ts'
import { distSha256 } from '../src/session/run-session.ts'
import type { PlannedRun } from '../src/session/session.ts'
import type { StoredSession } from '../src/session/store.ts'

const guards = Object.fromEntries(guardNames.map((name) => [name, `${name} of then`])) as Guards
const cell = { kind: 'micro', id: 'codec/f16/encode/16KiB', timeMs: 50 } as const
const unmeasured = {
  ...{ ttft: null, prefill: null, tpot: null, itl_p50: null, itl_p95: null },
  ...{ throughput: null, peak_rss: null, bytes_per_token: null },
}

function lockOf(change: Partial<Lock> = {}): Lock {
  const made: Omit<Lock, 'lockId'> = {
    ...{ schema: 'seamline-lock/1', createdAt: '2026-12-01T00:00:00.000Z', commit: 'a'.repeat(40) },
    bottleneck: { category: 'convert.encode', place: 'everywhere', planSha256: 'p', selectionSha256: 's' },
    hypothesis: {
      change: 'Something gets shorter.',
      allowedPaths: ['packages/codecs/**'],
      predictedPct: [-12, -8],
    },
    primary: { cell: 'one', metric: 'time', minimumEffectPct: 3, alpha: 0.05 },
    secondaries: [],
    design: {
      ...{ order: 'ABBA', seed: 63, freshProcesses: true, cooldownMs: 0, stop: 'fixed-n' },
      pairs: { one: { pairs: 12, aaPairs: 8 } },
    },
    ...{ cells: { one: cell }, guards: { one: guards }, baseline: { one: { ...unmeasured, time: 1000 } } },
    analyserSha256: 'x',
    ...change,
  }
  return { ...made, lockId: lockIdOf(made) }
}

/** Noise that adds up to nothing over four runs, so that medians are known. */
const wobble = [1, 1.002, 0.999, 1.001]

function sessionOf(
  lock: Lock,
  value: (run: PlannedRun) => number,
  change: (run: PlannedRun) => Partial<StoredRecord> | null = () => ({}),
): StoredSession {
  const plan = planOf(lock)
  const environment = {} as Environment
  const records = plan.runs.flatMap((run): [number, StoredRecord][] => {
    const changed = change(run)
    if (changed === null) return []
    const p50Ns = value(run)
    const micro = { samples: 100, p50Ns, minNs: p50Ns, roundsNs: [p50Ns], bytes: null }
    const at = { startedAt: '', endedAt: '', environment }
    const record = {
      format: 'seamline-run/1',
      cell,
      status: 'done',
      reason: null,
      ...at,
      guards,
      micro,
    } as const
    return [[run.number, { ...record, external: null, hasTrace: false, trace: undefined, ...changed }]]
  })
  const builds = { base: { commit: 'a', dirty: false, distSha256: '1' } }
  return {
    dir: '',
    session: { plan, builds, environment, startedAt: '', endedAt: '', outcome: 'done', reason: null },
    records: new Map(records),
  }
}

/** `factor` times the base in B; everything else as the base, give or take a little. */
function compared(factor: number, noise: readonly number[] = wobble): Comparison {
  const lock = lockOf()
  return comparisonOf(
    lock,
    sessionOf(lock, ({ arm, number }) => 1000 * (arm === 'B' ? factor : 1) * noise[number % noise.length]!),
  )
}

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

  it('knows that more tokens a second are better', () => {
    const rpc = { kind: 'pipeline', executor: 'llama-rpc' } as never
    const lock = lockOf({
      cells: { one: rpc },
      primary: { cell: 'one', metric: 'prefill', minimumEffectPct: 3, alpha: 0.05 },
      secondaries: [{ cell: 'one', metric: 'tpot' }],
      baseline: { one: { ...unmeasured, prefill: 100, time: null } },
    })
    const external = (arm: string) => ({
      prefillTokensPerSecond: arm === 'B' ? 110 : 100,
      decodeTokensPerSecond: 20,
      raw: null,
    })
    const found = comparisonOf(
      lock,
      sessionOf(
        lock,
        () => 1,
        ({ arm }) => ({ micro: null, external: external(arm) }),
      ),
    )
    expect(found.verdict).toBe('IMPROVED')
    expect(found.rows.map(({ metric, verdict }) => [metric, verdict])).toEqual([
      ['prefill', 'IMPROVED'],
      ['tpot', 'EQUIVALENT'],
      ...['ttft', 'throughput', 'peak_rss', 'bytes_per_token'].map((metric) => [metric, 'NOT MEASURED']),
    ])
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
})

describe('the hash of a build', () => {
  it('is over its files, wherever the checkout lies', async () => {
    const root = mkdtempSync(join(tmpdir(), 'builds-'))
    try {
      const dist = join(root, 'packages', 'x', 'dist')
      mkdirSync(join(dist, 'native', 'build'), { recursive: true })
      const empty = await distSha256(root).catch(() => '')
      writeFileSync(join(dist, 'index.js'), 'one')
      mkdirSync(join(root, 'apps'))
      const one = await distSha256(root)
      writeFileSync(join(dist, 'native', 'build', 'x.node'), 'not part of it')
      writeFileSync(join(dist, 'index.js.map'), 'nor this')
      expect(await distSha256(root)).toBe(one)
      writeFileSync(join(dist, 'index.js'), 'two')
      expect(new Set([empty, one, await distSha256(root)]).size).toBe(3)
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })
})
