import {
  formatCount,
  formatPct,
  type Html,
  html,
  numbersOf,
  pageHtml,
  type Section,
  table,
} from '@seamline/profiler/report'
import type { SelectPlan } from '../select/plan.ts'
import type { Selection } from '../select/selection.ts'
import { metricFacts } from '../session/record.ts'
import type { StoredSession } from '../session/store.ts'
import { barScale, intervalBar, type Mark, marks, plot } from './charts.ts'
import { badge, valueIn } from './comparison-tables.ts'
import { css } from './css.ts'
import { selectionLimits } from './limits.ts'
import { axisPct, hashOf, plainPct, pText, textOf } from './numbers.ts'
import { niceAbove, type Scale, scale, scaleAround } from './scale.ts'
import { bullets, circumstances } from './sections.ts'

export interface SelectionPageInput {
  readonly plan: SelectPlan
  /** The session that the choice was made from. */
  readonly stored: StoredSession
  readonly selection: Selection
  readonly commands: readonly (readonly string[])[]
  /** Beside what follows from the plan and the selection. */
  readonly limitations?: readonly string[]
}

const file = 'selection.json'
const num = numbersOf(file)
const mostRows = 16
const strips: readonly Mark[] = ['2', '1', '4', '3']

/** A selection as one HTML file that opens from disk and requests nothing; as {@link comparisonPage}. */
export function selectionPage(input: SelectionPageInput): string {
  const { plan, stored, selection } = input
  const { session } = stored
  const sections: Section[] = [
    ['verdict', 'Verdict', '', verdict(plan, selection)],
    [
      'ranked',
      'What could be removed',
      'Gain: what removing a part down to its floor would take off the target, by replay; the lesser of two policies.',
      ranked(plan, selection),
    ],
    ['rules', 'Rules', 'A bottleneck is named only when all of them hold.', rules(selection)],
    ['runs', 'Gain in every run', 'The first candidates, run by run.', runs(plan, selection)],
    ['places', 'At one place each', '', places(plan, selection)],
    [
      'shares',
      'Where the time goes',
      'Mean over the runs, in percent of the target’s time.',
      shares(selection),
    ],
    ['how', 'Commands, workload and machine', '', circumstances(session, session.plan.cells, input.commands)],
    ['limits', 'Limits', '', bullets([...selectionLimits(plan, selection), ...(input.limitations ?? [])])],
  ]
  return pageHtml({
    title: `${selection.verdict}: ${selection.cell}, ${metricFacts[selection.target].label}`,
    subtitle: `Plan ${plan.name} (${selection.planSha256.slice(0, 12)}) · ${session.startedAt} · ${session.environment.cpu}, ${session.environment.cores} cores`,
    marks:
      session.outcome === 'done'
        ? []
        : [`The session was not brought to its end: ${session.reason ?? session.outcome}`],
    sections,
    footer:
      'Hover over a number to see where it stands and how it came about; focus a chart and use the arrow keys to step through it.',
    styles: [css],
  })
}

function verdict(plan: SelectPlan, selection: Selection): Html {
  const { target, value, cell } = selection
  const key = (name: string, shown: Html | string, small: Html | string) =>
    html`<div><dt>${name}</dt><dd>${shown}<small>${small}</small></dd></div>`
  const planned = numbersOf('plan.json')
  const holding = selection.rules.filter(({ holds }) => holds).length
  const [first] = selection.ranked
  return html`<div class="verdict"><div><p class="kind">${badge(selection.verdict)}</p><p class="say">${textOf(file, 'text', selection.text)}</p></div>
<dl class="keys">${[
    key(
      metricFacts[target].label,
      num(value, valueIn(target), 'value', `Median over ${selection.runs} runs`),
      cell,
    ),
    key('Runs', num(selection.runs, formatCount, 'runs'), 'at level 1, whole, in fresh processes'),
    first !== undefined &&
      key(
        'Largest gain',
        num(finite(first.gainPct), plainPct, 'ranked.0.gainPct', 'Hodges–Lehmann over runs'),
        first.name,
      ),
    key(
      'Least gain',
      planned(plan.minimumEffectPct, plainPct, 'minimumEffectPct'),
      html`at α ${planned(plan.alpha, String, 'alpha')}`,
    ),
    key('Rules', `${holding} of ${selection.rules.length}`, 'hold'),
    key('Plan', hashOf(file, 'planSha256', selection.planSha256, 8), plan.name),
  ]}</dl></div>`
}

/** JSON has no other: a replay that failed its gate says nothing. */
function finite(value: number | null): number | null {
  return value !== null && Number.isFinite(value) ? value : null
}

interface Gain {
  readonly gainPct: number
  readonly lowPct: number
  readonly highPct: number
}

function gainScale(rows: readonly Gain[], minimumPct: number): Scale {
  const ends = rows.flatMap(({ lowPct, highPct }) => [lowPct, highPct]).filter(Number.isFinite)
  const high = niceAbove(Math.max(1.5 * minimumPct, ...ends) * 1.03)
  const least = Math.min(0, ...ends)
  return scale(least < 0 ? -niceAbove(-least * 1.03) : 0, high)
}

function gainCells(row: Gain, path: string, how: string): Html {
  return html`<td class="r"><b>${num(finite(row.gainPct), plainPct, `${path}.gainPct`, how)}</b></td><td class="r">${num(finite(row.lowPct), plainPct, `${path}.lowPct`, how)} to ${num(finite(row.highPct), plainPct, `${path}.highPct`, how)}</td>`
}

function gainBar(
  row: Gain & { readonly name: string },
  axis: Scale,
  minimumPct: number,
  isFirst: boolean,
): Html {
  const isKnown = [row.gainPct, row.lowPct, row.highPct].every((value) => finite(value) !== null)
  const tip = isKnown
    ? `${row.name}: ${plainPct(row.gainPct)}, ${plainPct(row.lowPct)} to ${plainPct(row.highPct)}`
    : `${row.name}: a replay failed its gate`
  const interval = isKnown ? { center: row.gainPct, low: row.lowPct, high: row.highPct } : null
  const nothing = [Math.max(axis.low, -minimumPct), minimumPct] as const
  return html`<td class="bars">${intervalBar(axis, nothing, interval, null, isFirst ? 'b' : 'a', tip)}</td>`
}

/** The first rows at once, the others one click away. */
function wide(name: string, head: readonly Html[], rows: readonly Html[]): Html {
  const some = (what: string, body: readonly Html[]) =>
    html`<div class="wrap" tabindex="0" role="region" aria-label="${what}, a table that scrolls"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`
  const rest = rows.slice(mostRows)
  return html`${some(name, rows.slice(0, mostRows))}${rest.length > 0 && html`<details><summary>The ${rest.length} with smaller gains</summary>${some(`${name} with smaller gains`, rest)}</details>`}`
}

const left = (name: string) => html`<th scope="col">${name}</th>`
const right = (name: string) => html`<th scope="col" class="r">${name}</th>`
const bars = (axis: Scale) => html`<th scope="col">${barScale(axis, axisPct)}</th>`

function ranked({ minimumEffectPct }: SelectPlan, { ranked, tied, winner, runs }: Selection): Html {
  if (ranked.length === 0) return html`<p class="empty">Nothing to show: there is no candidate.</p>`
  const axis = gainScale(ranked, minimumEffectPct)
  const how = `Hodges–Lehmann and signed-rank interval over ${runs} runs; predicted by replay, not measured`
  const rows = ranked.map((row, i) => {
    const path = `ranked.${i}`
    const standing = row.name === winner ? 'first' : tied.includes(row.name) ? 'not told apart' : ''
    return html`<tr><td>${row.name}${standing !== '' && html`<br><span class="sub">${standing}</span>`}</td>${gainCells(row, path, how)}${gainBar(row, axis, minimumEffectPct, i === 0)}<td class="r">${num(row.p, pText, `${path}.p`, 'Of the first over this one: exact signed-rank test, adjusted by Holm')}</td><td class="r">${num(finite(row.aheadLowPct), plainPct, `${path}.aheadLowPct`, 'The first is ahead by at least this')}</td><td class="def" title="${file}: ${path}.floor">${row.floor}</td></tr>`
  })
  const head = [
    ...[
      left('Candidate'),
      right('Gain'),
      right('Interval'),
      bars(axis),
      right('p'),
      right('Ahead by at least'),
    ],
    left('Floor'),
  ]
  return html`${wide('Candidates', head, rows)}<p class="note">Shaded: less than the least gain of ${minimumEffectPct} %.</p>`
}

function rules({ rules }: Selection): Html {
  return table(
    'Rules',
    ['Rule', 'Must hold', 'Outcome', 'Found'],
    rules.map(
      ({ rule, what, holds, found }, i) =>
        html`<tr><td>${rule}</td><td>${what}</td><td>${badge(holds ? 'holds' : 'fails')}</td><td>${textOf(file, `rules.${i}.found`, found)}</td></tr>`,
    ),
  )
}

function runs({ minimumEffectPct }: SelectPlan, { ranked }: Selection): Html {
  const shown = ranked.slice(0, strips.length)
  const count = Math.max(0, ...shown.map(({ gainsPct }) => gainsPct.length))
  if (count === 0) return html`<p class="empty">Nothing to show: no run can be used.</p>`
  const points = shown.flatMap(({ name, gainsPct }, i) =>
    gainsPct.flatMap((gain, run) =>
      finite(gain) === null
        ? []
        : {
            ...{ x: (run + 0.5) / count, y: gain, mark: strips[i]! },
            tip: `Usable run ${run + 1} of ${count}, ${name}: ${plainPct(gain)}\n${file}: ranked.${i}.gainsPct.${run} = ${gain}`,
          },
    ),
  )
  const y = scaleAround([0, minimumEffectPct, ...points.map((point) => point.y)])
  const levels = [{ y: minimumEffectPct, style: 'stroke:var(--ink);stroke-width:1.2;stroke-dasharray:6 4' }]
  return html`${plot({
    label: `Gain of ${shown.map(({ name }) => name).join(', ')} in ${count} runs, ${plainPct(y.low)} to ${plainPct(y.high)}`,
    ...{ y, points, levels, format: plainPct },
    under: `usable runs 1 to ${count}, in their order`,
  })}${marks(shown.map(({ name }, i) => [strips[i]!, name] as const))}<p class="note">Dashed: the least gain of ${minimumEffectPct} %.</p>`
}

function places({ minimumEffectPct }: SelectPlan, { places }: Selection): Html {
  if (places.length === 0) return html`<p class="empty">Nothing to show: every part is at one place only.</p>`
  const axis = gainScale(places, minimumEffectPct)
  const how = 'The same at this place alone; predicted by replay, not measured'
  return wide(
    'Places',
    [left('Candidate'), right('Gain'), right('Interval'), bars(axis)],
    places.map(
      (row, i) =>
        html`<tr><td>${row.name}</td>${gainCells(row, `places.${i}`, how)}${gainBar(row, axis, minimumEffectPct, false)}</tr>`,
    ),
  )
}

function shares({ shares }: Selection): Html {
  const rows = Object.entries(shares).sort((a, b) => b[1] - a[1])
  const most = Math.max(1e-9, ...rows.map(([, share]) => share))
  return table(
    'Shares',
    ['What', ['Share'], ''],
    rows.map(
      ([category, share]) =>
        html`<tr><td>${category}</td><td class="r">${num(share, formatPct, `shares[${JSON.stringify(category)}]`, 'Mean over runs')}</td><td class="grow" aria-hidden="true"><svg width="100%" height="10"><rect width="${((100 * share) / most).toFixed(2)}%" height="10" rx="2" style="fill:var(--accent)"/></svg></td></tr>`,
    ),
  )
}
