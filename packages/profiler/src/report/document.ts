import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { patterns } from './charts.ts'
import { css } from './css.ts'
import { type Html, html, scriptJson, trusted } from './html.ts'

export type Section = readonly [id: string, name: string, lead: string, body: Html]

export interface PageParts {
  readonly title: string
  readonly subtitle: string
  /** What a reader must know before anything else. */
  readonly marks: readonly string[]
  readonly sections: readonly Section[]
  readonly footer: string
  /** Before the style of all pages, which wins where both say something. */
  readonly styles?: readonly string[]
  /** Code that runs before `modules`. */
  readonly scripts?: readonly string[]
  /** Code of modules; tooltips for `data-tip` are there without. */
  readonly modules?: readonly string[]
  /** For the modules, in the element `#data`. */
  readonly data?: unknown
}

/** One HTML file that opens from disk and requests nothing: its content policy forbids anything but what is inside. */
export function pageHtml({ title, subtitle, marks, sections, footer, ...parts }: PageParts): string {
  const { styles = [], scripts = [], data } = parts
  const modules = [clientFile('tips.js'), ...(parts.modules ?? [])]
  const hashes = [...scripts, ...modules].map(
    (code) => `'sha256-${createHash('sha256').update(code).digest('base64')}'`,
  )
  const policy = `default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src ${hashes.join(' ')}; base-uri 'none'; form-action 'none'`
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${trusted(policy.replaceAll('"', ''))}"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="generator" content="seamline"><link rel="icon" href="data:,"><title>${title}</title><style>${[...styles, css].map(trusted)}</style></head>
<body>${patterns}<header><h1>${title}</h1><p class="sub">${subtitle}</p>${marks.map((mark) => html`<p class="mark" role="note">${mark}</p>`)}</header>
<nav aria-label="Sections">${sections.map(([id, name]) => html`<a href="#${id}">${name}</a>`)}</nav>
<main>${sections.map(([id, name, lead, body]) => html`<section id="${id}" aria-labelledby="${id}-h"><h2 id="${id}-h">${name}</h2>${lead !== '' && html`<p class="lead">${lead}</p>`}${body}</section>`)}</main>
<footer>${footer}</footer>
<div id="tip" role="status" aria-live="polite" hidden></div>
${data !== undefined && html`<script type="application/json" id="data">${scriptJson(data)}</script>`}
${scripts.map((code) => html`<script>${trusted(code)}</script>`)}
${modules.map((code) => html`<script type="module">${trusted(code)}</script>`)}
</body></html>
`
  return page.html
}

/** A table that scrolls by itself where it is too wide; names of columns in brackets stand to the right. */
export function table(
  name: string,
  head: readonly (string | readonly [string])[],
  rows: readonly Html[],
  foot?: Html,
): Html {
  return html`<div class="wrap" tabindex="0" role="region" aria-label="${name}, a table that scrolls"><table><thead><tr>${head.map((column) => (typeof column === 'string' ? html`<th scope="col">${column}</th>` : html`<th scope="col" class="r">${column[0]}</th>`))}</tr></thead><tbody>${rows}</tbody>${foot !== undefined && html`<tfoot>${foot}</tfoot>`}</table></div>`
}

/** Shows a number with its place in a file; `how`: how it came about. */
export type ShowNumber = (
  value: number | null | undefined,
  format: (value: number) => string,
  path: string,
  how?: string,
) => Html

export function numbersOf(file: string): ShowNumber {
  return (value, format, path, how = '') => {
    if (value === null || value === undefined)
      return html`<span class="n" title="${file}: ${path}. Not measured.">—</span>`
    const title = `${file}: ${path} = ${value}${how === '' ? '' : `. ${how}`}`
    return html`<span class="n" data-file="${file}" data-path="${path}" title="${title}">${format(value)}</span>`
  }
}

/** A command as a shell takes it. */
export function commandLine(command: readonly string[]): string {
  return command.map(shellWord).join(' ')
}

function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Built beside this file; from the sources, the build's own output. */
export function clientFile(name: string): string {
  return readFileSync(new URL(`../../dist/report/client/${name}`, import.meta.url), 'utf8').replace(
    /^\/\/# sourceMappingURL=.*$/m,
    '',
  )
}

export function uplotFile(name: string): string {
  const main = createRequire(import.meta.url).resolve('uplot')
  return readFileSync(new URL(name, `file://${main}`), 'utf8')
}
