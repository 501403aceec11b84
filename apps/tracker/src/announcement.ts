import { type HelloMessage, type LinkFacts, SeamError, type TransportAddress } from '@seamline/core'
import { FACT_KEYS, FACTS } from './facts.ts'
import { type Fields, fieldsOf } from './fields.ts'

/** Most of everything in one announcement. */
export const LIMITS = {
  nameChars: 64,
  idChars: 64,
  addressChars: 512,
  factChars: 512,
  codecs: 64,
  framings: 16,
  transports: 16,
  addresses: 16,
  layers: 65_536,
} as const

/**
 * Checks what a worker says of itself and returns the fields that a tracker knows; whatever else it says is passed over, so that
 * a newer worker is served. Throws `PROTOCOL` or `LIMIT` naming the worker and the field that is missing or wrong.
 */
export function parseAnnouncement(value: unknown): HelloMessage {
  const name = fieldsOf(value, 'the announcement').text('name', LIMITS.nameChars)
  const fields = fieldsOf(value, `the announcement of ${name}`, name)
  const refuse = (why: string) =>
    new SeamError('PROTOCOL', `the announcement of ${name} ${why}`, { worker: name })
  for (const [key, due] of Object.entries({ kind: 'hello', role: 'worker' })) {
    const found = fields.text(key, LIMITS.idChars)
    if (found !== due) throw refuse(`has ${key} "${found}" where "${due}" is due`)
  }
  const facts = parseFacts(fields.object('facts'))
  const { layerFirst, layerEnd, layerCount } = facts
  if (!(layerFirst >= 0 && layerFirst < layerEnd && layerEnd <= layerCount)) {
    throw refuse(`claims layers ${layerFirst}-${layerEnd} of ${layerCount}, which is no range`)
  }
  const ids = (key: 'codecs' | 'framings' | 'transports') => {
    const found = fields.list(key, LIMITS[key], (item, at) => item.text(at, LIMITS.idChars))
    if (found.length === 0) throw refuse(`has no entry in ${key}`)
    return found
  }
  const addresses = fields.list('addresses', LIMITS.addresses, parseAddress)
  if (addresses.length === 0) throw refuse('has no entry in addresses: nobody could dial it')
  return {
    ...{ kind: 'hello', role: 'worker', name, run: '', facts, addresses },
    ...{ codecs: ids('codecs'), framings: ids('framings'), transports: ids('transports') },
    maxPayloadBytes: fields.count('maxPayloadBytes', 1),
    rowsPerStep: fields.count('rowsPerStep', 1),
    livenessMs: fields.count('livenessMs', 1),
  }
}

function parseAddress(item: Fields, at: string): TransportAddress {
  const fields = item.object(at)
  return {
    transport: fields.text('transport', LIMITS.idChars),
    address: fields.text('address', LIMITS.addressChars),
  }
}

function parseFacts(fields: Fields): LinkFacts {
  return Object.fromEntries(FACT_KEYS.map((key) => [key, parseFact(fields, key)])) as unknown as LinkFacts
}

/** One fact; an empty text and -1 are no opinion. */
export function parseFact(fields: Fields, key: keyof LinkFacts): string | number {
  if (FACTS[key].is === 'text') return fields.text(key, LIMITS.factChars, 0)
  return fields.count(key, -1, key.startsWith('layer') ? LIMITS.layers : undefined)
}
