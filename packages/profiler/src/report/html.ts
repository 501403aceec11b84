/** Markup that is safe to put into a page as it is. */
export interface Html {
  readonly html: string
}

type Part = Html | string | number | false | null | undefined | readonly Part[]

/** Markup from a template: every value is escaped unless it is {@link Html}; lists are joined; `false`, null and undefined are nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Part[]): Html {
  return { html: strings.map((text, at) => text + (at < values.length ? render(values[at]) : '')).join('') }
}

/** Takes text as markup. Never for anything that came from outside. */
export function trusted(text: string): Html {
  return { html: text }
}

function render(part: Part): string {
  if (part === false || part === null || part === undefined) return ''
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part))
  if ('html' in part) return part.html
  return part.map(render).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!)
}

/** JSON for a script element: no `<` (so no end of the element, no comment), no line ends of JavaScript that JSON does not know. */
export function scriptJson(value: unknown): Html {
  const escaped = JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029')
  return trusted(escaped)
}
