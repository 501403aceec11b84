import { type CategoryGroup, categoryGroups, categoryLabel, groupLabels, groupOf } from '../categories.ts'
import { portName } from '../export-tracks.ts'
import type { AttributionTotals, RunSummary } from '../summary.ts'
import type { Segment, TokenAttribution } from '../trace.ts'
import type { ReportData } from './data.ts'
import { formatNs, formatPct } from './format.ts'
import { type Html, html } from './html.ts'

/** Patterns that the charts share: unattributed time, and where a clock could put an edge. */
export const patterns: Html = html`<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<pattern id="grey" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" style="fill:var(--track)"/><rect width="2.5" height="5" style="fill:var(--unattributed)"/></pattern>
<pattern id="band" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="1.2" height="4" style="fill:var(--hatch);opacity:.75"/></pattern>
</defs></svg>`

export function fill(group: CategoryGroup): string {
  return group === 'unattributed' ? 'fill:url(#grey)' : `fill:var(--${group})`
}

/** Names of groups with their colours; with `values`, what each has. */
export function legend(groups: readonly CategoryGroup[], values?: ReadonlyMap<CategoryGroup, string>): Html {
  return html`<ul class="legend">${groups.map(
    (group) =>
      html`<li><span class="key ${group}" style="--c:var(--${group})"></span>${groupLabels[group]} ${values?.has(group) && html`<b>${values.get(group)!}</b>`}</li>`,
  )}</ul>`
}

/** One bar of all groups, as shares of a token. */
export function shareBar(totals: AttributionTotals): Html {
  const shares = new Map<CategoryGroup, number>()
  for (const row of totals.rows) {
    const group = groupOf(row.category)
    shares.set(group, (shares.get(group) ?? 0) + (100 * row.totalNs) / Math.max(1, totals.wallNs))
  }
  const present = categoryGroups.filter((group) => shares.has(group))
  let x = 0
  const label = present.map((group) => `${groupLabels[group]} ${formatPct(shares.get(group)!)}`).join(', ')
  return html`<div><div class="chart" role="img" tabindex="0" data-tips aria-label="Share of a decode token's time: ${label}">
<svg class="bar" preserveAspectRatio="none">${present.map((group) => {
    const width = shares.get(group)!
    const from = x
    x += width
    return html`<rect x="${from.toFixed(3)}%" width="${width.toFixed(3)}%" height="26" style="${fill(group)}" data-tip="${groupLabels[group]}: ${formatPct(width)} of a decode token"/>`
  })}</svg></div>${legend(present, new Map(present.map((group) => [group, formatPct(shares.get(group)!)])))}</div>`
}

/** What a link carries; hidden rows need no word. */
const wireLoads: Readonly<Record<string, string>> = {
  tokensIn: 'token',
  promptIn: 'prompt',
  resultIn: 'result',
}

/** Where a segment happened, in words. */
export function placeOf(summary: RunSummary, category: string, process: number, port: number): string {
  if (process < 0) return 'everywhere'
  const name = summary.processes[process]?.name ?? `process ${process}`
  if (category.startsWith('wire.')) {
    const carried = wireLoads[portName(port)]
    return `wire to ${name}${carried === undefined ? '' : `, ${carried}`}`
  }
  return name
}

/** One token: a row for each place on its way, time to the right. */
export function waterfall(summary: RunSummary, label: string, token: TokenAttribution, path: string): Html {
  const wallNs = token.endNs - token.startNs
  const rows = new Map<string, Segment[]>()
  for (const segment of token.segments) {
    const place = placeOf(summary, segment.category, segment.process, segment.port)
    const row = rows.get(place)
    if (row === undefined) rows.set(place, [segment])
    else row.push(segment)
  }
  const pct = (ns: number): string => ((100 * ns) / Math.max(1, wallNs)).toFixed(3)
  const unknownNs = token.segments
    .filter((segment) => segment.category === 'UNATTRIBUTED')
    .reduce((sum, segment) => sum + segment.endNs - segment.startNs, 0)
  const caption = `${formatNs(wallNs)}, sequence ${token.sequence}, token ${token.index}, position ${token.position}; unattributed ${formatPct((100 * unknownNs) / Math.max(1, wallNs))}`
  const spoken = [...rows]
    .map(
      ([place, segments]) =>
        `${place} ${formatNs(segments.reduce((sum, s) => sum + s.endNs - s.startNs, 0))}`,
    )
    .join(', ')
  const tip = (segment: Segment): string =>
    [
      `${placeOf(summary, segment.category, segment.process, segment.port)}: ${categoryLabel(segment.category)} (${segment.category})`,
      `${formatNs(segment.endNs - segment.startNs)}, from ${formatNs(segment.startNs - token.startNs)}`,
      segment.reason === undefined ? '' : `waits for: ${segment.reason}`,
      segment.bytes > 0 ? `${segment.bytes} bytes` : '',
      segment.uncertainNs > 0 ? `clocks allow ± ${formatNs(segment.uncertainNs)}` : '',
    ]
      .filter((line) => line !== '')
      .join('\n')
  return html`<figure><figcaption><b>${label}</b><span title="attribution.tokens: ${path}">${caption}</span></figcaption>
<div class="chart wf" role="img" tabindex="0" data-tips aria-label="${label}, ${caption}. ${spoken}">${[
    ...rows,
  ].map(
    ([place, segments]) =>
      html`<div class="who">${place}</div><svg>${segments.map((segment) => {
        const group = groupOf(segment.category)
        return html`<rect x="${pct(segment.startNs - token.startNs)}%" width="${pct(segment.endNs - segment.startNs)}%" y="2" height="16" style="${fill(group)};min-width:1px" data-tip="${tip(segment)}" data-at="${segment.startNs - token.startNs}"/>`
      })}${segments
        .filter((segment) => segment.uncertainNs > 0)
        .flatMap((segment) =>
          [segment.startNs, segment.endNs].map((edge) => {
            const low = Math.max(token.startNs, edge - segment.uncertainNs)
            const high = Math.min(token.endNs, edge + segment.uncertainNs)
            return html`<rect x="${pct(low - token.startNs)}%" width="${pct(high - low)}%" y="2" height="16" style="fill:url(#band);pointer-events:none"/>`
          }),
        )}</svg>`,
  )}<div class="axis" aria-hidden="true">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<span style="left:${part * 100}%">${part === 0 ? '0' : formatNs(wallNs * part)}</span>`)}</div></div>
<details><summary>All ${token.segments.length} segments as a table</summary><div class="wrap" tabindex="0" role="region" aria-label="Segments of the ${label}"><table><thead><tr><th class="r">From</th><th class="r">Length</th><th>Where</th><th>What</th><th>Waits for</th><th class="r">Clocks ±</th></tr></thead><tbody>${token.segments.map(
    (segment) =>
      html`<tr><td class="r">${formatNs(segment.startNs - token.startNs)}</td><td class="r">${formatNs(segment.endNs - segment.startNs)}</td><td>${placeOf(summary, segment.category, segment.process, segment.port)}</td><td><span class="key ${groupOf(segment.category)}" style="--c:var(--${groupOf(segment.category)})"></span>${categoryLabel(segment.category)}</td><td>${segment.reason ?? ''}</td><td class="r">${segment.uncertainNs > 0 ? formatNs(segment.uncertainNs) : ''}</td></tr>`,
  )}</tbody></table></div></details></figure>`
}

/** Mean attribution over tokens of the same index, one column each. */
export function positionColumns(positions: ReportData['positions']): Html {
  const height = 240
  const sums = positions.map((column) => column.ns.reduce((sum, ns) => sum + ns, 0))
  const topNs = niceAbove(Math.max(...sums))
  const width = 100 / positions.length
  const present = categoryGroups.filter((_, group) => positions.some((column) => column.ns[group]! > 0))
  const first = positions[0]!
  const last = positions.at(-1)!
  return html`<div class="chart cols" role="img" tabindex="0" data-tips aria-label="Mean time a token by its number in its sequence, ${positions.length} columns from token ${first.from} (${formatNs(sums[0]!)}) to token ${last.to} (${formatNs(sums.at(-1)!)})">
<div class="y" aria-hidden="true">${[0, 0.5, 1].map((part) => html`<span style="top:${(1 - part) * (height - 12) + 6}px">${part === 0 ? '0' : formatNs(topNs * part)}</span>`)}</div>
<svg>${[0, 0.5, 1].map((part) => html`<line x1="0" x2="100%" y1="${(1 - part) * (height - 12) + 6}" y2="${(1 - part) * (height - 12) + 6}" style="stroke:var(--grid)"/>`)}${positions.map(
    (column, index) => {
      let y = height - 6
      const lines = categoryGroups
        .flatMap((group, at) =>
          column.ns[at]! > 0 ? [`${groupLabels[group]}: ${formatNs(column.ns[at]!)}`] : [],
        )
        .join('\n')
      const name =
        column.from === column.to ? `Token ${column.from}` : `Tokens ${column.from} to ${column.to}`
      const x = (index * width + width * 0.08).toFixed(3)
      return html`<g data-tip="${name}, mean of ${column.tokens}: ${formatNs(sums[index]!)}\n${lines}">${categoryGroups.map(
        (group, at) => {
          const part = (column.ns[at]! / topNs) * (height - 12)
          if (part <= 0) return false
          y -= part
          return html`<rect x="${x}%" width="${(width * 0.84).toFixed(3)}%" y="${y.toFixed(2)}" height="${part.toFixed(2)}" style="${fill(group)}"/>`
        },
      )}</g>`
    },
  )}</svg><div class="axis" aria-hidden="true"><span style="left:0">token ${first.from}</span><span style="left:100%">token ${last.to}</span></div></div>${legend(present)}`
}

function niceAbove(value: number): number {
  if (!(value > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value)!
}
