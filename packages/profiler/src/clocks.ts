import { SeamError } from '@seamline/core'
import { extentOf, messagesOf, type Passage, type Probe, probesOf, stagesOf } from './clock-records.ts'
import { fitPair, inverse, type PairFit } from './pair-clock.ts'
import type { ClockAlignment, ClockMap, RunTrace } from './trace.ts'

export interface AlignOptions {
  /**
   * Processes, by their index in the trace, that are known to run on one host and so share one monotonic clock: `true` for all of
   * them, or one group a host. Such processes get one map, and their clocks differ by nothing; what was recorded between them is
   * still tested against that. @default false
   */
  readonly sameHost?: boolean | readonly (readonly number[])[]
}

/** What was measured between two processes that exchanged probes, or messages both ways. */
export interface PairClock extends Omit<ClockMap, 'process'> {
  /** The map leads from this process's clock to that of {@link to}. */
  readonly from: number
  readonly to: number
  /** True where the recorded stamps allow both to read one and the same clock. */
  readonly canBeOneClock: boolean
}

export interface RunClocks extends ClockAlignment {
  readonly pairs: readonly PairClock[]
  /** Messages that arrived before they were sent by every clock that the probes allow. Must be 0. */
  readonly causalityViolations: number
  /** Processes whose map is the identity for want of any record that would tell: their `band` is empty and `probes` is 0. */
  readonly unaligned: readonly number[]
}

/**
 * One affine map for each process to the clock of the last stage. Network delays only ever add, so that every message bounds the
 * difference of two clocks from one side, whatever the delay was; the bands are what all bounds together allow for a clock that drifts
 * by no more than 200 ppm, and assume nothing else. The estimate within the band is the line through the fastest probe of every two
 * seconds and is as good as the path is symmetric: no data can tell how far it is not.
 *
 * A process that exchanged probes with the last stage is mapped directly, others through the processes between with the shortest round
 * trips; bands of a chain add up. Without spans, as at level 0, or without records that connect a process, its map is the
 * identity and is listed as {@link RunClocks.unaligned}.
 *
 * Throws `MISMATCH` where no offset and drift fits: a clock that jumped, drifts by more than 200 ppm or bends, or processes of one host
 * whose stamps cannot be of one clock. Throws `USAGE` for groups that name no process of the trace.
 */
export function alignClocks(trace: RunTrace, options: AlignOptions = {}): RunClocks {
  const { processes } = trace
  const reference = stagesOf(trace).at(-1)
  const probes = probesOf(trace)
  const messages = messagesOf(trace)
  const names = processes.map(({ name }) => name)
  const hosts = hostsOf(processes.length, options.sameHost ?? false)
  const measured = fitPairs(probes, messages, names, [...processes.keys()], hosts)
  const isDeclared = hosts.some((host, i) => host !== i)
  for (const fit of measured) {
    if (hosts[fit.from] === hosts[fit.to] && !fit.canBeOneClock) throw notOneClock(fit, names)
  }
  const fits = isDeclared ? fitPairs(probes, messages, names, hosts, hosts) : measured
  const routes = reference === undefined ? new Map<number, Route>() : routesTo(hosts[reference]!, fits)

  const unaligned: number[] = []
  const maps = processes.map((process, index): ClockMap => {
    const route = routes.get(hosts[index]!)
    const extent = extentOf(process)
    const own = { process: index, epochNs: extent?.startNs ?? 0 }
    if (route === undefined || extent === undefined) {
      unaligned.push(index)
      return { ...own, ...identity, band: [] }
    }
    const { startNs, endNs } = extent
    const times = [startNs, Math.round(startNs / 2 + endNs / 2), endNs]
    const band = times.map((atNs) => ({ atNs, ...route.rangeNs(atNs) }))
    if (route.map !== undefined) return { process: index, ...route.map, band }
    const evidence = measured.find(
      ({ from, to }) => (from === index && to === reference) || (to === index && from === reference),
    )
    return { ...identity, ...evidence?.map, ...own, offsetNs: 0, drift: 0, band }
  })
  return {
    maps,
    closures: closuresOf(measured),
    pairs: measured.map((fit) => {
      const { from, to, map, canBeOneClock } = fit
      const band = fit.timesNs.map((atNs) => ({ atNs, ...fit.rangeNs(atNs) }))
      return { from, to, ...map, band, canBeOneClock }
    }),
    causalityViolations: fits.reduce((sum, { violations }) => sum + violations, 0),
    unaligned,
  }
}

/** A stamp of the map's process on the clock of the last stage, as an integer; never earlier for a later stamp. */
export function onLastStage(map: ClockMap, ownNs: number): number {
  return ownNs + map.offsetNs + Math.round(map.drift * (ownNs - map.epochNs))
}

/**
 * Half of the width of what the band of a map allows at `ownNs`, in ns: the two stamps nearest to it bound a band that bends outwards,
 * so that it is never too small. `Infinity` for a map without a band.
 */
export function clockUncertaintyNs({ band }: ClockMap, ownNs: number): number {
  const [first, middle, last] = band
  if (first === undefined || middle === undefined || last === undefined) return Infinity
  const [p, q] = ownNs < middle.atNs ? [first, middle] : [middle, last]
  const at = q.atNs === p.atNs ? 0 : (ownNs - p.atNs) / (q.atNs - p.atNs)
  const widthNs = (p.highNs - p.lowNs) * (1 - at) + (q.highNs - q.lowNs) * at
  return Math.max(0, widthNs) / 2
}

const identity = { offsetNs: 0, drift: 0, minRttNs: 0, probes: 0, residualP50Ns: 0, residualP95Ns: 0 }

type Estimate = Omit<ClockMap, 'process' | 'band'>

interface Route {
  /** Undefined for the reference itself. */
  readonly map: Estimate | undefined
  rangeNs(ownNs: number): { readonly lowNs: number; readonly highNs: number }
  readonly hops: number
}

function fitPairs(
  probes: readonly Probe[],
  messages: readonly Passage[],
  names: readonly string[],
  clocks: readonly number[],
  hosts: readonly number[],
): PairFit[] {
  const pairs = new Map<string, { from: number; to: number; probes: Probe[]; messages: Passage[] }>()
  const pairOf = (p: number, q: number) => {
    const [from, to] = p < q ? [p, q] : [q, p]
    const key = `${from} ${to}`
    const pair = pairs.get(key) ?? { from, to, probes: [], messages: [] }
    pairs.set(key, pair)
    return pair
  }
  for (const probe of probes) {
    const [prober, peer] = [clocks[probe.prober]!, clocks[probe.peer]!]
    if (prober !== peer) pairOf(prober, peer).probes.push({ ...probe, prober, peer })
  }
  for (const message of messages) {
    const [from, to] = [clocks[message.from]!, clocks[message.to]!]
    if (from !== to) pairOf(from, to).messages.push({ ...message, from, to })
  }
  return [...pairs.values()].flatMap(
    (pair) => fitPair({ ...pair, sameHost: hosts[pair.from] === hosts[pair.to] }, names) ?? [],
  )
}

/** Direct neighbours of the reference first, then chains in the order of their round trips. */
function routesTo(reference: number, fits: readonly PairFit[]): Map<number, Route> {
  const routes = new Map<number, Route>([
    [reference, { map: undefined, rangeNs: () => ({ lowNs: 0, highNs: 0 }), hops: 0 }],
  ])
  const steps = fits.flatMap((fit) => [fit, inverse(fit)])
  for (;;) {
    let best: { readonly from: number; readonly route: Route } | undefined
    for (const step of steps) {
      const onward = routes.get(step.to)
      if (onward === undefined || routes.has(step.from)) continue
      const route = onward.map === undefined ? { ...step, hops: 1 } : chained(step, onward, onward.map)
      if (best === undefined || isBetter(route, best.route)) best = { from: step.from, route }
    }
    if (best === undefined) return routes
    routes.set(best.from, best.route)
  }
}

function isBetter(a: Route, b: Route): boolean {
  if ((a.hops === 1) !== (b.hops === 1)) return a.hops === 1
  return a.map!.minRttNs < b.map!.minRttNs
}

function chained(step: PairFit, onward: Route, next: Estimate): Route {
  const { map, rangeNs } = step
  const throughNs = map.epochNs + map.offsetNs
  const drifted = Math.round(next.drift * (throughNs - next.epochNs))
  return {
    map: {
      epochNs: map.epochNs,
      offsetNs: map.offsetNs + next.offsetNs + drifted,
      drift: (1 + map.drift) * (1 + next.drift) - 1,
      minRttNs: map.minRttNs + next.minRttNs,
      probes: Math.min(map.probes, next.probes),
      residualP50Ns: map.residualP50Ns + next.residualP50Ns,
      residualP95Ns: map.residualP95Ns + next.residualP95Ns,
    },
    rangeNs(ownNs) {
      // The stamp between is itself known to a range only; a band is widest at one of the ends of it.
      const first = rangeNs(ownNs)
      const early = onward.rangeNs(ownNs + first.lowNs)
      const late = onward.rangeNs(ownNs + first.highNs)
      return {
        lowNs: first.lowNs + Math.min(early.lowNs, late.lowNs),
        highNs: first.highNs + Math.max(early.highNs, late.highNs),
      }
    },
    hops: onward.hops + 1,
  }
}

/** Around every ring of three processes of which each pair was measured; zero where all estimates are right. */
function closuresOf(fits: readonly PairFit[]): ClockAlignment['closures'] {
  const find = (from: number, to: number) => fits.find((fit) => fit.from === from && fit.to === to)
  return fits.flatMap((first) =>
    fits
      .filter((second) => second.from === first.to)
      .flatMap((second) => {
        const direct = find(first.from, second.to)
        if (direct === undefined) return []
        let atNs = first.timesNs[1]
        const startNs = atNs
        let allowedNs = 0
        for (const { map, rangeNs } of [first, second, inverse(direct)]) {
          const movedNs = onLastStage({ ...map, process: 0, band: [] }, atNs) - atNs
          const { lowNs, highNs } = rangeNs(atNs)
          allowedNs += Math.max(highNs - movedNs, movedNs - lowNs)
          atNs += movedNs
        }
        return [{ processes: [first.from, first.to, second.to], residualNs: atNs - startNs, allowedNs }]
      }),
  )
}

/** For every process the first one of its host. */
function hostsOf(count: number, sameHost: boolean | readonly (readonly number[])[]): number[] {
  const hosts = [...Array(count).keys()]
  const groups = sameHost === true ? [hosts.slice()] : sameHost === false ? [] : sameHost
  for (const group of groups) {
    for (const member of group) {
      if (!(member in hosts)) throw new SeamError('USAGE', `process ${member} of ${count} is on no host`)
      const [kept, merged] = [hosts[group[0]!]!, hosts[member]!]
      const host = Math.min(kept, merged)
      for (const [i, other] of hosts.entries()) if (other === kept || other === merged) hosts[i] = host
    }
  }
  return hosts
}

function notOneClock({ from, to, map, rangeNs }: PairFit, names: readonly string[]): SeamError {
  const { lowNs, highNs } = rangeNs(map.epochNs)
  return new SeamError(
    'MISMATCH',
    `${names[from]} and ${names[to]} are declared to share a host, but their clocks differ by ${lowNs} to ${highNs} ns; ` +
      'leave them out of sameHost',
  )
}
