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
  if (typeof value !== 'string') return String(value)
  return value.length > 64 ? `text of ${value.length} characters` : JSON.stringify(value)
}

function checked<T>(accept: (value: unknown) => boolean, expected: string): Field<T> {
  const check = (value: unknown): T => {
    if (!accept(value)) throw new Refused(`${show(value)} is not ${expected}`)
    return value as T
  }
  return { toWire: check, fromWire: check }
}

/** Integers from 0 to `max`, which is at most 2^53 - 1: what is larger arrives as a bigint and is refused. */
export function integer(max: number): Field<number> {
  return checked(
    (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max,
    `an integer from 0 to ${max}`,
  )
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

/** Finite numbers from `min` to `max`; absent on the wire means `absent`. */
export function real(min: number, max: number, absent = 0): Field<number> {
  const field = checked<number>(
    (value) => typeof value === 'number' && value >= min && value <= max,
    `a number from ${min} to ${max}`,
  )
  return { toWire: field.toWire, fromWire: (value) => field.fromWire(value ?? absent) }
}

export const flag: Field<boolean> = checked((value) => typeof value === 'boolean', 'true or false')

const LONE_SURROGATE = /\p{Surrogate}/gu

/** Well-formed Unicode of at most `max` UTF-16 units. */
export function text(max: number): Field<string> {
  return checked(
    (value) => typeof value === 'string' && value.length <= max && value.search(LONE_SURROGATE) < 0,
    `well-formed text of at most ${max} characters`,
  )
}

/** Text for people: what {@link text} would refuse is sent all the same, cut at `max` and with U+FFFD for lone surrogates. */
export function prose(max: number): Field<string> {
  const field = text(max)
  return {
    toWire: (value) =>
      field.toWire(typeof value === 'string' ? value.slice(0, max).replace(LONE_SURROGATE, '\ufffd') : value),
    fromWire: field.fromWire,
  }
}

/** `field`, or -1, which is absent on the wire. */
export function orNone(field: Field<number>): Field<number> {
  return {
    toWire: (value) => (value === -1 ? undefined : field.toWire(value)),
    fromWire: (value) => (value === null ? -1 : field.fromWire(value)),
  }
}

/** The names of a protobuf enum without their common prefix; a value without a choice behind it is refused. */
export function choice<T extends string>(
  values: Readonly<Record<string, number>>,
  prefix: string,
  rename: (name: string) => string = (name) => name.toLowerCase(),
): Field<T> {
  const numbers = new Map<unknown, number>()
  const names = new Map<unknown, T>()
  for (const [key, number] of Object.entries(values)) {
    const name = rename(key.slice(prefix.length)) as T
    if (key === `${prefix}UNSPECIFIED`) continue
    numbers.set(name, number)
    names.set(number, name)
  }
  const find = <V>(map: Map<unknown, V>, value: unknown): V => {
    const found = map.get(value)
    if (found === undefined) throw new Refused(`${show(value)} is none of ${[...map.keys()].join(', ')}`)
    return found
  }
  return { toWire: (value) => find(numbers, value), fromWire: (value) => find(names, value) }
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

/** The properties of `fields` of an object that carries `kind` when one is given; absent on the wire means `absent`. */
export function record<T extends object>(fields: Fields<T>, absent: object, kind?: string): Field<T> {
  const names = Object.keys(fields)
  const converters = Object.values(fields) as Field<unknown>[]
  type Loose = Record<string, unknown>

  function each(from: Loose, to: Loose, direction: 'toWire' | 'fromWire'): Loose {
    let name = ''
    try {
      for (let i = 0; i < names.length; i++) {
        name = names[i]!
        to[name] = converters[i]![direction](from[name])
      }
    } catch (error) {
      throw kind === undefined ? inside(name, error) : inside(kind, inside(name, error))
    }
    return to
  }

  return {
    toWire: (value) => each((value ?? {}) as Loose, {}, 'toWire'),
    fromWire: (wire) => each((wire ?? absent) as Loose, kind === undefined ? {} : { kind }, 'fromWire') as T,
  }
}
