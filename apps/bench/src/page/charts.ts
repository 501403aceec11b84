import { type Html, html } from '@seamline/profiler/report'
import { axisPct, signedPct } from './numbers.ts'
import type { Scale } from './scale.ts'

/** A share of the width or the height as SVG takes it. */
function part(share: number): string {
  return `${(100 * share).toFixed(3)}%`
}

interface Interval {
  readonly center: number
  readonly low: number
  readonly high: number
}

const clipped = (share: number): number => Math.min(1, Math.max(0, share))

/** An interval with its centre, one to compare it with below, and what counts as nothing behind both. What lies outside is cut, with an arrow. */
export function intervalBar(
  scale: Scale,
  nothing: readonly [low: number, high: number],
  interval: Interval | null,
  below: Interval | null,
  mark: 'a' | 'b',
  tip: string,
): Html {
  const at = (value: number) => part(clipped(scale.at(value)))
  const isInside = (value: number) => value >= scale.low && value <= scale.high
  const drawn = ({ center, low, high }: Interval, y: number, color: string, dot: Mark, radius: number) => {
    const style = `stroke:var(--arm-${color});stroke-width:2`
    const cap = (value: number) =>
      html`<line x1="${at(value)}" x2="${at(value)}" y1="${y - radius}" y2="${y + radius}" style="${style}"/>`
    const arrow = (x: string, anchor: string, sign: string) =>
      html`<text x="${x}" y="${y + 5}" text-anchor="${anchor}" style="fill:var(--arm-${color});font-size:15px">${sign}</text>`
    return html`<line x1="${at(low)}" x2="${at(high)}" y1="${y}" y2="${y}" style="${style}"/>${[
      isInside(low) && cap(low),
      isInside(high) && cap(high),
      low < scale.low && arrow('0', 'start', '◂'),
      high > scale.high && arrow('100%', 'end', '▸'),
      isInside(center) && shape(dot, at(center), String(y)),
    ]}`
  }
  const [from, to] = nothing.map((value) => clipped(scale.at(value))) as [number, number]
  return html`<svg role="img" aria-label="${tip}" data-tip="${tip}"><rect x="${part(from)}" width="${part(to - from)}" height="100%" style="fill:var(--least)"/>${isInside(0) && html`<line x1="${at(0)}" x2="${at(0)}" y1="0" y2="100%" style="stroke:var(--soft);stroke-dasharray:2 2"/>`}${interval !== null && drawn(interval, 10, mark, mark, 5)}${below !== null && drawn(below, 23, 'same', 'aa', 3.5)}</svg>`
}

/** Values of an axis over a column of bars. */
export function barScale({ low, high }: Scale, format: (value: number) => string): Html {
  const middle = (low + high) / 2
  return html`<div class="scale">${[low, middle, high].map((value, i) => html`<span style="left:${50 * i}%">${format(value)}</span>`)}</div>`
}

export type Mark = 'a' | 'b' | 'a1' | 'a2' | 'aa' | '1' | '2' | '3' | '4'

export interface Point {
  /** From 0 to 1. */
  readonly x: number
  readonly y: number
  readonly mark: Mark
  readonly tip: string
}

export interface Level {
  readonly y: number
  readonly style: string
}

const squares: readonly Mark[] = ['b', 'a2', '2', '4']

function shape(mark: Mark, x: string, y: string, tip?: string, at?: number): Html {
  const told = tip !== undefined && html` data-tip="${tip}" data-at="${at}"`
  return squares.includes(mark)
    ? html`<rect x="${x}" y="${y}" width="8" height="8" transform="translate(-4 -4)" class="mark-${mark}"${told}/>`
    : html`<circle cx="${x}" cy="${y}" r="4.2" class="mark-${mark}"${told}/>`
}

export function marks(names: readonly (readonly [Mark, string])[]): Html {
  return html`<ul class="legend">${names.map(([mark, name]) => html`<li><svg class="sign" aria-hidden="true">${shape(mark, '8', '5.5')}</svg>${name}</li>`)}</ul>`
}

/** Points over a width, with levels across it and a band of what counts as nothing. */
function field(
  y: Scale,
  points: readonly Point[],
  levels: readonly Level[],
  bands: readonly { readonly low: number; readonly high: number; readonly fill: string }[],
): Html {
  const down = (value: number) => part(1 - y.at(value))
  return html`<svg>${bands.map(({ low, high, fill }) => {
    const [top, bottom] = [clipped(1 - y.at(high)), clipped(1 - y.at(low))]
    return html`<rect width="100%" y="${part(top)}" height="${part(bottom - top)}" style="fill:${fill}"/>`
  })}${levels.filter((level) => level.y >= y.low && level.y <= y.high).map((level) => html`<line x1="0" x2="100%" y1="${down(level.y)}" y2="${down(level.y)}" style="${level.style}"/>`)}${points.map(({ x, y: value, mark, tip }) => shape(mark, part(x), down(value), tip, x))}</svg>`
}

function axis(y: Scale, format: (value: number) => string, shares: readonly number[]): Html {
  return html`<div class="y" aria-hidden="true">${shares.map((share) => html`<span style="top:${part(share === 0 ? 0.96 : share === 1 ? 0.04 : 1 - share)}">${format(y.low + share * (y.high - y.low))}</span>`)}</div>`
}

export interface Plot {
  readonly label: string
  readonly y: Scale
  readonly format: (value: number) => string
  readonly points: readonly Point[]
  readonly levels: readonly Level[]
  readonly under: string
}

/** Points over one axis: its values at the bottom, in the middle and at the top. */
export function plot({ label, y, format, points, levels, under }: Plot): Html {
  return html`<div class="chart plot" role="img" tabindex="0" data-tips aria-label="${label}">${axis(y, format, [0, 0.5, 1])}${field(y, points, levels, [])}<div class="under" style="grid-column:2" aria-hidden="true">${under}</div></div>`
}

export interface PairPlot {
  readonly label: string
  readonly y: Scale
  readonly minimumPct: number
  readonly pairs: readonly number[]
  readonly interval: Interval | null
  readonly samePairs: readonly number[]
  readonly sameInterval: Interval | null
}

const zero: Level = { y: 0, style: 'stroke:var(--soft);stroke-dasharray:2 2' }

/** Differences of pairs in their order, and beside them, over the same axis, those of a build with its copy. */
export function pairPlot({ label, y, minimumPct, ...given }: PairPlot): Html {
  const side = (values: readonly number[], mark: Mark, what: string, interval: Interval | null) => {
    const points = values.map((value, i) => ({
      ...{ x: (i + 0.5) / values.length, y: value, mark },
      tip: `${what}, pair ${i + 1} of ${values.length}: ${signedPct(value)}`,
    }))
    const color = mark === 'b' ? 'var(--arm-b)' : 'var(--arm-same)'
    const center =
      interval === null ? [] : [{ y: interval.center, style: `stroke:${color};stroke-width:1.6` }]
    const bands = interval === null ? [] : [{ ...interval, fill: `${color};fill-opacity:.16` }]
    const nothing = { low: -minimumPct, high: minimumPct, fill: 'var(--least)' }
    return field(y, points, [zero, ...center], [nothing, ...bands])
  }
  const { pairs, samePairs, interval, sameInterval } = given
  const [first, second] = [Math.max(1, pairs.length), Math.max(pairs.length / 3, samePairs.length, 1)]
  return html`<div class="chart plot pair" style="--first:${first}fr;--second:${second.toFixed(2)}fr" role="img" tabindex="0" data-tips aria-label="${label}">${axis(y, axisPct, [0, 0.5, 1])}${side(pairs, 'b', 'B to A', interval)}${side(samePairs, 'aa', 'A to its copy', sameInterval)}<div class="under" style="grid-column:2" aria-hidden="true">${pairs.length} pairs, B to A</div><div class="under" style="grid-column:3" aria-hidden="true">${samePairs.length} pairs, A to its copy</div></div>`
}
