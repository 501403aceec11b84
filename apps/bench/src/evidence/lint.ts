import { SeamError } from '@seamline/core'
import { asObject, knownFields, text } from '../session/cell.ts'
import { macro } from './macros.ts'
import { claimClasses } from './spec.ts'

/** A number that may stand in a text as it is, and why: a name, a norm. */
export interface Literal {
  readonly text: string
  readonly reason: string
}

export function parseLiterals(value: unknown): Literal[] {
  if (!Array.isArray(value) || value.length > 500)
    throw new SeamError('USAGE', 'literals: a list of at most 500 is needed')
  return value.map((each, i) => {
    const literal = asObject(each, `literals[${i}]`)
    knownFields(literal, ['text', 'reason'], `literals[${i}]`)
    return {
      text: text(literal.text, `literals[${i}].text`),
      reason: text(literal.reason, `literals[${i}].reason`),
    }
  })
}

const fence = /^(```|~~~)[^\n]*\n[\s\S]*?^\1[^\n]*$/gm
const inlineCode = /`([^`\n]+)`/g
/** A number with at most a unit: that is a figure, also between backquotes. */
const figure = /^[-+±~≈<>=\s]*\p{N}[\p{N}.,\s]*(?:[%×x]|[µumn]?s|[kMGT]?i?B|tok\/s|tokens\/s|tokens)?$/u
const linkTarget = /\]\([^)\s]*\)/g
const path =
  /(?<![\w$])(?:\$[A-Z_]+|\.{1,2}|apps|packages|benchmarks|evidence|scripts|sessions|derived|cmd|diff|traces|native)\/[\w./$@+-]+/g
const listNumber = /^(\s*)\d+\.(?=\s)/gm

/** Numbers that a hand typed into a text: each with its line. Code, paths, macros and `literals` are not looked into. */
export function typedNumbers(content: string, literals: readonly Literal[]): string[] {
  const blank = (found: string) => found.replaceAll(/[^\n]/g, ' ')
  let rest = content
    .replaceAll(fence, blank)
    .replaceAll(macro, blank)
    .replaceAll(inlineCode, (found, code: string) => (figure.test(code.trim()) ? found : blank(found)))
    .replaceAll(linkTarget, blank)
    .replaceAll(path, blank)
    .replaceAll(listNumber, blank)
  for (const { text } of [...literals].sort((a, b) => b.text.length - a.text.length))
    rest = rest.replaceAll(wordly(text), blank)
  return rest
    .split('\n')
    .flatMap((line, i) =>
      [...line.matchAll(/\S*\p{N}\S*/gu)].map(([found]) => `line ${i + 1}: ${found.slice(0, 80)}`),
    )
}

/** The literal alone, not as part of a longer number or word. */
function wordly(text: string): RegExp {
  return new RegExp(
    `(?<![\\p{N}\\p{L}.,])${text.replace(/[.*+?^${'$'}{}()|[\]\\]/g, '\\$&')}(?![\\p{N}\\p{L}]|[.,]\\p{N})`,
    'gu',
  )
}

/** Headings that LIMITATIONS.md must have, each with something below it. */
export const limitationHeadings = [
  'Not measured',
  'Emulated or simulated',
  'Conditions',
  'What this record cannot prove',
] as const

/** Headings that are missing or have nothing below them, in words. */
export function missingLimitations(content: string): string[] {
  const sections = content.split(/^#{2,6}\s+/m).slice(1)
  const found = sections.map((section) => {
    const [heading = '', ...body] = section.split('\n')
    return { heading: heading.trim(), isEmpty: body.join('\n').trim() === '' }
  })
  return [
    ...limitationHeadings
      .filter((heading) => !found.some((each) => each.heading === heading))
      .map((heading) => `there is no heading ${heading}`),
    ...found.filter(({ isEmpty }) => isEmpty).map(({ heading }) => `nothing stands below ${heading}`),
  ]
}

/** Tables of a text: their heads and rows, without the line between. A head is what stands above such a line. */
function tablesOf(content: string): { readonly head: string[]; readonly rows: string[][] }[] {
  const tables: { head: string[]; rows: string[][] }[] = []
  let above: string[] | undefined
  for (const line of content.replaceAll(fence, '').split('\n')) {
    const text = line.trim()
    const cells = text.startsWith('|')
      ? text
          .slice(1)
          .replace(/(?<!\\)\|$/, '')
          .split(/(?<!\\)\|/)
      : undefined
    const row = cells?.map((cell) => cell.trim())
    if (row !== undefined && above !== undefined && row.every((cell) => /^:?-+:?$/.test(cell))) {
      tables.at(-1)?.rows.pop()
      tables.push({ head: above, rows: [] })
    } else if (row !== undefined && above !== undefined) tables.at(-1)?.rows.push(row)
    else if (row !== undefined) tables.push({ head: [], rows: [row] })
    above = row
  }
  return tables.filter(({ head }) => head.length > 0)
}

/**
 * Rows without one of the five classes where there must be one, and verdicts that rest on what was not measured. `template`: as written by
 * hand, where a table with macros claims something; `readme`: as generated.
 */
export function classFaults(template: string, readme: string): string[] {
  const faults: string[] = []
  for (const { head, rows } of tablesOf(template)) {
    if (rows.some((row) => row.some((cell) => cell.includes('{{'))) && !head.includes('Class'))
      faults.push(`a table of the template with the columns ${head.join(', ')} has no column Class`)
  }
  for (const { head, rows } of tablesOf(readme)) {
    const column = head.indexOf('Class')
    const isVerdict = head.some((cell) => /verdict/i.test(cell))
    if (isVerdict && column < 0) faults.push('a table with verdicts has no column Class')
    for (const row of column < 0 ? [] : rows) {
      const found = row[column] ?? ''
      if (!(claimClasses as readonly string[]).includes(found))
        faults.push(`${row[0]}: the class is ${found || 'missing'}; it is one of ${claimClasses.join(', ')}`)
      else if (isVerdict && (found === 'predicted' || found === 'simulated'))
        faults.push(`${row[0]}: a verdict rests on what was ${found}`)
    }
  }
  return faults
}
