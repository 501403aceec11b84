/** Part of an axis, from 0 to 1. */
export interface Scale {
  readonly low: number
  readonly high: number
  at(value: number): number
}

export function scale(low: number, high: number): Scale {
  const length = high - low || 1
  return { low, high, at: (value) => (value - low) / length }
}

/** Around all `values`, with room at both ends; not from zero. */
export function scaleAround(values: readonly number[]): Scale {
  const known = values.filter(Number.isFinite)
  const [low, high] = known.length === 0 ? [0, 1] : [Math.min(...known), Math.max(...known)]
  const room = (high - low) * 0.08 || Math.abs(high) * 0.01 || 1
  return scale(low - room, high + room)
}

/** The same to both sides of zero. */
export function scaleBothWays(values: readonly number[], atLeast: number): Scale {
  const most = Math.max(atLeast, ...values.filter(Number.isFinite).map(Math.abs))
  const nice = niceAbove(most * 1.06)
  return scale(-nice, nice)
}

const steps = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]

export function niceAbove(value: number): number {
  if (!(value > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return Number((steps.find((step) => step * power >= value)! * power).toPrecision(3))
}
