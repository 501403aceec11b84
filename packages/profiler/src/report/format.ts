/** A time with three significant digits in the unit that keeps it between 1 and 1000. */
export function formatNs(ns: number): string {
  if (ns === 0) return '0 ns'
  return scaled(ns, 1000, ['ns', 'µs', 'ms', 's'])
}

/** Bytes: below 10 000 as they are, then in binary units with three digits. */
export function formatBytes(bytes: number): string {
  if (Math.abs(bytes) < 10_000) return `${formatCount(bytes)} B`
  return scaled(bytes / 1024, 1024, ['KiB', 'MiB', 'GiB', 'TiB'])
}

/** Per cent with one decimal; below 1 with two. */
export function formatPct(pct: number): string {
  return `${minus(pct.toFixed(Math.abs(pct) < 0.995 && pct !== 0 ? 2 : 1))} %`
}

/** A whole number with thin spaces between thousands, another one with four significant digits. */
export function formatCount(value: number): string {
  if (!Number.isInteger(value)) return minus(String(Number(value.toPrecision(4))))
  return minus(String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f'))
}

/** By the name of a unit of a metric. */
export function formatUnit(value: number, unit: string): string {
  switch (unit) {
    case 'ns':
      return formatNs(value)
    case 'bytes':
      return formatBytes(value)
    case 'percent':
      return formatPct(value)
    case 'count':
      return formatCount(value)
    case 'ratio':
      return minus(String(Number(value.toPrecision(3))))
    default:
      return `${minus(String(Number(value.toPrecision(4))))} ${unit}`
  }
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let unit = 0
  let scaledValue = value
  while (unit < units.length - 1 && Math.abs(Number(scaledValue.toPrecision(3))) >= base) {
    scaledValue /= base
    unit++
  }
  const digits = Math.abs(scaledValue) >= 100 ? 0 : Math.abs(scaledValue) >= 10 ? 1 : 2
  return `${minus(unit === 0 && units[0] === 'ns' && Number.isInteger(value) ? String(value) : scaledValue.toFixed(digits))} ${units[unit]}`
}

function minus(text: string): string {
  return text.replace('-', '\u2212')
}
