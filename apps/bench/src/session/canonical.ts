import { createHash } from 'node:crypto'
import { SeamError } from '@seamline/core'

/**
 * JSON in one way only: keys sorted by UTF-16 code units, no spaces, numbers as ECMAScript writes them (the form of RFC 8785 for what JSON
 * can hold). Undefined fields are left out. Throws `USAGE` for a number that JSON has no form for.
 */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new SeamError('USAGE', `JSON has no ${value}`)
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(',')}}`
}

/** What derived files hold: sorted keys, two spaces, a newline at the end, so that the same content is the same bytes. */
export function derivedJson(value: unknown): string {
  return `${JSON.stringify(JSON.parse(canonicalJson(value)), null, 2)}\n`
}

export function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
