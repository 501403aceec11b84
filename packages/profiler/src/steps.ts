import { SeamError, SPAN_RECORD_LENGTH, SpanName, SpanPort, spanTag, spanTagParts } from '@seamline/core'
import type { Category, ProcessTrace, RunTrace, SequenceTrace } from './trace.ts'

/** One record of a trace, its stamps rounded to integer ns: from here on sums are exact. */
export interface Span {
  readonly name: SpanName
  readonly startNs: number
  readonly endNs: number
  readonly tag: number
  readonly bytes: number
  readonly port: number
}

/** Intervals that can be asked for by time. */
export interface Timeline {
  /** By start. */
  readonly spans: readonly Span[]
  /** Spans that overlap `[startNs, endNs]`, by start. */
  between(startNs: number, endNs: number): Span[]
}

/** The spans of one process, found by tag and by time. */
export interface ProcessIndex {
  /** Index in {@link RunTrace.processes}. */
  readonly process: number
  readonly trace: ProcessTrace
  readonly byTag: ReadonlyMap<number, readonly Span[]>
  /** `compute` and `sample`. */
  readonly engine: Timeline
  /** What keeps the event loop, without `gc`. */
  readonly loop: Timeline
  readonly gc: Timeline
  /** The `sendQueue` of the frames over one link. */
  queue(port: number): Timeline
  /** The last span of `name` with `tag`, over `port` where one is given. */
  find(name: SpanName, tag: number, port?: SpanPort): Span | undefined
  /** The tag of the step that holds the row `tag`. */
  leadOf(tag: number): number
  /** Tags of the rows of the step `lead`, that first. */
  rowsOf(lead: number): readonly number[]
}

/** A frame from one process to another. Either side may lack records. */
export interface Message {
  readonly from: ProcessIndex
  readonly to: ProcessIndex
  readonly tag: number
  readonly outPort: SpanPort
  readonly inPort: SpanPort
  /** On the sender's clock: the frame is handed to the transport. */
  readonly sentNs: number | undefined
  /** On the receiver's clock: the first byte is in memory. */
  readonly firstNs: number | undefined
  readonly bytes: number
}

export interface RunIndex {
  readonly trace: RunTrace
  readonly processes: readonly ProcessIndex[]
  readonly coordinator: ProcessIndex
  /** In the order of the chain. */
  readonly stages: readonly ProcessIndex[]
  readonly relays: readonly ProcessIndex[]
  /** Positions at which the chunks of a prompt begin, ascending. */
  chunksOf(sequence: SequenceTrace): readonly number[]
  /** When as many decode steps were on their way round the chain as `rowsPerStep` lets be: no further one began. */
  readonly crowded: Timeline
  /** The tag of the token that the row `tag` brings about, where its step samples. */
  nextTag(tag: number): number
  /** The hidden rows of the step `tag` on their way to stage `stage`, 1 at least. */
  hiddenMessage(stage: number, tag: number): Message
  promptMessage(tag: number): Message
  /** The way of the token of the row `tag` from the last stage to stage 0: one message, or two by way of the coordinator. */
  tokenMessages(tag: number): readonly Message[]
  /** The token of the row `tag` on its way to the coordinator. */
  resultMessage(tag: number): Message
}

/** What each span of a step is charged to; `compress` instead of `convert` where the codec makes bytes fewer by entropy. */
export function categoryOf(name: SpanName): Category | undefined {
  return charged[name]
}

const charged: Readonly<Partial<Record<SpanName, Category>>> = {
  [SpanName.stageQueue]: 'stage.queue',
  [SpanName.compute]: 'compute.device',
  [SpanName.sample]: 'sample',
  [SpanName.codecEncode]: 'convert.encode',
  [SpanName.codecDecode]: 'convert.decode',
  [SpanName.frameEncode]: 'frame.encode',
  [SpanName.frameDecode]: 'frame.decode',
  [SpanName.checksum]: 'checksum',
  [SpanName.send]: 'send.call',
  [SpanName.sendQueue]: 'send.queue',
  [SpanName.receive]: 'wire.rest',
  [SpanName.emit]: 'emit',
  [SpanName.open]: 'open',
  [SpanName.copy]: 'copy',
  [SpanName.tokenize]: 'tokenize',
  [SpanName.detokenize]: 'detokenize',
  [SpanName.submit]: 'compute.submit',
  [SpanName.resume]: 'compute.sync',
  [SpanName.cpuWait]: 'cpu.wait',
  [SpanName.dispatch]: 'dispatch',
  [SpanName.creditWait]: 'wait.credit',
  [SpanName.gc]: 'gc',
  [SpanName.relayIn]: 'relay.in',
  [SpanName.relayQueue]: 'relay.queue',
  [SpanName.relayOut]: 'relay.out',
}

/** Spans during which the event loop does nothing else. */
export const loopNames: ReadonlySet<SpanName> = new Set<SpanName>([
  SpanName.codecEncode,
  SpanName.codecDecode,
  SpanName.frameEncode,
  SpanName.frameDecode,
  SpanName.checksum,
  SpanName.send,
  SpanName.dispatch,
  SpanName.copy,
  SpanName.tokenize,
  SpanName.detokenize,
])

/** Joins the records of a trace by tag. Throws `USAGE` for a trace without a coordinator or with stages missing. */
export function indexRun(trace: RunTrace): RunIndex {
  const processes = trace.processes.map(indexProcess)
  const coordinator = processes.find(({ trace }) => trace.role === 'coordinator')
  const stages = processes
    .filter(({ trace }) => trace.role === 'stage')
    .sort((a, b) => a.trace.stage - b.trace.stage)
  if (coordinator === undefined || stages.length === 0)
    throw new SeamError(
      'USAGE',
      `a trace needs a coordinator and stages; this one has ${processes.length} processes and ${stages.length} stages`,
    )
  for (const [i, { trace }] of stages.entries()) {
    if (trace.stage !== i)
      throw new SeamError(
        'USAGE',
        `the trace of stage ${i} is missing; ${trace.name} is stage ${trace.stage}: record every stage`,
      )
  }
  const last = stages.at(-1)!
  const first = stages[0]!
  const prompts = new Map(trace.sequences.map(({ sequence, promptTokens }) => [sequence, promptTokens]))
  const chunks = promptChunks(processes, prompts)

  function message(
    from: ProcessIndex,
    to: ProcessIndex,
    outPort: SpanPort,
    inPort: SpanPort,
    tag: number,
  ): Message {
    const encode = from.find(SpanName.frameEncode, tag, outPort)
    const queue = from.find(SpanName.sendQueue, tag, outPort) ?? from.find(SpanName.send, tag, outPort)
    return {
      ...{ from, to, tag, outPort, inPort },
      sentNs: queue?.startNs ?? encode?.endNs,
      firstNs: to.find(SpanName.frameDecode, tag, inPort)?.startNs,
      bytes: queue?.bytes ?? encode?.bytes ?? 0,
    }
  }

  /** The tag of the frame that took the token of `tag` out of the last stage, by what that step sampled. */
  function frameTag(tag: number, from: ProcessIndex, port: SpanPort): number {
    const rows = last.rowsOf(last.leadOf(tag))
    for (const row of rows) {
      const next = nextTag(row)
      if (from.find(SpanName.frameEncode, next, port) ?? from.find(SpanName.sendQueue, next, port))
        return next
    }
    return nextTag(rows[0]!)
  }

  /** The tag of the token that follows the row `tag`. */
  function nextTag(tag: number): number {
    const { sequence, position } = spanTagParts(tag)
    return spanTag(sequence, Math.max(position + 1, prompts.get(sequence) ?? 0))
  }

  return {
    ...{ trace, processes, coordinator, stages },
    crowded: crowded(trace, first, nextTag),
    relays: processes.filter(({ trace }) => trace.role === 'relay'),
    nextTag,
    chunksOf: ({ sequence }) => chunks.get(sequence) ?? [],
    hiddenMessage: (stage, tag) =>
      message(stages[stage - 1]!, stages[stage]!, SpanPort.hiddenOut, SpanPort.hiddenIn, tag),
    promptMessage: (tag) => message(coordinator, first, SpanPort.promptOut, SpanPort.promptIn, tag),
    tokenMessages(tag) {
      if (first === last) return []
      const direct = message(
        ...[last, first, SpanPort.tokensOut, SpanPort.tokensIn, frameTag(tag, last, SpanPort.tokensOut)],
      )
      if (direct.sentNs !== undefined) return [direct]
      const relayed = frameTag(tag, coordinator, SpanPort.tokensOut)
      const onward = message(coordinator, first, SpanPort.tokensOut, SpanPort.tokensIn, relayed)
      return onward.sentNs === undefined ? [direct] : [this.resultMessage(tag), onward]
    },
    resultMessage: (tag) =>
      message(
        ...[
          last,
          coordinator,
          SpanPort.resultOut,
          SpanPort.resultIn,
          frameTag(tag, last, SpanPort.resultOut),
        ],
      ),
  }
}

function promptChunks(
  processes: readonly ProcessIndex[],
  prompts: ReadonlyMap<number, number>,
): ReadonlyMap<number, readonly number[]> {
  const found = new Map<number, Set<number>>()
  for (const { byTag } of processes) {
    for (const [tag, spans] of byTag) {
      const { sequence, position } = spanTagParts(tag)
      if (position >= (prompts.get(sequence) ?? 0)) continue
      if (spans.every(({ name }) => name === SpanName.request || name === SpanName.open)) continue
      const chunks = found.get(sequence) ?? new Set()
      found.set(sequence, chunks.add(position))
    }
  }
  return new Map([...found].map(([sequence, chunks]) => [sequence, [...chunks].sort((a, b) => a - b)]))
}

function crowded(trace: RunTrace, first: ProcessIndex, nextTag: (tag: number) => number): Timeline {
  const { sequences, rowsPerStep } = trace.settings
  if (rowsPerStep <= 1) return timeline([])
  const most = Math.ceil(sequences / rowsPerStep)
  const changes: { readonly atNs: number; readonly by: number }[] = []
  for (const tag of first.byTag.keys()) {
    const { startNs } = first.find(SpanName.dispatch, tag, SpanPort.tokensIn) ?? {}
    const startedNs = first.find(SpanName.stageQueue, tag)?.endNs
    if (startNs === undefined || startedNs === undefined) continue
    const back = first.find(SpanName.dispatch, nextTag(tag), SpanPort.tokensIn)
    if (back === undefined) continue
    changes.push({ atNs: startedNs, by: 1 }, { atNs: back.endNs, by: -1 })
  }
  changes.sort((a, b) => a.atNs - b.atNs || a.by - b.by)
  const spans: Span[] = []
  let count = 0
  let sinceNs = 0
  for (const { atNs, by } of changes) {
    const was = count
    count += by
    if (was < most && count >= most) sinceNs = atNs
    if (was >= most && count < most)
      spans.push({ name: SpanName.stageQueue, startNs: sinceNs, endNs: atNs, tag: -1, bytes: 0, port: 0 })
  }
  return timeline(spans)
}

/** Records that no step owns: their tag is something else. */
const untagged: ReadonlySet<SpanName> = new Set<SpanName>([
  SpanName.gc,
  SpanName.probe,
  SpanName.memory,
  SpanName.wireBytes,
  SpanName.loopCpuWait,
  SpanName.relayIn,
  SpanName.relayQueue,
  SpanName.relayOut,
  SpanName.calibration,
])

function indexProcess(trace: ProcessTrace, process: number): ProcessIndex {
  const byTag = new Map<number, Span[]>()
  const leads = new Map<number, number>()
  const rows = new Map<number, number[]>()
  const engine: Span[] = []
  const loop: Span[] = []
  const gc: Span[] = []
  const queues = new Map<number, Span[]>()
  const lines = new Map<number, Timeline>()
  for (const span of spansOf(trace)) {
    if (span.name === SpanName.gc) gc.push(span)
    if (untagged.has(span.name)) continue
    if (span.name === SpanName.member) {
      leads.set(span.bytes, span.tag)
      const group = rows.get(span.tag) ?? [span.tag]
      rows.set(span.tag, group)
      if (!group.includes(span.bytes)) group.push(span.bytes)
      continue
    }
    const same = byTag.get(span.tag)
    if (same === undefined) byTag.set(span.tag, [span])
    else same.push(span)
    if (span.name === SpanName.compute || span.name === SpanName.sample) engine.push(span)
    else if (loopNames.has(span.name)) loop.push(span)
    else if (span.name === SpanName.sendQueue)
      queues.get(span.port)?.push(span) ?? queues.set(span.port, [span])
  }
  return {
    ...{ process, trace, byTag },
    engine: timeline(engine),
    loop: timeline(loop),
    gc: timeline(gc),
    queue(port) {
      const line = lines.get(port) ?? timeline(queues.get(port) ?? [])
      lines.set(port, line)
      return line
    },
    find: (name, tag, port) =>
      byTag.get(tag)?.findLast((span) => span.name === name && (port === undefined || span.port === port)),
    leadOf: (tag) => leads.get(tag) ?? tag,
    rowsOf: (lead) => rows.get(lead) ?? [lead],
  }
}

/** All records of a process in their order, stamps rounded once. */
export function* spansOf({ spans }: ProcessTrace): Generator<Span> {
  for (let at = 0; at + SPAN_RECORD_LENGTH <= spans.length; at += SPAN_RECORD_LENGTH) {
    const startNs = Math.round(spans[at + 1]!)
    yield {
      name: spans[at] as SpanName,
      startNs,
      endNs: Math.max(startNs, Math.round(spans[at + 2]!)),
      tag: spans[at + 3]!,
      bytes: spans[at + 4]!,
      port: spans[at + 5]!,
    }
  }
}

export function timeline(unsorted: Iterable<Span>): Timeline {
  const spans = [...unsorted].sort((a, b) => a.startNs - b.startNs || b.endNs - a.endNs)
  const latestEnds: number[] = []
  for (const { endNs } of spans) latestEnds.push(Math.max(endNs, latestEnds.at(-1) ?? -Infinity))
  return {
    spans,
    between(startNs, endNs) {
      let low = 0
      let high = spans.length
      while (low < high) {
        const middle = (low + high) >>> 1
        if (spans[middle]!.startNs < endNs) low = middle + 1
        else high = middle
      }
      const found: Span[] = []
      for (let i = low - 1; i >= 0 && latestEnds[i]! > startNs; i--) {
        if (spans[i]!.endNs > startNs) found.push(spans[i]!)
      }
      return found.reverse()
    },
  }
}
