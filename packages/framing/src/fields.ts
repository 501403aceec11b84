/** How one field of a message looks on the wire. Both directions throw {@link Refused} outside the stated range. */
export interface Field<T> {
  toWire(value: T): unknown
  fromWire(value: unknown): T
}

/** A field for every property of `T` but `kind`. */
export type Fields<T> = { readonly [P in Exclude<keyof T, 'kind'>]: Field<T[P]> }

/** A value outside the range of its field, which `path` names. */
export class Refused extends Error {
  readonly problem: string
  readonly path: readonly (string | number)[]

  constructor(problem: string, path: readonly (string | number)[] = []) {
    super(path.length === 0 ? problem : `${path.join('.')}: ${problem}`)
    this.problem = problem
    this.path = path
  }
}

function inside(name: string | number, error: unknown): unknown {
  return error instanceof Refused ? new Refused(error.problem, [name, ...error.path]) : error
}

function show(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value).slice(0, 64)
  return value.length > 64 ? `text of ${value.length} characters` : JSON.stringify(value)
}

function checked<T>(accept: (value: unknown) => boolean, expected: string): Field<T> {
  const check = (value: unknown): T => {
    if (!accept(value)) throw new Refused(`${show(value)} is not ${expected}`)
    return value as T
  }
  return { toWire: check, fromWire: check }
}

/** Integers from 0 to `max`, which is at most 2^53 - 1. The wire side may give any of them as a bigint, and zero with a sign. */
export function integer(max: number): Field<number> {
  const field = checked<number>(
    (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max,
    `an integer from 0 to ${max}`,
  )
  const narrowed = (value: unknown) =>
    (typeof value === 'bigint' && value >= 0n && value <= max) || value === 0
      ? Math.abs(Number(value))
      : value
  return { toWire: field.toWire, fromWire: (value) => field.fromWire(narrowed(value)) }
}

const unsigned64 = checked<bigint>(
  (value) => typeof value === 'bigint' && value >= 0n && value < 2n ** 64n,
  'a bigint from 0 to 2^64 - 1',
)

/** All unsigned 64-bit integers, as bigint; on the wire side those up to 2^53 - 1 are numbers. */
export const u64: Field<bigint> = {
  toWire(value) {
    unsigned64.toWire(value)
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
  },
  fromWire: (value) => unsigned64.fromWire(Number.isSafeInteger(value) ? BigInt(value as number) : value),
}

/** Finite numbers from `min` to `max`; null on the wire means `absent`. */
export function real(min: number, max: number, absent = 0): Field<number> {
  const field = checked<number>(
    (value) => typeof value === 'number' && value >= min && value <= max,
    `a number from ${min} to ${max}`,
  )
  // Negative zero is zero: not every wire tells them apart.
  return {
    toWire: (value) => (field.toWire(value) as number) + 0,
    fromWire: (value) => field.fromWire(value ?? absent) + 0,
  }
}

export const flag: Field<boolean> = checked((value) => typeof value === 'boolean', 'true or false')

const LONE_SURROGATE = /\p{Surrogate}/gu

/**
 * Well-formed Unicode of at most `max` UTF-16 units that does not begin with a byte order mark, which decoders of text
 * are known to drop.
 */
export function text(max: number): Field<string> {
  return checked(
    (value) =>
      typeof value === 'string' &&
      value.length <= max &&
      value.charCodeAt(0) !== 0xfeff &&
      value.search(LONE_SURROGATE) < 0,
    `well-formed text of at most ${max} characters without a byte order mark`,
  )
}

/**
 * Text for people: what {@link text} would refuse is sent all the same, cut at `max`, with U+FFFD for lone surrogates and
 * without a byte order mark.
 */
export function prose(max: number): Field<string> {
  const field = text(max)
  return {
    toWire: (value) =>
      field.toWire(
        typeof value === 'string'
          ? value
              .replace(/^\ufeff+/, '')
              .slice(0, max)
              .replace(LONE_SURROGATE, '\ufffd')
          : value,
      ),
    fromWire: field.fromWire,
  }
}

/** `field`, or -1, which is null on the wire. */
export function orNone(field: Field<number>): Field<number> {
  return {
    toWire: (value) => (value === -1 ? null : field.toWire(value)),
    fromWire: (value) => (value === null ? -1 : field.fromWire(value)),
  }
}

/** One of `names`, which the wire numbers upwards from `first`; any other number is refused. */
export function choice<T extends string>(names: readonly T[], first = 1): Field<T> {
  const numbers = new Map<unknown, number>(names.map((name, i) => [name, first + i]))
  const refuse = (value: unknown): never => {
    throw new Refused(
      `${show(value)} is none of ${names.map((name, i) => `${name} (${first + i})`).join(', ')}`,
    )
  }
  return {
    toWire: (value) => numbers.get(value) ?? refuse(value),
    fromWire: (value) => (typeof value === 'number' && names[value - first]) || refuse(value),
  }
}

/** At most `max` items. */
export function list<T>(item: Field<T>, max: number): Field<readonly T[]> {
  function each(values: unknown, convert: (value: never) => unknown): unknown[] {
    if (!Array.isArray(values)) throw new Refused(`${show(values)} is not a list`)
    if (values.length > max) throw new Refused(`${values.length} items are more than ${max}`)
    return values.map((value, i) => {
      try {
        return convert(value as never)
      } catch (error) {
        throw inside(i, error)
      }
    })
  }
  return {
    toWire: (values) => each(values, item.toWire),
    fromWire: (values) => each(values, item.fromWire) as T[],
  }
}

/** Exactly two items. */
export function pair<T>(item: Field<T>): Field<readonly [T, T]> {
  const items = list(item, 2)
  const two = <V>(values: V): V => {
    const { length } = values as readonly unknown[]
    if (length !== 2) throw new Refused(`${length} items are not 2`)
    return values
  }
  return {
    toWire: (values) => two(items.toWire(values)),
    fromWire: (values) => two(items.fromWire(values)) as unknown as readonly [T, T],
  }
}

/** Makes the field of a record, which `name` is the type of; messages among them have a `kind`. */
export type RecordForm = <T extends object>(name: string, fields: Fields<T>, kind?: string) => Field<T>

type Loose = Record<string | number, unknown>

/** A record whose properties are the keys of `fields` here and `keys` on the wire; absent on the wire means `absent`. */
export function record<T extends object>(
  fields: Fields<T>,
  keys: readonly (string | number)[],
  empty: () => object,
  absent: object | undefined,
  kind?: string,
): Field<T> {
  const names = Object.keys(fields)
  const converters = Object.values(fields) as Field<unknown>[]

  function located(error: unknown, at: number): unknown {
    const found = inside(names[at]!, error)
    return kind === undefined ? found : inside(kind, found)
  }

  return {
    toWire(value) {
      const from = (value ?? {}) as Loose
      const to = empty() as Loose
      let i = 0
      try {
        for (; i < converters.length; i++) to[keys[i]!] = converters[i]!.toWire(from[names[i]!])
      } catch (error) {
        throw located(error, i)
      }
      return to
    },
    fromWire(wire) {
      const from = (wire ?? absent) as Loose
      const to: Loose = kind === undefined ? {} : { kind }
      let i = 0
      try {
        for (; i < converters.length; i++) to[names[i]!] = converters[i]!.fromWire(from[keys[i]!])
      } catch (error) {
        throw located(error, i)
      }
      return to as T
    },
  }
}
