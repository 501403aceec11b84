import { SpanName, SpanPort } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import {
  alignRun,
  attribute,
  attributionTotals,
  type Category,
  coalesced,
  type InjectionPlace,
  overlapped,
  type Prediction,
  type RunTrace,
  replayModel,
  scaled,
  shrunk,
  type WhatIf,
  whatIf,
  widened,
} from '../src/index.ts'
import { type Draw, type SimulatedRun, simulate, without } from './simulator.ts'

const MS = 1_000_000

/** The published example: stages of 8, 14 and 9 ms, hops of 3 ms to the first byte and 0.5 ms to the last. */
function example(sequences: number): SimulatedRun {
  return {
    ...{ stages: 3, sequences, tokens: 64, computeNs: [8 * MS, 14 * MS, 9 * MS], promptTokens: 1 },
    ...{ delayNs: [3 * MS, 3 * MS, 3.5 * MS], bytesPerNs: 1024 / (0.5 * MS), jitter: 0.15, seed: sequences },
  }
}

/** With work on the loops that counts. */
const costsNs: Partial<Record<Category, number>> = {
  ...{ 'convert.encode': 900_000, 'convert.decode': 700_000, checksum: 80_000, 'frame.encode': 200_000 },
  ...{ 'frame.decode': 150_000, 'send.call': 120_000, dispatch: 60_000, 'compute.submit': 50_000 },
  ...{ 'compute.sync': 70_000, sample: 400_000, emit: 40_000, 'cpu.wait': 30_000 },
}

type Predicting = Extract<WhatIf, { ok: true }>

function analysed(trace: RunTrace, alignment: Parameters<typeof alignRun>[1]) {
  const model = replayModel(alignRun(trace, alignment))
  return { model, result: whatIf(model) }
}

type Predictor = Predicting & { readonly model: ReturnType<typeof replayModel> }
const predictors = new WeakMap<SimulatedRun, Predictor>()

function predicting(run: SimulatedRun): Predictor {
  const known = predictors.get(run)
  if (known !== undefined) return known
  const { trace, alignment } = simulate(run)
  const { model, result } = analysed(trace, alignment)
  if (!result.ok) return expect.fail(result.reason)
  const predictor = Object.assign(result, { model })
  predictors.set(run, predictor)
  return predictor
}

/** The range that the two policies span holds the truth, within some points of a percent. */
function expectGain(run: SimulatedRun, changed: SimulatedRun, prediction: Prediction, points = 1.5): void {
  const before = simulate(run)
  const after = simulate(changed)
  const throughput = (before.makespanNs / after.makespanNs - 1) * 100
  const tpot = (before.tpotNs / after.tpotNs - 1) * 100
  const { frozen, requeued } = prediction
  for (const [truth, ...range] of [
    [throughput, frozen!.throughputPct, requeued!.throughputPct],
    [tpot, frozen!.tpotPct, requeued!.tpotPct],
  ] as const) {
    expect(truth).toBeGreaterThan(Math.min(...range) - points)
    expect(truth).toBeLessThan(Math.max(...range) + points)
  }
}

const isWire = (category: Category) => category === 'wire.first' || category === 'wire.rest'

describe.each([
  { sequences: 1, slow: 7.2, wire: 14.4 },
  { sequences: 3, slow: 10.2, wire: 2.4 },
  { sequences: 4, slow: 24.2, wire: 0 },
  { sequences: 6, slow: 24.9, wire: 0 },
])('three stages with $sequences sequences in flight', ({ sequences, slow, wire }) => {
  const run = example(sequences)

  it('repeats what was recorded', () => {
    for (const { makespanErrorPct, tokenErrorP95Pct } of predicting(run).gates) {
      expect(makespanErrorPct).toBeLessThan(0.01)
      expect(tokenErrorP95Pct).toBeLessThan(0.01)
    }
  })

  it(`predicts ${slow} % for a slowest stage that takes 20 % less`, () => {
    const place = { category: 'compute.device', process: 2, port: -1 } as const
    const prediction = predicting(run).predict(scaled(place, 0.8))
    const isSlow = (draw: Draw) => draw.category === 'compute.device' && draw.place === 1
    expectGain(run, { ...run, scale: (draw) => (isSlow(draw) ? 0.8 : 1) }, prediction)
    expect(Math.abs(prediction.requeued!.tpotPct - slow)).toBeLessThan(1.5)
  })

  it(`predicts ${wire} % for half the wire`, () => {
    const prediction = predicting(run).predict({
      duration: ({ category, ns }) => (isWire(category) ? ns / 2 : ns),
    })
    expectGain(run, { ...run, scale: ({ category }) => (isWire(category) ? 0.5 : 1) }, prediction)
    expect(Math.abs(prediction.requeued!.tpotPct - wire)).toBeLessThan(1.5)
  })
})

describe('the gate', () => {
  const chains: Record<string, Partial<SimulatedRun>> = {
    'one stage': { stages: 1 },
    'two stages': { stages: 2, sequences: 3 },
    'four stages and long prompts': {
      ...{ stages: 4, computeNs: [4 * MS, 5 * MS, 6 * MS, 3 * MS], promptTokens: 40, chunkTokens: 8 },
    },
    'credit for one step': { window: 1 },
    'credit for two steps': { window: 2, sequences: 6 },
    'credit that comes from afar': {
      ...{ window: 3, sequences: 1, promptTokens: 56, chunkTokens: 8, delayNs: [20 * MS] },
      computeNs: [MS / 2, MS / 2, MS / 2],
    },
    'two rows a step': { rowsPerStep: 2 },
    'a closed loop': { requests: 9, tokens: 12, promptTokens: 9, chunkTokens: 4 },
    'tokens by way of the coordinator': { throughCoordinator: true },
    'a relay': {
      ...{
        relayHop: 1,
        costsNs: { ...costsNs, 'relay.in': 100_000, 'relay.queue': 2 * MS, 'relay.out': 90_000 },
      },
    },
    'a slow link': { bytesPerNs: 1024 / (16 * MS) },
    'sequences that take long to open': { costsNs: { ...costsNs, open: 40 * MS } },
    'clocks of their own': {
      clocks: [0, 1, 2, 3].map((i) => ({ offsetNs: i * 7e9, drift: (i - 1) * 15e-6 })),
    },
  }
  it.each(Object.entries(chains))('lets %s pass', (_, chain) => {
    const { gates } = predicting({ ...example(4), costsNs, tokens: 32, ...chain })
    expect(gates.filter(({ passed }) => !passed)).toEqual([])
  })

  it('refuses where time passed that was not recorded', () => {
    const { trace, alignment } = simulate({ ...example(1), costsNs: { ...costsNs, dispatch: 2 * MS } })
    const holed = without(trace, (_, name) => name === SpanName.dispatch)
    const { result } = analysed(holed, alignment)
    expect(result.ok).toBe(false)
    if (!result.ok) expect(result.reason).toContain('was not recorded')
  })
})

it('predicts what a wider window does for a long prompt over a long way', () => {
  const run: SimulatedRun = {
    ...{ ...example(1), costsNs, tokens: 8, window: 3, computeNs: [MS / 2, MS / 2, MS / 2] },
    ...{ promptTokens: 56, chunkTokens: 8, delayNs: [20 * MS] },
  }
  const { ttftPct } = predicting(run).predict(widened(-1, 8)).requeued!
  const first = ({ emittedNs }: ReturnType<typeof simulate>) => emittedNs[0]![0]!
  const truth = (first(simulate(run)) / first(simulate({ ...run, window: 24 })) - 1) * 100
  expect(truth).toBeGreaterThan(20)
  expect(Math.abs(ttftPct - truth)).toBeLessThan(1)
})

describe.each([1, 4])('work on the loops with %i sequences in flight', (sequences) => {
  const run = { ...example(sequences), costsNs, tokens: 32 }
  const categories: readonly Category[] = [
    ...(['convert.encode', 'convert.decode', 'frame.encode', 'send.call', 'dispatch'] as const),
    ...(['compute.device', 'sample', 'wire.first', 'wire.rest', 'emit', 'checksum'] as const),
  ]

  it.each(categories)('predicts %s at half and at none', (category) => {
    const { predict } = predicting(run)
    for (const factor of [0.5, 0]) {
      const prediction = predict(scaled({ category, process: -1, port: -1 }, factor))
      const scale = (draw: Draw) => (draw.category === category ? factor : 1)
      expectGain(run, { ...run, scale }, prediction)
    }
  })

  it.runIf(sequences === 1)('gains as much as the attribution charges to a category, and no more', () => {
    const { trace, alignment } = simulate(run)
    const { tokens } = attribute(trace, alignment)
    const { rows } = attributionTotals(tokens.filter(({ index }) => index > 0))
    for (const category of new Set(rows.map((row) => row.category))) {
      const own = rows.filter((row) => row.category === category)
      const sharePct = own.reduce((sum, row) => sum + row.sharePct, 0)
      const { tpotPct } = predicting(run).predict(scaled({ category, process: -1, port: -1 }, 0)).frozen!
      expect(tpotPct, category).toBeLessThan((100 * sharePct) / (100 - sharePct) + 0.5)
      expect(tpotPct, category).toBeGreaterThan((100 * sharePct) / (100 - sharePct) - 2)
    }
  })

  it('predicts one stage and one link alone', () => {
    const { predict } = predicting(run)
    const stage = predict(scaled({ category: 'convert.encode', process: 2, port: SpanPort.hiddenOut }, 0))
    const isStage = ({ category, place }: Draw) => category === 'convert.encode' && place === 1
    expectGain(run, { ...run, scale: (draw) => (isStage(draw) ? 0 : 1) }, stage)
    const link = predict(scaled({ category: 'wire.first', process: 1, port: SpanPort.tokensIn }, 0))
    const isLink = ({ category, port }: Draw) => category === 'wire.first' && port === SpanPort.tokensIn
    expectGain(run, { ...run, scale: (draw) => (isLink(draw) ? 0 : 1) }, link)
  })

  const places: readonly { place: InjectionPlace; isHit: (draw: Draw) => boolean }[] = [
    { place: 'codec', isHit: ({ category }) => category === 'convert.encode' },
    {
      place: 'framing',
      isHit: ({ category, port }) => category === 'frame.encode' && (port === 2 || port === 3),
    },
    {
      place: 'sender queue',
      isHit: ({ category, port }) => category === 'send.queue' && (port === 2 || port === 3),
    },
    { place: 'wire', isHit: ({ category, port }) => category === 'wire.first' && (port === 1 || port === 4) },
    { place: 'compute', isHit: ({ category }) => category === 'compute.device' },
    { place: 'emit', isHit: ({ category }) => category === 'emit' },
  ]
  it.each(places)('predicts what a delay in $place does', ({ place, isHit }) => {
    const { injectionSlope } = predicting(run)
    const delayNs = 300_000
    const { tpotPerNs } = injectionSlope(place, { delayNs })
    const delayed = simulate({ ...run, inject: (draw) => (isHit(draw) ? delayNs : 0) })
    const truly = (delayed.tpotNs - simulate(run).tpotNs) / delayNs
    expect(Math.abs(tpotPerNs - truly)).toBeLessThan(0.1)
  })
})

it('has the published slopes: a wire counts per hop with one sequence, a slow stage per sequence with four', () => {
  const alone = predicting(example(1))
  expect(alone.injectionSlope('wire').tpotPerNs).toBeCloseTo(3, 1)
  expect(alone.injectionSlope('compute', { process: 2 }).tpotPerNs).toBeCloseTo(1, 1)
  expect(alone.injectionSlope('stage queue').tpotPerNs).toBeCloseTo(3, 1)
  expect(alone.injectionSlope('relay')).toMatchObject({ tpotPerNs: 0, occasionsPerToken: 0 })
  const four = predicting(example(4))
  expect(Math.abs(four.injectionSlope('wire').tpotPerNs)).toBeLessThan(0.15)
  expect(four.injectionSlope('compute', { process: 2 }).tpotPerNs).toBeCloseTo(4, 1)
})

it('predicts what a first token gains when opening takes no time, and what a delay there costs', () => {
  const run = { ...example(1), costsNs: { ...costsNs, open: 40 * MS }, tokens: 16 }
  const first = (options: SimulatedRun) => simulate(options).emittedNs[0]![0]!
  const { predict, injectionSlope } = predicting(run)
  const { ttftPct } = predict(scaled({ category: 'open', process: -1, port: -1 }, 0)).requeued!
  const truth = (first(run) / first({ ...run, costsNs }) - 1) * 100
  expect(truth).toBeGreaterThan(50)
  expect(Math.abs(ttftPct - truth)).toBeLessThan(0.5)
  expect(injectionSlope('open')).toMatchObject({ ttftPerNs: 1, tpotPerNs: 0 })
})

describe('other structures', () => {
  const run = { ...example(1), costsNs, jitter: 0, tokens: 16 }

  it('a codec beside the engine costs nothing while it is the faster of both', () => {
    const place = { category: 'convert.encode', process: -1, port: -1 } as const
    const { predict } = predicting(run)
    expect(predict(overlapped(place))).toEqual(predict(scaled(place, 0)))
  })

  it('two frames in one cost what one did', () => {
    const { predict } = predicting(run)
    const scale = ({ category, port }: Draw) =>
      port === SpanPort.hiddenOut && (category === 'frame.encode' || category === 'send.call') ? 0.5 : 1
    expectGain(run, { ...run, scale }, predict(coalesced(SpanPort.hiddenOut, 2)), 0.1)
  })

  it('half the bytes take half as long on the wire', () => {
    const { predict, model } = predicting({ ...run, costsNs: {} })
    const prediction = predict(shrunk(model, -1, 0.5))
    expectGain({ ...run, costsNs: {} }, { ...run, costsNs: {}, bytesPerRow: 512 }, prediction, 0.1)
  })

  it('nothing gets shorter than its floor', () => {
    const { toFloor, predict } = predicting(run)
    const wire = { category: 'wire.first', process: -1, port: -1 } as const
    expect(toFloor(wire, 0)).toMatchObject(predict(scaled(wire, 0)))
    expect(toFloor(wire, 1e9).gainPctRequeued).toBe(0)
    const half = toFloor({ category: 'convert.encode', process: -1, port: -1 }, 450_000)
    expect(half.requeued).toEqual(
      predict(scaled({ category: 'convert.encode', process: -1, port: -1 }, 0.5)).requeued,
    )
  })

  it('lists every place that took time, at four reductions', () => {
    const { predictions } = predicting(run)
    const all = predictions()
    const encodes = all.filter(({ category }) => category === 'convert.encode')
    expect(encodes.map(({ process, reductionPct }) => [process, reductionPct])).toEqual(
      [-1, 1, 2].flatMap((process) => [10, 25, 50, 100].map((pct) => [process, pct])),
    )
    for (const { gainPctFrozen, gainPctRequeued } of all) {
      expect(gainPctFrozen).toBeGreaterThan(-0.01)
      expect(gainPctRequeued).toBeGreaterThan(-0.01)
    }
  })
})
