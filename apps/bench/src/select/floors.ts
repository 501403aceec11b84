import { type Category, type Cost, costsOf, type ReplayModel } from '@seamline/profiler'
import type { Replayed } from './replayed.ts'

/** `measured`: what these runs show to be possible. `none`: down to nothing, to see what a part costs at all. */
export const floorRules = ['measured', 'none'] as const
export type FloorRule = (typeof floorRules)[number]

/** Down to what a category can be brought. */
export interface Floors {
  /** At the place of `cost` and for a frame of its size, in ns. */
  ns(cost: Cost): number
  /** Where the floor of a category comes from, in words. */
  source(category: Category): string
}

const smallest = 'smallest seen at the place for a frame as large'
const halfRoundTrip = 'half of the fastest probe’s round trip'

/**
 * Floors of all `runs` together. To the first byte of a frame: half of the fastest probe's round trip between its ends, and on an emulated
 * link the bytes over its rate, as it holds frames back whole. Everything else, and links without probes: the smallest duration above
 * zero that a frame at least as large took at the same place, which shows that this one could.
 */
export function floorsOf(runs: readonly Replayed[], rule: FloorRule = 'measured'): Floors {
  if (rule === 'none') return { ns: () => 0, source: () => 'nothing at all' }
  const seen = new Map<string, { readonly bytes: number; ns: number }[]>()
  const halfRtts = new Map<string, number>()
  const rates = new Set<number>()
  for (const { model, roundTrips, settings } of runs) {
    rates.add(settings.link?.bitsPerSecond ?? Infinity)
    for (const { category, process, port, ns, bytes } of costsOf(model)) {
      if (ns === 0) continue
      const key = `${category} ${process} ${port}`
      const known = seen.get(key)
      if (known === undefined) seen.set(key, [{ bytes, ns }])
      else known.push({ bytes, ns })
    }
    for (const { from, to, inPort } of linksOf(model)) {
      const pair = roundTrips.find(
        (each) => (each.from === from && each.to === to) || (each.from === to && each.to === from),
      )
      const key = `wire.first ${to} ${inPort}`
      if (pair !== undefined) halfRtts.set(key, Math.min(halfRtts.get(key) ?? Infinity, pair.minRttNs / 2))
    }
  }
  for (const at of seen.values()) {
    at.sort((a, b) => b.bytes - a.bytes || a.ns - b.ns)
    let least = Infinity
    for (const each of at) {
      least = Math.min(least, each.ns)
      each.ns = least
    }
  }
  const nsPerBit = 1e9 / Math.max(...rates)
  return {
    ns({ category, process, port, bytes }) {
      const key = `${category} ${process} ${port}`
      const halfRttNs = halfRtts.get(key)
      if (halfRttNs !== undefined) return halfRttNs + bytes * 8 * nsPerBit
      return asLarge(seen.get(key) ?? [], bytes)
    },
    source(category) {
      if (category !== 'wire.first' || halfRtts.size === 0) return smallest
      return nsPerBit === 0 ? halfRoundTrip : `${halfRoundTrip}, and bytes over the rate of the link`
    },
  }
}

/** The last of a list by falling size, which holds the least so far, that is still as large as `bytes`. */
function asLarge(at: readonly { readonly bytes: number; readonly ns: number }[], bytes: number): number {
  let [low, high] = [0, at.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (at[middle]!.bytes >= bytes) low = middle + 1
    else high = middle
  }
  return at[low - 1]?.ns ?? 0
}

function* linksOf({ steps, requests }: ReplayModel) {
  const frames = [
    ...requests.flatMap(({ chunks }) => chunks.map(({ frame }) => frame)),
    ...steps.flatMap(({ hidden, tokens, result }) => [
      ...(hidden === undefined ? [] : [hidden.frame]),
      ...(tokens?.frames ?? []),
      ...(result === undefined ? [] : [result.frame]),
    ]),
  ]
  for (const { from, to, rest } of frames) yield { from, to, inPort: rest.port }
}
