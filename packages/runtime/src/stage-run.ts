import {
  asBytes,
  asInt32,
  type Clock,
  type Codec,
  type CodecFactory,
  type FinishReason,
  type HelloMessage,
  type Message,
  type OpenMessage,
  type RollbackMessage,
  SeamError,
  SpanName,
  type SpanRecorder,
  type StageExecutor,
  spanTag,
  type TensorMessage,
  type TensorRow,
  type TokenMessage,
} from '@seamline/core'
import { type Slot, slotPool } from './buffers.ts'
import { deferred } from './deferred.ts'
import { type Edge, edgeWith } from './edge.ts'
import { checkFacts, factsOf, sharedFacts } from './facts.ts'
import { type LaneOutlet, lane } from './lane.ts'
import type { Link, LinkHandler } from './link.ts'
import { checkTensor, expectRow } from './rows.ts'
import { type Job, type Sequence, sequenceOf } from './sequence.ts'

export interface StageRunOptions {
  readonly name: string
  readonly executor: StageExecutor
  readonly codecs: ReadonlyMap<string, CodecFactory>
  readonly recorder: SpanRecorder | null
  readonly clock: Clock
  readonly headroomBytes: number
  /** 16 hex digits. */
  readonly run: string
  readonly coordinator: Link
  /** Dials the neighbour upstream, passes its hello and gives it to the handler. */
  dial(
    address: string,
    codec: string,
    handlerFor: (link: Link, hello: HelloMessage) => LinkHandler,
  ): Promise<void>
}

/** One coordinator's use of one stage, from its hello to its end. */
export interface StageRun extends LinkHandler {
  readonly pulse: ReturnType<typeof lane>['pulse']
  /** Takes the link of the neighbour downstream. Throws `MISMATCH` when it does not fit behind this stage. */
  adopt(link: Link, hello: HelloMessage): LinkHandler
  /** True from the moment the run began to end. */
  readonly leaving: boolean
  /** Settles once every sequence is closed and every link is gone, with the reason when it was none of good order. */
  readonly ended: Promise<SeamError | undefined>
  /** Ends the run: what is computing is aborted, KV cells are freed, links are flushed and closed. */
  end(): Promise<void>
}

/** Buffers on each side of an edge beyond one for every sequence: enough for a chunk on its way and one in hand. */
const EXTRA_SLOTS = 2

export function stageRun(options: StageRunOptions): StageRun {
  const { name, executor, codecs, recorder, clock, coordinator, run } = options
  const { spec } = executor
  const facts = factsOf(spec)
  const isFirst = spec.layerFirst === 0
  const isLast = spec.layerEnd === spec.layerCount
  const runTag = Number.parseInt(run.slice(-8), 16)
  const stage = { name, runTag, spec }
  const sequences = new Map<number, Sequence>()
  /** What each sequence is busy with. */
  const order = new Map<number, Promise<void>>()
  /** Highest sequence ever opened: a row of one that is neither open nor above it is merely late. */
  let newestSequence = -1
  let downstream: { readonly link: Link; readonly edge: Edge } | undefined
  let upstream: Link | undefined
  /** The last stage's way back to stage 0. */
  let back: Link | undefined
  let ending: Promise<void> | undefined
  const ended = deferred<SeamError | undefined>()

  const outlet: LaneOutlet = {
    canStart: () => isLast || downstream?.edge.canSend() === true,
    begin(job) {
      const { sequence, row } = job
      if (isLast && row.sample && sequence.open.returnLogits) job.logits = new Float32Array(spec.vocabulary)
      if (isLast) return null
      job.slot = downstream!.edge.take()
      return job.slot.hidden.subarray(0, row.tokenCount * spec.embedding)
    },
    done(job, result, current) {
      if (job.slot !== undefined) {
        if (current) sendHidden(job.row, job.slot)
        else downstream?.edge.giveUnsent(job.slot)
      } else if (current && job.row.sample) {
        sendToken(job, result.tokens[0]!)
      }
    },
    failed(job, error, current) {
      if (job.slot !== undefined) downstream?.edge.giveUnsent(job.slot)
      if (current && ending === undefined) refuse(error, 0, job.sequence.id)
    },
  }
  const work = lane(executor, outlet, clock, recorder)

  // ---- what the coordinator says

  function fromCoordinator(message: Message, payload: Uint8Array): void {
    switch (message.kind) {
      case 'link':
        return answer(message.request, -1, () => dialUpstream(message.address, message.codec))
      case 'open':
        return answer(message.request, message.sequence, () => open(message))
      case 'close':
      case 'cancel':
        return answer(message.request, message.sequence, () => endSequence(message.sequence))
      case 'rollback':
        return answer(message.request, message.sequence, () => rollback(message))
      case 'tensor':
        return enqueueTensor(message, payload, () => {})
      case 'token':
        return onToken(message)
      case 'credit':
        return onCredit(message.scope, message.id, message.limit)
      case 'traceControl':
        return answer(message.request, -1, () => {
          if (recorder === null)
            throw new SeamError('UNSUPPORTED', `${name} was started without a span recorder`)
          recorder.drain()
          recorder.recording = message.level > 0
        })
      case 'traceFetch': {
        const dropped = recorder?.dropped ?? 0
        const spans = recorder?.drain() ?? new Float64Array(0)
        const rssBytes = process.memoryUsage.rss()
        coordinator.send({ ...message, reply: true, dropped, rssBytes }, asBytes(spans))
        return
      }
      case 'heartbeat':
      case 'probe':
        return
      default: {
        const request = 'request' in message ? message.request : 0
        refuse(
          new SeamError('UNSUPPORTED', `${name} takes no ${message.kind} from a coordinator`),
          request,
          -1,
        )
      }
    }
  }

  /** Runs `action`, after whatever `sequence` is still busy with, and acknowledges it or says why not. */
  function answer(request: number, sequence: number, action: () => void | Promise<void>): void {
    const before = sequence === -1 ? undefined : order.get(sequence)
    const done = Promise.resolve(before)
      .then(action)
      .then(
        () => {
          if (request !== 0) coordinator.send({ kind: 'ack', request })
        },
        (error) => refuse(SeamError.from(error, 'EXECUTOR'), request, sequence),
      )
      .then(() => {
        if (order.get(sequence) === done) order.delete(sequence)
      })
    if (sequence !== -1) order.set(sequence, done)
  }

  function refuse(error: SeamError, request: number, sequence: number): void {
    const { code, message, worker } = error
    if (request === 0 && sequence === -1) return coordinator.fail(error, name)
    coordinator.send({ kind: 'error', code, message, worker: worker ?? name, request, sequence })
  }

  async function open(message: OpenMessage): Promise<void> {
    const { sequence, promptTokens, maxTokens } = message
    if (sequence <= newestSequence) {
      throw new SeamError(
        'PROTOCOL',
        `sequence ${sequence} opened after ${newestSequence}: numbers must grow`,
      )
    }
    if (promptTokens + maxTokens > spec.contextLength) {
      throw new SeamError(
        'LIMIT',
        `${promptTokens} prompt tokens + ${maxTokens} new tokens exceed the context of ${spec.contextLength} on ${name}`,
      )
    }
    newestSequence = sequence
    // Cells that are about to be free are no reason to turn a sequence away.
    if (executor.freeSessions === 0) {
      await Promise.allSettled([...order].filter(([id]) => id < sequence).map(([, busy]) => busy))
    }
    const session = executor.openSession({ sampler: message.sampler, promptTail: message.promptTail })
    sequences.set(sequence, sequenceOf(message, session))
  }

  async function endSequence(id: number): Promise<void> {
    const sequence = sequences.get(id)
    if (sequence === undefined) return
    sequences.delete(id)
    sequence.ended = true
    await work.clear(sequence)
    await sequence.session.close()
  }

  async function rollback({ sequence: id, position, epoch, tail }: RollbackMessage): Promise<void> {
    const sequence = sequences.get(id)
    if (sequence === undefined) throw new SeamError('USAGE', `sequence ${id} is not open on ${name}`)
    if (epoch <= sequence.epoch) {
      throw new SeamError('PROTOCOL', `rollback to epoch ${epoch} on ${name}, which is at ${sequence.epoch}`)
    }
    sequence.epoch = epoch
    sequence.held = undefined
    await work.clear(sequence)
    sequence.session.rollback(position, tail)
    sequence.nextPosition = position
  }

  // ---- tensors

  function enqueueTensor(
    message: TensorMessage,
    payload: Uint8Array,
    release: () => void,
    input: () => Int32Array | Float32Array = () => asInt32(payload),
  ): void {
    const row = message.rows[0]!
    const sequence = sequenceFor(row.sequence)
    if (sequence === undefined || row.epoch < sequence.epoch) return release()
    try {
      expectRow(name, sequence, row)
    } catch (error) {
      release()
      return refuse(SeamError.from(error, 'PROTOCOL'), 0, sequence.id)
    }
    sequence.nextPosition += row.tokenCount
    work.push({ sequence, row, input, arrivedNs: clock.nowNs(), release })
  }

  /** The open sequence `id`, or undefined when it has ended already. Throws for one that never was. */
  function sequenceFor(id: number): Sequence | undefined {
    if (id > newestSequence)
      throw new SeamError('PROTOCOL', `row of sequence ${id}, which was never opened on ${name}`)
    return sequences.get(id)
  }

  function sendHidden(row: TensorRow, slot: Slot): void {
    const { link, edge } = downstream!
    const { tokenCount } = row
    const tag = spanTag(row.sequence, row.position)
    let payloadBytes = tokenCount * spec.embedding * 4
    if (!edge.codec.identity) {
      const startNs = clock.nowNs()
      try {
        payloadBytes = edge.codec.encodeInto(slot.hidden, tokenCount, spec.embedding, slot.payload)
      } catch (error) {
        edge.giveUnsent(slot)
        return refuse(SeamError.from(error, 'CODEC'), 0, row.sequence)
      }
      if (recorder !== null) recorder.span(SpanName.codecEncode, startNs, clock.nowNs(), tag, payloadBytes)
    }
    link.sendInPlace(
      {
        kind: 'tensor',
        run: runTag,
        edge: 0,
        fragment: 0,
        rows: [row],
        shape: [tokenCount, spec.embedding],
        dtype: edge.codec.wireDType,
        codec: edge.codec.id,
      },
      slot.room,
      slot.payloadStart,
      payloadBytes,
      tag,
      () => {
        edge.give(slot)
        work.poke()
      },
    )
  }

  // ---- tokens

  function sendToken({ sequence, row, logits }: Job, token: number): void {
    const position = row.position + row.tokenCount
    const { promptTokens, maxTokens, stopTokens } = sequence.open
    let finish: FinishReason = 'none'
    if (stopTokens.includes(token)) finish = 'stop'
    else if (position - promptTokens + 1 >= maxTokens) finish = 'length'
    const message = {
      kind: 'token',
      sequence: sequence.id,
      epoch: row.epoch,
      position,
      token,
      finish,
    } as const
    // Stage 0 first: the next token waits for it.
    if (finish === 'none') back?.sendCounted(message)
    coordinator.sendCounted(message, logits === undefined ? undefined : asBytes(logits))
    if (isFirst) onToken({ ...message, step: 0, sentNs: 0, checksum: -1 })
  }

  function onToken(message: TokenMessage): void {
    const sequence = sequenceFor(message.sequence)
    if (sequence === undefined || message.epoch < sequence.epoch || message.finish !== 'none') return
    try {
      expectRow(name, sequence, { ...message, tokenCount: 1 })
    } catch (error) {
      return refuse(SeamError.from(error, 'PROTOCOL'), 0, sequence.id)
    }
    if (message.position < sequence.creditLimit) feed(sequence, message)
    else sequence.held = message
  }

  function feed(sequence: Sequence, { epoch, position, token }: TokenMessage): void {
    sequence.held = undefined
    sequence.nextPosition = position + 1
    const row: TensorRow = { sequence: sequence.id, epoch, position, tokenCount: 1, sample: true }
    work.push({ sequence, row, input: () => Int32Array.of(token), arrivedNs: clock.nowNs(), release() {} })
  }

  function onCredit(scope: 'sequence' | 'edge', id: number, limit: number): void {
    if (scope === 'edge') {
      downstream?.edge.credit(limit)
      return work.poke()
    }
    const sequence = sequenceFor(id)
    if (sequence === undefined) return
    sequence.creditLimit = Math.max(sequence.creditLimit, limit)
    const { held } = sequence
    if (held !== undefined && held.position < sequence.creditLimit) feed(sequence, held)
  }

  // ---- neighbours

  async function dialUpstream(address: string, codecId: string): Promise<void> {
    const codec = makeCodec(codecId)
    await options.dial(address, codecId, (link, hello) => {
      checkFacts(sharedFacts(facts), sharedFacts(hello.facts), name, hello.name)
      if (isFirst) {
        // Stage 0 dials the last stage for its tokens.
        upstream = link
        return neighbour(link, hello, 'token return', (message) => {
          if (message.kind === 'token') onToken(message)
        })
      }
      if (hello.facts.layerEnd !== spec.layerFirst) {
        throw new SeamError(
          'MISMATCH',
          `${hello.name} ends at layer ${hello.facts.layerEnd}, ${name} starts at layer ${spec.layerFirst}`,
          { worker: hello.name },
        )
      }
      const edge = edgeOf(codec)
      upstream = link
      link.send({ kind: 'credit', scope: 'edge', id: 0, limit: edge.grant() })
      return receiver(link, hello, edge)
    })
  }

  function adopt(link: Link, hello: HelloMessage): LinkHandler {
    checkFacts(sharedFacts(facts), sharedFacts(hello.facts), name, hello.name)
    if (isLast && hello.facts.layerFirst === 0) {
      back = link
      return neighbour(link, hello, 'token return', () => {})
    }
    if (hello.facts.layerFirst !== spec.layerEnd) {
      throw new SeamError(
        'MISMATCH',
        `${name} ends at layer ${spec.layerEnd}, ${hello.name} starts at layer ${hello.facts.layerFirst}`,
        { worker: hello.name },
      )
    }
    downstream = { link, edge: edgeOf(makeCodec(hello.codecs[0] ?? '')) }
    return neighbour(link, hello, 'hidden rows', (message) => {
      if (message.kind === 'credit') onCredit(message.scope, message.id, message.limit)
    })
  }

  function makeCodec(id: string): Codec {
    const factory = codecs.get(id)
    if (factory === undefined) {
      throw new SeamError(
        'UNSUPPORTED',
        `codec ${id} is not offered by ${name}, which has ${[...codecs.keys()].join(', ')}`,
      )
    }
    return factory()
  }

  function edgeOf(codec: Codec): Edge {
    const { maxSequences, chunkTokens, embedding } = spec
    return edgeWith(
      slotPool(maxSequences + EXTRA_SLOTS, codec, chunkTokens, embedding, options.headroomBytes),
      codec,
    )
  }

  /** Receives hidden rows straight into slots and hands them back with new credit. */
  function receiver(link: Link, hello: HelloMessage, edge: Edge): LinkHandler {
    let slot: Slot | undefined
    const base = neighbour(link, hello, 'hidden rows', (message, payload) => {
      if (message.kind !== 'tensor') return
      const taken = slot
      slot = undefined
      checkTensor(message, payload.length, stage, edge.codec)
      if (taken === undefined) throw new SeamError('PROTOCOL', `tensor without a payload from ${hello.name}`)
      const row = message.rows[0]!
      const release = () => {
        edge.give(taken)
        const limit = edge.grant()
        if (limit > 0) link.send({ kind: 'credit', scope: 'edge', id: 0, limit })
      }
      enqueueTensor(message, payload, release, () => {
        const values = row.tokenCount * spec.embedding
        if (!edge.codec.identity) {
          const startNs = clock.nowNs()
          edge.codec.decodeInto(payload, row.tokenCount, spec.embedding, taken.hidden)
          if (recorder !== null) {
            recorder.span(
              SpanName.codecDecode,
              startNs,
              clock.nowNs(),
              spanTag(row.sequence, row.position),
              payload.length,
            )
          }
        } else if (payload.length !== values * 4) {
          throw new SeamError('CODEC', `payload of ${payload.length} B for ${values} f32 values on ${name}`)
        }
        return taken.hidden.subarray(0, values)
      })
    })
    return {
      ...base,
      target(message, payloadBytes) {
        checkTensor(message, payloadBytes, stage, edge.codec)
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
        if (ending !== undefined) return
        const code = reason?.code ?? 'CLOSED'
        const why = reason?.message ?? `${hello.name} closed the connection`
        coordinator.fail(
          new SeamError(code, `link for ${what} between ${hello.name} and ${name}: ${why}`, {
            worker: hello.name,
          }),
          name,
        )
      },
    }
  }

  function end(reason?: SeamError): Promise<void> {
    ending ??= (async () => {
      executor.abort()
      await Promise.allSettled([...sequences.keys()].map(endSequence))
      if (recorder !== null) recorder.recording = false
      await Promise.allSettled([
        coordinator.close(),
        upstream?.close(),
        downstream?.link.close(),
        back?.close(),
      ])
      ended.resolve(reason)
    })()
    return ending
  }

  return {
    get pulse() {
      return work.pulse
    },
    target(message, payloadBytes) {
      checkTensor(message, payloadBytes, stage)
      if (!isFirst)
        throw new SeamError('PROTOCOL', `token ids sent to ${name}, which starts at layer ${spec.layerFirst}`)
      return new Uint8Array(payloadBytes)
    },
    message: fromCoordinator,
    closed: (reason) => void end(reason),
    adopt,
    get leaving() {
      return ending !== undefined
    },
    ended: ended.promise,
    end: () => end(),
  }
}
