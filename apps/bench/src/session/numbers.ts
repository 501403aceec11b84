/** The one rule of rounding for what is derived: integers stay as they are, other numbers have nine significant digits. */
export function rounded(value: number): number {
  if (Number.isInteger(value) || !Number.isFinite(value)) return value
  return Number(value.toPrecision(9))
}

/** Applies {@link rounded} to every number of a JSON value. */
export function roundedAll<T>(value: T): T {
  if (typeof value === 'number') return rounded(value) as T
  if (Array.isArray(value)) return value.map(roundedAll) as T
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, roundedAll(item)])) as T
}
