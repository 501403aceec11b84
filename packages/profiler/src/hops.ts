import { SpanName, SpanPort } from '@seamline/core'
import { keptWaiting } from './charge.ts'
import { placed } from './clock-map.ts'
import { type Message, type ProcessIndex, type RunIndex, type Span, spansOf } from './steps.ts'
import type { Category, ClockAlignment, Segment, WaitReason } from './trace.ts'

/** The ways between two processes: what of them is known beside their length. */
export interface Hops {
  /**
   * Tiles the way `[startNs, endNs]`, on the clock of the last stage, of `message` to `to`: at its head the call of `send` and the
   * queue behind frames that were sent before on the same link, at its tail what the receiver's loop was busy with instead, in the middle
   * what relays say, and `wire.first` for the rest. UNATTRIBUTED where no message is known. `tags` are those of the token.
   */
  split(
    message: Message | undefined,
    to: ProcessIndex,
    startNs: number,
    endNs: number,
    uncertainNs: number,
    tags: ReadonlySet<number>,
  ): Segment[]
  /** What the relay says of `message`, where one is in its way and the counts of bytes fit. */
  relayed(message: Message): Relayed | undefined
}

/** How long the first byte of a message spent in the parts of a relay, on the relay's clock. */
export interface Relayed {
  readonly process: number
  readonly inNs: number
  readonly queueNs: number
  readonly outNs: number
}

interface Part {
  readonly category: Category
  readonly process: number
  readonly port: number
  readonly lengthNs: number
  readonly reason?: WaitReason
}

export function hops(run: RunIndex, alignment: ClockAlignment): Hops {
  const relayed = relayRecords(run, alignment)

  function head({ from, tag, outPort, sentNs }: Message): Part[] {
    const send = from.find(SpanName.send, tag, outPort)
    const heldNs = send === undefined ? sentNs! : Math.max(sentNs!, send.startNs)
    const calledNs = send === undefined ? sentNs! : send.endNs
    const mine = from.find(SpanName.sendQueue, tag, outPort)
    const at = { process: from.process, port: outPort }
    const parts: Part[] = [
      { category: 'send.queue', reason: 'loop', ...at, lengthNs: heldNs - sentNs! },
      { category: 'send.call', ...at, lengthNs: calledNs - heldNs },
    ]
    if (mine === undefined) return parts
    const before = from
      .queue(outPort)
      .between(calledNs, mine.endNs)
      .filter(({ startNs, tag: other }) => startNs < sentNs! && other !== tag)
    const freeNs = Math.min(mine.endNs, Math.max(calledNs, ...before.map(({ endNs }) => endNs)))
    const queue = { process: from.process, port: outPort, lengthNs: freeNs - calledNs }
    return [...parts, { category: 'send.queue', reason: 'socket', ...queue }]
  }

  function tail({ to, inPort, firstNs }: Message, limitNs: number, tags: ReadonlySet<number>): Part[] {
    const chain = keptWaiting(to, firstNs! - limitNs, firstNs!, tags)
    let loopNs = 0
    let gcNs = 0
    let fromNs = firstNs!
    for (const { startNs, endNs, label } of [...chain].sort((a, b) => b.endNs - a.endNs)) {
      const lengthNs = Math.max(0, Math.min(endNs, fromNs) - startNs)
      fromNs = Math.min(fromNs, startNs)
      if (label.category === 'gc') gcNs += lengthNs
      else loopNs += lengthNs
    }
    const at = { process: to.process, port: inPort }
    return [
      { category: 'gc', reason: 'gc', lengthNs: gcNs, ...at },
      { category: 'wait.loop', reason: 'loop', lengthNs: loopNs, ...at },
    ]
  }

  return {
    relayed,
    split(message, to, startNs, endNs, uncertainNs, tags) {
      if (startNs >= endNs) return []
      const whole = { startNs, endNs, bytes: message?.bytes ?? 0, uncertainNs, process: to.process }
      if (message === undefined)
        return [{ category: 'UNATTRIBUTED', port: SpanPort.none, reason: 'unknown', ...whole }]
      const relay = relayed(message)
      const middle: Part[] =
        relay === undefined
          ? []
          : (['in', 'queue', 'out'] as const).map((part) => ({
              category: `relay.${part}` as const,
              process: relay.process,
              port: message.inPort,
              lengthNs: relay[`${part}Ns`],
            }))
      const begin = head(message)
      const wireNs = Math.max(0, endNs - startNs - total(begin))
      const end = tail(message, wireNs, tags)
      const spareNs = Math.max(0, wireNs - total(middle) - total(end))
      const wire = { category: 'wire.first', process: to.process, port: message.inPort } as const
      const halfNs = relay === undefined ? 0 : Math.floor(spareNs / 2)
      const parts: Part[] = [
        ...begin,
        { ...wire, lengthNs: halfNs },
        ...middle,
        { ...wire, lengthNs: spareNs - halfNs },
        ...end,
      ]
      const segments: Segment[] = []
      let cursorNs = startNs
      for (const { lengthNs, ...part } of parts) {
        const untilNs = Math.min(endNs, cursorNs + lengthNs)
        if (untilNs === cursorNs) continue
        const isOwn = part.category === 'send.call' || part.category === 'send.queue'
        segments.push({
          ...part,
          startNs: cursorNs,
          endNs: untilNs,
          bytes: whole.bytes,
          uncertainNs: isOwn ? 0 : uncertainNs,
        })
        cursorNs = untilNs
      }
      return segments
    },
  }
}

function total(parts: readonly Part[]): number {
  return parts.reduce((sum, { lengthNs }) => sum + lengthNs, 0)
}

/** One direction through a relay. */
interface Direction {
  readonly process: number
  readonly arrivals: readonly Span[]
  readonly queues: readonly Span[]
  readonly departures: readonly Span[]
}

/**
 * A message begins behind the bytes that its sender counted before it, so its first byte is in the chunk whose count passes that. Which
 * direction of which relay carried a link is told by time: it read those chunks after they were sent and wrote them before they came.
 */
function relayRecords({ relays, processes }: RunIndex, { maps }: ClockAlignment): Hops['relayed'] {
  const directions = relays.flatMap(directionsOf)
  if (directions.length === 0) return () => undefined
  const counts = processes.map(({ trace }) =>
    [...spansOf(trace)].filter(({ name }) => name === SpanName.wireBytes),
  )
  const chosen = new Map<string, Direction | undefined>()

  /** The count that the sender noted for this frame: the last one before the frame was handed over, or at it. */
  function countedBytes({ from, outPort, sentNs }: Message): number | undefined {
    const noted = counts[from.process]!.findLast(
      ({ port, startNs }) => port === outPort && startNs <= sentNs!,
    )
    return noted?.bytes
  }

  function partsOf(
    message: Message,
    direction: Direction,
  ): (Relayed & { readonly fits: boolean }) | undefined {
    const bytes = countedBytes(message)
    if (bytes === undefined) return undefined
    const holds = ({ tag, bytes: size }: Span) => tag > bytes && tag - size <= bytes
    const read = direction.arrivals.find(holds)
    const written = direction.departures.find(holds)
    if (read === undefined || written === undefined) return undefined
    const queue = direction.queues.find(holds)
    const onLast = (process: number, atNs: number) => placed(maps[process]!, atNs)
    const sent = onLast(message.from.process, message.sentNs!)
    const first = onLast(message.to.process, message.firstNs!)
    const fits =
      onLast(direction.process, read.endNs) >= sent - RELAY_SLACK_NS &&
      onLast(direction.process, written.startNs) <= first + RELAY_SLACK_NS
    return {
      fits,
      process: direction.process,
      inNs: read.endNs - read.startNs,
      queueNs: queue === undefined ? 0 : queue.endNs - queue.startNs,
      outNs: written.endNs - written.startNs,
    }
  }

  return (message) => {
    const link = `${message.from.process} ${message.outPort}`
    if (!chosen.has(link))
      chosen.set(
        link,
        directions.find((direction) => partsOf(message, direction)?.fits === true),
      )
    const direction = chosen.get(link)
    return direction === undefined ? undefined : partsOf(message, direction)
  }
}

/** How far clocks of a relay may be off without another direction being taken for the right one. */
const RELAY_SLACK_NS = 1_000_000

function directionsOf({ trace, process }: ProcessIndex): Direction[] {
  const spans = [...spansOf(trace)]
  const named = (name: SpanName, port: number) =>
    spans.filter((span) => span.name === name && span.port === port)
  const ports = new Set(spans.filter(({ name }) => name === SpanName.relayIn).map(({ port }) => port))
  return [...ports].map((port) => ({
    process,
    arrivals: named(SpanName.relayIn, port),
    queues: named(SpanName.relayQueue, port),
    departures: named(SpanName.relayOut, port),
  }))
}
