import { SpanPort } from '@seamline/core'
import type { ClockMap, Cost } from '@seamline/profiler'
import { describe, expect, it } from 'vitest'
import { type SimulatedRun, simulate } from '../../../packages/profiler/test/simulator.ts'
import { floorsOf } from '../src/select/floors.ts'
import { candidatesOf, gainPct, injectors, predictedSlope } from '../src/select/gains.ts'
import { atBandEnd, type Replayed, replayed } from '../src/select/replayed.ts'
import type { Target } from '../src/select/targets.ts'
import type { StoredRecord } from '../src/session/record.ts'

const MS = 1_000_000

/** Two stages of 2 ms a row and links of 5 ms: a token takes 2 + 5 + 2 + 5 ms. */
const chain: SimulatedRun = {
  ...{ stages: 2, sequences: 1, tokens: 16, computeNs: [2 * MS, 2 * MS], delayNs: [5 * MS, 5 * MS] },
}

function run(options: SimulatedRun, target: Target): Replayed {
  return replayed({ status: 'done', trace: simulate(options).trace } as StoredRecord, target)
}

function gainsOf(options: SimulatedRun, target: Target, rule: 'none' | 'measured' = 'none') {
  const one = run(options, target)
  const floors = floorsOf([one], rule)
  const found = candidatesOf([one], target, floors).map(
    (candidate) => [candidate.name, gainPct(one, candidate, floors, target)] as const,
  )
  return Object.fromEntries(found)
}

describe('gains', () => {
  it('of a wire, everywhere and on each link', () => {
    const gains = gainsOf(chain, 'tpot')
    expect(gains['wire.first']).toBeCloseTo((100 * 10) / 14, 1)
    expect(gains['wire.first at stage 1, hiddenIn']).toBeCloseTo((100 * 5) / 14, 1)
    expect(gains['wire.first at stage 0, tokensIn']).toBeCloseTo((100 * 5) / 14, 1)
    expect(gains['wire.first at stage 0, promptIn']).toBeCloseTo(0, 1)
  })

  it('are nothing where each occasion is as short as the shortest', () => {
    expect(gainsOf(chain, 'tpot', 'measured')['wire.first']).toBeCloseTo(0, 6)
  })

  it('of opening ahead, for first tokens only', () => {
    // Four rows of a prompt take a stage 5 ms; three links of 5 ms and two stages are 25 ms.
    const open = { ...chain, costsNs: { open: 40 * MS } }
    expect(gainsOf(open, 'ttft')['open, pipelined']).toBeCloseTo((100 * 40) / 65, 1)
    expect(gainsOf(open, 'ttft')).not.toHaveProperty('open')
    expect(gainsOf(open, 'tpot')['open, pipelined']).toBeCloseTo(0, 6)
    expect(gainsOf(chain, 'ttft')).not.toHaveProperty('open, pipelined')
  })

  it('of encoding beside the engine are none where nothing else is there to compute', () => {
    const slow = { ...chain, costsNs: { 'convert.encode': MS } }
    const gains = gainsOf(slow, 'tpot')
    expect(gains['convert.encode']).toBeCloseTo((100 * 1) / 15, 1)
    expect(gains['convert.encode, beside the engine']).toBeCloseTo((100 * 1) / 15, 1)
  })

  it('leave out the engine, waits for others, and what has no name', () => {
    const costsNs = { 'compute.submit': MS, 'compute.sync': MS, 'cpu.wait': MS, sample: MS, emit: MS }
    const names = Object.keys(gainsOf({ ...chain, sequences: 3, costsNs }, 'tpot'))
    expect(names.filter((name) => /compute|sample|cpu|stage\.queue|wait\.seq|UNATTR/.test(name))).toEqual([])
    expect(names).toContain('emit')
  })

  it('are of the categories that a plan allows', () => {
    const one = run({ ...chain, costsNs: { 'frame.encode': MS } }, 'tpot')
    const names = candidatesOf([one], 'tpot', floorsOf([one]), ['frame.encode']).map(({ name }) => name)
    expect(names).toEqual([
      ...['frame.encode', 'frame.encode at coordinator, promptOut', 'frame.encode at stage 0, hiddenOut'],
      ...['frame.encode at stage 1, resultOut', 'frame.encode at stage 1, tokensOut'],
    ])
  })

  it('are no numbers where no replay repeats the run', () => {
    const one: Replayed = { ...run(chain, 'tpot'), whatIf: { ok: false, gates: [], reason: 'off' } }
    const [candidate] = candidatesOf([one], 'tpot', floorsOf([one]))
    expect(gainPct(one, candidate!, floorsOf([one]), 'tpot')).toBeNaN()
    expect(predictedSlope(one, injectors['wire.first']!, 'tpot')).toBeUndefined()
  })
})

describe('the slope that a delay should have', () => {
  it('is one for a link that each token takes once, and none where it does not', () => {
    const costsNs = { open: 4 * MS, 'frame.encode': MS / 10 }
    const one = run({ ...chain, costsNs }, 'tpot')
    expect(predictedSlope(one, injectors['wire.first']!, 'tpot')).toBeCloseTo(1, 3)
    expect(predictedSlope(one, injectors['frame.encode']!, 'tpot')).toBeCloseTo(1, 3)
    expect(predictedSlope(one, injectors.open!, 'tpot')).toBeCloseTo(0, 6)
    expect(predictedSlope(one, injectors.open!, 'ttft')).toBeCloseTo(1, 3)
    expect(predictedSlope(one, injectors['wire.first']!, 'ttft')).toBeCloseTo(1, 3)
    expect(predictedSlope(one, injectors['wire.first']!, 'prefill')).toBeCloseTo(1, 3)
  })
})

describe('floors', () => {
  const cost = (category: Cost['category'], port: number, ns: number, bytes = 0): Cost => ({
    ...{ category, process: 1, port, ns, bytes },
  })
  const empty = cost('send.queue', SpanPort.promptOut, 0)

  /** One frame from the coordinator to stage 0, and whatever comes before it. */
  function handRun(before: readonly Cost[], changes: Partial<Replayed> = {}): Replayed {
    const first = [cost('wire.first', SpanPort.promptIn, 9000, 1000)]
    const rest = cost('wire.rest', SpanPort.promptIn, 700, 1000)
    const frame = { from: 0, to: 1, outPort: SpanPort.promptOut, sending: [], receiving: [], first, rest }
    const others = { queue: empty, early: empty, header: empty, hold: rest }
    const chunks = [{ before, frame: { ...frame, ...others }, step: 0 }]
    return {
      model: { steps: [], requests: [{ chunks }] },
      settings: {},
      roundTrips: [],
      ...changes,
    } as unknown as Replayed
  }
  const encode = (ns: number, bytes: number) => cost('frame.encode', SpanPort.hiddenOut, ns, bytes)

  it('are the least that a frame at least as large took anywhere in the runs', () => {
    const floors = floorsOf([
      handRun([encode(50, 100), encode(80, 100), encode(300, 1000)]),
      handRun([encode(40, 500), encode(0, 100), encode(250, 1000)]),
    ])
    // The frame of 500 B shows that one of 100 B can be as fast.
    expect([50, 100, 101, 500, 501, 1000, 1001].map((bytes) => floors.ns(encode(999, bytes)))).toEqual([
      ...[40, 40, 40, 40, 250, 250, 0],
    ])
    expect(floors.ns(cost('wire.rest', SpanPort.promptIn, 1, 1000))).toBe(700)
    expect(floors.source('frame.encode')).toContain('smallest seen')
  })

  it('of a wire are half of the fastest round trip of any run, in whichever direction it was probed', () => {
    const floors = floorsOf([
      handRun([], { roundTrips: [{ from: 1, to: 0, minRttNs: 5000 }] }),
      handRun([], { roundTrips: [{ from: 0, to: 1, minRttNs: 4000 }] }),
    ])
    expect(floors.ns(cost('wire.first', SpanPort.promptIn, 9000, 1000))).toBe(2000)
    expect(floors.source('wire.first')).toBe('half of the fastest probe’s round trip')
  })

  it('of an emulated link have its rate in them', () => {
    const link = { delayMs: 1, bitsPerSecond: 1e9 }
    const settings = { link } as Replayed['settings']
    const floors = floorsOf([handRun([], { settings, roundTrips: [{ from: 0, to: 1, minRttNs: 4000 }] })])
    // 1000 B at 1 Gbit/s take 8 µs.
    expect(floors.ns(cost('wire.first', SpanPort.promptIn, 99_000, 1000))).toBe(10_000)
  })

  it('of a wire without probes are the smallest seen', () => {
    const floors = floorsOf([handRun([])])
    expect(floors.ns(cost('wire.first', SpanPort.promptIn, 99_000, 1000))).toBe(9000)
    expect(floors.source('wire.first')).toContain('smallest seen')
  })
})

describe('the ends of the clocks’ band', () => {
  const map: ClockMap = {
    ...{ process: 1, epochNs: 0, offsetNs: 10, drift: 0, minRttNs: 100, probes: 3 },
    ...{ residualP50Ns: 0, residualP95Ns: 0 },
    band: [
      { atNs: 1000, lowNs: -40, highNs: 60 },
      { atNs: 2000, lowNs: -45, highNs: 55 },
      { atNs: 3000, lowNs: -60, highNs: 80 },
    ],
  }
  it('are lines from the first bound to the last', () => {
    const [low, none] = atBandEnd({ maps: [map, { ...map, band: [] }], closures: [] }, 'low').maps
    const [high] = atBandEnd({ maps: [map], closures: [] }, 'high').maps
    expect(low).toMatchObject({ epochNs: 1000, offsetNs: -40, drift: -0.01 })
    expect(high).toMatchObject({ epochNs: 1000, offsetNs: 60, drift: 0.01 })
    expect(none).toMatchObject({ epochNs: 0, offsetNs: 10, drift: 0 })
  })
})
