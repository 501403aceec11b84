import { SpanName, SpanPort, spanTag } from '@seamline/core'
import type { BytesRow, MetricRow, WhatIfRow } from '../src/summary.ts'
import type {
  Attribution,
  Category,
  ClockAlignment,
  ClockMap,
  LaneAttribution,
  RunTrace,
  Segment,
  TokenAttribution,
} from '../src/trace.ts'

/** A made-up run whose true times are known: three stages, four sequences, 64 tokens each. Same numbers on every machine. */
export interface Sample {
  readonly trace: RunTrace
  readonly alignment: ClockAlignment
  readonly attribution: Attribution
  readonly metrics: readonly MetricRow[]
  readonly whatIf: readonly WhatIfRow[]
  readonly bytes: readonly BytesRow[]
}

const stages = 3
const promptTokens = 32
const chunkTokens = 16
const computeNs = [6.1e6, 8.9e6, 7.2e6]
const hopNs = 1.2e6
const embedding = 2048
const uncertainNs = 140_000

interface Process {
  readonly index: number
  readonly records: number[]
  loopFreeNs: number
  engineFreeNs: number
}

export function sample(options: { sequences?: number; tokens?: number } = {}): Sample {
  const sequences = options.sequences ?? 4
  const tokens = options.tokens ?? 64
  let state = 12345
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const jitter = (ns: number, part = 0.08): number => Math.round(ns * (1 - part + 2 * part * random()))

  const maps: ClockMap[] = Array.from({ length: stages + 1 }, (_, process) => {
    const last = process === stages
    return {
      process,
      epochNs: last ? 0 : 5e9,
      offsetNs: last ? 0 : [-41_250_000, 12_000_000, 3_500_000][process]!,
      drift: last ? 0 : [4.2e-6, -7.5e-6, 1.1e-6][process]!,
      band: [5e9, 6.4e9, 7.8e9].map((atNs) => ({
        atNs,
        lowNs: last ? 0 : -uncertainNs,
        highNs: last ? 0 : uncertainNs,
      })),
      minRttNs: last ? 0 : 280_000,
      probes: last ? 0 : 412,
      residualP50Ns: last ? 0 : 3_100,
      residualP95Ns: last ? 0 : 21_700,
    }
  })
  // The inverse of the map, so that a process's own clock gives back the true time.
  const own = (process: number, ns: number): number => {
    const map = maps[process]!
    return Math.round((ns - map.offsetNs + map.drift * map.epochNs) / (1 + map.drift))
  }

  const processes: Process[] = Array.from({ length: stages + 1 }, (_, index) => ({
    index,
    records: [],
    loopFreeNs: 0,
    engineFreeNs: 0,
  }))
  const record = (
    process: Process,
    name: SpanName,
    startNs: number,
    endNs: number,
    tag: number,
    bytes = 0,
    port: SpanPort = SpanPort.none,
  ): void => {
    process.records.push(name, own(process.index, startNs), own(process.index, endNs), tag, bytes, port)
  }

  const baseNs = 5e9
  const accepted = Array.from({ length: sequences }, (_, sequence) => baseNs + sequence * 2_000_000)
  const emitted = accepted.map((): number[] => [])
  const attributed: TokenAttribution[] = []
  const path: Segment[][] = accepted.map(() => [])
  const tokenStart = [...accepted]
  const done = accepted.map(() => 0)

  type Step = { atNs: number; run: () => void }
  const queue: Step[] = []
  const later = (atNs: number, run: () => void): void => {
    queue.push({ atNs, run })
  }

  const charge = (
    sequence: number,
    category: Category,
    process: number,
    port: number,
    startNs: number,
    endNs: number,
    bytes = 0,
    reason?: Segment['reason'],
    uncertain = 0,
  ): void => {
    if (endNs === startNs) return
    path[sequence]!.push({
      category,
      process,
      port,
      startNs,
      endNs,
      bytes,
      uncertainNs: uncertain,
      ...(reason === undefined ? {} : { reason }),
    })
  }

  /** Work of the event loop, one piece after another, once it is free. */
  const loop = (
    process: Process,
    sequence: number,
    critical: boolean,
    atNs: number,
    tag: number,
    pieces: readonly [SpanName, Category, number, number, SpanPort][],
  ): number => {
    let now = Math.max(atNs, process.loopFreeNs)
    if (critical) charge(sequence, 'dispatch', process.index, 0, atNs, now, 0, 'loop')
    for (const [name, category, ns, bytes, port] of pieces) {
      const endNs = now + jitter(ns, 0.2)
      record(process, name, now, endNs, tag, bytes, port)
      if (critical) charge(sequence, category, process.index, port, now, endNs, bytes)
      now = endNs
    }
    process.loopFreeNs = now
    return now
  }

  function send(
    from: Process,
    to: Process,
    sequence: number,
    critical: boolean,
    atNs: number,
    tag: number,
    bytes: number,
    outPort: SpanPort,
    inPort: SpanPort,
    arrived: (ns: number) => void,
  ): void {
    const framed = bytes + 96
    const sentNs = loop(from, sequence, critical, atNs, tag, [
      [SpanName.frameEncode, 'frame.encode', 11_000, framed, outPort],
      [SpanName.send, 'send.call', 23_000, framed, outPort],
    ])
    const startNs = from.records.at(-5)!
    const sendStart = Math.round(
      startNs + maps[from.index]!.offsetNs + maps[from.index]!.drift * (startNs - maps[from.index]!.epochNs),
    )
    const firstNs = sentNs + jitter(hopNs, 0.15)
    const restNs = firstNs + Math.round(framed * 0.8)
    record(from, SpanName.sendQueue, sendStart, sentNs + 30_000, tag, framed, outPort)
    later(restNs, () => {
      if (critical) {
        charge(sequence, 'wire.first', to.index, inPort, sentNs, firstNs, framed, undefined, uncertainNs)
        charge(sequence, 'wire.rest', to.index, inPort, firstNs, restNs, framed)
      }
      record(to, SpanName.receive, firstNs, restNs, tag, framed, inPort)
      arrived(
        loop(to, sequence, critical, restNs, tag, [
          [SpanName.frameDecode, 'frame.decode', 6_000, framed, inPort],
          ...(bytes > 8
            ? [
                [SpanName.checksum, 'checksum', 9_000, bytes, inPort] as [
                  SpanName,
                  Category,
                  number,
                  number,
                  SpanPort,
                ],
              ]
            : []),
          [SpanName.dispatch, 'dispatch', 8_000, 0, SpanPort.none],
        ]),
      )
    })
  }

  function stage(
    index: number,
    sequence: number,
    position: number,
    rows: number,
    last: boolean,
    readyNs: number,
  ): void {
    const process = processes[index + 1]!
    const tag = spanTag(sequence, position)
    const lastStage = index === stages - 1
    const critical = rows === 1 || last
    const startNs = Math.max(readyNs, process.engineFreeNs)
    const submitEnd = startNs + jitter(14_000)
    const slow = position % 23 === 11 && index === 1 ? 2.6 : 1
    const computeEnd = submitEnd + jitter(computeNs[index]! * (1 + (rows - 1) * 0.12) * slow)
    const sampleEnd = lastStage && critical ? computeEnd + jitter(210_000) : computeEnd
    process.engineFreeNs = sampleEnd
    record(process, SpanName.stageQueue, readyNs, startNs, tag)
    record(process, SpanName.submit, startNs, submitEnd, tag)
    record(process, SpanName.compute, submitEnd, computeEnd, tag)
    const cpuWait = slow > 1 ? Math.round((computeEnd - submitEnd) * 0.4) : 0
    if (cpuWait > 0) record(process, SpanName.cpuWait, computeEnd - cpuWait, computeEnd, tag)
    if (sampleEnd > computeEnd) record(process, SpanName.sample, computeEnd, sampleEnd, tag)
    if (critical) {
      charge(sequence, 'stage.queue', process.index, 0, readyNs, startNs, 0, 'other.sequence')
      charge(sequence, 'compute.submit', process.index, 0, startNs, submitEnd)
      charge(sequence, 'compute.device', process.index, 0, submitEnd, computeEnd - cpuWait)
      charge(sequence, 'cpu.wait', process.index, 0, computeEnd - cpuWait, computeEnd)
      charge(sequence, 'sample', process.index, 0, computeEnd, sampleEnd)
    }
    later(sampleEnd, () => {
      if (lastStage) {
        if (critical) sampled(sequence, position + rows, sampleEnd)
        return
      }
      const resumed = sampleEnd + jitter(19_000)
      record(process, SpanName.resume, sampleEnd, resumed, tag)
      const unknownNs = jitter(26_000, 0.9)
      if (critical) {
        charge(sequence, 'compute.sync', process.index, 0, sampleEnd, resumed)
        charge(sequence, 'UNATTRIBUTED', process.index, 0, resumed, resumed + unknownNs)
      }
      send(
        process,
        processes[index + 2]!,
        sequence,
        critical,
        resumed + unknownNs,
        tag,
        rows * embedding * 4,
        SpanPort.hiddenOut,
        SpanPort.hiddenIn,
        (ns) => stage(index + 1, sequence, position, rows, last, ns),
      )
    })
  }

  function sampled(sequence: number, position: number, ns: number): void {
    const number = done[sequence]!++
    const segments = path[sequence]!
    path[sequence] = []
    const startNs = tokenStart[sequence]!
    tokenStart[sequence] = ns
    const process = processes[stages]!
    const tag = spanTag(sequence, position)
    const deliveredAt = emitted[sequence]!.length
    attributed.push({
      sequence,
      index: number,
      position,
      startNs,
      endNs: ns,
      segments,
      deliveryNs: 0,
      hiddenNs: {},
    })
    const slot = attributed.length - 1
    const resumed = ns + 20_000
    record(process, SpanName.resume, ns, resumed, spanTag(sequence, position - 1))
    charge(sequence, 'compute.sync', process.index, 0, ns, resumed)
    const more = number + 1 < tokens
    const result = (from: number): void =>
      send(
        process,
        processes[0]!,
        sequence,
        false,
        from,
        tag,
        8,
        SpanPort.resultOut,
        SpanPort.resultIn,
        (at) => {
          const handed = loop(processes[0]!, sequence, false, at, tag, [
            [SpanName.emit, 'emit', 7_000, 0, SpanPort.none],
          ])
          emitted[sequence]![deliveredAt] = own(0, handed)
          attributed[slot] = { ...attributed[slot]!, deliveryNs: handed - ns }
        },
      )
    if (more)
      send(
        process,
        processes[1]!,
        sequence,
        true,
        resumed,
        tag,
        8,
        SpanPort.tokensOut,
        SpanPort.tokensIn,
        (at) => stage(0, sequence, position, 1, false, at),
      )
    result(process.loopFreeNs)
  }

  accepted.forEach((atNs, sequence) => {
    later(atNs, () => {
      record(processes[0]!, SpanName.request, atNs, atNs, spanTag(sequence, 0))
      let now = atNs
      for (let position = 0; position < promptTokens; position += chunkTokens) {
        const last = position + chunkTokens >= promptTokens
        // The wait for the chunks before this one is not what a token's path is about.
        const chunkAt = Math.max(now, processes[0]!.loopFreeNs)
        if (last) charge(sequence, 'dispatch', 0, 0, atNs, chunkAt, 0, 'loop')
        send(
          processes[0]!,
          processes[1]!,
          sequence,
          last,
          chunkAt,
          spanTag(sequence, position),
          chunkTokens * 4,
          SpanPort.promptOut,
          SpanPort.promptIn,
          (at) => stage(0, sequence, position, chunkTokens, last, at),
        )
        now = processes[0]!.loopFreeNs
      }
    })
  })
  while (queue.length > 0) {
    queue.sort((a, b) => b.atNs - a.atNs)
    queue.pop()!.run()
  }

  const endNs = Math.max(...attributed.map((token) => token.endNs))
  processes.forEach((process) => {
    for (let at = baseNs; at < endNs; at += 100e6)
      record(
        process,
        SpanName.memory,
        at,
        at,
        0,
        Math.round(
          (process.index === 0 ? 92 : 410 + 30 * process.index) * 2 ** 20 +
            24e6 * (1 - Math.exp(-(at - baseNs) / 5e8)),
        ),
      )
    record(process, SpanName.gc, baseNs + 733e6, baseNs + 734.2e6, 0)
  })

  const trace: RunTrace = {
    format: 'seamline-trace/1',
    complete: true,
    level: 1,
    settings: {
      startedAt: '2026-03-14T09:26:53.589Z',
      command: [
        'seamline',
        'profile',
        '--local',
        '3',
        '--model',
        'tiny-1b.gguf',
        '--sequences',
        String(sequences),
      ],
      model: 'tiny-1b.gguf',
      modelSha256: 'a'.repeat(64),
      manifestSha256: 'b'.repeat(64),
      engine: 'llama.cpp b9999',
      backend: 'cpu-haswell',
      stages,
      threads: 2,
      sequences,
      rowsPerStep: 1,
      chunkTokens,
      embedding,
      transport: 'tcp',
      framing: 'protobuf',
      codec: 'f32',
      link: { delayMs: 1.2, bitsPerSecond: 1e10 },
      paced: false,
      busyThreads: 6,
      cores: 8,
    },
    processes: processes.map((process) => ({
      name: process.index === 0 ? 'coordinator' : `stage ${process.index - 1}`,
      role: process.index === 0 ? 'coordinator' : 'stage',
      stage: process.index - 1,
      layerFirst: process.index === 0 ? 0 : (process.index - 1) * 8,
      layerEnd: process.index === 0 ? 0 : process.index * 8,
      spans: Float64Array.from(process.records),
      dropped: 0,
      peakRssBytes: Math.round((process.index === 0 ? 118 : 436 + 30 * process.index) * 2 ** 20),
      spanCostNs: 131,
    })),
    sequences: accepted.map((ns, sequence) => ({
      sequence,
      promptTokens,
      acceptedNs: own(0, ns),
      emittedNs: emitted[sequence]!,
      tokens: emitted[sequence]!.map((_, index) => (index * 7919 + sequence) % 32000),
    })),
  }
  const lanes = processes.slice(1).map((process): LaneAttribution => {
    const computed = attributed
      .flatMap((token) => token.segments)
      .filter((segment) => segment.process === process.index)
    const total = (category: Category): number =>
      computed
        .filter((segment) => segment.category === category)
        .reduce((sum, segment) => sum + segment.endNs - segment.startNs, 0)
    const busyNs = {
      'compute.device': total('compute.device'),
      'cpu.wait': total('cpu.wait'),
      sample: total('sample'),
    }
    const busy = busyNs['compute.device'] + busyNs['cpu.wait'] + busyNs.sample
    const idle = endNs - baseNs - busy
    return {
      process: process.index,
      lane: 'engine',
      port: 0,
      startNs: baseNs,
      endNs,
      busyNs,
      waitNs: { 'peer.slow': Math.floor(idle * 0.8) },
      bubbleNs: idle - Math.floor(idle * 0.8),
    }
  })
  const attribution: Attribution = {
    tokens: attributed,
    lanes,
    causalityViolations: 0,
    omitted: [],
    recordingErrors: [],
  }

  const gaps = trace.sequences
    .flatMap(({ emittedNs }) => emittedNs.slice(1).map((ns, at) => ns - emittedNs[at]!))
    .sort((a, b) => a - b)
  const first = trace.sequences.map(({ emittedNs, acceptedNs }) => emittedNs[0]! - acceptedNs)
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length
  const metrics: MetricRow[] = [
    {
      name: 'ttft',
      label: 'Time to first token',
      unit: 'ns',
      value: mean(first),
      samples: first.length,
      definition: 'First token handed over minus request accepted',
    },
    {
      name: 'tpot',
      label: 'Time per output token',
      unit: 'ns',
      value: mean(gaps),
      low: mean(gaps) * 0.985,
      high: mean(gaps) * 1.017,
      samples: sequences,
      definition: '(last − first token) / (tokens − 1), per request',
    },
    {
      name: 'throughput',
      label: 'Throughput',
      unit: 'tokens/s',
      value: (attributed.length / (endNs - baseNs)) * 1e9,
      samples: attributed.length,
      definition: 'All tokens / the window, fill and drain included',
    },
    {
      name: 'itl.p50',
      label: 'Between tokens, median',
      unit: 'ns',
      value: gaps[Math.floor(gaps.length / 2)] ?? null,
      samples: gaps.length,
      definition: 'Between two tokens handed to the caller',
    },
    {
      name: 'itl.p95',
      label: 'Between tokens, p95',
      unit: 'ns',
      value: gaps[Math.floor(gaps.length * 0.95)] ?? null,
      samples: gaps.length,
      definition: 'As above; wants at least 72 independent samples',
    },
    {
      name: 'itl.p99',
      label: 'Between tokens, p99',
      unit: 'ns',
      value: null,
      samples: gaps.length,
      definition: 'As above',
      note: 'Needs at least 368 samples.',
    },
    {
      name: 'bytesPerToken',
      label: 'Hidden rows a token',
      unit: 'bytes',
      value: embedding * 4 * (stages - 1),
      samples: 1,
      definition: 'Rows × width × element, over all links',
    },
  ]
  const curve = (category: string, process: number, port: number, top: number, bend: number): WhatIfRow[] =>
    [10, 25, 50, 100].map((reductionPct) => ({
      category,
      process,
      port,
      reductionPct,
      gainPctFrozen: (top * reductionPct) / 100,
      gainPctRequeued: top * (1 - Math.exp((-bend * reductionPct) / 100)),
    }))
  const messages = tokens * sequences
  return {
    trace,
    alignment: { maps, closures: [{ processes: [1, 2, 3], residualNs: 8_400, allowedNs: 420_000 }] },
    attribution,
    metrics,
    whatIf: [
      ...curve('compute.device', 2, 0, 21.4, 2.6),
      ...curve('compute.device', 3, 0, 2.2, 3),
      ...curve('wire.first', -1, -1, 0.9, 1.4),
      ...curve('frame.encode', -1, -1, 0.04, 1),
      ...curve('checksum', -1, -1, 0.02, 1),
    ],
    bytes: [0, 1].map((from) => ({
      from: `stage ${from}`,
      to: `stage ${from + 1}`,
      link: 'hiddenOut',
      messages,
      logicalBytes: messages * embedding * 4,
      payloadBytes: messages * embedding * 4,
      framedBytes: messages * (embedding * 4 + 96),
      wireBytes: from === 0 ? messages * (embedding * 4 + 96 + 66 * 6) : null,
    })),
  }
}

export const sampleVerdict = {
  kind: 'COMPUTE-BOUND',
  text: 'Stage 1 computes longest and holds the other stages up. With four sequences in flight the links are hidden behind it: halving the wire would gain less than 1 %.',
}

export const sampleLimits = [
  'One host: the links are emulated, so nothing here says how a network behaves.',
  'What-if figures are predictions of a replay, not measurements.',
]
