import { formatCount, type Html, html, numbersOf, pageHtml, type Section } from '@seamline/profiler/report'
import type { Comparison } from '../compare/comparison.ts'
import type { Lock } from '../compare/lock.ts'
import type { SessionUnder } from '../compare/sessions.ts'
import { metricFacts } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { type Mark, marks, pairPlot, plot } from './charts.ts'
import {
  badge,
  comparisonNumber,
  familyTable,
  guardRows,
  guardTables,
  howOf,
  type PlacedRow,
  rowsOf,
  sessionTable,
  valueIn,
} from './comparison-tables.ts'
import { css } from './css.ts'
import { comparisonLimits } from './limits.ts'
import { hashOf, plainPct, pText, signedPct, textOf } from './numbers.ts'
import { scaleAround, scaleBothWays } from './scale.ts'
import { bullets, circumstances } from './sections.ts'

export interface ComparisonPageInput {
  readonly lock: Lock
  readonly stored: StoredSession
  /** Of these two. */
  readonly comparison: Comparison
  /** All under the lock, this one too. */
  readonly sessions: readonly SessionUnder[]
  /** Name of this one among them. */
  readonly name: string
  readonly commands: readonly (readonly string[])[]
  /** Beside what follows from the lock and the session. */
  readonly limitations?: readonly string[]
}

const num = comparisonNumber
const locked = numbersOf('lock.json')

/**
 * A comparison as one HTML file that opens from disk and requests nothing. Shows what `comparison` says and judges nothing again; each number
 * names in `title` where it stands and how it came about. The same input gives the same page.
 */
export function comparisonPage(input: ComparisonPageInput): string {
  const { lock, stored, comparison, sessions, name } = input
  const { session } = stored
  const shown = rowsOf(comparison)
  const guards = guardRows(lock, comparison, stored)
  const [base, head] = ['base', 'head'].map((build) => comparison.builds[build]?.commit.slice(0, 12) ?? '—')
  const sections: Section[] = [
    ['verdict', 'Verdict', '', verdict(input, guards)],
    [
      'families',
      'Metrics',
      'Medians of both arms over their pairs; the difference is of each pair, in percent of A.',
      familyTable(lock, comparison),
    ],
    [
      'pairs',
      'Differences of the pairs',
      'B to A, pair by pair, and beside it the base against a copy of itself over the same axis: whatever shows there is noise.',
      folded(shown, ({ row }) => row.pairsPct.length > 0 && row.verdict !== 'EXACT', pairFigure(lock)),
    ],
    [
      'order',
      'In the order of the runs',
      'Every run with its arm: a machine that drifts shows here. The axis does not begin at zero.',
      folded(shown, ({ row }) => row.pairsPct.length > 0, orderFigure(input)),
    ],
    [
      'guards',
      'Guards',
      'What must be the same for times to be comparable, and what the change must not alter.',
      guardTables(guards),
    ],
    [
      'sessions',
      'All sessions under this lock',
      'Also those that were lost: a session that was run counts as run.',
      sessionTable(sessions, name),
    ],
    ['how', 'Commands, workloads and machine', '', circumstances(session, lock.cells, input.commands)],
    ['limits', 'Limits', '', bullets([...comparisonLimits(lock, comparison), ...(input.limitations ?? [])])],
  ]
  return pageHtml({
    title: `${comparison.verdict}: ${lock.hypothesis.change}`,
    subtitle: `Lock ${lock.lockId.slice(0, 12)} · ${base} to ${head} · ${session.startedAt} · ${session.environment.cpu}, ${session.environment.cores} cores`,
    marks: comparison.session === 'VALID' ? [] : comparison.reasons.map((reason) => `No verdict: ${reason}`),
    sections,
    footer:
      'Hover over a number to see where it stands and how it came about; focus a chart and use the arrow keys to step through it.',
    styles: [css],
  })
}

function verdict(
  { lock, stored, comparison, sessions }: ComparisonPageInput,
  guards: ReturnType<typeof guardRows>,
): Html {
  const { primary, hypothesis } = lock
  const [main] = rowsOf(comparison)
  const { label, better } = metricFacts[primary.metric]
  const all = [...guards.values()].flat()
  const states = (['equal', 'differs', 'not recorded'] as const).map(
    (state) =>
      `${all.filter((row) => row.state === state).length} ${state === 'differs' ? 'different' : state}`,
  )
  const key = (name: string, value: Html | string, small: Html | string) =>
    html`<div><dt>${name}</dt><dd>${value}<small>${small}</small></dd></div>`
  const { predictedPct } = hypothesis
  const predicted =
    predictedPct === null
      ? html`nothing predicted`
      : html`predicted ${locked(predictedPct[0], signedPct, 'hypothesis.predictedPct.0')} to ${locked(predictedPct[1], signedPct, 'hypothesis.predictedPct.1')}`
  const row = main?.row
  return html`<div class="verdict"><div><p class="kind">${badge(comparison.verdict)} · session ${badge(comparison.session)}</p><p class="say">${textOf('lock.json', 'hypothesis.change', hypothesis.change)}</p>${comparison.reasons.length > 0 && bullets(comparison.reasons)}</div>
<dl class="keys">${
    row !== undefined &&
    main !== undefined && [
      key(
        `${label}, B to A`,
        num(row.effectPct, signedPct, `${main.path}.effectPct`, howOf(row)),
        html`${num(row.lowPct, signedPct, `${main.path}.lowPct`, howOf(row))} to ${num(row.highPct, signedPct, `${main.path}.highPct`, howOf(row))}; ${better} is better; ${predicted}`,
      ),
      key(
        label,
        num(row.b, valueIn(row.metric), `${main.path}.b`, `Median of B over ${row.pairs} pairs`),
        html`before: ${num(row.a, valueIn(row.metric), `${main.path}.a`, `Median of A over ${row.pairs} pairs`)}, ${primary.cell}`,
      ),
      key(
        'Least effect',
        locked(primary.minimumEffectPct, plainPct, 'primary.minimumEffectPct', 'Less counts as nothing'),
        html`p ${num(row.p, pText, `${main.path}.p`, 'Exact signed-rank test, two-sided')} at α ${locked(primary.alpha, String, 'primary.alpha')}`,
      ),
      key(
        'Pairs',
        num(row.pairs, formatCount, `${main.path}.pairs`, 'Both runs have a value'),
        row.aa === null
          ? 'too few of A to its copy'
          : html`${num(row.aa.pairs, formatCount, `${main.path}.aa.pairs`)} of A to its copy: ${num(row.aa.effectPct, signedPct, `${main.path}.aa.effectPct`, 'Hodges–Lehmann')}`,
      ),
    ]
  }${[
    key(
      'Runs',
      num(comparison.runs, formatCount, 'runs', 'Planned by the lock'),
      html`${num(comparison.failed, formatCount, 'failed')} failed, ${formatCount(comparison.runs - stored.records.size)} without a record`,
    ),
    key(
      'Guards',
      `${all.filter((each) => each.state === 'equal').length} of ${all.length}`,
      states.join(', '),
    ),
    key(
      'Lock',
      hashOf('lock.json', 'lockId', lock.lockId, 8),
      `made ${lock.createdAt} of ${lock.commit.slice(0, 12)}; ${sessions.length} ${sessions.length === 1 ? 'session' : 'sessions'} under it`,
    ),
    key(
      'Bottleneck',
      textOf('lock.json', 'bottleneck.category', lock.bottleneck.category),
      `${lock.bottleneck.place}; may change: ${lock.hypothesis.allowedPaths.join(', ')}`,
    ),
  ]}</dl></div>`
}

/** The primary and secondary metrics at once, those that are only reported one click away. */
function folded(
  rows: readonly PlacedRow[],
  isShown: (row: PlacedRow) => boolean,
  figure: (row: PlacedRow) => Html,
): Html {
  const present = rows.filter(isShown)
  if (present.length === 0) return html`<p class="empty">Nothing to show: no pair has values.</p>`
  const main = present.filter(({ row }) => row.role !== 'reported')
  const rest = present.filter(({ row }) => row.role === 'reported')
  return html`${main.map(figure)}${rest.length > 0 && html`<details><summary>${rest.length} that are only reported</summary>${rest.map(figure)}</details>`}`
}

function name({ row: { cell, metric, role } }: PlacedRow): Html {
  return html`<b>${metricFacts[metric].label}</b>${cell}, ${role}`
}

const pairFigure =
  ({ primary }: Lock) =>
  (placed: PlacedRow): Html => {
    const { row, path } = placed
    const { pairsPct, aaPairsPct, effectPct, lowPct, highPct, aa, tPct } = row
    const { minimumEffectPct: minimumPct } = primary
    const interval =
      effectPct === null || lowPct === null || highPct === null
        ? null
        : { center: effectPct, low: lowPct, high: highPct }
    const sameInterval = aa === null ? null : { center: aa.effectPct, low: aa.lowPct, high: aa.highPct }
    const said =
      interval === null
        ? 'no interval'
        : `centre ${signedPct(interval.center)}, interval ${signedPct(interval.low)} to ${signedPct(interval.high)}`
    const how = 'Paired t on the same log-ratios: a check on the ranks'
    const t =
      tPct !== null &&
      html` By the paired t on logarithms: ${tPct.map((value, i) => html`${['mean ', ', ', ' to '][i]!}${num(value, signedPct, `${path}.tPct.${i}`, how)}`)}.`
    return html`<figure><figcaption>${name(placed)}</figcaption>${pairPlot({
      label: `${metricFacts[row.metric].label} of ${row.cell}: ${pairsPct.length} differences of B to A, ${said}; ${aaPairsPct.length} of A to its copy`,
      ...{ minimumPct, interval, sameInterval, pairs: pairsPct, samePairs: aaPairsPct },
      y: scaleBothWays([...pairsPct, ...aaPairsPct], 1.5 * minimumPct),
    })}<p class="note">Lines: Hodges–Lehmann centres; shaded in their colours: their intervals.${t}</p></figure>`
  }

const armMarks: Readonly<Record<string, Mark>> = { A: 'a', B: 'b', A1: 'a1', A2: 'a2' }
const baselineStyle = 'stroke:var(--ink);stroke-width:1.2;stroke-dasharray:6 4'

function orderFigure({ lock, stored: { session, records } }: ComparisonPageInput): (row: PlacedRow) => Html {
  const values = new Map([...records].map(([number, record]) => [number, metricValues(record)]))
  return (placed) => {
    const { cell, metric } = placed.row
    const format = valueIn(metric)
    const runs = session.plan.runs.filter((run) => run.cell === cell)
    const numbers = runs.map(({ number }) => number)
    const [first, last] = [Math.min(...numbers), Math.max(...numbers)]
    const points = runs.flatMap(({ number, arm, pair }) => {
      const y = values.get(number)?.[metric] ?? null
      if (y === null) return []
      const x = (number - first + 0.5) / (last - first + 1)
      return {
        ...{ x, y, mark: armMarks[arm] ?? 'aa' },
        tip: `Run ${number}, ${arm}, pair ${(pair ?? 0) + 1}: ${format(y)}\n${y} ${metricFacts[metric].unit}, ${metric} of runs/${String(number).padStart(4, '0')}`,
      }
    })
    if (points.length === 0)
      return html`<figure><figcaption>${name(placed)}</figcaption><p class="empty">No run has a value.</p></figure>`
    const without = runs.length - points.length
    const baseline = lock.baseline[cell]?.[metric] ?? null
    const levels = baseline === null ? [] : [{ y: baseline, style: baselineStyle }]
    const y = scaleAround([...points.map((point) => point.y), ...levels.map((level) => level.y)])
    return html`<figure><figcaption>${name(placed)}</figcaption>${plot({
      label: `${metricFacts[metric].label} of ${cell} in the order of ${points.length} runs, ${format(y.low)} to ${format(y.high)}`,
      ...{ y, format, points, levels },
      under: `runs ${first} to ${last}`,
    })}${marks([
      ['a', 'A: the base'],
      ['b', 'B: the change'],
      ['a1', 'A1: the base'],
      ['a2', 'A2: its copy'],
    ])}<p class="note">${baseline !== null && html`Dashed: what the lock recorded, ${locked(baseline, format, `baseline[${JSON.stringify(cell)}].${metric}`, 'Median when the lock was made')}. `}${without > 0 && `${without} of ${runs.length} runs have no value.`}</p></figure>`
  }
}
