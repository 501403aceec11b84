import { crc32 } from 'node:zlib'
import {
  type Clock,
  type Connection,
  type ConnectionHandler,
  type FrameDecoder,
  type FrameHandler,
  type Framing,
  type FramingFactory,
  isSeamError,
  type Message,
  SeamError,
  SpanName,
  SpanPort,
  type SpanSink,
  spanTag,
  type Transport,
} from '@seamline/core'
import { deferred } from './deferred.ts'
import { decodePreamble, encodePreamble, MAX_PREAMBLE_BYTES, noCommonProtocol, Verdict } from './preamble.ts'

export interface LinkSettings {
  /** In order of preference; the dialling end's order decides. */
  readonly framings: readonly FramingFactory[]
  readonly clock: Clock
  readonly sink: SpanSink | null
  /** The peer is declared dead when nothing arrives for this long; beats go out five times as often. */
  readonly livenessMs: number
  readonly maxPayloadBytes: number
  /** For experiments: tensors wait so long between being encoded and being handed to the transport. @default 0 */
  readonly holdSendMs?: number
  /** What this end's beats say about its compute. */
  readonly pulse: () => Pulse
}

export interface Pulse {
  readonly completedSteps: number
  readonly busyNs: number
}

/** The owner's side of a link. A throw ends the link and, as an error message, reaches the peer. */
export interface LinkHandler {
  /** See {@link FrameHandler.target}. */
  target(message: Message, payloadBytes: number): Uint8Array
  message(message: Message, payload: Uint8Array): void
  /** Exactly once and last; `undefined` after an end in good order. */
  closed(reason: SeamError | undefined): void
}

/** A tensor or token before the link has counted, stamped and sealed it. */
export type Unsealed<M extends Message> = Omit<M, 'step' | 'sentNs' | 'checksum'>
export type UnsealedTensor = Unsealed<Extract<Message, { kind: 'tensor' }>>
export type UnsealedCounted = UnsealedTensor | Unsealed<Extract<Message, { kind: 'token' }>>

/**
 * One connection that speaks frames: preamble, counting of tensors and tokens, heartbeats and liveness, and, where the
 * transport does not authenticate its bytes, checksums. It knows no meaning beyond that.
 */
export interface Link {
  readonly remote: string
  /** Id of the transport below. */
  readonly transport: string
  /** Id of the framing that both ends agreed on. */
  readonly framing: string
  /** Tensors and tokens sent so far. */
  readonly sentSteps: number
  /** Bytes waiting in the transport. */
  readonly queuedBytes: number
  /** End of the last message's way into memory: where the owner's own work begins. */
  readonly receivedNs: number
  /** Names what its two directions carry; until then tensors and tokens are not measured. */
  label(ports: LinkPorts): void
  /** Sends a four-stamp probe; its answer is recorded as a span of the port. */
  probe(): void
  /** Sends a message without a payload, or with one that is copied. */
  send(message: Message, payload?: Uint8Array): void
  /**
   * Sends a counted message whose payload already stands at `payloadStart` in `room`, without copying it.
   * `released` is called once the memory is free again, also when the link fails. `sinceNs` is the stamp that ended what came before.
   */
  sendInPlace(
    message: UnsealedTensor,
    room: Uint8Array,
    payloadStart: number,
    payloadBytes: number,
    sinceNs: number,
    released: () => void,
  ): void
  /** Sends a counted message; its payload, if any, is copied. Returns when the transport had it, or 0 where nothing is measured. */
  sendCounted(message: UnsealedCounted, payload?: Uint8Array, sinceNs?: number): number
  /** Flushes and ends; resolves when the connection is gone. */
  close(): Promise<void>
  /** Tells the peer why when it can still be told, then ends now. */
  fail(reason: SeamError, name: string): void
}

export interface LinkPorts {
  readonly in: SpanPort
  readonly out: SpanPort
  /** What answers to probes are recorded under. */
  readonly probe: number
}

const UNLABELLED: LinkPorts = { in: SpanPort.none, out: SpanPort.none, probe: SpanPort.none }
const BEATS_PER_DEADLINE = 5
/** Silence is noticed within a twentieth of the deadline. */
const LOOKS_PER_BEAT = 4
/** How long a failing link waits for its last error message to leave. */
const FAREWELL_MS = 500

/** Dials, settles on a protocol and returns the link. Rejects with the error that {@link LinkHandler.closed} gets. */
export async function dialLink(
  transport: Transport,
  address: string,
  settings: LinkSettings,
  handlerFor: (link: Link) => LinkHandler,
  signal?: AbortSignal,
): Promise<Link> {
  const { livenessMs } = settings
  let core: LinkCore | undefined
  await transport.dial(
    address,
    (connection) => (core = linkCore(connection, transport, settings, 'dial', handlerFor)),
    {
      timeoutMs: livenessMs,
      ...(signal === undefined ? {} : { signal }),
    },
  )
  if (core === undefined) throw new SeamError('RESET', `${address} gave no connection`)
  await core.ready
  return core.link
}

/** Takes a connection that somebody dialled; the handler hears of it once a protocol has been agreed on. */
export function acceptLink(
  connection: Connection,
  transport: Transport,
  settings: LinkSettings,
  handlerFor: (link: Link) => LinkHandler,
): ConnectionHandler {
  const core = linkCore(connection, transport, settings, 'accept', handlerFor)
  core.ready.catch(() => {}) // the reason reaches the peer, and there is no owner yet
  return core
}

type Counted = Extract<Message, { kind: 'tensor' | 'token' }>

/** Tokens that return to stage 0 through the coordinator share the link of the prompts. */
function portFor(kind: Counted['kind'], port: SpanPort): SpanPort {
  if (kind === 'tensor') return port
  if (port === SpanPort.promptOut) return SpanPort.tokensOut
  return port === SpanPort.promptIn ? SpanPort.tokensIn : port
}

/** That of the first row, or of the step that the first token begins. */
function tagOf(message: Counted): number {
  const { sequence, position } = message.kind === 'tensor' ? message.rows[0]! : message.tokens[0]!
  return spanTag(sequence, position)
}

interface LinkCore extends ConnectionHandler {
  readonly link: Link
  /** Settles once the preambles have been exchanged. */
  readonly ready: Promise<void>
}

function linkCore(
  connection: Connection,
  transport: Transport,
  settings: LinkSettings,
  side: 'dial' | 'accept',
  handlerFor: (link: Link) => LinkHandler,
): LinkCore {
  const { clock, sink, livenessMs, holdSendMs = 0 } = settings
  const checksum = !transport.authenticates
  const framings = settings.framings.map((make) => make({ checksum }))
  const offers = framings.flatMap((framing) => framing.protocolIds)
  const preamble = new Uint8Array(MAX_PREAMBLE_BYTES)
  let preambleBytes = 0
  let framing: Framing | undefined
  let decoder: FrameDecoder | undefined
  let handler: LinkHandler | undefined
  let sentSteps = 0
  /** Counted and not handed over yet, because an experiment holds them. */
  let heldSteps = 0
  let receivedSteps = 0
  let lastHeardNs = clock.nowNs()
  let inPayload = false
  let ports = UNLABELLED
  let probes = 0
  /** Bytes given to the connection so far. */
  let streamBytes = 0
  /** First byte of the frame that is arriving, or 0 between frames. */
  let frameNs = 0
  /** Its header was understood, or 0. */
  let headerNs = 0
  let receivedNs = 0
  let ended: { readonly reason: SeamError | undefined } | undefined
  const ready = deferred<void>()

  const link: Link = {
    remote: connection.remote,
    transport: transport.id,
    get framing() {
      return framing?.id ?? ''
    },
    get sentSteps() {
      return sentSteps
    },
    get queuedBytes() {
      return connection.queuedBytes
    },
    get receivedNs() {
      return receivedNs
    },
    send(message, payload) {
      if (ended !== undefined || framing === undefined) return
      transmit(framing.encode(sealed(message, payload), payload))
    },
    label(next) {
      ports = next
    },
    probe() {
      const t1Ns = clock.nowNs()
      link.send({ kind: 'probe', id: probes++, reply: false, t1Ns, t2Ns: 0, t3Ns: 0 })
    },
    sendInPlace(unsealed, room, payloadStart, payloadBytes, sinceNs, released) {
      if (ended !== undefined || framing === undefined) {
        released()
        return
      }
      const measured = sink !== null && ports.out !== SpanPort.none
      const startNs = measured ? clock.nowNs() : 0
      const seal = checksum ? crc32(room.subarray(payloadStart, payloadStart + payloadBytes)) : -1
      const sentNs = clock.nowNs()
      const message = { ...unsealed, step: sentSteps++, sentNs, checksum: seal }
      const start = framing.encodeInto(message, room, payloadStart, payloadBytes)
      const frame = room.subarray(start, payloadStart + payloadBytes)
      if (!measured) {
        transmit(frame, released)
        return
      }
      const tag = tagOf(message)
      if (sinceNs > 0) sink.span(SpanName.dispatch, sinceNs, startNs, tag, 0, ports.out)
      if (checksum) sink.span(SpanName.checksum, startNs, sentNs, tag, payloadBytes, ports.out)
      transmitMeasured(sink, frame, sentNs, 'tensor', tag, released)
    },
    sendCounted(unsealed, payload, sinceNs = 0) {
      if (ended !== undefined || framing === undefined) return 0
      const startNs = clock.nowNs()
      const message = { ...unsealed, step: sentSteps++, sentNs: startNs, checksum: -1 }
      const frame = framing.encode(sealed(message, payload), payload)
      if (sink === null || ports.out === SpanPort.none) {
        transmit(frame)
        return 0
      }
      const tag = tagOf(message)
      if (sinceNs > 0)
        sink.span(SpanName.dispatch, sinceNs, startNs, tag, 0, portFor(message.kind, ports.out))
      return transmitMeasured(sink, frame, startNs, message.kind, tag)
    },
    close() {
      clearInterval(beat)
      return connection.close({ timeoutMs: livenessMs })
    },
    fail(reason, name) {
      if (ended !== undefined) return
      const { code, message, worker } = reason
      link.send({ kind: 'error', code, message, worker: worker ?? name, request: 0, sequence: -1 })
      end(reason)
      // The error message gets its chance to leave before the connection is torn down.
      connection.close({ timeoutMs: Math.min(livenessMs, FAREWELL_MS) }).catch(() => {})
    },
  }

  const frames: FrameHandler = {
    target(message, payloadBytes) {
      inPayload = true
      if (isMeasured(message)) headerNs = headerRead(message)
      return handler!.target(message, payloadBytes)
    },
    message(message, payload) {
      inPayload = false
      lastHeardNs = clock.nowNs()
      if (isMeasured(message)) noteArrival(message, payload)
      else {
        frameNs = 0
        receivedNs = lastHeardNs
        verify(message, payload)
      }
      if (message.kind === 'heartbeat') checkCount(message.sentSteps)
      else if (message.kind === 'probe' && !message.reply) {
        link.send({ ...message, reply: true, t2Ns: lastHeardNs, t3Ns: clock.nowNs() })
        return
      } else if (message.kind === 'probe') {
        sink?.span(
          SpanName.probe,
          message.t1Ns,
          lastHeardNs,
          message.t2Ns,
          message.t3Ns,
          ports.probe as SpanPort,
        )
        return
      } else if (message.kind === 'error' && message.request === 0 && message.sequence === -1) {
        end(new SeamError(message.code, message.message, { worker: message.worker }))
        connection.close({ timeoutMs: livenessMs }).catch(() => {})
        return
      }
      if (ended === undefined) handler!.message(message, payload)
    },
  }

  const lookMs = Math.max(1, Math.floor(livenessMs / BEATS_PER_DEADLINE / LOOKS_PER_BEAT))
  let looks = 0
  const sendBeat = () => {
    const { completedSteps, busyNs } = settings.pulse()
    link.send({
      ...{ kind: 'heartbeat', sentNs: clock.nowNs(), completedSteps, busyNs },
      sentSteps: sentSteps - heldSteps,
    })
  }
  const beat = setInterval(() => {
    if (looks++ % LOOKS_PER_BEAT === 0) sendBeat()
    if (silenceMs() < livenessMs) return
    // Timers run before sockets are read: an observer that was blocked itself must look once more.
    setImmediate(() => {
      if (ended === undefined && silenceMs() >= livenessMs) {
        const stage = framing === undefined ? ' before a protocol was agreed on' : ''
        abandon(
          new SeamError(
            'TIMEOUT',
            `nothing from ${link.remote} for ${Math.round(silenceMs())} ms${stage}, deadline ${livenessMs} ms`,
          ),
        )
      }
    })
  }, lookMs)

  if (side === 'dial') transmit(encodePreamble({ verdict: Verdict.offer, protocolIds: offers }))

  return {
    link,
    ready: ready.promise,
    nextBuffer() {
      // What still comes after the end is read over, until the peer has ended too.
      if (ended !== undefined) return preamble
      return decoder === undefined ? preamble.subarray(preambleBytes) : decoder.nextBuffer()
    },
    onData(bytes) {
      // A header that never ends is silence: a corrupted length must not hold a link open.
      if (decoder === undefined || inPayload) lastHeardNs = clock.nowNs()
      if (sink !== null && frameNs === 0) frameNs = clock.nowNs()
      if (ended !== undefined) return
      try {
        if (decoder === undefined) settle(bytes)
        else decoder.received(bytes)
      } catch (error) {
        const reason = SeamError.from(error, 'PROTOCOL')
        link.fail(reason, '')
        ready.reject(reason)
      }
    },
    onDrain() {},
    onClose(reason) {
      end(reason)
    },
  }

  function sealed(message: Message, payload: Uint8Array | undefined): Message {
    if (!checksum || payload === undefined || !('checksum' in message)) return message
    return { ...message, checksum: crc32(payload) }
  }

  function isMeasured(message: Message): message is Counted {
    return (
      sink !== null && ports.in !== SpanPort.none && (message.kind === 'tensor' || message.kind === 'token')
    )
  }

  function headerRead(message: Counted): number {
    const nowNs = clock.nowNs()
    sink!.span(
      SpanName.frameDecode,
      frameNs === 0 ? receivedNs : frameNs,
      nowNs,
      tagOf(message),
      0,
      portFor(message.kind, ports.in),
    )
    return nowNs
  }

  /** A frame that came with the one before it in a single read begins where that one ended. */
  function noteArrival(message: Counted, payload: Uint8Array): void {
    const tag = tagOf(message)
    let nowNs = lastHeardNs
    if (payload.length === 0) nowNs = headerRead(message)
    else sink!.span(SpanName.receive, headerNs, nowNs, tag, payload.length, ports.in)
    frameNs = 0
    verify(message, payload)
    receivedNs = nowNs
    if (message.checksum === -1) return
    receivedNs = clock.nowNs()
    sink!.span(SpanName.checksum, nowNs, receivedNs, tag, payload.length, ports.in)
  }

  /** Hands an encoded frame over; returns when the transport had taken it. */
  function transmitMeasured(
    to: SpanSink,
    frame: Uint8Array,
    encodeNs: number,
    kind: Counted['kind'],
    tag: number,
    released?: () => void,
  ): number {
    const port = portFor(kind, ports.out)
    const sendNs = clock.nowNs()
    to.span(SpanName.frameEncode, encodeNs, sendNs, tag, frame.length, port)
    // A relay between the two counts the same bytes.
    if (transport.id === 'relay') to.span(SpanName.wireBytes, sendNs, sendNs, tag, streamBytes, port)
    const hand = () => {
      const callNs = clock.nowNs()
      transmit(frame, () => {
        to.span(SpanName.sendQueue, sendNs, clock.nowNs(), tag, frame.length, port)
        released?.()
      })
      const sentNs = clock.nowNs()
      to.span(SpanName.send, callNs, sentNs, tag, frame.length, port)
      return sentNs
    }
    if (kind !== 'tensor' || holdSendMs === 0) return hand()
    heldSteps++
    setTimeout(() => {
      heldSteps--
      to.span(SpanName.injected, sendNs, clock.nowNs(), tag, 0)
      hand()
    }, holdSendMs)
    return sendNs
  }

  /** A peer that has ended takes nothing more: its end is about to be reported, and is the better reason. */
  function transmit(bytes: Uint8Array, released?: () => void): void {
    streamBytes += bytes.length
    try {
      connection.send(bytes, released)
    } catch (error) {
      if (!isSeamError(error) || error.code !== 'CLOSED') throw error
      released?.()
    }
  }

  function settle(bytes: number): void {
    preambleBytes += bytes
    const found = decodePreamble(preamble.subarray(0, preambleBytes))
    if (found === undefined) return
    const { verdict, protocolIds } = found.preamble
    const shared =
      side === 'dial'
        ? protocolIds.find((id) => verdict === Verdict.chosen && offers.includes(id))
        : protocolIds.find((id) => offers.includes(id))
    if (side === 'accept') {
      transmit(
        encodePreamble(
          shared === undefined
            ? { verdict: Verdict.refused, protocolIds: offers }
            : { verdict: Verdict.chosen, protocolIds: [shared] },
        ),
      )
    }
    if (shared === undefined) throw noCommonProtocol(offers, protocolIds, link.remote)
    framing = framings.find((candidate) => candidate.protocolIds.includes(shared))!
    decoder = framing.createDecoder(frames, { maxPayloadBytes: settings.maxPayloadBytes })
    handler = handlerFor(link)
    ready.resolve()
    feed(preamble.subarray(found.length, preambleBytes))
  }

  /** Hands bytes that arrived behind the preamble to the decoder. */
  function feed(rest: Uint8Array): void {
    for (let at = 0; at < rest.length && decoder !== undefined; ) {
      const buffer = decoder.nextBuffer()
      const bytes = Math.min(buffer.length, rest.length - at)
      buffer.set(rest.subarray(at, at + bytes))
      at += bytes
      decoder.received(bytes)
    }
  }

  function verify(message: Message, payload: Uint8Array): void {
    if (message.kind === 'tensor' || message.kind === 'token') {
      if (message.step !== receivedSteps) {
        throw new SeamError(
          'PROTOCOL',
          `${message.kind} ${message.step} from ${link.remote} where ${receivedSteps} was due: a frame was lost, repeated or reordered`,
        )
      }
      receivedSteps++
    }
    if ('checksum' in message && message.checksum !== -1) {
      const found = crc32(payload)
      if (found !== message.checksum) {
        throw new SeamError(
          'PROTOCOL',
          `${message.kind} from ${link.remote}: payload of ${payload.length} B has CRC-32 ${found}, its header says ${message.checksum}`,
        )
      }
    }
  }

  function checkCount(sent: number): void {
    if (sent === receivedSteps) return
    throw new SeamError(
      'PROTOCOL',
      `${link.remote} sent ${sent} tensors and tokens, ${receivedSteps} arrived: a frame was lost or repeated`,
    )
  }

  function silenceMs(): number {
    return (clock.nowNs() - lastHeardNs) / 1e6
  }

  /** Ends without a farewell: the peer does not answer. */
  function abandon(reason: SeamError): void {
    end(reason)
    connection.abort(reason)
  }

  function end(reason: SeamError | undefined): void {
    if (ended !== undefined) return
    ended = { reason }
    clearInterval(beat)
    ready.reject(
      reason ??
        new SeamError(
          'CLOSED',
          `${link.remote} closed the connection before a protocol was agreed on${transport.authenticates ? '' : '; if it expects TLS, use its join string'}`,
        ),
    )
    handler?.closed(reason)
  }
}
