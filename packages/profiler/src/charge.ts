import { SpanName, SpanPort } from '@seamline/core'
import { type Layer, paint, type Tile } from './paint.ts'
import { categoryOf, loopNames, type ProcessIndex, type RunIndex, type Span } from './steps.ts'
import type { Category, WaitReason } from './trace.ts'

/** What a tile is charged to. */
export interface Charge {
  readonly category: Category
  readonly port: number
  readonly bytes: number
  readonly reason?: WaitReason
}

/** The spans of `at` with one of `tags`. */
export function* spansAt({ byTag }: ProcessIndex, tags: ReadonlySet<number>): Generator<Span> {
  for (const tag of tags) yield* byTag.get(tag) ?? []
}

/** The part of a visit in which a row is ready and its step has not begun. */
export interface Stay {
  readonly readyNs: number
  readonly startedNs: number
  /** Until when rows were missing that share the step. */
  readonly formedNs: number
  /** When others had to return from their way round the chain first. */
  readonly crowded: readonly Interval[]
}

export function stayOf(run: RunIndex, at: ProcessIndex, row: number): Stay | undefined {
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
export function charge(
  at: ProcessIndex,
  startNs: number,
  endNs: number,
  mine: ReadonlySet<number>,
  stay: Stay | undefined,
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
      ...own(named(SpanName.open), 'peer.slow'),
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
