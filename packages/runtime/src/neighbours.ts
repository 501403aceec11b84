import {
  type Clock,
  type CodecFactory,
  type HelloMessage,
  type LinkMessage,
  type Message,
  type SampledToken,
  SeamError,
  SpanName,
  SpanPort,
  type SpanSink,
  type StageSpec,
  spanTag,
  type TensorMessage,
  type TransportAddress,
} from '@seamline/core'
import { type Slot, slotPool } from './buffers.ts'
import { type Edge, edgeWith } from './edge.ts'
import { checkFacts, sharedFacts } from './facts.ts'
import type { Link, LinkHandler } from './link.ts'
import { type Checker, checkTensor } from './rows.ts'

/**
 * Dials the first of the addresses of `request` that answers, offers the codecs, passes the neighbour's hello and gives the link to
 * the handler. Resolves with what is in use.
 */
export type DialNeighbour = (
  request: LinkMessage,
  codecs: readonly string[],
  handlerFor: (link: Link, hello: HelloMessage) => LinkHandler,
) => Promise<{ readonly link: Link; readonly at: TransportAddress }>

export interface NeighbourContext {
  readonly name: string
  readonly spec: StageSpec
  readonly codecs: ReadonlyMap<string, CodecFactory>
  readonly recorder: SpanSink | null
  readonly clock: Clock
  readonly checker: Checker
  readonly headroomBytes: number
  readonly dial: DialNeighbour
  /** A tensor has arrived. `input` gives the values of all its rows, `perToken` for each token. */
  onTensor(
    message: TensorMessage,
    release: () => void,
    input: () => Float32Array,
    perToken: number,
    receivedNs: number,
    port: SpanPort,
  ): void
  /** `receivedNs`: see {@link Link.receivedNs}. */
  onTokens(tokens: readonly SampledToken[], receivedNs: number): void
  /** The stage downstream takes more. */
  onCredit(): void
  /** A link ended that should not have. */
  onLost(error: SeamError): void
}

/** A neighbour's link and the codec chosen for it, none where no hidden rows travel. */
export interface Adopted {
  readonly handler: LinkHandler
  readonly codecs: readonly string[]
}

/** The stages next to this one, and the links to them. */
export interface Neighbours {
  /** Where hidden rows go; undefined on a last stage and before the neighbour has dialled. */
  readonly downstream: { readonly link: Link; readonly edge: Edge } | undefined
  /** True when hidden rows that arrive have to be decoded. */
  readonly decodes: boolean
  /** The last stage's way back to stage 0, where stage 0 could dial it. */
  readonly back: Link | undefined
  /**
   * Dials the stage that this one receives from and answers the request with what is in use. Throws `MISMATCH` when it does not fit
   * in front of this one.
   */
  dialUpstream(request: LinkMessage): Promise<LinkMessage>
  /** Takes the link of a neighbour that has dialled. Throws `MISMATCH` when it does not fit behind this stage. */
  adopt(link: Link, hello: HelloMessage): Adopted
  /** Probes the clock of the stage that this one receives from. */
  probe(): void
  close(): Promise<void>
}

/** How long the coordinator's own word may come after a neighbour has left in good order. */
const GOOD_ORDER_MS = 250
/** Buffers on each side of an edge beyond one for every sequence: enough for a chunk on its way and one in hand. */
const EXTRA_SLOTS = 2

export function neighbours(context: NeighbourContext): Neighbours {
  const { name, spec, codecs, recorder, clock, checker, headroomBytes } = context
  const isFirst = spec.layerFirst === 0
  const isLast = spec.layerEnd === spec.layerCount
  let downstream: { readonly link: Link; readonly edge: Edge } | undefined
  let upstream: Link | undefined
  let decodes = false
  let back: Link | undefined

  async function dialUpstream(request: LinkMessage): Promise<LinkMessage> {
    const offered = isFirst ? [] : offer(request.codecs)
    let codec: string | undefined
    const { link, at } = await context.dial(request, offered, (link, hello) => {
      checkFacts(sharedFacts(spec), sharedFacts(hello.facts), name, hello.name)
      if (isFirst) {
        // Stage 0 dials the last stage for its tokens.
        upstream = link
        link.label({ in: SpanPort.tokensIn, out: SpanPort.none, probe: SpanPort.tokensIn })
        return neighbour(link, hello, 'token return', (message) => {
          if (message.kind === 'token') context.onTokens(message.tokens, link.receivedNs)
        })
      }
      if (hello.facts.layerEnd !== spec.layerFirst) {
        throw new SeamError(
          'MISMATCH',
          `${hello.name} ends at layer ${hello.facts.layerEnd}, ${name} starts at layer ${spec.layerFirst}`,
          { worker: hello.name },
        )
      }
      codec = hello.codecs[0]
      if (codec === undefined || !offered.includes(codec)) {
        const both = `${hello.name} chose codec ${codec ?? 'none'}, ${name} offered ${offered.join(', ')}`
        throw new SeamError('PROTOCOL', both, { worker: hello.name })
      }
      const edge = edgeOf(codec)
      decodes = !edge.codec.identity
      upstream = link
      link.label({ in: SpanPort.hiddenIn, out: SpanPort.none, probe: SpanPort.hiddenIn })
      link.send({ kind: 'credit', scope: 'edge', id: 0, limit: edge.grant() })
      return receiver(link, hello, edge)
    })
    const used = { addresses: [at], codecs: codec === undefined ? [] : [codec], framings: [link.framing] }
    return { ...request, ...used, reply: true }
  }

  /** What this stage would receive in, best first: what was asked for by name, else everything lossless. */
  function offer(allowed: readonly string[]): readonly string[] {
    const known = [...codecs.keys()]
    if (allowed.length === 0) return known.filter((id) => !codecs.get(id)!().lossy)
    const offered = known.filter((id) => allowed.includes(id))
    if (offered.length > 0) return offered
    throw new SeamError(
      'UNSUPPORTED',
      `codec ${allowed.join(', ')} is not offered by ${name}, which has ${known.join(', ')}`,
      { worker: name },
    )
  }

  function adopt(link: Link, hello: HelloMessage): Adopted {
    checkFacts(sharedFacts(spec), sharedFacts(hello.facts), name, hello.name)
    if (isLast && hello.facts.layerFirst === 0) {
      back = link
      link.label({ in: SpanPort.none, out: SpanPort.tokensOut, probe: SpanPort.none })
      return { handler: neighbour(link, hello, 'token return', () => {}), codecs: [] }
    }
    if (hello.facts.layerFirst !== spec.layerEnd) {
      throw new SeamError(
        'MISMATCH',
        `${name} ends at layer ${spec.layerEnd}, ${hello.name} starts at layer ${hello.facts.layerFirst}`,
        { worker: hello.name },
      )
    }
    const codec = hello.codecs.find((id) => codecs.has(id))
    if (codec === undefined) {
      throw new SeamError(
        'MISMATCH',
        `no codec in common: ${hello.name} would receive ${hello.codecs.join(', ')}, ${name} has ${[...codecs.keys()].join(', ')}`,
        { worker: hello.name },
      )
    }
    const edge = edgeOf(codec)
    downstream = { link, edge }
    link.label({ in: SpanPort.none, out: SpanPort.hiddenOut, probe: SpanPort.none })
    const handler = neighbour(link, hello, 'hidden rows', (message) => {
      if (message.kind !== 'credit') return
      edge.credit(message.limit)
      context.onCredit()
    })
    return { handler, codecs: [codec] }
  }

  function edgeOf(id: string): Edge {
    const { maxSequences, chunkTokens, embedding } = spec
    const slots = maxSequences + EXTRA_SLOTS
    const { codec, pool } = slotPool(codecs.get(id)!, slots, chunkTokens, embedding, headroomBytes)
    return edgeWith(pool, codec)
  }

  /** Receives hidden rows straight into slots and hands them back with new credit. */
  function receiver(link: Link, hello: HelloMessage, edge: Edge): LinkHandler {
    let slot: Slot | undefined
    const base = neighbour(link, hello, 'hidden rows', (message, payload) => {
      if (message.kind !== 'tensor') return
      const taken = slot
      slot = undefined
      checkTensor(message, payload.length, checker, edge.codec)
      if (taken === undefined) throw new SeamError('PROTOCOL', `tensor without a payload from ${hello.name}`)
      const tokens = message.shape[0]
      const first = message.rows[0]!
      const release = () => {
        edge.give(taken)
        const limit = edge.grant()
        if (limit > 0) link.send({ kind: 'credit', scope: 'edge', id: 0, limit })
      }
      const decode = () => {
        const values = tokens * spec.embedding
        if (!edge.codec.identity) {
          const startNs = clock.nowNs()
          edge.codec.decodeInto(payload, tokens, spec.embedding, taken.hidden)
          const tag = spanTag(first.sequence, first.position)
          if (recorder !== null)
            recorder.span(
              SpanName.codecDecode,
              startNs,
              clock.nowNs(),
              tag,
              payload.length,
              SpanPort.hiddenIn,
            )
        } else if (payload.length !== values * 4) {
          throw new SeamError('CODEC', `payload of ${payload.length} B for ${values} f32 values on ${name}`)
        }
        return taken.hidden.subarray(0, values)
      }
      context.onTensor(message, release, decode, spec.embedding, link.receivedNs, SpanPort.hiddenIn)
    })
    return {
      ...base,
      target(message, payloadBytes) {
        checkTensor(message, payloadBytes, checker, edge.codec)
        slot = edge.take()
        return slot.payload
      },
    }
  }

  function neighbour(
    link: Link,
    hello: HelloMessage,
    what: string,
    message: (message: Message, payload: Uint8Array) => void,
  ): LinkHandler {
    return {
      target(offered, payloadBytes) {
        throw new SeamError(
          'PROTOCOL',
          `${name} takes no payload of ${payloadBytes} B with ${offered.kind} from ${hello.name}`,
        )
      },
      message,
      closed(reason) {
        if (back === link) back = undefined
        const report = () => {
          const code = reason?.code ?? 'CLOSED'
          const why = reason?.message ?? `${hello.name} closed the connection`
          const text = `link for ${what} between ${hello.name} and ${name}: ${why}`
          context.onLost(new SeamError(code, text, { worker: hello.name }))
        }
        // A neighbour that leaves in good order was told to: this stage is about to hear it too.
        if (reason === undefined) setTimeout(report, GOOD_ORDER_MS)
        else report()
      },
    }
  }

  return {
    get downstream() {
      return downstream
    },
    get decodes() {
      return decodes
    },
    get back() {
      return back
    },
    dialUpstream,
    adopt,
    probe: () => upstream?.probe(),
    async close() {
      await Promise.allSettled([upstream?.close(), downstream?.link.close(), back?.close()])
    },
  }
}
