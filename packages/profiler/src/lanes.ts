import { SpanName, SpanPort } from '@seamline/core'
import type { AlignedRun } from './aligned.ts'
import { placed } from './clock-map.ts'
import type { Layer } from './paint.ts'
import { categoryOf, type Message, type ProcessIndex, type RunIndex, type Span, timeline } from './steps.ts'
import type { Category, LaneAttribution, WaitReason } from './trace.ts'

/** What an instant of a lane was: busy with a category, waiting for a reason, or neither. */
type Use = { readonly busy: Category } | { readonly wait: WaitReason } | { readonly bubble: true }

const bubble: Use = { bubble: true }
const slowPeer: Use = { wait: 'peer.slow' }
const socket: Use = { wait: 'socket' }
const unknown: Use = { wait: 'unknown' }

/**
 * Every serial lane over the run: the engine and the loop of each process, and each direction of a link. All have the window from
 * the first request to the last span, on the clock of the last stage, and each adds up to it exactly.
 */
export function attributeLanes(aligned: AlignedRun, messages: readonly Message[]): LaneAttribution[] {
  const { run, alignment } = aligned
  const on = (process: number, atNs: number) => placed(alignment.maps[process]!, atNs)
  let startNs = Infinity
  let endNs = -Infinity
  for (const { process, byTag } of [run.coordinator, ...run.stages]) {
    for (const spans of byTag.values()) {
      for (const span of spans) {
        startNs = Math.min(startNs, on(process, span.startNs))
        endNs = Math.max(endNs, on(process, span.endNs))
      }
    }
  }
  if (startNs > endNs) return []

  /** When each message was on its way, on the clock of the last stage. */
  const ways = messages.map((message) => ({
    message,
    startNs: on(message.from.process, message.sentNs!),
    endNs: on(message.to.process, message.firstNs!),
  }))

  function lane(
    process: number,
    lane: LaneAttribution['lane'],
    port: number,
    layers: readonly Layer<Use>[],
  ): LaneAttribution {
    const busyNs: Partial<Record<Category, number>> = {}
    const waitNs: Partial<Record<WaitReason, number>> = {}
    let bubbleNs = 0
    for (const { startNs: from, endNs: to, label } of paintLong(startNs, endNs, layers)) {
      const lengthNs = to - from
      if ('busy' in label) busyNs[label.busy] = (busyNs[label.busy] ?? 0) + lengthNs
      else if ('wait' in label) waitNs[label.wait] = (waitNs[label.wait] ?? 0) + lengthNs
      else bubbleNs += lengthNs
    }
    return { process, lane, port, startNs, endNs, busyNs, waitNs, bubbleNs }
  }

  /** From the first span to the last a lane that has nothing to do waits for its peers. */
  function between(layers: readonly Layer<Use>[], use: Use): Layer<Use>[] {
    let firstNs = Infinity
    let lastNs = -Infinity
    for (const layer of layers) {
      firstNs = Math.min(firstNs, layer.startNs)
      lastNs = Math.max(lastNs, layer.endNs)
    }
    return firstNs < lastNs ? [{ startNs: firstNs, endNs: lastNs, label: use }] : []
  }

  function engineLane(at: ProcessIndex): LaneAttribution {
    const map = ({ startNs, endNs }: Span, label: Use): Layer<Use> => ({
      startNs: on(at.process, startNs),
      endNs: on(at.process, endNs),
      label,
    })
    const all = [...at.byTag.values()].flat()
    const of = (name: SpanName, label: Use) =>
      all.filter((span) => span.name === name).map((span) => map(span, label))
    const busy = [
      ...of(SpanName.cpuWait, { busy: 'cpu.wait' }),
      ...of(SpanName.compute, { busy: 'compute.device' }),
      ...of(SpanName.sample, { busy: 'sample' }),
    ]
    const arriving = ways.filter(({ message }) => message.to === at)
    return lane(at.process, 'engine', SpanPort.none, [
      ...busy,
      ...of(SpanName.creditWait, { wait: 'credit' }),
      ...at.gc.spans.map((span) => map(span, { wait: 'gc' })),
      ...of(SpanName.submit, { wait: 'loop' }),
      ...of(SpanName.codecDecode, { wait: 'loop' }),
      ...of(SpanName.dispatch, { wait: 'loop' }),
      ...of(SpanName.checksum, { wait: 'loop' }),
      ...of(SpanName.frameDecode, { wait: 'loop' }),
      ...of(SpanName.resume, { wait: 'loop' }),
      ...of(SpanName.receive, socket),
      ...of(SpanName.stageQueue, unknown),
      ...arriving.map(({ startNs, endNs }) => ({ startNs, endNs, label: socket })),
      ...between(busy, slowPeer),
    ])
  }

  function loopLane(at: ProcessIndex): LaneAttribution {
    const map = ({ startNs, endNs }: Span, label: Use): Layer<Use> => ({
      startNs: on(at.process, startNs),
      endNs: on(at.process, endNs),
      label,
    })
    // Innermost first: a dispatch may hold others.
    const work = [...at.loop.spans].sort((a, b) => a.endNs - a.startNs - (b.endNs - b.startNs))
    const busy = [
      ...at.gc.spans.map((span) => map(span, { busy: 'gc' })),
      ...work.map((span) => map(span, { busy: categoryOf(span.name)! })),
    ]
    const arriving = ways.filter(({ message }) => message.to === at)
    return lane(at.process, 'loop', SpanPort.none, [
      ...busy,
      ...at.engine.spans.map((span) => map(span, { wait: 'own.compute' })),
      ...arriving.map(({ startNs, endNs }) => ({ startNs, endNs, label: socket })),
      ...between(busy, slowPeer),
    ])
  }

  function linkLanes(): LaneAttribution[] {
    const links = new Map<string, (typeof ways)[number][]>()
    for (const way of ways) {
      const { to, inPort } = way.message
      const key = `${to.process} ${inPort}`
      const link = links.get(key)
      if (link === undefined) links.set(key, [way])
      else link.push(way)
    }
    return [...links.values()].map((link) => {
      const { to, inPort } = link[0]!.message
      const rest = link.flatMap(({ message: { tag } }): Layer<Use>[] => {
        const span = to.find(SpanName.receive, tag, inPort)
        if (span === undefined) return []
        const label: Use = { busy: 'wire.rest' }
        return [{ startNs: on(to.process, span.startNs), endNs: on(to.process, span.endNs), label }]
      })
      const parts = link.flatMap(({ message, startNs, endNs }) =>
        aligned.hops
          .split(message, to, startNs, endNs, 0, new Set([message.tag]))
          .map(({ startNs, endNs, category }): Layer<Use> => {
            // Its bytes wait outside the link.
            const isOutside = category === 'send.call' || category === 'send.queue'
            return { startNs, endNs, label: isOutside ? slowPeer : { busy: category } }
          }),
      )
      const busy = [...rest, ...parts.filter(({ label }) => label !== slowPeer)]
      return lane(to.process, 'link', inPort, [...busy, ...between(busy, slowPeer)])
    })
  }

  return [...run.stages.map(engineLane), ...[run.coordinator, ...run.stages].map(loopLane), ...linkLanes()]
}

/** As `paint`, for the many layers of a whole run: between two neighbouring stamps only what covers them is looked at. */
function paintLong(startNs: number, endNs: number, layers: readonly Layer<Use>[]): Layer<Use>[] {
  const stamps = new Set([startNs, endNs])
  for (const layer of layers) {
    if (layer.startNs < layer.endNs) stamps.add(layer.startNs).add(layer.endNs)
  }
  const cuts = [...stamps].filter((atNs) => atNs >= startNs && atNs <= endNs).sort((a, b) => a - b)
  const index = new Map(cuts.map((atNs, i) => [atNs, i]))
  /** For each cut the next at or behind it that is not taken. */
  const next = Int32Array.from({ length: cuts.length }, (_, i) => i)
  const free = (i: number): number => {
    let to = i
    while (next[to] !== to) to = next[to]!
    for (let at = i; at !== to; ) [at, next[at]] = [next[at]!, to]
    return to
  }
  const tiles: Layer<Use>[] = []
  for (const layer of layers) {
    if (layer.startNs >= layer.endNs) continue
    const first = index.get(Math.max(startNs, layer.startNs))
    const last = index.get(Math.min(endNs, layer.endNs))
    if (first === undefined || last === undefined) continue
    for (let i = free(first); i < last; i = free(i)) {
      tiles.push({ startNs: cuts[i]!, endNs: cuts[i + 1]!, label: layer.label })
      next[i] = i + 1
    }
  }
  for (let i = free(0); i < cuts.length - 1; i = free(i)) {
    tiles.push({ startNs: cuts[i]!, endNs: cuts[i + 1]!, label: bubble })
    next[i] = i + 1
  }
  return tiles
}

/** Spans that may hold others of the same lane. */
const holders: ReadonlySet<SpanName> = new Set<SpanName>([SpanName.dispatch, SpanName.frameDecode])

/** Pairs of spans that one serial lane cannot have had at the same time. */
export function recordingErrors(run: RunIndex): string[] {
  const errors: string[] = []
  for (const { trace, engine, loop } of [run.coordinator, ...run.stages]) {
    for (const line of [engine, timeline(loop.spans)]) {
      const isEngine = line === engine
      let open: Span[] = []
      for (const span of line.spans) {
        if (span.startNs === span.endNs) continue
        open = open.filter(({ endNs }) => endNs > span.startNs)
        for (const other of open) {
          const isInside =
            span.endNs <= other.endNs || (other.startNs === span.startNs && holders.has(span.name))
          if (!isEngine && isInside && (holders.has(other.name) || holders.has(span.name))) continue
          errors.push(
            `${trace.name}: ${nameOf(other)} ${other.startNs}..${other.endNs} ns and ${nameOf(span)} ${span.startNs}..${span.endNs} ns overlap on the ${isEngine ? 'engine' : 'event loop'}`,
          )
        }
        open.push(span)
      }
    }
  }
  return errors
}

function nameOf({ name, tag }: Span): string {
  const found = Object.entries(SpanName).find(([, number]) => number === name)
  return `${found?.[0] ?? name} of step ${tag}`
}
