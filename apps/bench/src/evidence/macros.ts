import { SeamError } from '@seamline/core'

/** How a value is written into a text. */
export const formats = ['ms', 'us', 'pct', 'signed', 'MB', 'tok/s', 'int', 'text', 'date'] as const
export type Format = (typeof formats)[number]

export const notMeasured = 'not measured'
/** Two pairs of braces around a path with a format, or around the name of a table. */
export const macro = /\{\{([^{}]*)\}\}/g

/** Makes a table of its name and, where one is given, a session. */
export type Tables = (name: string, session: string | null) => string

/**
 * Replaces every macro of a template: `{{medians.main.tcp.metrics.tpot.median | ms}}` by the value at that path among `facts`,
 * `{{table:runs main}}` by a table. In a path, `["a.b"]` names a field of any name, `[0]` an item, and `[cell=tcp,metric=tpot]` the one
 * item with these fields. Null is written `not measured`. Throws `USAGE` for a path that leads nowhere and an unknown format.
 */
export function render(template: string, facts: object, tables: Tables): string {
  return template.replaceAll(macro, (_, inner: string) => {
    const found = /^\s*table:([a-z0-9-]+)(?:\s+([a-z0-9-]+))?\s*$/.exec(inner)
    if (found !== null) return tables(found[1]!, found[2] ?? null)
    const bar = inner.lastIndexOf('|')
    const format = inner.slice(bar + 1).trim() as Format
    if (bar < 0 || !formats.includes(format))
      throw new SeamError('USAGE', `{{${inner}}}: a format is needed behind |: ${formats.join(', ')}`)
    return formatted(valueAt(facts, inner.slice(0, bar).trim()), format, inner)
  })
}

/** Names of what the macros of a text begin with. */
export function rootsOf(template: string): string[] {
  return [...template.matchAll(macro)].map(([, inner]) => /^\s*([\w-]+)/.exec(inner!)?.[1] ?? '')
}

const step = /^(?:\.?([\w-]+)|\["([^"]*)"\]|\[(\d+)\]|\[([\w-]+=[^\]]*)\])/

export function valueAt(facts: object, path: string): unknown {
  let value: unknown = facts
  let rest = path
  while (rest !== '') {
    const found = step.exec(rest)
    if (found === null) throw new SeamError('USAGE', `{{${path}}}: ${rest} is no part of a path`)
    const [whole, name, quoted, index, filter] = found
    rest = rest.slice(whole.length)
    const next = filter === undefined ? fieldOf(value, name ?? quoted ?? index!) : itemWith(value, filter)
    if (next === undefined) {
      const known =
        typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : 'nothing'
      throw new SeamError('USAGE', `{{${path}}}: there is no ${whole}; there is ${known}`)
    }
    value = next
  }
  return value
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

function itemWith(value: unknown, filter: string): unknown {
  const wanted = filter
    .split(',')
    .map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)])
  const found = (Array.isArray(value) ? value : []).filter((item) =>
    wanted.every(([name, text]) => String(fieldOf(item, name!)) === text),
  )
  return found.length === 1 ? found[0] : undefined
}

export function formatted(value: unknown, format: Format, where = String(format)): string {
  if (value === null) return notMeasured
  if (format === 'text' || format === 'date') {
    if (typeof value === 'object')
      throw new SeamError('USAGE', `{{${where}}}: a text is needed, not an object or a list`)
    return format === 'date' ? dateOf(String(value), where) : String(value)
  }
  if (typeof value !== 'number') throw new SeamError('USAGE', `{{${where}}}: ${format} needs a number`)
  switch (format) {
    case 'ms':
      return `${(value / 1e6).toFixed(2)} ms`
    case 'us':
      return `${(value / 1e3).toFixed(2)} µs`
    case 'pct':
      return `${value.toFixed(2)} %`
    case 'signed':
      return `${value >= 0 ? '+' : ''}${value.toFixed(2)} %`
    case 'MB':
      return `${(value / 1e6).toFixed(2)} MB`
    case 'tok/s':
      return `${value.toFixed(1)} tok/s`
    case 'int':
      return String(Math.round(value))
  }
}

function dateOf(text: string, where: string): string {
  if (Number.isNaN(Date.parse(text)))
    throw new SeamError('USAGE', `{{${where}}}: ${text.slice(0, 40)} is no date`)
  return new Date(text).toISOString().slice(0, 10)
}

/** A table of Markdown. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(escaped).join(' | ')} |`
  return [line(head), `|${head.map(() => ' --- |').join('')}`, ...rows.map(line)].join('\n')
}

function escaped(cell: string): string {
  return cell.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ')
}
