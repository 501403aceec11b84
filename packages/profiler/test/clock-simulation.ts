import { SPAN_RECORD_LENGTH, SpanName, SpanPort, spanTag } from '@seamline/core'
import type { ProcessTrace, RunSettings, RunTrace } from '../src/index.ts'

/** A clock that reads `startNs` when true time is 0 and runs fast by `ppm`. */
export interface SimulatedClock {
  readonly startNs: number
  readonly ppm: number
  /** Changes of it on the way. */
  readonly jump?: { readonly atNs: number; readonly byNs: number }
  readonly bend?: { readonly atNs: number; readonly byPpm: number }
}

/** One-way delays of a path, drawn anew for every message. */
export interface SimulatedPath {
  thereNs(): number
  backNs(): number
}

export type Random = () => number

/** Mulberry32. */
export function seeded(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

export const exponential = (random: Random, meanNs: number) => -Math.log(1 - random()) * meanNs

/** What the clock shows at a true time, in whole ns. The true time is small, so that only the start is large. */
export function reading({ startNs, ppm, jump, bend }: SimulatedClock, trueNs: number): number {
  const drifted = trueNs * ppm * 1e-6
  const jumped = jump !== undefined && trueNs >= jump.atNs ? jump.byNs : 0
  const bent = bend !== undefined && trueNs > bend.atNs ? (trueNs - bend.atNs) * bend.byPpm * 1e-6 : 0
  return startNs + Math.floor(trueNs + drifted + jumped + bent)
}

/** The true time at which a clock without jump or bend shows `ownNs`. */
export function trueTime({ startNs, ppm }: SimulatedClock, ownNs: number): number {
  return (ownNs - startNs) / (1 + ppm * 1e-6)
}

export function settings(over: Partial<RunSettings> = {}): RunSettings {
  return {
    startedAt: '2026-01-02T03:04:05.000Z',
    command: ['seamline', 'bench'],
    ...{ model: 'm.gguf', modelSha256: 'a', manifestSha256: 'b', engine: 'fake', backend: 'cpu' },
    ...{ stages: 3, threads: 1, sequences: 1, rowsPerStep: 1, chunkTokens: 8, embedding: 64 },
    ...{ transport: 'tcp', framing: 'binary', codec: 'f32', paced: true, busyThreads: 1, cores: 8, ...over },
  }
}

export function process(
  name: string,
  stage: number,
  records: readonly (readonly number[])[],
  over: Partial<ProcessTrace> = {},
): ProcessTrace {
  return {
    ...{ name, role: stage < 0 ? 'coordinator' : 'stage', stage, layerFirst: stage, layerEnd: stage + 1 },
    spans: Float64Array.from(records.flat()),
    ...{ dropped: 0, peakRssBytes: 1 << 20, spanCostNs: 100, ...over },
  }
}

/** One record in the order of `SpanSink.span`. */
export function record(
  name: SpanName,
  startNs: number,
  endNs: number,
  tag = 0,
  bytes = 0,
  port = 0,
): number[] {
  return [name, startNs, endNs, tag, bytes, port]
}

/** A coordinator and stages, probing each other ten times a second, with a message along the ring after every probe. */
export function simulate(
  clocks: readonly SimulatedClock[],
  path: (from: number, to: number) => SimulatedPath,
  seconds: number,
): RunTrace {
  const records: number[][][] = clocks.map(() => [])
  const last = clocks.length - 1
  const at = (clock: number, trueNs: number) => reading(clocks[clock]!, trueNs)

  function probe(from: number, to: number, port: number, trueNs: number): void {
    const link = path(from, to)
    const arrives = trueNs + link.thereNs()
    const answers = arrives + 3000
    const returns = answers + link.backNs()
    const [t1, t2, t3, t4] = [at(from, trueNs), at(to, arrives), at(to, answers), at(from, returns)]
    records[from]!.push(record(SpanName.probe, t1, t4, t2, t3, port))
  }

  function message(from: number, to: number, out: SpanPort, into: SpanPort, tag: number, trueNs: number) {
    const arrives = trueNs + path(from, to).thereNs()
    records[from]!.push(record(SpanName.sendQueue, at(from, trueNs), at(from, trueNs) + 900, tag, 100, out))
    records[to]!.push(record(SpanName.frameDecode, at(to, arrives), at(to, arrives) + 700, tag, 0, into))
  }

  let tag = 0
  for (let trueNs = 1e6; trueNs < seconds * 1e9; trueNs += 1e8) {
    for (let stage = 1; stage <= last; stage++) {
      probe(0, stage, 100 + stage - 1, trueNs)
      if (stage > 1) probe(stage, stage - 1, SpanPort.hiddenIn, trueNs + 1e5)
    }
    if (last > 1) probe(1, last, SpanPort.tokensIn, trueNs + 2e5)
    tag = spanTag(0, Math.round(trueNs / 1e8))
    message(0, 1, SpanPort.promptOut, SpanPort.promptIn, tag, trueNs + 2e7)
    for (let stage = 1; stage < last; stage++)
      message(stage, stage + 1, SpanPort.hiddenOut, SpanPort.hiddenIn, tag, trueNs + 2e7 + stage * 1e7)
    if (last > 1) message(last, 1, SpanPort.tokensOut, SpanPort.tokensIn, tag, trueNs + 6e7)
    message(last, 0, SpanPort.resultOut, SpanPort.resultIn, tag, trueNs + 6e7)
  }
  return {
    ...{ format: 'seamline-trace/1', complete: true, level: 1, settings: settings({ stages: last }) },
    processes: records.map((own, i) => process(i === 0 ? 'coordinator' : `stage ${i - 1}`, i - 1, own)),
    sequences: [],
  }
}

export { SPAN_RECORD_LENGTH }
