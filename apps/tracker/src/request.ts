import { type LinkFacts, SeamError } from '@seamline/core'
import { LIMITS, parseFact } from './announcement.ts'
import { FACT_KEYS } from './facts.ts'
import { fieldsOf } from './fields.ts'
import type { PlanRequest } from './plan.ts'

const LISTS = ['codecs', 'framings', 'transports', 'without'] as const
const MAX_ENTRIES = 256

/**
 * Checks a request from outside. Unlike an announcement it may not hold anything unknown: what a tracker does not understand it
 * cannot grant. Throws `USAGE` for that, else `PROTOCOL` or `LIMIT` naming the field.
 */
export function parseRequest(value: unknown): PlanRequest {
  const fields = fieldsOf(value, 'the request')
  refuseUnknown(fields.keys, ['facts', ...LISTS], 'the request')
  const request: Record<string, unknown> = {}
  if (fields.has('facts')) {
    const facts = fields.object('facts')
    refuseUnknown(facts.keys, FACT_KEYS, 'the request: facts')
    const given = FACT_KEYS.filter((key) => facts.has(key)).map((key) => [key, parseFact(facts, key)])
    request.facts = Object.fromEntries(given) as Partial<LinkFacts>
  }
  for (const key of LISTS.filter((key) => fields.has(key))) {
    request[key] = fields.list(key, MAX_ENTRIES, (item, at) => item.text(at, LIMITS.idChars))
  }
  return request
}

function refuseUnknown(found: readonly string[], known: readonly string[], what: string): void {
  const unknown = found.filter((key) => !known.includes(key))
  if (unknown.length === 0) return
  const names = unknown.slice(0, 4).map((key) => JSON.stringify(key.slice(0, 64)))
  throw new SeamError('USAGE', `${what} has ${names.join(', ')}; known are ${known.join(', ')}`)
}
