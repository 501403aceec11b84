import { SpanName, SpanPort, spanTag } from '@seamline/core'
import type { ClockAlignment, ClockMap, ProcessTrace, RunTrace } from '../src/trace.ts'
import { sample } from './sample.ts'

const tag = spanTag(0, 5)

/** A coordinator and two stages with a handful of round numbers. Stage 0's clock is 1000 ns behind that of stage 1. */
export function handTrace(): { trace: RunTrace; alignment: ClockAlignment } {
  const process = (
    name: string,
    role: ProcessTrace['role'],
    stage: number,
    spans: number[],
  ): ProcessTrace => ({
    name,
    role,
    stage,
    layerFirst: 0,
    layerEnd: 4,
    spans: Float64Array.from(spans),
    dropped: 0,
    peakRssBytes: 1,
    spanCostNs: 100,
  })
  const none = SpanPort.none
  const map = (index: number, offsetNs: number): ClockMap => ({
    process: index,
    epochNs: 0,
    offsetNs,
    drift: 0,
    band: [],
    minRttNs: 0,
    probes: 0,
    residualP50Ns: 0,
    residualP95Ns: 0,
  })
  return {
    trace: {
      ...sample({ sequences: 1, tokens: 2 }).trace,
      processes: [
        process('coordinator', 'coordinator', -1, [SpanName.request, 10_000, 10_000, spanTag(0, 0), 0, none]),
        process('stage 0', 'stage', 0, [
          // Two steps wait at the same time, neither inside the other.
          ...[SpanName.stageQueue, 9_500, 11_001, tag, 0, none],
          ...[SpanName.stageQueue, 10_000, 12_000, spanTag(1, 5), 0, none],
          ...[SpanName.compute, 11_001, 15_000, tag, 0, none],
          ...[SpanName.cpuWait, 14_000, 15_000, tag, 0, none],
          ...[SpanName.frameEncode, 15_000, 15_200, tag, 100, SpanPort.hiddenOut],
          ...[SpanName.send, 15_200, 15_450, tag, 100, SpanPort.hiddenOut],
          ...[SpanName.sendQueue, 15_200, 15_900, tag, 100, SpanPort.hiddenOut],
        ]),
        process('stage 1', 'stage', 1, [
          ...[SpanName.frameDecode, 17_000, 17_123, tag, 100, SpanPort.hiddenIn],
          ...[SpanName.receive, 17_123, 17_200, tag, 100, SpanPort.hiddenIn],
        ]),
      ],
      sequences: [
        { sequence: 0, promptTokens: 5, acceptedNs: 10_000, emittedNs: [20_000, 30_000], tokens: [1, 2] },
      ],
    },
    alignment: { maps: [map(0, 0), map(1, 1_000), map(2, 0)], closures: [] },
  }
}
