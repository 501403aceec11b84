import { SeamError } from '@seamline/core'
import type { Passage, Probe } from './clock-records.ts'
import { feasibleLines, type Line, type LineBand, type Point } from './hull.ts'
import { quantile, theilSen } from './robust.ts'
import type { ClockMap } from './trace.ts'

/** The difference of two clocks as a line, with the band of all that the stamps allow. */
export interface PairFit {
  readonly from: number
  readonly to: number
  readonly map: Omit<ClockMap, 'process' | 'band'>
  /** What can be added to a stamp of `from` to make it one of `to`; integers, rounded outwards. */
  rangeNs(fromNs: number): { readonly lowNs: number; readonly highNs: number }
  /** {@link rangeNs} the other way: what can be added to a stamp of `to`. */
  backNs(toNs: number): { readonly lowNs: number; readonly highNs: number }
  /** First, middle and last stamp that bears on it, on the clock of `from`. */
  readonly timesNs: readonly [number, number, number]
  readonly canBeOneClock: boolean
  /** Messages that arrived before they were sent by every line that the probes allow. */
  readonly violations: number
}

export interface PairRecords {
  readonly from: number
  readonly to: number
  readonly probes: readonly Probe[]
  readonly messages: readonly Passage[]
  /** Known to read one clock: whether it bends against itself is no question. */
  readonly sameHost: boolean
}

export const MAX_DRIFT = 200e-6
/** What no clock does, but a line through stamps of a wrong one may. */
const HOPELESS_DRIFT = 0.01
const WINDOW_NS = 2e9
/** A median of slopes takes the square of these. */
const MAX_WINDOWS = 1024
/** Both halves and the turn between them need several. */
const MIN_WINDOWS_FOR_BEND = 9
/** Far above what floating point loses here, far below a nanosecond. */
const SLACK_NS = 1e-3

interface Bounds {
  readonly lower: readonly Point[]
  readonly upper: readonly Point[]
}

/**
 * Fits one pair, or returns undefined where one direction has no stamps at all: nothing bounds the clocks then. Throws `MISMATCH` where no
 * line fits.
 */
export function fitPair(records: PairRecords, names: readonly string[]): PairFit | undefined {
  const { from, to, probes, messages } = records
  const samples = probes.map((probe) => sampleOf(probe, from))
  const there = samples.map(({ sentNs, arrivedNs }): Passage => passage(from, to, sentNs, arrivedNs))
  const back = samples.map(({ answeredNs, backNs }): Passage => passage(to, from, answeredNs, backNs))
  const passages = [...there, ...back, ...messages]
  const outward = passages.find((one) => one.from === from)
  if (outward === undefined || passages.every((one) => one.from === from)) return undefined

  // Stamps are large and their differences small: lines are kept relative to a point in the middle of all, in exact integers.
  let [firstNs, lastNs] = [Infinity, -Infinity]
  for (const one of passages) {
    const atNs = one.from === from ? one.sentNs : one.receivedNs
    firstNs = Math.min(firstNs, atNs)
    lastNs = Math.max(lastNs, atNs)
  }
  const epochNs = firstNs + Math.round((lastNs - firstNs) / 2)
  const baseNs = outward.receivedNs - outward.sentNs
  const pairName = `${names[from]} and ${names[to]}`
  const boundsOf = (some: readonly Passage[]): Bounds => ({
    upper: some
      .filter((one) => one.from === from)
      .map(({ sentNs, receivedNs }) => ({ x: sentNs - epochNs, y: receivedNs - sentNs - baseNs })),
    lower: some
      .filter((one) => one.from === to)
      .map(({ sentNs, receivedNs }) => ({ x: receivedNs - epochNs, y: sentNs - receivedNs - baseNs })),
  })

  const probed = boundsOf([...there, ...back])
  const byProbes =
    probed.lower.length === 0 ? undefined : (feasibleLines(probed.lower, probed.upper, MAX_DRIFT) ?? null)
  if (byProbes === null) throw noLine(probed, pairName)
  const possible = messages.filter((one) => byProbes === undefined || isPossible(one))
  const bounds = boundsOf([...there, ...back, ...possible])
  if (bounds.lower.length === 0 || bounds.upper.length === 0) return undefined
  const band = feasibleLines(bounds.lower, bounds.upper, MAX_DRIFT)
  if (band === undefined) throw noLine(bounds, pairName)

  function isPossible({ from: sender, sentNs, receivedNs }: Passage): boolean {
    const { low, high } = (byProbes as LineBand).range((sender === from ? sentNs : receivedNs) - epochNs)
    const differenceNs = sender === from ? receivedNs - sentNs - baseNs : sentNs - receivedNs - baseNs
    return sender === from ? low <= differenceNs + SLACK_NS : high >= differenceNs - SLACK_NS
  }

  const points = samples.map(({ sentNs, arrivedNs, answeredNs, backNs, rttNs }) => ({
    x: (sentNs - epochNs + (backNs - epochNs)) / 2,
    y: (arrivedNs - sentNs - baseNs + (answeredNs - backNs - baseNs)) / 2,
    rttNs,
  }))
  const fastest = fastestOfWindows(points)
  const guess = fastest.length === 0 ? middleOf(band) : theilSen(fastest)
  if (!records.sameHost) refuseBend(fastest, guess, pairName)
  const line = band.clamp(guess)
  const residuals = points.map(({ x, y }) => Math.abs(y - line.a - line.b * x))
  const middle = band.range(0)
  return {
    from,
    to,
    map: {
      ...{ epochNs, offsetNs: baseNs + Math.round(line.a), drift: line.b },
      // Without probes the fastest messages of both ways make a round trip: the width of the band.
      minRttNs:
        points.length === 0
          ? Math.ceil(middle.high - middle.low)
          : points.reduce((least, { rttNs }) => Math.min(least, rttNs), Infinity),
      probes: points.length,
      residualP50Ns: quantile(residuals, 0.5) ?? 0,
      residualP95Ns: quantile(residuals, 0.95) ?? 0,
    },
    rangeNs(fromNs) {
      const { low, high } = band.range(fromNs - epochNs)
      return { lowNs: baseNs + Math.floor(low - SLACK_NS), highNs: baseNs + Math.ceil(high + SLACK_NS) }
    },
    backNs(toNs) {
      // The inverse of a line changes in one direction along any edge of the polygon: it is extreme at corners.
      const x = toNs - baseNs - epochNs
      let [low, high] = [Infinity, -Infinity]
      for (const { a, b } of band.corners) {
        const y = -(a + b * x) / (1 + b)
        low = Math.min(low, y)
        high = Math.max(high, y)
      }
      return { lowNs: Math.floor(low - SLACK_NS) - baseNs, highNs: Math.ceil(high + SLACK_NS) - baseNs }
    },
    timesNs: [firstNs, epochNs, lastNs],
    canBeOneClock: passages.every(({ sentNs, receivedNs }) => sentNs <= receivedNs),
    violations: messages.length - possible.length,
  }
}

/** The same pair seen from the other clock. */
export function inverse(fit: PairFit): PairFit {
  const { map, timesNs } = fit
  const moved = (atNs: number) => atNs + map.offsetNs + Math.round(map.drift * (atNs - map.epochNs))
  return {
    ...fit,
    from: fit.to,
    to: fit.from,
    map: {
      ...map,
      epochNs: map.epochNs + map.offsetNs,
      offsetNs: -map.offsetNs,
      drift: -map.drift / (1 + map.drift),
    },
    rangeNs: fit.backNs,
    backNs: fit.rangeNs,
    timesNs: [moved(timesNs[0]), moved(timesNs[1]), moved(timesNs[2])],
  }
}

function passage(from: number, to: number, sentNs: number, receivedNs: number): Passage {
  return { from, to, sentNs, receivedNs }
}

/** A probe as seen from `from`: two of its stamps are of that clock, whoever asked. */
function sampleOf({ prober, t1, t2, t3, t4 }: Probe, from: number) {
  const rttNs = t4 - t1 - (t3 - t2)
  return prober === from
    ? { sentNs: t1, arrivedNs: t2, answeredNs: t3, backNs: t4, rttNs }
    : { sentNs: t3, arrivedNs: t4, answeredNs: t1, backNs: t2, rttNs }
}

type Sample = Point & { readonly rttNs: number }

function fastestOfWindows(points: readonly Sample[]): Sample[] {
  let [first, last] = [Infinity, -Infinity]
  for (const { x } of points) {
    first = Math.min(first, x)
    last = Math.max(last, x)
  }
  const windowNs = Math.max(WINDOW_NS, (last - first) / MAX_WINDOWS)
  const windows = new Map<number, Sample>()
  for (const point of points) {
    const window = Math.floor((point.x - first) / windowNs)
    const fastest = windows.get(window)
    if (fastest === undefined || point.rttNs < fastest.rttNs) windows.set(window, point)
  }
  return [...windows.values()].sort((p, q) => p.x - q.x)
}

function middleOf(band: LineBand): Line {
  const { low, high } = band.range(0)
  return band.clamp({ a: (low + high) / 2, b: 0 })
}

/**
 * Refuses a clock whose rate changed: the middle third of the fastest probes lies off the line between the two others by more than a
 * quarter of the shortest round trip, beyond what time in queues can have moved them. A smaller bend stays within the band.
 */
function refuseBend(fastest: readonly Sample[], { a, b }: Line, pairName: string): void {
  if (fastest.length < MIN_WINDOWS_FOR_BEND) return
  const shortest = fastest.reduce((least, { rttNs }) => Math.min(least, rttNs), Infinity)
  const third = Math.floor(fastest.length / 3)
  const parts = [
    fastest.slice(0, third),
    fastest.slice(third, fastest.length - third),
    fastest.slice(fastest.length - third),
  ]
  const median = (part: readonly Sample[], of: (sample: Sample) => number) => quantile(part.map(of), 0.5)!
  const [begin, middle, end] = parts.map((part) => median(part, ({ x, y }) => y - a - b * x))
  const queuedNs = Math.max(...parts.map((part) => median(part, ({ rttNs }) => (rttNs - shortest) / 2)))
  const bendNs = Math.abs(middle! - (begin! + end!) / 2)
  if (bendNs <= shortest / 4 + 2 * queuedNs) return
  throw new SeamError(
    'MISMATCH',
    `the clocks of ${pairName} changed their rate during the run: they bend by ${Math.round(bendNs)} ns, ` +
      `more than round trips from ${shortest} ns explain; record the run again`,
  )
}

function noLine({ lower, upper }: Bounds, pairName: string): SeamError {
  if (feasibleLines(lower, upper, HOPELESS_DRIFT) !== undefined) {
    return new SeamError(
      'MISMATCH',
      `the clocks of ${pairName} drift by more than ${MAX_DRIFT * 1e6} ppm; one of them is not disciplined, or stamps are wrong`,
    )
  }
  const first = Math.min(lower[0]!.x, upper[0]!.x)
  const times = [...lower, ...upper].map(({ x }) => x).sort((p, q) => p - q)
  let [fits, fails] = [0, times.length - 1]
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1
    const until = ({ x }: Point) => x <= times[middle]!
    const [below, above] = [lower.filter(until), upper.filter(until)]
    const isFine =
      below.length === 0 || above.length === 0 || feasibleLines(below, above, MAX_DRIFT) !== undefined
    if (isFine) fits = middle
    else fails = middle
  }
  const seconds = ((times[fails]! - Math.min(first, times[0]!)) / 1e9).toFixed(3)
  return new SeamError(
    'MISMATCH',
    `no offset and drift fits the clocks of ${pairName}: one of them jumped or was adjusted, ${seconds} s after the first probe at the latest; ` +
      'record the run again',
  )
}
