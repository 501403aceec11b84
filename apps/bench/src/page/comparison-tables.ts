import { formatUnit, type Html, html, numbersOf, table } from '@seamline/profiler/report'
import type { Comparison, ComparisonRow } from '../compare/comparison.ts'
import type { Lock } from '../compare/lock.ts'
import type { SessionUnder } from '../compare/sessions.ts'
import { notRecorded } from '../session/guards.ts'
import { type GuardName, guardNames, type MetricName, metricFacts, metricNames } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import { barScale, intervalBar, marks } from './charts.ts'
import { axisPct, hashOf, pText, signedPct, textOf } from './numbers.ts'
import { type Scale, scaleBothWays } from './scale.ts'

const file = 'comparison.json'
export const comparisonNumber = numbersOf(file)
const num = comparisonNumber

export function badge(verdict: string): Html {
  const good = ['IMPROVED', 'VALID', 'SELECTED', 'holds', 'equal']
  const bad = ['REGRESSED', 'INVALID', 'ENV-CHANGED', 'UNREADABLE', 'fails', 'differs']
  const kind = good.includes(verdict) ? 'good' : bad.includes(verdict) ? 'bad' : 'open'
  return html`<span class="badge ${kind}">${verdict}</span>`
}

export function valueIn(metric: MetricName): (value: number) => string {
  return (value) => formatUnit(value, metricFacts[metric].unit)
}

/** A row with its place in the file. */
export interface PlacedRow {
  readonly row: ComparisonRow
  readonly path: string
}

export function rowsOf({ rows }: Comparison): PlacedRow[] {
  return rows.map((row, i) => ({ row, path: `rows.${i}` }))
}

/** What a metric is about, always told, measured or not. */
const families: readonly MetricName[] = ['ttft', 'prefill', 'tpot', 'throughput', 'peak_rss']
/** An interval that is this many times the least effect away is cut, unless it is that of the primary metric. */
const mostTimes = 6

export function familyTable(lock: Lock, comparison: Comparison): Html {
  const { minimumEffectPct } = lock.primary
  const placed = rowsOf(comparison)
  const cells = [...new Set(placed.map(({ row }) => row.cell))]
  const scale = scaleOf(comparison.rows, minimumEffectPct)
  const tables = cells.map((cell) => {
    const rows = placed
      .filter(({ row }) => row.cell === cell)
      .sort((a, b) => metricNames.indexOf(a.row.metric) - metricNames.indexOf(b.row.metric))
      .map((each) => familyRow(each, scale, minimumEffectPct))
    return html`<h3>${cell}</h3>${tableWithBars(cell, scale, rows)}`
  })
  const absent = families.filter((metric) => !comparison.rows.some((row) => row.metric === metric))
  return html`${tables}${
    absent.length > 0 &&
    table(
      'Metrics that no cell measures',
      ['Metric', 'Verdict'],
      absent.map(
        (metric) =>
          html`<tr><td>${metricFacts[metric].label}</td><td>${badge('NOT MEASURED')} no cell of this lock is a pipeline</td></tr>`,
      ),
    )
  }${marks([
    ['b', 'B to A: Hodges–Lehmann centre and signed-rank interval'],
    ['aa', 'A to its copy'],
  ])}<p class="note">Shaded: less than the least effect of ${minimumEffectPct} % either way. An arrow: the interval goes on.</p>`
}

function scaleOf(rows: readonly ComparisonRow[], minimumEffectPct: number): Scale {
  const ends = rows.flatMap(({ role, lowPct, highPct, aa }) =>
    [lowPct, highPct, aa?.lowPct, aa?.highPct].flatMap((end) =>
      end === null || end === undefined
        ? []
        : role === 'primary' || Math.abs(end) <= mostTimes * minimumEffectPct
          ? end
          : mostTimes * minimumEffectPct,
    ),
  )
  return scaleBothWays(ends, 1.5 * minimumEffectPct)
}

function tableWithBars(cell: string, scale: Scale, rows: readonly Html[]): Html {
  const right = (name: string) => html`<th scope="col" class="r">${name}</th>`
  return html`<div class="wrap" tabindex="0" role="region" aria-label="Metrics of ${cell}, a table that scrolls"><table><thead><tr><th scope="col">Metric</th><th scope="col">Verdict</th>${['B to A', 'Interval'].map(right)}<th scope="col">${barScale(scale, axisPct)}</th>${['A to its copy', 'A', 'B', 'p'].map(right)}</tr></thead><tbody>${rows}</tbody></table></div>`
}

function familyRow({ row, path }: PlacedRow, scale: Scale, minimumPct: number): Html {
  const { metric, effectPct, lowPct, highPct, aa, role } = row
  const { label, better } = metricFacts[metric]
  const format = valueIn(metric)
  const interval =
    effectPct === null || lowPct === null || highPct === null
      ? null
      : { center: effectPct, low: lowPct, high: highPct }
  const same = aa === null ? null : { center: aa.effectPct, low: aa.lowPct, high: aa.highPct }
  const tip =
    interval === null
      ? `${label}: no interval`
      : `${label}, B to A ${signedPct(interval.center)}, ${signedPct(interval.low)} to ${signedPct(interval.high)}${same === null ? '' : `; A to its copy ${signedPct(same.center)}, ${signedPct(same.low)} to ${signedPct(same.high)}`}`
  const estimate = row.confidence === null ? '' : howOf(row)
  const range = (low: number | null, high: number | null, at: string, how: string) =>
    low === null || high === null
      ? html`<span title="${file}: ${at}. No interval.">—</span>`
      : html`${num(low, signedPct, `${at}lowPct`, how)} to ${num(high, signedPct, `${at}highPct`, how)}`
  const medianHow = (arm: string) => `Median of ${arm} over ${row.pairs} pairs`
  return html`<tr><td class="metric">${label}<br><span class="sub">${role}, ${better} is better</span></td><td class="said">${badge(row.verdict)}${row.note !== null && html`<br><span class="sub" title="${file}: ${path}.note">${row.note}</span>`}</td><td class="r"><b>${num(effectPct, signedPct, `${path}.effectPct`, estimate)}</b></td><td class="r">${range(lowPct, highPct, `${path}.`, estimate)}</td><td class="bars">${intervalBar(scale, [-minimumPct, minimumPct], interval, same, 'b', tip)}</td><td class="r">${range(aa?.lowPct ?? null, aa?.highPct ?? null, `${path}.aa.`, `Signed-rank interval of ${aa?.pairs} pairs of the base with its copy`)}</td><td class="r">${num(row.a, format, `${path}.a`, medianHow('A'))}</td><td class="r">${num(row.b, format, `${path}.b`, medianHow('B'))}</td><td class="r">${num(row.p, pText, `${path}.p`, `Exact signed-rank test, two-sided${role === 'secondary' ? ', adjusted by Holm over the secondary metrics' : ''}`)}</td></tr>`
}

export function howOf({ pairs, confidence }: ComparisonRow): string {
  return `Hodges–Lehmann and signed-rank interval over ${pairs} log-ratios of B to A, confidence ${((confidence ?? 0) * 100).toFixed(2)} %`
}

// ---- guards

type GuardState = 'equal' | 'differs' | typeof notRecorded

export interface GuardRow {
  readonly guard: GuardName
  readonly locked: string
  readonly state: GuardState
  /** Runs that told their guards. */
  readonly runs: number
  readonly differing: readonly { readonly run: number; readonly arm: string; readonly found: string }[]
}

/** By cell. What the comparison found is not judged again here. */
export function guardRows(
  lock: Lock,
  { guardDifferences }: Comparison,
  { session, records }: StoredSession,
): Map<string, GuardRow[]> {
  const cells = new Map<string, GuardRow[]>()
  for (const [cell, locked] of Object.entries(lock.guards)) {
    const numbers = session.plan.runs.filter((run) => run.cell === cell).map(({ number }) => number)
    const runs = numbers.filter((number) => records.get(number)?.guards != null).length
    const own = guardDifferences.filter(({ run }) => numbers.includes(run))
    const rows = guardNames.map((guard): GuardRow => {
      const differing = own.filter((each) => each.guard === guard)
      const isKnown = locked[guard] !== notRecorded
      const state = differing.length > 0 ? 'differs' : isKnown ? 'equal' : notRecorded
      return { guard, locked: locked[guard], state, runs, differing }
    })
    cells.set(cell, rows)
  }
  return cells
}

export function guardTables(cells: ReadonlyMap<string, readonly GuardRow[]>): Html {
  return html`${[...cells].map(
    ([cell, rows]) =>
      html`<h3>${cell}</h3>${table(
        `Guards of ${cell}`,
        ['Guard', 'State', 'Locked', 'Found', ['Runs']],
        rows.map(({ guard, locked, state, runs, differing }) => {
          const first = differing[0]
          const found = [...new Set(differing.map((each) => each.found))]
          const at = `guards[${JSON.stringify(cell)}].${guard}`
          return html`<tr><td>${guard}</td><td>${badge(state)}${first !== undefined && html` run ${first.run} (${first.arm}) first`}</td><td class="long">${guardText('lock.json', at, locked)}</td><td class="long">${found.length === 0 ? (state === notRecorded ? notRecorded : 'the same') : found.map((each, i) => html`${i > 0 && ', '}${guardText(file, 'guardDifferences', each)}`)}</td><td class="r"><span title="${file}: guardDifferences; runs/*/run.json: guards.${guard}">${differing.length === 0 ? runs : `${differing.length} of ${runs}`}</span></td></tr>`
        }),
      )}`,
  )}`
}

function guardText(of: string, path: string, value: string): Html {
  return /^[0-9a-f]{40,}$/.test(value) ? hashOf(of, path, value) : textOf(of, path, value)
}

// ---- sessions

export function sessionTable(sessions: readonly SessionUnder[], current: string): Html {
  return table(
    'Sessions under the lock',
    ['Session', 'Verdict', 'A to B', ['Effect'], ['Interval']],
    sessions.map(({ name, builds, comparison, problem }) => {
      const from = `${name}/${file}`
      const show = numbersOf(from)
      const row = comparison?.rows[0]
      const commits = ['base', 'head'].map((build) =>
        builds[build] === undefined
          ? html`—`
          : hashOf(`${name}/session.json`, `builds.${build}.commit`, builds[build].commit),
      )
      const how = 'Of the primary metric, derived anew from its raw records'
      const verdict = comparison?.verdict ?? 'UNREADABLE'
      const why = problem ?? comparison?.reasons.join('; ') ?? ''
      return html`<tr><td>${name}${name === current && html` <b>(this one)</b>`}</td><td class="said">${badge(verdict)}${why !== '' && html`<br><span class="sub">${why}</span>`}</td><td><span class="n">${commits[0]} to ${commits[1]}</span></td><td class="r">${show(row?.effectPct, signedPct, 'rows.0.effectPct', how)}</td><td class="r">${show(row?.lowPct, signedPct, 'rows.0.lowPct', how)} to ${show(row?.highPct, signedPct, 'rows.0.highPct', how)}</td></tr>`
    }),
  )
}
