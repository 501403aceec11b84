import { type Comparison, comparisonOf } from '../src/compare/comparison.ts'
import { type Lock, lockIdOf } from '../src/compare/lock.ts'
import { planOf } from '../src/compare/plan.ts'
import type { Environment } from '../src/environment.ts'
import type { ComparisonPageInput } from '../src/page/comparison-page.ts'
import type { SelectionPageInput } from '../src/page/selection-page.ts'
import { parsePlan } from '../src/select/plan.ts'
import type { Cell } from '../src/session/cell.ts'
import { parseCell } from '../src/session/cell.ts'
import { type Guards, guardNames, type StoredRecord } from '../src/session/record.ts'
import type { PlannedRun } from '../src/session/session.ts'
import type { StoredSession } from '../src/session/store.ts'

export const hostile = `<img src=x onerror="window.hit=1"></script><script>window.hit=2</script>\u2028'"`

const environment: Environment = {
  ...{ cpu: 'Made Up 9000', cores: 2, governor: null, memoryBytes: 8 * 2 ** 30, platform: 'linux x64' },
  ...{ kernel: '6.1', node: '20.20.0', v8: '11.3', load: [0.5, 0.25, 0.12], commit: null, dirty: null },
  ...{ bufferOffsets: {}, startedAt: '2026-12-01T00:00:00.000Z' },
}
const unmeasured = {
  ...{ ttft: null, prefill: null, tpot: null, itl_p50: null, itl_p95: null },
  ...{ throughput: null, peak_rss: null, bytes_per_token: null, time: null },
}
/** Not whole numbers, so that what is cut off shows; drifts a little. */
const valueIn = ({ number, arm }: PlannedRun): number =>
  52.3 * (1 + 0.0004 * number + 0.004 * Math.sin(number * number)) * (arm === 'B' ? 0.917 : 1)

interface Names {
  readonly text: string
  readonly cell: string
}
const plain: Names = { text: 'Half of the bytes of hidden rows stay away.', cell: '1.1b over tcp' }

function lockOf({ text, cell }: Names): Lock {
  const guards = Object.fromEntries(
    guardNames.map((name) => [name, name.endsWith('256') ? 'ab'.repeat(32) : `${name} ${text.slice(0, 4)}`]),
  ) as Guards
  const pipeline = parseCell(
    {
      ...{ executor: 'llama-rpc', model: '1.1b-q4_0' },
      link: { delayMs: 20, bitsPerSecond: 1e8 },
    },
    'cell',
  )
  const micro: Cell = { kind: 'micro', id: 'codec/f16/encode/16KiB', timeMs: 50 }
  const made: Omit<Lock, 'lockId'> = {
    ...{ schema: 'seamline-lock/1', createdAt: '2026-11-30T00:00:00.000Z', commit: 'c0'.repeat(20) },
    bottleneck: { category: 'wire.rest', place: text, planSha256: 'p', selectionSha256: 's' },
    hypothesis: { change: text, allowedPaths: ['packages/codecs/**', text], predictedPct: [-12.5, -6.25] },
    primary: { cell, metric: 'tpot', minimumEffectPct: 3, alpha: 0.05 },
    secondaries: [{ cell, metric: 'prefill' }],
    design: {
      ...{ order: 'ABBA', seed: 63, freshProcesses: true, cooldownMs: 250, stop: 'fixed-n' },
      pairs: { [cell]: { pairs: 12, aaPairs: 8 }, encode: { pairs: 12, aaPairs: 8 } },
    },
    cells: { [cell]: pipeline, encode: micro },
    guards: { [cell]: { ...guards, manifestSha256: 'not recorded' }, encode: guards },
    baseline: { [cell]: { ...unmeasured, tpot: 19_120_000 }, encode: { ...unmeasured, time: 51.9 } },
    analyserSha256: 'x',
  }
  return { ...made, lockId: lockIdOf(made) }
}

function sessionOf(lock: Lock, change: (run: PlannedRun) => Partial<StoredRecord>): StoredSession {
  const plan = planOf(lock)
  const records = plan.runs.map((run): [number, StoredRecord] => {
    const value = valueIn(run)
    const cell = lock.cells[run.cell]!
    const isMicro = cell.kind === 'micro'
    const record: StoredRecord = {
      ...{ format: 'seamline-run/1', cell, status: 'done', reason: null, startedAt: '', endedAt: '' },
      ...{ environment, guards: lock.guards[run.cell]!, hasTrace: false, trace: undefined },
      micro: isMicro ? { samples: 100, p50Ns: value, minNs: value, roundsNs: [value], bytes: null } : null,
      external: isMicro
        ? null
        : { prefillTokensPerSecond: 11_000 / value, decodeTokensPerSecond: 2730 / value, raw: null },
      ...change(run),
    }
    return [run.number, record]
  })
  const build = (letter: string) => ({
    commit: letter.repeat(40),
    dirty: false,
    distSha256: letter.repeat(64),
  })
  return {
    dir: '',
    session: {
      ...{ plan, environment, startedAt: '2026-12-01T01:02:03.000Z', endedAt: null, outcome: 'done' },
      ...{ builds: { base: build('a'), copy: build('a'), head: build('b') }, reason: null },
    },
    records: new Map(records),
  }
}

/** Families that only traces would measure are put in by hand, at the places where a comparison has them. */
function filled(comparison: Comparison): Comparison {
  const [main] = comparison.rows
  return {
    ...comparison,
    rows: comparison.rows.map((row) => {
      if (row.metric === 'ttft')
        return {
          ...main!,
          metric: 'ttft',
          role: 'reported',
          a: 812_345_678,
          b: 819_000_111,
          effectPct: 41.37,
          lowPct: 36.25,
          highPct: 55.5,
          verdict: 'REGRESSED',
          cell: row.cell,
        }
      if (row.metric === 'peak_rss')
        return {
          ...main!,
          metric: 'peak_rss',
          role: 'reported',
          a: 734_003_200,
          b: 734_216_192,
          effectPct: 0.03,
          lowPct: -0.41,
          highPct: 0.38,
          verdict: 'EQUIVALENT',
          cell: row.cell,
        }
      return row
    }),
  }
}

export function comparisonInput(
  names: Names = plain,
  change: (run: PlannedRun) => Partial<StoredRecord> = () => ({}),
): ComparisonPageInput {
  const lock = lockOf(names)
  const stored = sessionOf(lock, change)
  const comparison = filled(comparisonOf(lock, stored))
  const { builds, startedAt } = stored.session
  const before = {
    ...comparison,
    verdict: 'ENV-CHANGED',
    reasons: ['the base differs from its own copy'],
  } as const
  return {
    ...{ lock, stored, comparison, name: 'second' },
    sessions: [
      { name: 'first', startedAt, builds, comparison: before, problem: null },
      { name: 'broken', startedAt: null, builds: {}, comparison: null, problem: `no JSON: ${names.text}` },
      { name: 'second', startedAt, builds, comparison, problem: null },
    ],
    commands: [
      ['pnpm', 'bench', 'compare', '--lock', '$REPO/benchmarks/locks/one.json', '--base', names.text],
    ],
    limitations: [names.text],
  }
}

export function selectionInput({ text, cell }: Names = plain): SelectionPageInput {
  const shape = { executor: 'paced', pacedMs: [5, 5], link: { delayMs: 10 } }
  const plan = parsePlan({
    schema: 'seamline-plan/1',
    name: text.slice(0, 200),
    target: 'tpot',
    cells: { [cell]: shape },
  })
  const gains = (centre: number) => Array.from({ length: 10 }, (_, run) => centre + 0.7 * Math.sin(run * 1.7))
  const candidate = (name: string, centre: number, p: number | null) => ({
    ...{ name, category: 'wire.first', process: -1, port: -1, partOf: null, floor: text, p },
    ...{ gainPct: centre, lowPct: centre - 0.513, highPct: centre + 0.487 },
    ...{ aheadLowPct: p === null ? null : 9.125, gainsPct: gains(centre) },
  })
  const ranked = [
    candidate(text, 21.4567, null),
    candidate('wire.rest', 8.25, 0.01171875),
    candidate('frame.encode', 0.0375, 0.01171875),
    ...Array.from({ length: 16 }, (_, i) => candidate(`more ${i}`, -0.2, 0.02)),
  ]
  return {
    plan,
    stored: {
      dir: '',
      records: new Map(),
      session: {
        plan: {
          ...{ format: 'seamline-session/1', purpose: 'select', serves: null, seed: 1, runs: [] },
          ...{ cells: plan.cells, cooldownMs: 0 },
        },
        ...{ environment, builds: {}, startedAt: '2026-12-01T01:02:03.000Z', endedAt: null },
        ...{ outcome: 'cut', reason: text },
      },
    },
    selection: {
      ...{ format: 'seamline-selection/1', planSha256: 'cd'.repeat(32), cell, target: 'tpot' },
      ...{ value: 42_123_456, runs: 10, verdict: 'SELECTED', text, winner: text, tied: [] },
      shares: { 'wire.first': 61.25, 'compute.device': 30.5, emit: 0.125 },
      ranked: ranked as never,
      places: ranked.slice(1, 3).map(({ name, gainPct, lowPct, highPct }) => ({
        ...{
          name: `${name} at ${text}`,
          category: 'wire.rest',
          process: 1,
          port: 0,
          gainPct,
          lowPct,
          highPct,
        },
      })),
      rules: (['a', 'b', 'c', 'd', 'e', 'f', 'g'] as const).map((rule) => ({
        ...{ rule, what: `rule ${rule}`, holds: rule !== 'e', found: `${text} 21.46 %` },
      })),
    },
    commands: [['pnpm', 'bench', 'select', '$REPO/benchmarks/plans/one.json', '--cell', cell]],
  }
}
