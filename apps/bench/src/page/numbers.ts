import { type Html, html } from '@seamline/profiler/report'

/** Of a change: with its sign, two decimals. */
export function signedPct(pct: number): string {
  const text = Math.abs(pct).toFixed(2)
  const sign = Number(text) === 0 ? '' : pct > 0 ? '+' : '\u2212'
  return `${sign}${text} %`
}

/** Of an axis: no more digits than it needs. */
export function axisPct(pct: number): string {
  const sign = pct > 0 ? '+' : pct < 0 ? '\u2212' : ''
  return `${sign}${Number(Math.abs(pct).toPrecision(3))} %`
}

/** Of a part, two decimals. */
export function plainPct(pct: number): string {
  return `${pct.toFixed(2).replace('-', '\u2212')} %`
}

export function pText(p: number): string {
  return p < 0.001 ? p.toExponential(1).replace('-', '\u2212') : p.toPrecision(2)
}

/** A text of a file as it is, with its place there. */
export function textOf(file: string, path: string, text: string): Html {
  return html`<span title="${file}: ${path}">${text}</span>`
}

/** The first part of a hash; all of it in the title. */
export function hashOf(file: string, path: string, hash: string, length = 12): Html {
  return html`<span class="hash" title="${file}: ${path} = ${hash}">${hash.slice(0, length)}</span>`
}
