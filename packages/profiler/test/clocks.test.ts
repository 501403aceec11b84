import { SpanName, SpanPort } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { extentOf } from '../src/clock-records.ts'
import { alignClocks, clockUncertaintyNs, onLastStage } from '../src/clocks.ts'
import { quantile } from '../src/robust.ts'
import type { RunTrace } from '../src/trace.ts'
import {
  exponential,
  process,
  type Random,
  reading,
  record,
  type SimulatedClock,
  type SimulatedPath,
  seeded,
  simulate,
  trueTime,
} from './clock-simulation.ts'

const HOUR_NS = 3600e9
const UPTIME_NS = 104 * 86_400e9

/** Half of the round trip each way, plus what queues add. */
const path =
  (random: Random, rttNs: number, thereNs: number, backNs: number, share = 0.5) =>
  (): SimulatedPath => ({
    thereNs: () => rttNs * share + exponential(random, thereNs),
    backNs: () => rttNs * (1 - share) + exponential(random, backNs),
  })

/** `pointUs` is the figure of the design for a typical run, `worstUs` bounds every one of these seeds. */
interface Scenario {
  readonly path: (random: Random) => () => SimulatedPath
  readonly pointUs: number
  readonly worstUs: number
  readonly halfUs: number
}

const scenarios: Record<string, Scenario> = {
  'LAN, idle': { path: (r) => path(r, 300e3, 20e3, 20e3), pointUs: 1, worstUs: 5, halfUs: 165 },
  'LAN, one way loaded': { path: (r) => path(r, 300e3, 160e3, 20e3), pointUs: 7, worstUs: 14, halfUs: 180 },
  'WAN, 20 % asymmetric': {
    path: (r) => path(r, 30e6, 1e6, 1e6, 0.6),
    pointUs: 3038,
    worstUs: 3200,
    halfUs: 15_500,
  },
}

const pairsOfClocks: Record<string, (random: Random) => SimulatedClock[]> = {
  'microseconds apart, 15 ppm': (r) => [
    { startNs: 5e9, ppm: 0 },
    { startNs: 5e9 + Math.round(r() * 50e3), ppm: 15 * (r() * 2 - 1) },
    { startNs: 5e9 - Math.round(r() * 50e3), ppm: 15 * (r() * 2 - 1) },
    { startNs: 5e9, ppm: 7 },
  ],
  'hours apart, up to 200 ppm': (r) => [
    { startNs: 3 * HOUR_NS, ppm: 60 },
    { startNs: 80 * HOUR_NS + Math.round(r() * HOUR_NS), ppm: 100 * (r() * 2 - 1) },
    { startNs: HOUR_NS, ppm: -99 },
    { startNs: 9 * HOUR_NS, ppm: 99 },
  ],
  '104 days up': (r) => [
    { startNs: UPTIME_NS - 40e9 + Math.round(r() * 1e6), ppm: 30 },
    { startNs: UPTIME_NS - 40e9, ppm: -20 },
    { startNs: 1, ppm: 11 },
    { startNs: UPTIME_NS - 77e9, ppm: 0 },
  ],
}

/** How far a map is off at three times, and whether the truth is within its band there. */
function judge(trace: RunTrace, clocks: readonly SimulatedClock[]) {
  const { maps, ...rest } = alignClocks(trace)
  const reference = clocks.at(-1)!
  const errorsNs: number[] = []
  let outside = 0
  let widestNs = 0
  for (const map of maps) {
    const clock = clocks[map.process]!
    for (const { atNs, lowNs, highNs } of map.band) {
      const trueNs = trueTime(clock, atNs)
      // Difference of two differences, so that large stamps lose nothing.
      const truth =
        reference.startNs - clock.startNs + (trueNs * (1 + reference.ppm * 1e-6) - (atNs - clock.startNs))
      // Stamps are whole: either clock can be one below what it measures.
      if (truth < lowNs - 1 || truth > highNs + 1) outside++
      errorsNs.push(Math.abs(onLastStage(map, atNs) - atNs - truth))
      widestNs = Math.max(widestNs, (highNs - lowNs) / 2)
    }
  }
  return { maps, errorsNs, outside, widestNs, ...rest }
}

describe('alignClocks against simulated truth', () => {
  for (const [scenario, { path: make, pointUs, worstUs, halfUs }] of Object.entries(scenarios)) {
    for (const [kind, clocksOf] of Object.entries(pairsOfClocks)) {
      it(`${scenario}, clocks ${kind}: truth in every band, estimate within ${pointUs} µs`, () => {
        const allNs: number[] = []
        for (let seed = 1; seed <= 12; seed++) {
          const random = seeded(seed)
          const clocks = clocksOf(random)
          const trace = simulate(clocks, make(random), 30)
          const { maps, errorsNs, outside, widestNs, ...rest } = judge(trace, clocks)
          expect(outside).toBe(0)
          expect(maps.map(({ band }) => band.length)).toEqual([3, 3, 3, 3])
          allNs.push(...errorsNs)
          expect(widestNs / 1e3).toBeLessThan(halfUs)
          expect(rest.causalityViolations).toBe(0)
          expect(rest.unaligned).toEqual([])
          // Every two of the four processes were probed: all four rings.
          expect(rest.closures.map(({ processes }) => processes)).toHaveLength(4)
          for (const { residualNs, allowedNs } of rest.closures) {
            expect(Math.abs(residualNs)).toBeLessThanOrEqual(allowedNs)
            expect(allowedNs).toBeLessThan(3 * halfUs * 1e3 + 3 * worstUs * 1e3)
          }
        }
        expect(quantile(allNs, 0.5)! / 1e3).toBeLessThan(pointUs)
        expect(quantile(allNs, 1)! / 1e3).toBeLessThan(worstUs)
      })
    }
  }

  it('composes a chain where there is no direct pair, and the bands add up', () => {
    const random = seeded(3)
    const clocks = [0, 7e9, 2e9, 5e9, 1e9].map((startNs, i) => ({ startNs: 1e9 + startNs, ppm: 20 * i - 30 }))
    const full = simulate(clocks, path(random, 300e3, 20e3, 20e3), 20)
    // Without the coordinator stage 1 reaches the last one only through its neighbours.
    const trace = {
      ...full,
      processes: full.processes.map((p, i) => (i === 0 ? { ...p, spans: new Float64Array() } : p)),
    }
    const { maps, outside, errorsNs, pairs, unaligned } = judge(trace, clocks)
    expect(pairs.some(({ from, to }) => from === 2 && to === 4)).toBe(false)
    expect(unaligned).toEqual([0])
    expect(outside).toBe(0)
    expect(Math.max(...errorsNs)).toBeLessThan(10e3)
    const [direct, chained] = [clockUncertaintyNs(maps[3]!, 6e9), clockUncertaintyNs(maps[2]!, 3e9)]
    expect(chained).toBeGreaterThan(1.5 * direct)
    expect(maps[2]!.minRttNs).toBeGreaterThan(590e3)
  })

  it('counts messages that no allowed clock explains, and keeps them out of the bands', () => {
    const random = seeded(4)
    const clocks = [0, 1, 2, 3].map((i) => ({ startNs: i * 1e12 + 1e9, ppm: i * 10 }))
    const trace = simulate(clocks, path(random, 300e3, 20e3, 20e3), 10)
    const at = (i: number, trueNs: number) => reading(clocks[i]!, trueNs)
    const forged = [
      {
        process: 1,
        record: record(SpanName.sendQueue, at(1, 5e9), at(1, 5e9) + 1, 7, 1, SpanPort.hiddenOut),
      },
      {
        process: 2,
        record: record(SpanName.frameDecode, at(2, 5e9 - 1e6), at(2, 5e9), 7, 1, SpanPort.hiddenIn),
      },
    ]
    const processes = trace.processes.map((p, i) => ({
      ...p,
      spans: Float64Array.from([
        ...p.spans,
        ...forged.filter((one) => one.process === i).flatMap((one) => one.record),
      ]),
    }))
    const { causalityViolations, outside } = judge({ ...trace, processes }, clocks)
    expect(causalityViolations).toBe(1)
    expect(outside).toBe(0)
  })

  it('never maps a later stamp to an earlier one, also at 104 days', () => {
    const map = {
      ...alignClocks(levelZero()).maps[0]!,
      epochNs: UPTIME_NS - 50,
      offsetNs: -UPTIME_NS + 3,
      drift: -2e-4,
    }
    let before = -Infinity
    for (let i = 0; i < 20_000; i++) {
      const now = onLastStage(map, UPTIME_NS - 10_000 + i)
      expect(Number.isSafeInteger(now)).toBe(true)
      expect(now).toBeGreaterThanOrEqual(before)
      before = now
    }
  })
})

describe('processes of one host', () => {
  const random = seeded(9)
  const shared = { startNs: 44e9, ppm: 12 }
  const trace = simulate([shared, shared, shared, shared], path(random, 60e3, 9e3, 9e3), 6)

  it('are found to share a clock, and are not taken to', () => {
    const { maps, pairs } = alignClocks(trace)
    expect(pairs.every(({ canBeOneClock }) => canBeOneClock)).toBe(true)
    for (const { band } of maps.slice(0, -1)) {
      for (const { lowNs, highNs } of band) {
        expect(lowNs).toBeLessThan(0)
        expect(highNs).toBeGreaterThan(0)
      }
    }
  })

  it('have the identity without a width where they are declared', () => {
    const { maps, unaligned } = alignClocks(trace, { sameHost: true })
    expect(unaligned).toEqual([])
    for (const map of maps) {
      expect(onLastStage(map, 50_000_000_123)).toBe(50_000_000_123)
      expect(clockUncertaintyNs(map, 45e9)).toBe(0)
    }
    expect(maps[0]!.probes).toBe(60)
  })

  it('are refused where their stamps tell otherwise', () => {
    const other = simulate([shared, { startNs: 45e9, ppm: 12 }, shared], path(random, 60e3, 9e3, 9e3), 6)
    expect(() => alignClocks(other, { sameHost: true })).toThrow(
      expect.objectContaining({ code: 'MISMATCH', message: expect.stringContaining('differ by 9999') }),
    )
    expect(() => alignClocks(other, { sameHost: [[0, 2]] })).not.toThrow()
    expect(() => alignClocks(other, { sameHost: [[0, 3]] })).toThrow(
      expect.objectContaining({ code: 'USAGE' }),
    )
  })

  it('do not bend against themselves when a path swaps its slow direction for a while', () => {
    let calls = 0
    const isSwapped = (more = 0) => {
      calls += more
      return calls > 800 && calls < 1600
    }
    const swapping = (): SimulatedPath => ({
      thereNs: () => (isSwapped(1) ? 350e3 : 50e3) + exponential(random, 9e3),
      backNs: () => (isSwapped() ? 50e3 : 350e3) + exponential(random, 9e3),
    })
    const run = simulate([shared, shared, shared], swapping, 30)
    expect(() => alignClocks(run)).toThrow(
      expect.objectContaining({ code: 'MISMATCH', message: expect.stringContaining('changed their rate') }),
    )
    expect(alignClocks(run, { sameHost: true }).maps.map(({ offsetNs }) => offsetNs)).toEqual([0, 0, 0])
  })

  it('share the map of their host with a process that recorded no probe', () => {
    const clocks = [shared, { startNs: 4e12, ppm: -3 }, shared]
    const two = simulate(clocks, path(random, 60e3, 9e3, 9e3), 6)
    const relay = process('relay', -1, [record(SpanName.relayIn, 4e12 + 1e6, 4e12 + 2e6)], { role: 'relay' })
    const mixed = { ...two, processes: [...two.processes, relay] }
    expect(alignClocks(mixed).unaligned).toEqual([3])
    const { maps, unaligned } = alignClocks(mixed, { sameHost: [[1, 3]] })
    expect(unaligned).toEqual([])
    expect(onLastStage(maps[3]!, 4e12 + 3e9)).toBe(onLastStage(maps[1]!, 4e12 + 3e9))
  })
})

describe('clocks that no line describes', () => {
  const lan = (seed: number) => path(seeded(seed), 300e3, 20e3, 20e3)
  const steady = { startNs: 1e9, ppm: 10 }
  const refuses = (clock: SimulatedClock, text: string) =>
    expect(() => alignClocks(simulate([steady, clock, steady], lan(2), 30))).toThrow(
      expect.objectContaining({ code: 'MISMATCH', message: expect.stringContaining(text) }),
    )

  it('refuses a jump and tells when', () =>
    refuses({ startNs: 2e9, ppm: 0, jump: { atNs: 12e9, byNs: 2e6 } }, 'jumped or was adjusted, 12.'))
  it('refuses a bend that single bounds would allow', () =>
    refuses({ startNs: 2e9, ppm: 0, bend: { atNs: 15e9, byPpm: 20 } }, 'changed their rate'))
  it('refuses more than 200 ppm', () => refuses({ startNs: 2e9, ppm: 400 }, 'more than 200 ppm'))
  it('refuses a clock that runs backwards', () => {
    const trace = simulate([steady, steady], lan(2), 1)
    const probes = record(SpanName.probe, 5e9, 4e9, 5e9, 5e9, 100)
    const processes = [process('coordinator', -1, [probes]), trace.processes[1]!]
    expect(() => alignClocks({ ...trace, processes })).toThrow(
      expect.objectContaining({ code: 'MISMATCH', message: expect.stringContaining('ran backwards') }),
    )
  })
  it('takes load that comes and goes for what it is', () => {
    const random = seeded(8)
    let calls = 0
    const varying = (): SimulatedPath => ({
      thereNs: () => 150e3 + exponential(random, calls++ > 1200 ? 400e3 : 20e3),
      backNs: () => 150e3 + exponential(random, 20e3),
    })
    const clocks = [steady, { startNs: 2e9, ppm: 0 }, steady]
    expect(judge(simulate(clocks, varying, 30), clocks).outside).toBe(0)
  })
})

function levelZero(): RunTrace {
  const trace = simulate(
    [
      { startNs: 0, ppm: 0 },
      { startNs: 0, ppm: 0 },
    ],
    () => ({ thereNs: () => 1, backNs: () => 1 }),
    1,
  )
  return { ...trace, level: 0, processes: trace.processes.map((p) => ({ ...p, spans: new Float64Array() })) }
}

describe('traces without records of clocks', () => {
  it('gives identities that are marked', () => {
    const { maps, unaligned, closures, causalityViolations } = alignClocks(levelZero())
    expect(maps).toEqual(
      [0, 1].map((i) => ({
        ...{ process: i, epochNs: 0, offsetNs: 0, drift: 0, band: [], minRttNs: 0, probes: 0 },
        ...{ residualP50Ns: 0, residualP95Ns: 0 },
      })),
    )
    expect(unaligned).toEqual([0, 1])
    expect(closures).toEqual([])
    expect(causalityViolations).toBe(0)
    expect(clockUncertaintyNs(maps[0]!, 5)).toBe(Infinity)
    expect(onLastStage(maps[0]!, 5)).toBe(5)
  })

  it('bounds clocks by messages alone where they went both ways', () => {
    const clocks = [
      { startNs: 1e9, ppm: 5 },
      { startNs: 9e9, ppm: 0 },
    ]
    const trace = simulate(clocks, path(seeded(1), 300e3, 20e3, 20e3), 10)
    const processes = trace.processes.map((p) => ({
      ...p,
      spans: p.spans.filter((_, i) => p.spans[i - (i % 6)] !== SpanName.probe),
    }))
    const { maps, outside } = judge({ ...trace, processes }, clocks)
    expect(outside).toBe(0)
    expect(maps[0]!.probes).toBe(0)
    expect(maps[0]!.minRttNs).toBeGreaterThan(290e3)
    expect(extentOf(processes[0]!)!.startNs).toBe(maps[0]!.band[0]!.atNs)
  })
})
