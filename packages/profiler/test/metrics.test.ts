import { SpanName, SpanPort, spanTag } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { metrics } from '../src/metrics.ts'
import type { ClockAlignment, ProcessTrace, RunTrace, SequenceTrace } from '../src/trace.ts'
import { process, record, settings } from './clock-simulation.ts'

const MS = 1e6

function run(
  sequences: readonly SequenceTrace[],
  processes: readonly ProcessTrace[] = [],
  inFlight = sequences.length,
): RunTrace {
  return {
    ...{ format: 'seamline-trace/1', complete: true, level: processes.length === 0 ? 0 : 1 },
    settings: settings({ sequences: inFlight, stages: 2, embedding: 64 }),
    ...{ processes, sequences },
  }
}

function generation(
  sequence: number,
  promptTokens: number,
  acceptedMs: number,
  ...emittedMs: number[]
): SequenceTrace {
  return {
    ...{ sequence, promptTokens, acceptedNs: acceptedMs * MS, emittedNs: emittedMs.map((ms) => ms * MS) },
    tokens: emittedMs.map((_, i) => i),
  }
}

describe('metrics of stamps alone', () => {
  it('are those of the definitions', () => {
    const { sequences, ...all } = metrics(run([generation(4, 10, 100, 150, 160, 180, 190)]))
    expect(sequences).toEqual([
      {
        ...{ sequence: 4, promptTokens: 10, tokens: 4 },
        ...{ ttftNs: 50 * MS, itlNs: [10 * MS, 20 * MS, 10 * MS], e2eNs: 90 * MS },
        tpotNs: 13_333_333.333333334,
        decodeTokensPerSecond: 75,
      },
    ])
    expect(all).toEqual({
      complete: true,
      ttftNs: { count: 1, p50: 50 * MS, max: 50 * MS },
      itlNs: { count: 3, p50: 10 * MS, max: 20 * MS },
      tpotNs: 13_333_333.333333334,
      decodeTokensPerSecond: 75,
      // From 150 to 190 ms three tokens, from 100 to 190 ms four.
      steady: { tokens: 3, windowNs: 40 * MS, tokensPerSecond: 75 },
      uncut: { tokens: 4, windowNs: 90 * MS, tokensPerSecond: expect.closeTo(44.444444, 6) },
      requestsPerSecond: expect.closeTo(11.111111, 6),
      ...{ peakRssBytes: [], bytesPerToken: [] },
    })
  })

  it('cut fill and drain, and average rates as total over total', () => {
    const two = metrics(run([generation(0, 1, 0, 10, 20, 30, 40), generation(1, 1, 0, 15, 35, 55, 75)]))
    // Both decode from 15 to 40 ms: 20, 30, 40 of the one and 35 of the other.
    expect(two.steady).toEqual({ tokens: 4, windowNs: 25 * MS, tokensPerSecond: 160 })
    expect(two.uncut).toEqual({ tokens: 8, windowNs: 75 * MS, tokensPerSecond: expect.closeTo(106.6667, 4) })
    // 30 ms and 60 ms for three tokens each, not the mean of 100 and 50 a second.
    expect(two.decodeTokensPerSecond).toBeCloseTo(66.6667, 4)
    expect(two.tpotNs).toBe(15 * MS)
  })

  it('keep gaps between requests of a stream in the steady window', () => {
    const stream = [generation(0, 1, 0, 10, 30), generation(1, 1, 0, 12, 20), generation(2, 1, 20, 26, 40)]
    // Two are in flight from 12 to 20 and from 26 to 30 ms: tokens at 20, 26 and 30.
    expect(metrics(run(stream, [], 2)).steady).toEqual({
      ...{ tokens: 3, windowNs: 18 * MS },
      tokensPerSecond: expect.closeTo(166.6667, 4),
    })
    expect(metrics(run(stream, [], 4)).steady).toBeUndefined()
  })

  it.each([
    [71, false, false],
    [72, true, false],
    [367, true, false],
    [368, true, true],
  ])('give tails of %i values only where they mean something', (count, p95, p99) => {
    const times = [0, ...Array.from({ length: count }, (_, i) => ((i + 1) * (i + 2)) / 2)]
    const { itlNs } = metrics(run([generation(0, 1, 0, ...times)]))
    // Gaps are 1 to count ms: type 7 puts quantile q at 1 + q * (count - 1).
    expect(itlNs.count).toBe(count)
    expect(itlNs.max).toBe(count * MS)
    expect(itlNs.p50).toBe((1 + (count - 1) / 2) * MS)
    if (p95) expect(itlNs.p95).toBeCloseTo((1 + 0.95 * (count - 1)) * MS, 3)
    else expect(itlNs).not.toHaveProperty('p95')
    if (p99) expect(itlNs.p99).toBeCloseTo((1 + 0.99 * (count - 1)) * MS, 3)
    else expect(itlNs).not.toHaveProperty('p99')
  })

  it('leave out what there is not', () => {
    const { sequences, ...none } = metrics(run([generation(0, 5, 7), generation(1, 5, 7, 9)], [], 2))
    expect(sequences).toEqual([
      { sequence: 0, promptTokens: 5, tokens: 0, itlNs: [] },
      { sequence: 1, promptTokens: 5, tokens: 1, itlNs: [], ttftNs: 2 * MS, e2eNs: 2 * MS },
    ])
    expect(Object.keys(none)).not.toContain('tpotNs')
    expect(none.itlNs).toEqual({ count: 0 })
    expect(none.requestsPerSecond).toBe(500)
    expect(Object.keys(metrics(run([], [], 1)))).not.toContain('uncut')
  })

  it.each([
    [{ ...generation(0, 1, 0, 5, 4) }],
    [{ ...generation(0, 1, 10, 5) }],
    [{ ...generation(0, 1, 0, 5), emittedNs: [0.5] }],
    [{ ...generation(0, 1, 0, 5), emittedNs: [Number.NaN] }],
    [{ ...generation(0, 1, 0, 5), tokens: [] }],
  ])('refuse stamps that cannot be: %j', (sequence) => {
    expect(() => metrics(run([sequence]))).toThrow(expect.objectContaining({ code: 'MISMATCH' }))
  })
})

describe('metrics of spans', () => {
  const { compute, frameEncode, sendQueue, receive, member, wireBytes } = SpanName
  const { hiddenIn, hiddenOut } = SpanPort
  const tag = (position: number, sequence = 0) => spanTag(sequence, position)
  // A prompt of 10 in chunks of 8 and 2, then steps of two rows at positions 10 and 11; sequence 1 is a further row.
  const first = [
    record(compute, 1000, 1800, tag(0), 2048),
    record(compute, 1900, 2100, tag(8), 512),
    record(member, 2500, 2500, tag(10), tag(10, 1)),
    record(compute, 2500, 2600, tag(10), 512),
    record(compute, 2700, 2800, tag(11), 256),
    record(frameEncode, 1800, 1810, tag(0), 1100, hiddenOut),
    record(wireBytes, 1810, 1810, tag(0), 5000, hiddenOut),
    record(sendQueue, 1810, 1900, tag(0), 1100, hiddenOut),
    record(frameEncode, 2600, 2610, tag(10), 400, hiddenOut),
    record(sendQueue, 2610, 2650, tag(10), 400, hiddenOut),
    record(frameEncode, 2800, 2810, tag(11), 200, hiddenOut),
    record(wireBytes, 2810, 2810, tag(11), 6650, hiddenOut),
    record(sendQueue, 2810, 2850, tag(11), 200, hiddenOut),
  ]
  const second = [
    record(member, 90_500, 90_500, tag(10), tag(10, 1)),
    record(receive, 90_000, 90_100, tag(0), 1024, hiddenIn),
    record(receive, 90_400, 90_500, tag(10), 256, hiddenIn),
    record(receive, 90_800, 90_900, tag(11), 128, hiddenIn),
    record(compute, 91_000, 91_300, tag(0), 0),
    record(compute, 92_000, 92_345, tag(8), 0),
    record(compute, 93_000, 93_100, tag(10), 0),
  ]
  const processes = [
    process('coordinator', -1, [], { peakRssBytes: 11 }),
    process('stage 0', 0, first, { peakRssBytes: 22 }),
    process('stage 1', 1, second, { peakRssBytes: 33 }),
  ]
  const trace = run([generation(0, 10, 0, 1, 2), generation(1, 10, 0, 1, 2)], processes)
  const band = [
    { atNs: 1000, lowNs: 89_900, highNs: 90_100 },
    { atNs: 2000, lowNs: 89_900, highNs: 90_100 },
    { atNs: 3000, lowNs: 89_900, highNs: 90_100 },
  ]
  const map = { epochNs: 1000, drift: 0, minRttNs: 200, probes: 9, residualP50Ns: 0, residualP95Ns: 0, band }
  const clocks: ClockAlignment = {
    maps: [90_000, 90_000, 0].map((offsetNs, index) => ({ ...map, process: index, offsetNs })),
    closures: [],
  }

  it('take prefill from the first start on stage 0 to the last prompt row on the last stage', () => {
    const { sequences, prefillTokensPerSecond } = metrics(trace, clocks)
    // 92345 on the last stage, 1000 + 90000 on that clock.
    expect(sequences[0]!.prefillNs).toBe(1345)
    expect(sequences[0]!.prefillUncertainNs).toBe(100)
    expect(sequences[0]!.prefillTokensPerSecond).toBeCloseTo((10 / 1345) * 1e9, 3)
    expect(sequences[1]).not.toHaveProperty('prefillNs')
    expect(prefillTokensPerSecond).toBeCloseTo((10 / 1345) * 1e9, 3)
  })

  it('leave prefill out where the clocks are not aligned', () => {
    const none = { ...clocks, maps: clocks.maps.map((one) => ({ ...one, band: [] })) }
    for (const { sequences } of [metrics(trace), metrics(trace, none)])
      expect(sequences[0]).not.toHaveProperty('prefillNs')
  })

  it('need no clocks for prefill on one stage', () => {
    const { sequences } = metrics(run([generation(0, 10, 0, 1)], [process('stage 0', 0, first)]))
    expect(sequences[0]).toMatchObject({ prefillNs: 1100, prefillUncertainNs: 0 })
  })

  it('count the bytes of one decoded token at four layers', () => {
    // 3 rows in two decode steps: payload 256 + 128, framed 400 + 200; 1650 bytes on the wire for frames of 1100 + 400.
    expect(metrics(trace).bytesPerToken).toEqual([
      { stage: 0, logical: 256, payload: 128, framed: 200, wire: expect.closeTo(220, 9) },
    ])
    const bare = processes.map((one) => ({ ...one, spans: new Float64Array() }))
    expect(metrics({ ...trace, processes: bare }).bytesPerToken).toEqual([{ stage: 0, logical: 256 }])
  })

  it('name the peak memory of every process', () => {
    expect(metrics(trace).peakRssBytes).toEqual([
      { process: 'coordinator', bytes: 11 },
      { process: 'stage 0', bytes: 22 },
      { process: 'stage 1', bytes: 33 },
    ])
  })
})
