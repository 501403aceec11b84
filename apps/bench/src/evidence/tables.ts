import { SeamError } from '@seamline/core'
import type { Comparison } from '../compare/comparison.ts'
import { valueText } from '../compare/print.ts'
import type { E2eResult } from '../e2e/table.ts'
import type { Selection, Survey } from '../select/selection.ts'
import { type MetricName, metricFacts, metricNames } from '../session/record.ts'
import { median } from '../statistics/index.ts'
import { cellClass, type FidelityRow, type MedianRow, type RunRow } from './derivations.ts'
import { type E2eRows, e2eFigures, e2eRatios } from './e2e-tables.ts'
import type { Facts } from './facts.ts'
import { formatted, markdownTable, notMeasured, render } from './macros.ts'

const dash = '—'
/** Smaller shares of a token are added up in its table; the derived file has all. */
const leastSharePct = 1
type Table = (facts: Facts, session: string | null) => string

/** Every table of `{{table:name}}`; with a session behind the name only that one. */
export const tables: Readonly<Record<string, Table>> = {
  sessions: ({ bundle }) =>
    markdownTable(
      ['Session', 'Purpose', 'Begun', 'Runs', 'Failed', 'Outcome', 'Standing'],
      bundle.sessions.map(({ name, purpose, lost, stored: { session, records } }) => {
        const failed = [...records.values()].filter(({ status }) => status === 'failed').length
        const of = `${records.size} of ${session.plan.runs.length}`
        const standing = lost === null ? 'evidence' : `kept, no evidence: ${lost}`
        return [name, purpose, session.startedAt, of, String(failed), session.outcome, standing]
      }),
    ),

  runs: (facts, session) =>
    markdownTable(
      ['Session', 'Run', 'Cell', 'Arm', 'Pair', ...metricNames.map(metricLabel), 'Class'],
      perSession<RunRow[]>(facts, 'runs', session).flatMap(([name, rows]) =>
        rows.map((row) => [
          ...[name, String(row.number), row.cell, row.arm, row.pair === null ? dash : String(row.pair)],
          ...metricNames.map((metric) => valueText(metric, row.values?.[metric] ?? null)),
          row.status === 'done' ? classOf(facts, name, row.cell) : notMeasured,
        ]),
      ),
    ),

  medians: (facts, session) => {
    const all = perSession<Record<string, MedianRow>>(facts, 'medians', session)
    const shown = metricNames.filter((metric) =>
      all.some(([, groups]) => Object.values(groups).some(({ metrics }) => metrics[metric] !== undefined)),
    )
    return markdownTable(
      ['Session', 'Cell', 'What', 'Runs', ...shown.map(metricLabel), 'Class'],
      all.flatMap(([name, groups]) =>
        Object.entries(groups).map(([cell, row]) => [
          ...[name, cell, row.label, String(row.runs)],
          ...shown.map((metric) => intervalText(metric, row.metrics[metric])),
          row.class,
        ]),
      ),
    )
  },

  attribution: (facts, session) =>
    markdownTable(
      ['Session', 'Cell', 'Category', 'Process', 'Per token', 'Share', 'Class'],
      perSession<Record<string, AttributionRun>>(facts, 'attribution', session).flatMap(([name, runs]) =>
        shares(facts, name, runs).map((row) => [name, ...row, 'derived']),
      ),
    ),

  e2e: (facts, session) => e2eFigures(e2eRows(facts, session)),
  'e2e-ratios': (facts, session) => e2eRatios(e2eRows(facts, session)),

  comparison: (facts, session) => comparisonTable(facts, session, 'Verdict', (kind) => kind !== 'simulated'),
  'comparison-simulated': (facts, session) =>
    comparisonTable(facts, session, 'Outcome', (kind) => kind === 'simulated'),

  survey: (facts, session) =>
    markdownTable(
      ['Session', 'Cell', 'Of', 'Runs', 'Failed', 'Largest share', 'Largest gain', 'Class'],
      perSession<Survey>(facts, 'survey', session).flatMap(([name, { rows }]) =>
        rows.map(({ cell, target, runs, failed, largest, candidates: [best] }) => [
          ...[name, cell, metricLabel(target), String(runs), String(failed)],
          largest === null ? dash : `${largest.category}, ${formatted(largest.sharePct, 'pct')}`,
          best === undefined ? dash : `${best.name}, ${formatted(best.gainPct, 'pct')}`,
          'predicted',
        ]),
      ),
    ),

  selection: (facts, session) =>
    markdownTable(
      ['Session', 'Removing', 'gains', 'Interval', 'Winner ahead by at least', 'p', 'Class'],
      perSession<Selection>(facts, 'selection', session).flatMap(([name, { ranked }]) =>
        ranked.map(({ name: candidate, gainPct, lowPct, highPct, aheadLowPct, p }) => [
          ...[name, candidate, formatted(gainPct, 'pct')],
          `${formatted(lowPct, 'pct')} … ${formatted(highPct, 'pct')}`,
          ...[
            aheadLowPct === null ? dash : formatted(aheadLowPct, 'pct'),
            p === null ? dash : p.toPrecision(2),
          ],
          'predicted',
        ]),
      ),
    ),

  rules: (facts, session) =>
    markdownTable(
      ['Session', 'Rule', 'What', 'Holds', 'Found'],
      perSession<Selection>(facts, 'selection', session).flatMap(([name, { rules }]) =>
        rules.map(({ rule, what, holds, found }) => [name, rule, what, holds ? 'yes' : 'no', found]),
      ),
    ),

  'what-if': ({ derived }) => {
    const { rows } = need<{ rows: WhatIfRow[] }>(derived, 'whatIf')
    const wanted = rows
      .filter(({ reductionPct, process }) => reductionPct === 100 && process === 'everywhere')
      .sort((one, other) => (other.gainPctFrozen ?? 0) - (one.gainPctFrozen ?? 0))
    const gain = (value: number | null) => (value === null ? dash : formatted(value, 'signed'))
    return markdownTable(
      ['Without', 'Tokens in the same time, order kept', 'in order of arrival', 'Class'],
      wanted.map((row) => [row.category, gain(row.gainPctFrozen), gain(row.gainPctRequeued), 'predicted']),
    )
  },

  fidelity: ({ derived }) =>
    markdownTable(
      ['Workload', 'Runs', 'of the unsplit model', 'Token ids', 'Class'],
      need<FidelityRow[]>(derived, 'fidelity').map(({ workload, runs, unsplitRuns, tokens }) => [
        ...[workload, String(runs), String(unsplitRuns)],
        tokens.length === 1 ? `equal, ${tokens[0]!.sha256.slice(0, 16)}` : `${tokens.length} different`,
        'derived',
      ]),
    ),

  claims: (facts) =>
    markdownTable(
      ['Claim', 'Class'],
      facts.bundle.spec.claims.map((claim) => [
        render(claim.text, facts.values, () => {
          throw new SeamError('USAGE', `a claim holds no table: ${claim.text.slice(0, 80)}`)
        }),
        claim.class,
      ]),
    ),

  environment: ({ hosts }) =>
    markdownTable(
      ['', ...hosts.map(({ sessions }) => sessions.join(', '))],
      (
        [
          ...([
            'cpu',
            'cores',
            'memoryBytes',
            'governor',
            'platform',
            'kernel',
            'node',
            'v8',
            'engines',
          ] as const),
          ...(['backends', 'libraries', 'driver', 'networks'] as const),
        ] as const
      ).map((field) => [field, ...hosts.map((host) => listed(host[field]))]),
    ),

  artifacts: ({ bundle }) =>
    markdownTable(
      ['Kind', 'Name', 'Bytes', 'SHA-256', 'Source'],
      bundle.artifacts.map(({ kind, name, bytes, sha256, source }) => [
        ...[kind, name, bytes === null ? 'not recorded' : String(bytes), `\`${sha256}\``, source],
      ]),
    ),

  commands: ({ commands }) =>
    markdownTable(
      ['Number', 'Command', 'Exit status'],
      commands.map(({ name, argv, exit }) => [
        `[${name}](cmd/${name}.stdout)`,
        `\`${argv.map(quoted).join(' ')}\``,
        String(exit),
      ]),
    ),

  'changed-files': ({ changed }) =>
    changed.length === 0
      ? 'No file changed.'
      : markdownTable(
          ['File', 'SHA-256'],
          changed.map(({ path, sha256 }) => [`\`${path}\``, sha256]),
        ),
}

export function tableNamed(facts: Facts, name: string, session: string | null): string {
  const make = Object.hasOwn(tables, name) ? tables[name] : undefined
  if (make === undefined)
    throw new SeamError('USAGE', `there is no table ${name}; there are ${Object.keys(tables).join(', ')}`)
  return make(facts, session)
}

interface WhatIfRow {
  readonly category: string
  readonly process: string
  readonly reductionPct: number
  readonly gainPctFrozen: number | null
  readonly gainPctRequeued: number | null
}

interface AttributionRun {
  readonly decode: {
    readonly rows: readonly { category: string; process: string; perTokenNs: number; sharePct: number }[]
  }
}

/** By cell, category and process: medians over runs of what one run says. A run without such a row counts as 0. */
function shares({ bundle }: Facts, session: string, runs: Record<string, AttributionRun>): string[][] {
  const { plan } = bundle.sessions.find(({ name }) => name === session)!.stored.session
  return Object.keys(plan.cells).flatMap((cell) => {
    const ofCell = plan.runs.flatMap(({ number, cell: name }) => (name === cell && runs[number]) || [])
    const places = new Map<string, { category: string; process: string; ns: number[]; pct: number[] }>()
    for (const [i, { decode }] of ofCell.entries()) {
      for (const { category, process, perTokenNs, sharePct } of decode.rows) {
        const key = `${category} ${process}`
        const zeros = () => ofCell.map(() => 0)
        const place = places.get(key) ?? { category, process, ns: zeros(), pct: zeros() }
        places.set(key, place)
        place.ns[i]! += perTokenNs
        place.pct[i]! += sharePct
      }
    }
    const rows = [...places.values()]
      .map(({ category, process, ns, pct }) => ({ category, process, ns: median(ns), pct: median(pct) }))
      .sort((a, b) => b.ns - a.ns)
    const large = rows.filter(({ pct }) => pct >= leastSharePct)
    const small = rows.filter(({ pct }) => pct < leastSharePct)
    if (small.length > 0) {
      const sum = (of: 'ns' | 'pct') => small.reduce((total, row) => total + row[of], 0)
      large.push({ category: `${small.length} smaller`, process: dash, ns: sum('ns'), pct: sum('pct') })
    }
    return large.map(({ category, process, ns, pct }) => [
      ...[cell, category, process, formatted(ns, 'us'), formatted(pct, 'pct')],
    ])
  })
}

function comparisonTable(
  facts: Facts,
  session: string | null,
  verdict: string,
  isShown: (kind: string) => boolean,
): string {
  const all = perSession<Comparison>(facts, 'comparison', session)
  const signed = (value: number | null) => (value === null ? dash : formatted(value, 'signed'))
  const range = (low: number | null, high: number | null) =>
    low === null || high === null ? dash : `${signed(low)} … ${signed(high)}`
  return markdownTable(
    [
      'Session',
      'Cell',
      'Metric',
      'Role',
      'A',
      'B',
      'B to A',
      'Interval',
      'A to its copy',
      'Pairs',
      verdict,
      'Class',
    ],
    all.flatMap(([name, { rows, session: state }]) =>
      rows.flatMap((row) => {
        const cell = facts.bundle.lock!.cells[row.cell]
        const kind =
          row.verdict === 'NOT MEASURED' ? 'not measured' : cell === undefined ? 'measured' : cellClass(cell)
        if (!isShown(kind)) return []
        return [
          [
            ...[name, row.cell, metricFacts[row.metric].label, row.role],
            ...[valueText(row.metric, row.a), valueText(row.metric, row.b), signed(row.effectPct)],
            ...[
              range(row.lowPct, row.highPct),
              row.aa === null ? dash : range(row.aa.lowPct, row.aa.highPct),
            ],
            ...[String(row.pairs), state === 'VALID' ? row.verdict : state, kind],
          ],
        ]
      }),
    ),
  )
}

function perSession<T>({ derived }: Facts, name: string, session: string | null): [string, T][] {
  const all = need<Record<string, T>>(derived, name)
  if (session === null) return Object.entries(all)
  if (Object.hasOwn(all, session)) return [[session, all[session]!]]
  throw new SeamError('USAGE', `${name} has no session ${session}; it has ${Object.keys(all).join(', ')}`)
}

function e2eRows(facts: Facts, session: string | null): E2eRows[] {
  return perSession<E2eResult>(facts, 'e2e', session).map(([name, { cells }]) => {
    const { plan } = facts.bundle.sessions.find((each) => each.name === name)!.stored.session
    return { session: name, cells, planned: plan.cells }
  })
}

function classOf({ bundle }: Facts, session: string, cell: string): string {
  const { plan } = bundle.sessions.find(({ name }) => name === session)!.stored.session
  return cellClass(plan.cells[cell]!)
}

function need<T>(derived: Readonly<Record<string, unknown>>, name: string): T {
  if (Object.hasOwn(derived, name)) return derived[name] as T
  throw new SeamError('USAGE', `the bundle has no ${name}; it has ${Object.keys(derived).join(', ')}`)
}

function metricLabel(metric: MetricName): string {
  return metricFacts[metric].label
}

function intervalText(metric: MetricName, row: MedianRow['metrics'][MetricName]): string {
  if (row === undefined) return dash
  const of = (value: number) => valueText(metric, value)
  return row.low === null || row.high === null
    ? of(row.median)
    : `${of(row.median)} (${of(row.low)} … ${of(row.high)})`
}

function listed(value: string | number | readonly string[]): string {
  const text = Array.isArray(value) ? value.join('; ') : String(value)
  return text === '' ? 'not recorded' : text
}

/** As a shell takes it. */
function quoted(argument: string): string {
  return /^[\w./:=@%+,$-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`
}
