import { SeamError } from '@seamline/core'

/** Reads fields of a value that came from outside. Every refusal is `PROTOCOL` or `LIMIT` and names the field. */
export interface Fields {
  /** Throws when the field is missing. */
  value(key: string): unknown
  has(key: string): boolean
  /** Printable text of `minChars` to `maxChars` characters. */
  text(key: string, maxChars: number, minChars?: number): string
  /** A whole number. */
  count(key: string, minimum: number, maximum?: number): number
  /** At most `maxItems`; `read` gets the fields of a pseudo object whose only key is the item's. */
  list<T>(key: string, maxItems: number, read: (item: Fields, key: string) => T): readonly T[]
  object(key: string): Fields
  readonly keys: readonly string[]
}

const PRINTABLE = /^[^\p{C}]*$/u

/** `what` names the value in errors, `worker` whom it is about. Throws `PROTOCOL` unless it is an object. */
export function fieldsOf(value: unknown, what: string, worker?: string): Fields {
  const refusal = (code: 'PROTOCOL' | 'LIMIT', why: string) =>
    new SeamError(code, `${what} ${why}`, worker === undefined ? {} : { worker })
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refusal('PROTOCOL', `is ${kindOf(value)} where an object is due`)
  }
  const record = value as Readonly<Record<string, unknown>>

  function present(key: string): unknown {
    if (!Object.hasOwn(record, key) || record[key] === undefined) {
      throw refusal('PROTOCOL', `lacks the field ${key}`)
    }
    return record[key]
  }

  return {
    keys: Object.keys(record),
    has: (key) => Object.hasOwn(record, key) && record[key] !== undefined,
    value: present,
    text(key, maxChars, minChars = 1) {
      const found = present(key)
      if (typeof found !== 'string') {
        throw refusal('PROTOCOL', `has ${kindOf(found)} as ${key} where text is due`)
      }
      if (found.length > maxChars) {
        throw refusal('LIMIT', `has ${found.length} characters as ${key}, at most ${maxChars} are taken`)
      }
      if (found.length < minChars) throw refusal('PROTOCOL', `has an empty ${key}`)
      if (!PRINTABLE.test(found)) throw refusal('PROTOCOL', `has characters in ${key} that cannot be printed`)
      return found
    },
    count(key, minimum, maximum = Number.MAX_SAFE_INTEGER) {
      const found = present(key)
      if (typeof found !== 'number' || !Number.isSafeInteger(found)) {
        throw refusal('PROTOCOL', `has ${kindOf(found)} as ${key} where a whole number is due`)
      }
      if (found < minimum) throw refusal('PROTOCOL', `has ${key} ${found}, at least ${minimum} is due`)
      if (found > maximum) throw refusal('LIMIT', `has ${key} ${found}, at most ${maximum} is taken`)
      return found
    },
    list(key, maxItems, read) {
      const found = present(key)
      if (!Array.isArray(found)) {
        throw refusal('PROTOCOL', `has ${kindOf(found)} as ${key} where a list is due`)
      }
      if (found.length > maxItems) {
        throw refusal('LIMIT', `has ${found.length} entries in ${key}, at most ${maxItems} are taken`)
      }
      return found.map((item, i) => {
        const at = `${key}[${i}]`
        return read(fieldsOf({ [at]: item }, what, worker), at)
      })
    },
    object: (key) => fieldsOf(present(key), `${what}: ${key}`, worker),
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'number') return `the number ${value}`
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
