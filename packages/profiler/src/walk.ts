import { SpanName, SpanPort, spanTag } from '@seamline/core'
import { type Layer, paint, type Tile } from './paint.ts'
import { categoryOf, loopNames, type Message, type ProcessIndex, type RunIndex, type Span } from './steps.ts'
import type { Category, SequenceTrace, WaitReason } from './trace.ts'

/** What a tile is charged to. */
export interface Charge {
  readonly category: Category
  readonly port: number
  readonly bytes: number
  readonly reason?: WaitReason
}

/** A token's stay in one process, on that process's clock, tiled without a gap. */
export interface Visit {
  readonly at: ProcessIndex
  readonly startNs: number
  readonly endNs: number
  readonly tiles: readonly Tile<Charge>[]
}

/**
 * The way of a token, oldest first: `messages[i]` leads from `visits[i]` to `visits[i + 1]`. A message is undefined where the trace
 * does not say when it was sent and when it came.
 */
export interface Way {
  readonly visits: readonly Visit[]
  readonly messages: readonly (Message | undefined)[]
  /** Every tag that this token's spans may have. */
  readonly tags: ReadonlySet<number>
}

/** When the row `tag` was sampled, on the clock of the last stage; without a `sample` span, when its step was computed. */
export function sampledNs({ stages }: RunIndex, tag: number): number | undefined {
  const last = stages.at(-1)!
  const lead = last.leadOf(tag)
  const span =
    last.find(SpanName.sample, lead) ?? last.find(SpanName.compute, lead) ?? last.find(SpanName.cpuWait, lead)
  return span?.endNs ?? last.find(SpanName.resume, lead)?.startNs
}

/** The row whose step samples token `index` of `sequence`. */
export function rowOf(run: RunIndex, sequence: SequenceTrace, index: number): number {
  const { sequence: id, promptTokens } = sequence
  return spanTag(id, index === 0 ? (run.chunksOf(sequence).at(-1) ?? 0) : promptTokens + index - 1)
}

/**
 * Walks backward from the sample of token `index`, from each activity to the one whose completion let it begin: program order within
 * a process, a message between two, and between chunks of one prompt the engine that was still busy with the chunk before. Ends at
 * the sample of the token before, or where the request was accepted. Undefined when either end is not in the trace.
 */
export function walkBack(run: RunIndex, sequence: SequenceTrace, index: number): Way | undefined {
  const { stages, coordinator } = run
  const row = rowOf(run, sequence, index)
  const endNs = sampledNs(run, row)
  if (endNs === undefined) return undefined
  const visits: Visit[] = []
  const messages: (Message | undefined)[] = []
  const tags = new Set<number>()

  /** Set while the walk is past a process of which nothing is recorded. */
  let isLost = false

  function visit(at: ProcessIndex, startNs: number, endNs: number, tiles: readonly Tile<Charge>[]): void {
    visits.push({ at, startNs, endNs, tiles })
  }
  function come(message: Message): void {
    messages.push(
      isLost || message.sentNs === undefined || message.firstNs === undefined ? undefined : message,
    )
    isLost = false
  }
  /** Without a stamp of when the token left, two ways and the stay between them are one way of which nothing is known. */
  function lose(): void {
    messages.pop()
    isLost = true
  }
  function own(...mine: readonly number[]): ReadonlySet<number> {
    for (const tag of mine) tags.add(tag)
    return new Set(mine)
  }
  const rows = (at: ProcessIndex, tag: number) => at.rowsOf(at.leadOf(tag))

  if (index > 0) {
    const before = rowOf(run, sequence, index - 1)
    const startNs = sampledNs(run, before)
    if (startNs === undefined) return undefined
    const last = stages.at(-1)!
    const sampled = rows(last, before)
    const leaving = [...sampled, ...sampled.map(run.nextTag)]
    if (stages.length === 1) {
      const mine = own(...leaving, ...rows(last, row))
      visit(last, startNs, endNs, tiles(last, startNs, endNs, mine, stay(run, last, row)))
    } else {
      let leaveNs = endNs
      for (let s = stages.length - 1; s >= 0; s--) {
        const at = stages[s]!
        const arriving = s > 0 ? [run.hiddenMessage(s, at.leadOf(row))] : [...run.tokenMessages(before)]
        const message = arriving.at(-1)!
        const mine = own(...rows(at, row), message.tag)
        const enterNs = entered(at, message, mine, leaveNs)
        if (leaveNs === -Infinity) lose()
        else visit(at, enterNs, leaveNs, tiles(at, enterNs, leaveNs, mine, stay(run, at, row)))
        const ways = arriving.reverse()
        for (const [i, way] of ways.entries()) {
          const isStart = s === 0 && i === ways.length - 1
          leaveNs = left(way, isStart ? own(...leaving) : own(way.tag, ...rows(way.from, row)))
          come(way)
          if (isStart) {
            const fromNs = Math.max(startNs, leaveNs)
            visit(last, startNs, fromNs, tiles(last, startNs, fromNs, own(...leaving)))
          } else if (way.from === coordinator) {
            const result = ways[i + 1]!
            const mine = own(way.tag, result.tag)
            const enterNs = entered(coordinator, result, mine, leaveNs)
            if (leaveNs === -Infinity) lose()
            else visit(coordinator, enterNs, leaveNs, tiles(coordinator, enterNs, leaveNs, mine))
          }
        }
      }
    }
  } else {
    const chunks = run.chunksOf(sequence).map((position) => spanTag(sequence.sequence, position))
    let nth = chunks.length - 1
    let leaveNs = endNs
    for (let s = stages.length - 1; s >= 0; s--) {
      const at = stages[s]!
      const parts: Tile<Charge>[][] = []
      let cursorNs = leaveNs
      for (; nth > 0; nth--) {
        const readyNs = at.find(SpanName.stageQueue, chunks[nth]!)?.startNs
        const freedNs = at.find(SpanName.resume, chunks[nth - 1]!)?.endNs
        if (readyNs === undefined || freedNs === undefined || freedNs <= readyNs || freedNs > cursorNs) break
        const mine = own(chunks[nth]!, chunks[nth - 1]!)
        parts.unshift(tiles(at, freedNs, cursorNs, mine, stay(run, at, chunks[nth]!)))
        cursorNs = freedNs
      }
      const chunk = chunks[nth]!
      const message = s > 0 ? run.hiddenMessage(s, chunk) : run.promptMessage(chunk)
      const mine = own(chunk)
      const enterNs = entered(at, message, mine, cursorNs)
      parts.unshift(tiles(at, enterNs, cursorNs, mine, stay(run, at, chunk)))
      if (leaveNs === -Infinity) lose()
      else visit(at, enterNs, leaveNs, parts.flat())
      come(message)
      leaveNs = left(message, own(chunk))
    }
    const mine = own(spanTag(sequence.sequence, 0), ...chunks)
    const startNs =
      coordinator.find(SpanName.request, spanTag(sequence.sequence, 0))?.startNs ??
      Math.round(sequence.acceptedNs)
    const fromNs = Math.max(startNs, leaveNs)
    visit(coordinator, startNs, fromNs, tiles(coordinator, startNs, fromNs, mine))
  }
  return { visits: visits.reverse(), messages: messages.reverse(), tags }
}

/** When the token came into `at`: with the first byte of its message, else with the first that is recorded of it. */
function entered(at: ProcessIndex, message: Message, mine: ReadonlySet<number>, leaveNs: number): number {
  if (message.firstNs !== undefined && message.firstNs <= leaveNs) return message.firstNs
  let firstNs = leaveNs
  for (const { name, startNs, port } of spansAt(at, mine)) {
    const isOut = port === message.outPort || port === SpanPort.hiddenOut || name === SpanName.request
    if (!isOut && startNs < firstNs) firstNs = startNs
  }
  return firstNs
}

/** When the token left the sender of `message`: with its send stamp, else with the last that is recorded of it. */
function left({ from, sentNs, outPort }: Message, mine: ReadonlySet<number>): number {
  if (sentNs !== undefined) return sentNs
  let lastNs = -Infinity
  for (const { name, endNs, port } of spansAt(from, mine)) {
    const isProgram = name !== SpanName.sendQueue && (port === outPort || port === SpanPort.none)
    if (isProgram && endNs > lastNs) lastNs = endNs
  }
  return lastNs
}

function* spansAt({ byTag }: ProcessIndex, tags: ReadonlySet<number>): Generator<Span> {
  for (const tag of tags) yield* byTag.get(tag) ?? []
}

/** The part of a visit in which a row is ready and its step has not begun. */
interface Stay {
  readonly readyNs: number
  readonly startedNs: number
  /** Until when rows were missing that share the step. */
  readonly formedNs: number
  /** When others had to return from their way round the chain first. */
  readonly crowded: readonly Interval[]
}

function stay(run: RunIndex, at: ProcessIndex, row: number): Stay | undefined {
  const lead = at.leadOf(row)
  const queue = at.find(SpanName.stageQueue, lead)
  if (queue === undefined) return undefined
  const ready = (tag: number) => at.find(SpanName.dispatch, tag, SpanPort.tokensIn)?.endNs
  const rows = at === run.stages[0] ? at.rowsOf(lead) : []
  const isForming = rows.length > 1
  return {
    readyNs: (isForming ? ready(row) : undefined) ?? queue.startNs,
    startedNs: queue.endNs,
    formedNs: isForming ? Math.max(...rows.map((tag) => ready(tag) ?? -Infinity)) : -Infinity,
    crowded: at === run.stages[0] ? run.crowded.between(queue.startNs, queue.endNs) : [],
  }
}

const unattributed: Charge = { category: 'UNATTRIBUTED', port: SpanPort.none, bytes: 0, reason: 'unknown' }
const collected: Charge = { category: 'gc', port: SpanPort.none, bytes: 0, reason: 'gc' }
const engineBusy: Charge = {
  category: 'stage.queue',
  port: SpanPort.none,
  bytes: 0,
  reason: 'other.sequence',
}
const loopBusy: Charge = { category: 'wait.sequence', port: SpanPort.none, bytes: 0, reason: 'loop' }
const forming: Charge = { category: 'wait.sequence', port: SpanPort.none, bytes: 0, reason: 'other.sequence' }
const queued: Charge = { category: 'stage.queue', port: SpanPort.none, bytes: 0, reason: 'unknown' }

/**
 * Charges every instant of `[startNs, endNs]` in `at` to a span of `mine`, or to a recorded span of something else that kept the
 * engine or the loop. What neither explains stays UNATTRIBUTED.
 */
function tiles(
  at: ProcessIndex,
  startNs: number,
  endNs: number,
  mine: ReadonlySet<number>,
  stay?: Stay,
): Tile<Charge>[] {
  if (startNs >= endNs) return []
  const spans = [...spansAt(at, mine)].filter((span) => span.endNs > startNs && span.startNs < endNs)
  const named = (name: SpanName) => spans.filter((span) => span.name === name)
  const others = (line: readonly Span[]) => line.filter(({ tag }) => !mine.has(tag))
  const engine = others(at.engine.between(startNs, endNs))
  const loop = others(at.loop.between(startNs, endNs))
  const waiting = stay === undefined ? [] : [{ startNs: stay.readyNs, endNs: stay.startedNs }]
  const submits = named(SpanName.submit)
  const resumes = named(SpanName.resume)
  const receives = named(SpanName.receive)
  const innermost = spans.filter(({ name }) => loopNames.has(name))
  innermost.sort((a, b) => b.startNs - a.startNs || a.endNs - b.endNs)
  const computes = named(SpanName.compute)
  const startedNs = computes[0]?.startNs ?? -Infinity
  return paint(
    startNs,
    endNs,
    [
      ...own(named(SpanName.cpuWait)),
      ...own(computes),
      ...own(named(SpanName.sample)),
      ...receives.flatMap(({ startNs, endNs }) => keptWaiting(at, startNs, endNs, mine)),
      ...own(receives),
      ...own(named(SpanName.creditWait), 'credit'),
      ...(stay === undefined
        ? []
        : within([{ startNs: stay.readyNs, endNs: stay.formedNs }], waiting, forming)),
      ...within(engine, [...submits, ...waiting], engineBusy),
      ...own(submits),
      ...within(at.gc.between(startNs, endNs), [{ startNs, endNs }], collected),
      ...own(innermost),
      ...within(loop, [{ startNs, endNs }], loopBusy),
      ...own(resumes),
      ...within(stay?.crowded ?? [], waiting, forming),
      ...within(waiting, waiting, queued),
      ...within(engine, [{ startNs, endNs: startedNs }], engineBusy),
    ],
    unattributed,
  )
}

function own(spans: readonly Span[], reason?: WaitReason): Layer<Charge>[] {
  return spans.map(({ name, startNs, endNs, port, bytes }) => {
    const category = categoryOf(name) ?? 'UNATTRIBUTED'
    return { startNs, endNs, label: { category, port, bytes, ...(reason && { reason }) } }
  })
}

interface Interval {
  readonly startNs: number
  readonly endNs: number
}

function within(causes: readonly Interval[], waits: readonly Interval[], label: Charge): Layer<Charge>[] {
  return waits.flatMap((wait) =>
    causes.flatMap((cause) => {
      const startNs = Math.max(wait.startNs, cause.startNs)
      const endNs = Math.min(wait.endNs, cause.endNs)
      return startNs < endNs ? [{ startNs, endNs, label }] : []
    }),
  )
}

const kept: Charge = { category: 'wait.loop', port: SpanPort.none, bytes: 0, reason: 'loop' }
/** The loop has no records of its own way from one callback to the next. */
const BETWEEN_CALLBACKS_NS = 20_000

/**
 * How long, without a break up to `endNs`, the loop of `at` was busy with something else or collected garbage, back to `startNs` at
 * most: bytes that came meanwhile were not taken.
 */
export function keptWaiting(
  at: ProcessIndex,
  startNs: number,
  endNs: number,
  mine: ReadonlySet<number>,
): Layer<Charge>[] {
  const layers: Layer<Charge>[] = [
    ...within(at.gc.between(startNs, endNs), [{ startNs, endNs }], collected),
    ...within(
      at.loop.between(startNs, endNs).filter(({ tag }) => !mine.has(tag)),
      [{ startNs, endNs }],
      kept,
    ),
  ].sort((a, b) => b.endNs - a.endNs)
  let unbrokenNs = endNs
  const chain: Layer<Charge>[] = []
  for (const layer of layers) {
    if (layer.endNs < unbrokenNs - BETWEEN_CALLBACKS_NS) break
    chain.push(layer)
    unbrokenNs = Math.min(unbrokenNs, layer.startNs)
  }
  return chain.sort((a, b) => Number(a.label === kept) - Number(b.label === kept))
}
