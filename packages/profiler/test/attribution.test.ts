import { isSeamError, SpanName, SpanPort, spanTag } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import {
  type Attribution,
  attribute,
  type Category,
  type ClockAlignment,
  type RunTrace,
  type TokenAttribution,
} from '../src/index.ts'
import { type SimulatedRun, type Simulation, simulate, without } from './simulator.ts'

const MS = 1_000_000

/** A duration for everything that takes time, no two alike. */
const costsNs: Partial<Record<Category, number>> = {
  ...{ 'convert.encode': 50_100, 'convert.decode': 60_200, checksum: 8_300, 'frame.encode': 20_400 },
  ...{ 'frame.decode': 30_500, 'send.call': 40_600, dispatch: 10_700, 'compute.submit': 5_800 },
  ...{ 'compute.sync': 7_900, sample: 200_110, emit: 15_120, 'cpu.wait': 9_130 },
}

const threeStages: SimulatedRun = {
  ...{ stages: 3, sequences: 1, tokens: 6, computeNs: [8 * MS, 14 * MS, 9 * MS], costsNs },
  ...{ delayNs: [3 * MS, 2.5 * MS, 3.5 * MS], bytesPerNs: 1024 / (0.5 * MS), jitter: 0.15 },
}

function attributed(simulation: Simulation): Attribution {
  return attribute(simulation.trace, simulation.alignment)
}

/** The segments follow each other from the start of the token to its end, in integers. */
function expectTiled(token: TokenAttribution): void {
  let cursorNs = token.startNs
  for (const { startNs, endNs } of token.segments) {
    if (startNs !== cursorNs || endNs <= startNs || !Number.isSafeInteger(endNs))
      expect.fail(`token ${token.sequence}/${token.index}: ${startNs}..${endNs} behind ${cursorNs}`)
    cursorNs = endNs
  }
  expect(cursorNs).toBe(token.endNs)
}

function byCategory({ segments }: TokenAttribution): Partial<Record<Category, number>> {
  const sums: Partial<Record<Category, number>> = {}
  for (const { category, startNs, endNs } of segments)
    sums[category] = (sums[category] ?? 0) + endNs - startNs
  return sums
}

function sum(token: TokenAttribution, ...categories: readonly Category[]): number {
  const sums = byCategory(token)
  return categories.reduce((total, category) => total + (sums[category] ?? 0), 0)
}

describe('one sequence alone', () => {
  it('charges each decode token exactly what the chain took for it', () => {
    const simulation = simulate(threeStages)
    const { tokens, omitted, recordingErrors } = attributed(simulation)
    expect(tokens).toHaveLength(6)
    expect(omitted).toEqual([])
    expect(recordingErrors).toEqual([])
    for (const token of tokens.slice(1)) {
      expectTiled(token)
      const step = spanTag(0, token.position - 1)
      const before = spanTag(0, token.position - 2 < 4 ? 0 : token.position - 2)
      const expected: Partial<Record<Category, number>> = {}
      for (const { category, place, port, tag, ns } of simulation.truth) {
        const isAside = port === SpanPort.resultIn || port === SpanPort.resultOut || category === 'emit'
        const isSync = category === 'compute.sync'
        const isOfStep = tag === step && !(isSync && place === 2)
        if (isAside || !(isOfStep || (isSync && place === 2 && tag === before))) continue
        if (ns > 0) expected[category] = (expected[category] ?? 0) + ns
      }
      // The header is read while the rest of a frame is on its way.
      const headers = simulation.truth.filter(
        ({ category, port, tag }) =>
          category === 'frame.decode' && port === SpanPort.hiddenIn && tag === step,
      )
      expected['wire.rest']! -= headers.reduce((total, { ns }) => total + ns, 0)
      expect(byCategory(token)).toEqual(expected)
    }
  })

  it('begins the first token where its request was accepted', () => {
    const simulation = simulate({ ...threeStages, tokens: 1 })
    const [token] = attributed(simulation).tokens
    expectTiled(token!)
    expect(token!.startNs).toBe(simulation.trace.sequences[0]!.acceptedNs)
    expect(sum(token!, 'UNATTRIBUTED')).toBe(0)
    const computed = simulation.truth.filter(({ category }) => category === 'compute.device')
    expect(sum(token!, 'compute.device')).toBe(computed.reduce((total, { ns }) => total + ns, 0))
    expect(token!.endNs + token!.deliveryNs).toBe(simulation.trace.sequences[0]!.emittedNs[0])
  })

  it('follows the engine from chunk to chunk of a prompt that a slow stage holds back', () => {
    const simulation = simulate({ ...threeStages, tokens: 1, promptTokens: 32, chunkTokens: 8 })
    const [token] = attributed(simulation).tokens
    expectTiled(token!)
    const of = (place: number, category: Category = 'compute.device') =>
      simulation.truth.filter((draw) => draw.category === category && draw.place === place)
    // Stage 1 is the slowest: all of its chunks, the first on stage 0 and the last on stage 2.
    const expected = [of(0)[0]!, ...of(1), of(2).at(-1)!].reduce((total, { ns }) => total + ns, 0)
    expect(sum(token!, 'compute.device')).toBe(expected)
    expect(sum(token!, 'stage.queue', 'UNATTRIBUTED')).toBe(0)
    expect(token!.hiddenNs['compute.device']).toBe(
      [
        ...[...of(0).slice(1), ...of(2).slice(0, -1)],
        ...[...of(0, 'cpu.wait').slice(1), ...of(2, 'cpu.wait').slice(0, -1)],
      ].reduce((total, { ns }) => total + ns, 0),
    )
  })

  it('keeps what the coordinator is told aside', () => {
    const [, token] = attributed(simulate(threeStages)).tokens
    expect(Object.keys(token!.hiddenNs).sort()).toEqual(['frame.decode', 'frame.encode', 'send.call'])
  })

  it('follows a token through the coordinator', () => {
    const simulation = simulate({ ...threeStages, throughCoordinator: true })
    for (const token of attributed(simulation).tokens) {
      expectTiled(token)
      expect(sum(token, 'UNATTRIBUTED')).toBe(0)
      if (token.index > 0) expect(token.segments.some(({ process }) => process === 0)).toBe(true)
    }
  })

  it('names the opening of a sequence', () => {
    const openNs = 40 * 1_000_000
    const simulation = simulate({ ...threeStages, costsNs: { ...threeStages.costsNs, open: openNs } })
    for (const token of attributed(simulation).tokens) {
      expectTiled(token)
      expect(sum(token, 'UNATTRIBUTED')).toBe(0)
      const drawn = simulation.truth.find(({ category }) => category === 'open')!.ns
      expect(sum(token, 'open')).toBe(token.index === 0 ? drawn : 0)
    }
  })

  it('does without messages on a single stage', () => {
    const simulation = simulate({ ...threeStages, stages: 1 })
    for (const token of attributed(simulation).tokens) {
      expectTiled(token)
      expect(sum(token, 'UNATTRIBUTED')).toBe(0)
      if (token.index > 0) expect(sum(token, 'wire.first', 'wire.rest')).toBe(0)
    }
  })
})

describe('reasons to wait', () => {
  const reasons = (token: TokenAttribution) => [
    ...new Set(token.segments.flatMap(({ category, reason }) => (reason ? [`${category} ${reason}`] : []))),
  ]

  it('names another sequence at the engine', () => {
    const simulation = simulate({ ...threeStages, sequences: 4, tokens: 8 })
    const late = attributed(simulation).tokens.filter(({ index }) => index > 3)
    for (const token of late) {
      expectTiled(token)
      expect(sum(token, 'UNATTRIBUTED')).toBe(0)
    }
    // Stage 1 takes 14 of the 31 ms, so four sequences queue there and nowhere else for long.
    for (const token of late) {
      const queued = token.segments.filter(({ category }) => category === 'stage.queue')
      expect(queued.some(({ process, reason }) => process === 2 && reason === 'other.sequence')).toBe(true)
    }
  })

  it('names credit', () => {
    const simulation = simulate({ ...threeStages, sequences: 4, tokens: 8, window: 1 })
    const { tokens, lanes } = attributed(simulation)
    expect(tokens.flatMap(reasons)).toContain('wait.credit credit')
    const stage0 = lanes.find(({ process, lane }) => process === 1 && lane === 'engine')!
    expect(stage0.waitNs.credit).toBeGreaterThan(0)
    for (const token of tokens) expect(sum(token, 'UNATTRIBUTED')).toBe(0)
  })

  it('names the rows that a step of several was waiting for', () => {
    const simulation = simulate({ ...threeStages, sequences: 4, tokens: 8, rowsPerStep: 2 })
    const { tokens } = attributed(simulation)
    expect(tokens).toHaveLength(32)
    expect(tokens.flatMap(reasons)).toContain('wait.sequence other.sequence')
    for (const token of tokens) {
      expectTiled(token)
      expect(sum(token, 'UNATTRIBUTED')).toBe(0)
    }
  })

  it('names garbage collection', () => {
    const collecting = { ...threeStages, costsNs: { ...costsNs, gc: 2 * MS }, gcEveryNs: 5 * MS }
    const { tokens } = attributed(simulate(collecting))
    expect(tokens.flatMap(reasons)).toContain('gc gc')
    for (const token of tokens) expect(sum(token, 'UNATTRIBUTED')).toBe(0)
  })

  it('names the loop that was busy with another sequence', () => {
    const slow = { ...costsNs, 'convert.encode': 10 * MS }
    const { tokens } = attributed(simulate({ ...threeStages, sequences: 4, tokens: 8, costsNs: slow }))
    const found = tokens.flatMap(reasons)
    expect(found).toContain('wait.loop loop')
    expect(found).toContain('wait.sequence loop')
  })

  it('names the socket behind which a frame queues', () => {
    const slow = { ...threeStages, sequences: 4, tokens: 8, bytesPerNs: 1024 / (20 * MS) }
    expect(attributed(simulate(slow)).tokens.flatMap(reasons)).toContain('send.queue socket')
  })

  it('splits a wire where a relay tells what it did', () => {
    const relaying = { ...costsNs, 'relay.in': 110_000, 'relay.queue': 220_000, 'relay.out': 330_000 }
    const { tokens } = attributed(
      simulate({ ...threeStages, jitter: 0, costsNs: relaying, relayHop: 1, sequences: 2 }),
    )
    for (const token of tokens.filter(({ index }) => index > 0)) {
      expectTiled(token)
      const { 'relay.in': into, 'relay.queue': queue, 'relay.out': out } = byCategory(token)
      expect([into, queue, out]).toEqual([110_000, 220_000, 330_000])
    }
  })
})

describe('clocks', () => {
  const clocks = [
    { offsetNs: 5e9, drift: 12e-6 },
    { offsetNs: -3e9, drift: -9e-6 },
    { offsetNs: 7e11, drift: 20e-6 },
    { offsetNs: 1e10, drift: 0 },
  ]

  it('gives each hop its length when clocks are aligned', () => {
    const simulation = simulate({ ...threeStages, jitter: 0, clocks })
    const { tokens, causalityViolations } = attributed(simulation)
    expect(causalityViolations).toBe(0)
    for (const token of tokens.slice(1)) {
      expectTiled(token)
      const wires = token.segments.filter(({ category }) => category === 'wire.first')
      const delays = [3.5 * MS, 3 * MS, 2.5 * MS]
      for (const [i, { startNs, endNs }] of wires.entries())
        expect(Math.abs(endNs - startNs - delays[i]!)).toBeLessThan(2_000)
    }
  })

  it('has the same total of the wire however wrong the alignment is', () => {
    const simulation = simulate({ ...threeStages, jitter: 0, clocks })
    const right = attributed(simulation)
    for (const offNs of [-40 * MS, -2 * MS, 1 * MS, 30 * MS]) {
      const maps = simulation.alignment.maps.map((map, i) =>
        i === 2 ? { ...map, offsetNs: map.offsetNs + offNs } : map,
      )
      const wrong = attribute(simulation.trace, { ...simulation.alignment, maps })
      for (const [i, token] of wrong.tokens.entries()) {
        expectTiled(token)
        if (token.index === 0) continue
        const onWire = (token: TokenAttribution) => sum(token, 'wire.first', 'send.call', 'send.queue')
        expect(onWire(token)).toBe(onWire(right.tokens[i]!))
        expect(sum(token, 'compute.device')).toBe(sum(right.tokens[i]!, 'compute.device'))
      }
    }
  })

  it('tells how far each hop can be off, and counts what no clock allows', () => {
    const simulation = simulate({ ...threeStages, clocks })
    const widened: ClockAlignment = {
      ...simulation.alignment,
      maps: simulation.alignment.maps.map((map, i) => ({
        ...map,
        band: map.band.map(({ atNs, lowNs, highNs }) => ({
          ...{ atNs, lowNs: lowNs - i * 1000, highNs: highNs + i * 1000 },
        })),
      })),
    }
    const { tokens } = attribute(simulation.trace, widened)
    const [wire] = tokens[1]!.segments.filter(({ category }) => category === 'wire.first')
    // From the last stage, process 3, to the first, process 1, and 2 ns each of the simulator's own.
    expect(wire!.uncertainNs).toBeGreaterThanOrEqual(4004)
    expect(wire!.uncertainNs).toBeLessThanOrEqual(4005)
    for (const { category, uncertainNs } of tokens[1]!.segments)
      if (category === 'compute.device') expect(uncertainNs).toBe(0)

    const maps = simulation.alignment.maps.map((map, i) => ({
      ...map,
      offsetNs: map.offsetNs + (i === 2 ? 5 * MS : 0),
      band: map.band.map(({ atNs, lowNs, highNs }) => ({
        ...{ atNs, lowNs: lowNs + (i === 2 ? 5 * MS : 0), highNs: highNs + (i === 2 ? 5 * MS : 0) },
      })),
    }))
    // Every message of stage 1 to stage 2 takes less than 5 ms; one a step.
    expect(attribute(simulation.trace, { ...widened, maps }).causalityViolations).toBe(6)
  })
})

describe('lanes', () => {
  const total = (record: Readonly<Record<string, number>>) => Object.values(record).reduce((a, b) => a + b, 0)

  it('add up to the window, and name a slow peer', () => {
    const simulation = simulate({ ...threeStages, sequences: 6, tokens: 12, jitter: 0.1 })
    const { lanes } = attributed(simulation)
    for (const { startNs, endNs, busyNs, waitNs, bubbleNs } of lanes)
      expect(total(busyNs as never) + total(waitNs as never) + bubbleNs).toBe(endNs - startNs)
    const engines = lanes.filter(({ lane }) => lane === 'engine')
    for (const { process, busyNs } of engines) {
      const drawn = simulation.truth.filter(
        ({ category, place }) => category === 'compute.device' && place === process - 1,
      )
      expect(busyNs['compute.device']).toBe(drawn.reduce((sum, { ns }) => sum + ns, 0))
    }
    const [first, slow, last] = engines
    for (const { waitNs } of [first!, last!])
      expect(waitNs['peer.slow']! + waitNs.socket!).toBeGreaterThan(0.9 * total(waitNs as never))
    expect(total(slow!.waitNs as never)).toBeLessThan(0.2 * total(slow!.busyNs as never))
    expect(
      lanes
        .filter(({ lane }) => lane === 'link')
        .map(({ port }) => port)
        .sort(),
    ).toEqual([1, 1, 4, 6])
  })

  it('report spans that a serial lane cannot have had', () => {
    const { trace, alignment } = simulate(threeStages)
    const [coordinator, stage, ...others] = trace.processes
    const at = spanAt(stage!.spans, SpanName.compute)
    const [startNs, endNs] = [stage!.spans[at + 1]!, stage!.spans[at + 2]!]
    const added = [SpanName.compute, endNs - 10, endNs + 10, spanTag(0, 0), 0, 0]
    const twice = { ...stage!, spans: Float64Array.from([...stage!.spans, ...added]) }
    const { recordingErrors } = attribute(
      { ...trace, processes: [coordinator!, twice, ...others] },
      alignment,
    )
    expect(recordingErrors).toEqual([
      `stage 0: compute of step 0 ${startNs}..${endNs} ns and compute of step 0 ${endNs - 10}..${endNs + 10} ns overlap on the engine`,
    ])
  })
})

describe('a trace that is not whole', () => {
  it('is refused when a recorder lost spans', () => {
    const { trace, alignment } = simulate(threeStages)
    const processes = trace.processes.map((process, i) => ({ ...process, dropped: i === 2 ? 7 : 0 }))
    try {
      attribute({ ...trace, processes }, alignment)
      expect.unreachable()
    } catch (error) {
      expect(isSeamError(error) && error.code).toBe('USAGE')
      expect(String(error)).toContain('stage 1 lost 7 spans')
    }
  })

  it('leaves tokens out of which it lacks an end', () => {
    const simulation = simulate({ ...threeStages, sequences: 2 })
    const { trace, alignment } = simulation
    const cutNs = 150 * MS
    const cut = {
      ...without(trace, (p, _, i) => trace.processes[p]!.spans[i * 6 + 2]! > cutNs),
      complete: false,
    }
    const whole = attribute(trace, alignment)
    const { tokens, omitted } = attribute(cut, alignment)
    expect(tokens.length + omitted.length).toBe(12)
    expect(omitted.length).toBeGreaterThan(0)
    expect(tokens.length).toBeGreaterThan(0)
    for (const token of tokens) {
      const same = whole.tokens.find((t) => t.sequence === token.sequence && t.index === token.index)
      expect(byCategory(token)).toEqual(byCategory(same!))
    }
  })

  it('charges what was not recorded to nothing', () => {
    const { trace, alignment } = simulate(threeStages)
    const holes = [SpanName.compute, SpanName.codecEncode, SpanName.dispatch, SpanName.frameDecode] as const
    for (const name of holes) {
      const { tokens } = attribute(
        without(trace, (p, n) => p === 2 && n === name),
        alignment,
      )
      for (const token of tokens) {
        expectTiled(token)
        expect(sum(token, 'UNATTRIBUTED')).toBeGreaterThan(0)
      }
    }
  })
})

it('tiles every token of any chain, with whatever records missing', { timeout: 60_000 }, () => {
  for (let seed = 1; seed <= 800; seed++) {
    const random = mulberry(seed)
    const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)]!
    const stages = pick(1, 2, 3, 4)
    const present = Object.entries({ ...costsNs, gc: MS }).filter(() => random() < 0.8)
    const scale = pick(0, 1, 20)
    const simulation = simulate({
      ...{ stages, sequences: pick(1, 2, 3), requests: 3, tokens: pick(1, 2, 4), seed },
      costsNs: Object.fromEntries(present.map(([name, ns]) => [name, name === 'gc' ? ns : ns * scale])),
      computeNs: Array.from({ length: stages }, () => Math.floor(random() * 10 * MS)),
      ...{ promptTokens: pick(1, 5, 20), chunkTokens: pick(4, 8), rowsPerStep: pick(1, 1, 2) },
      ...{
        delayNs: [pick(0, 1, MS)],
        bytesPerNs: pick(0, 1, 0.01),
        window: pick(1, 2, Infinity),
      },
      ...{ jitter: pick(0, 0.5), throughCoordinator: random() < 0.2, gcEveryNs: 7 * MS },
      clocks: Array.from({ length: stages + 1 }, () => ({
        offsetNs: Math.floor(random() * 1e12),
        drift: pick(0, 100e-6) * (random() - 0.5),
      })),
    })
    const lost = pick(0, 0, 0.02, 0.3)
    const trace: RunTrace = without(simulation.trace, () => random() < lost)
    const off = pick(0, 0, MS)
    const maps = simulation.alignment.maps.map((map) => ({
      ...map,
      offsetNs: map.offsetNs + (map.process === stages ? 0 : off * (random() - 0.5)),
    }))
    const { tokens, lanes, omitted, recordingErrors } = attribute(trace, { ...simulation.alignment, maps })
    expect(recordingErrors).toEqual([])
    for (const token of tokens) {
      expectTiled(token)
      if (lost === 0 && sum(token, 'UNATTRIBUTED') > 0)
        expect.fail(`seed ${seed}: ${JSON.stringify(byCategory(token))} of ${token.sequence}/${token.index}`)
    }
    if (lost === 0) expect(omitted).toEqual([])
    for (const { startNs, endNs, busyNs, waitNs, bubbleNs } of lanes) {
      const parts = [...Object.values(busyNs), ...Object.values(waitNs), bubbleNs]
      expect(parts.reduce((a, b) => a + b, 0)).toBe(endNs - startNs)
    }
  }
})

function spanAt(spans: Float64Array, name: number): number {
  for (let at = 0; at < spans.length; at += 6) if (spans[at] === name) return at
  return -1
}

/** A small seeded generator. */
function mulberry(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
