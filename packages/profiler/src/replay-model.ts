import { SpanName, SpanPort, spanTagParts } from '@seamline/core'
import type { AlignedRun } from './aligned.ts'
import { placed } from './clock-map.ts'
import { credit, endDelay, leftNs, recordedMakespanNs, requests, sampledBy } from './replay-edges.ts'
import { linkCosts, type RecordedFrame } from './replay-links.ts'
import type { Cost, Frame, ReplayModel, StageStep } from './replay-types.ts'
import { categoryOf, type Message, type ProcessIndex, type Span, timeline } from './steps.ts'
import type { Category, Segment } from './trace.ts'

/** Takes the durations of a run and their order apart from when things happened: waits are not in it, a replay makes its own. */
export function replayModel(aligned: AlignedRun): ReplayModel {
  const { run, alignment, hops } = aligned
  const { coordinator, stages, trace } = run
  const last = stages.at(-1)!
  const on = (at: ProcessIndex, ns: number) => placed(alignment.maps[at.process]!, ns)

  function cost(category: Category, at: ProcessIndex, port: number, ns: number, bytes = 0): Cost {
    return { category, process: at.process, port, ns: Math.max(0, ns), bytes }
  }
  /** The loop's time for `span` alone, without what it holds. */
  function alone(at: ProcessIndex, span: Span): number {
    const inner = at.loop
      .between(span.startNs, span.endNs)
      .filter((other) => other !== span && other.endNs - other.startNs < span.endNs - span.startNs)
    return uncovered(span.startNs, span.endNs, inner)
  }
  function spanCost(at: ProcessIndex, name: SpanName, tag: number, port: SpanPort): Cost {
    const span = at.find(name, tag, port)
    return cost(categoryOf(name)!, at, port, span === undefined ? 0 : alone(at, span), span?.bytes ?? 0)
  }

  const recorded: RecordedFrame[] = []
  function frameOf(message: Message, before: readonly Cost[], after: readonly Cost[] = []): Frame {
    const { from, to, tag, outPort, inPort, sentNs, firstNs, bytes } = message
    const isWhole = sentNs !== undefined && firstNs !== undefined
    const startNs = isWhole ? on(from, sentNs) : 0
    const endNs = isWhole ? Math.max(startNs, on(to, firstNs)) : 0
    const way = isWhole ? hops.split(message, to, startNs, endNs, 0, new Set([tag])) : []
    const of = (category: Category) => way.filter((segment) => segment.category === category)
    const length = (segments: readonly Segment[]) =>
      segments.reduce((sum, { startNs, endNs }) => sum + endNs - startNs, 0)
    const relays = (['relay.in', 'relay.queue', 'relay.out'] as const).flatMap((category) => {
      const parts = of(category)
      return parts.length === 0
        ? []
        : [{ category, process: parts[0]!.process, port: inPort, ns: length(parts), bytes }]
    })
    const header = spanCost(to, SpanName.frameDecode, tag, inPort)
    const receive = to.find(SpanName.receive, tag, inPort)
    const restNs = receive === undefined ? 0 : receive.endNs - receive.startNs
    const call = from.find(SpanName.send, tag, outPort)
    const callNs = call === undefined ? 0 : call.endNs - call.startNs
    // Bytes come in while the header is read.
    const rest = cost('wire.rest', to, inPort, restNs > 0 ? restNs + header.ns : 0, bytes)
    const frame: Frame = {
      early: cost('send.call', from, outPort, isWhole ? callNs - length(of('send.call')) : 0, bytes),
      ...{ from: from.process, to: to.process, outPort, header },
      sending: [
        ...before,
        spanCost(from, SpanName.frameEncode, tag, outPort),
        cost('send.call', from, outPort, callNs, bytes),
      ],
      queue: cost('send.queue', from, outPort, 0, bytes),
      first: [cost('wire.first', to, inPort, length(of('wire.first')) + length(of('gc')), bytes), ...relays],
      ...{ rest, hold: rest },
      receiving: inPort === SpanPort.hiddenIn ? [spanCost(to, SpanName.checksum, tag, inPort)] : after,
    }
    if (isWhole) {
      const calledNs = call === undefined ? startNs : Math.max(startNs, on(from, call.startNs))
      recorded.push({ frame, sentNs: calledNs, firstNs: endNs, lastNs: endNs + rest.ns, bytes })
    }
    return frame
  }

  const steps: StageStep[] = []
  const idOf = stages.map(() => new Map<number, number>())
  const stepAt = (stage: number, row: number) => idOf[stage]?.get(stages[stage]!.leadOf(row))
  const promptOf = new Map(trace.sequences.map(({ sequence, promptTokens }) => [sequence, promptTokens]))
  const sampled = sampledBy(run)
  const leads = stages.map((at) =>
    [...at.byTag.keys()]
      .filter(
        (tag) => at.find(SpanName.compute, tag) !== undefined && promptOf.has(spanTagParts(tag).sequence),
      )
      .map((tag) => ({ tag, startedNs: startOf(at, tag) }))
      .sort((a, b) => a.startedNs - b.startedNs),
  )
  /** From when each step was handed to the engine until the stage was done with it. */
  const occupied = stages.map((at, s) =>
    timeline(
      leads[s]!.map(({ tag, startedNs }) => ({
        ...{ name: SpanName.submit, startNs: startedNs, endNs: leftNs(at, tag, sampled(tag)) },
        ...{ tag, bytes: 0, port: SpanPort.none },
      })),
    ),
  )
  const withoutCredit = stages.map((at) =>
    timeline(
      [...at.byTag.values()].flatMap((spans) => spans.filter(({ name }) => name === SpanName.creditWait)),
    ),
  )
  let id = 0
  for (const [s, found] of leads.entries()) for (const { tag } of found) idOf[s]!.set(tag, id++)

  for (const [s, at] of stages.entries()) {
    for (const [order, { tag }] of leads[s]!.entries()) {
      const rows = at.rowsOf(tag)
      const isDecode = spanTagParts(tag).position >= promptOf.get(spanTagParts(tag).sequence)!
      const inPort = s > 0 ? SpanPort.hiddenIn : isDecode ? SpanPort.tokensIn : SpanPort.promptIn
      const arrivals = s === 0 ? rows : [tag]
      const compute = at.find(SpanName.compute, tag)!
      const wait = at.find(SpanName.cpuWait, tag)
      const waitedNs = wait === undefined ? 0 : wait.endNs - wait.startNs
      const sample = at.find(SpanName.sample, tag)
      const submit = at.find(SpanName.submit, tag)
      const resume = at.find(SpanName.resume, tag)
      const others = (line: readonly Span[]) => line.filter((span) => span.tag !== tag)
      const submitNs =
        submit === undefined
          ? 0
          : uncovered(submit.startNs, submit.endNs, others(at.engine.between(submit.startNs, submit.endNs)))
      const syncNs =
        resume === undefined
          ? 0
          : uncovered(resume.startNs, resume.endNs, [
              ...others(at.loop.between(resume.startNs, resume.endNs)),
            ])
      const next = s + 1 < stages.length ? stepAt(s + 1, tag) : undefined
      const out = SpanPort.hiddenOut
      const encode = spanCost(at, SpanName.codecEncode, tag, out)
      const nexts = rows.flatMap((row) => sampled(row) ?? [])
      const going = at === last ? nexts.filter((row) => stepAt(0, row) !== undefined) : []
      const ways = going.length > 0 ? run.tokenMessages(tag) : []
      const result = at === last && nexts.length > 0 ? run.resultMessage(tag) : undefined
      const dispatchTo = (message: Message, port: SpanPort) =>
        spanCost(message.from, SpanName.dispatch, message.tag, port)
      steps.push({
        id: idOf[s]!.get(tag)!,
        ...{ stage: s, rows, isDecode, order },
        sequences: rows.map((row) => spanTagParts(row).sequence),
        arriving: arrivals.map((row) => spanCost(at, SpanName.dispatch, row, inPort)),
        ready: cost('stage.queue', at, inPort, 0),
        starting: [
          cost('stage.queue', at, SpanPort.none, s === 0 && rows.length > 1 ? 0 : startingNs(s, at, tag)),
          spanCost(at, SpanName.dispatch, tag, SpanPort.none),
        ],
        decode: spanCost(at, SpanName.codecDecode, tag, SpanPort.hiddenIn),
        submit: cost('compute.submit', at, SpanPort.none, submitNs),
        compute: [
          cost('compute.device', at, SpanPort.none, compute.endNs - compute.startNs - waitedNs),
          cost('cpu.wait', at, SpanPort.none, waitedNs),
          cost('sample', at, SpanPort.none, sample === undefined ? 0 : sample.endNs - sample.startNs),
        ],
        sync: cost('compute.sync', at, SpanPort.none, syncNs),
        finishing: at === last ? [] : [{ ...encode, category: 'convert.encode' }],
        hidden:
          next === undefined
            ? undefined
            : {
                to: next,
                frame: frameOf(run.hiddenMessage(s + 1, stages[s + 1]!.leadOf(tag)), [
                  spanCost(at, SpanName.dispatch, tag, out),
                  spanCost(at, SpanName.checksum, tag, out),
                ]),
              },
        tokens:
          going.length === 0
            ? undefined
            : { rows: going, frames: ways.map((way) => frameOf(way, [dispatchTo(way, way.outPort)])) },
        result:
          result?.sentNs === undefined
            ? undefined
            : {
                rows: nexts,
                frame: frameOf(
                  result,
                  [dispatchTo(result, SpanPort.resultOut)],
                  [spanCost(result.to, SpanName.dispatch, result.tag, result.inPort)],
                ),
                emits: nexts.map((row) => emitCost(row, result)),
              },
      })
    }
  }

  /** The part of a step's wait in which nothing is known to have been in its way: the runtime's own code. */
  function startingNs(s: number, at: ProcessIndex, tag: number): number {
    const queue = at.find(SpanName.stageQueue, tag)
    if (queue === undefined) return 0
    const { startNs, endNs } = queue
    const inTheWay = [
      ...at.loop.between(startNs, endNs),
      ...at.gc.between(startNs, endNs),
      ...occupied[s]!.between(startNs, endNs).filter((span) => span.tag !== tag),
      ...(s === 0 ? run.crowded.between(startNs, endNs) : []),
      // Missing credit keeps the whole queue waiting, and is noted for the step that got it.
      ...withoutCredit[s]!.between(startNs, endNs),
    ]
    return uncovered(
      startNs,
      endNs,
      inTheWay.sort((a, b) => a.startNs - b.startNs),
    )
  }
  /** From the end of the loop's own work for a frame until the caller has its token. */
  function emitCost(row: number, { tag }: Message): Cost {
    const emit = coordinator.find(SpanName.emit, row)
    const handled = coordinator.find(SpanName.dispatch, tag, SpanPort.resultIn)
    const fromNs = Math.max(emit?.startNs ?? 0, handled?.endNs ?? 0)
    return cost('emit', coordinator, SpanPort.resultIn, emit === undefined ? 0 : emit.endNs - fromNs)
  }

  const asked = requests(aligned, (row) => stepAt(0, row), frameOf)
  for (const [frame, costs] of linkCosts(recorded)) Object.assign(frame, costs)
  return {
    stages: stages.map((at, s) => ({ process: at.process, ...credit(aligned, s, leads) })),
    coordinator: coordinator.process,
    steps: steps.sort((a, b) => a.id - b.id),
    stepOfRow: new Map(
      steps.filter(({ stage }) => stage === 0).flatMap(({ rows, id }) => rows.map((row) => [row, id])),
    ),
    requests: asked,
    sequencesInFlight: trace.settings.sequences,
    rowsPerStep: trace.settings.rowsPerStep,
    endNs: endDelay(aligned),
    makespanNs: recordedMakespanNs(aligned),
  }
}

function startOf(at: ProcessIndex, tag: number): number {
  return at.find(SpanName.stageQueue, tag)?.endNs ?? at.find(SpanName.compute, tag)!.startNs
}

/** The length of `[startNs, endNs]` outside of `spans`, which are sorted by start. */
function uncovered(startNs: number, endNs: number, spans: readonly Span[]): number {
  let freeNs = 0
  let cursorNs = startNs
  for (const span of spans) {
    if (span.startNs > cursorNs) freeNs += Math.min(span.startNs, endNs) - cursorNs
    cursorNs = Math.max(cursorNs, Math.min(endNs, span.endNs))
  }
  return freeNs + Math.max(0, endNs - cursorNs)
}
