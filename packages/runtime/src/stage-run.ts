import {
  asBytes,
  asInt32,
  type Clock,
  type CodecFactory,
  type HelloMessage,
  type Message,
  type OpenMessage,
  type RollbackMessage,
  type SampledToken,
  SeamError,
  SpanName,
  SpanPort,
  type SpanRecorder,
  type StageExecutor,
  type StateGetMessage,
  type StateSetMessage,
  spanTag,
  type TensorMessage,
  type TensorRow,
} from '@seamline/core'
import type { Slot } from './buffers.ts'
import { deferred } from './deferred.ts'
import { type LaneOutlet, lane } from './lane.ts'
import type { Link, LinkHandler } from './link.ts'
import { type Adopted, type DialNeighbour, neighbours } from './neighbours.ts'
import { checkTensor, expectRow, runNumber } from './rows.ts'
import { compact, type Job, type JobRow, type Sequence, sequenceOf } from './sequence.ts'

/** Measurements beside the spans, begun and read with them. */
export interface Instruments {
  start(level: number): void
  /** Right before the recorder is drained. */
  read(): void
  stop(): void
}

export interface StageRunOptions {
  readonly name: string
  readonly executor: StageExecutor
  readonly codecs: ReadonlyMap<string, CodecFactory>
  readonly recorder: SpanRecorder | null
  readonly instruments: Instruments | null
  readonly clock: Clock
  readonly headroomBytes: number
  /** 16 hex digits. */
  readonly run: string
  /** Sequences that may share a decode step on stage 0. */
  readonly rowsPerStep: number
  /** Most bytes of one sequence's state. */
  readonly maxStateBytes: number
  /** Every step waits at least so long in the queue. */
  readonly holdNs: number
  readonly coordinator: Link
  readonly dial: DialNeighbour
}

/** One coordinator's use of one stage, from its hello to its end. */
export interface StageRun extends LinkHandler {
  readonly pulse: ReturnType<typeof lane>['pulse']
  /** Takes the link of the neighbour downstream. Throws `MISMATCH` when it does not fit behind this stage. */
  adopt(link: Link, hello: HelloMessage): Adopted
  /** True from the moment the run began to end. */
  readonly leaving: boolean
  /** Settles once every sequence is closed and every link is gone, with the reason when it was none of good order. */
  readonly ended: Promise<SeamError | undefined>
  /** Ends the run: what is computing is aborted, KV cells are freed, links are flushed and closed. */
  end(): Promise<void>
}

/** Neighbours on different hosts are told apart from slow ones by their clocks. */
const PROBE_MS = 100
const PROBE_BURST = 32

export function stageRun(options: StageRunOptions): StageRun {
  const { name, executor, codecs, recorder, instruments, clock, coordinator } = options
  const { spec } = executor
  const isFirst = spec.layerFirst === 0
  const isLast = spec.layerEnd === spec.layerCount
  const run = runNumber(options.run)
  const stage = { name, run, spec }
  /** On stage 0: decode steps whose tokens have not come back. */
  const groups = new Set<Job>()
  const sequences = new Map<number, Sequence>()
  /** What each sequence is busy with. */
  const order = new Map<number, Promise<void>>()
  /** Highest sequence ever opened: a row of one that is neither open nor above it is merely late. */
  let newestSequence = -1
  let ending: Promise<void> | undefined
  let probing: NodeJS.Timeout | undefined
  const ended = deferred<SeamError | undefined>()

  const outlet: LaneOutlet = {
    canStart: () => isLast || around.downstream?.edge.canSend() === true,
    canDecode: () => groups.size < Math.ceil(sequences.size / options.rowsPerStep),
    begin(job) {
      if (job.mergeable) {
        groups.add(job)
        for (const { sequence } of job.rows) sequence.group = job
      }
      if (isLast) {
        const sampling = job.rows.filter(({ row }) => row.sample)
        const wanted = sampling.some(({ sequence }) => sequence.open.returnLogits)
        if (wanted) job.logits = new Float32Array(sampling.length * spec.vocabulary)
        return null
      }
      const slot = around.downstream!.edge.take()
      job.slot = slot
      return slot.hidden.subarray(0, job.rows.length * job.rows[0]!.row.tokenCount * spec.embedding)
    },
    done(job, result, current, resumedNs) {
      if (job.slot === undefined) return sendTokens(job, result.tokens, current, resumedNs)
      if (current.length > 0) sendHidden(job, job.slot, current, resumedNs)
      else around.downstream?.edge.giveUnsent(job.slot)
    },
    failed(job, error, current) {
      if (job.slot !== undefined) around.downstream?.edge.giveUnsent(job.slot)
      groups.delete(job)
      if (ending !== undefined) return
      for (const { sequence } of current) refuse(error, 0, sequence.id)
    },
  }
  /** The tokens of a group return together: with one of them, or with the end of one of its sequences, it is back. */
  function leaveGroup(sequence: Sequence): void {
    if (sequence.group !== undefined) groups.delete(sequence.group)
    sequence.group = undefined
  }
  const work = lane(executor, outlet, clock, recorder, options.rowsPerStep, options.holdNs)

  coordinator.label({
    in: isFirst ? SpanPort.promptIn : SpanPort.none,
    out: isLast ? SpanPort.resultOut : SpanPort.none,
    probe: SpanPort.none,
  })
  const around = neighbours({
    ...{ name, spec, codecs, recorder, clock, checker: stage },
    headroomBytes: options.headroomBytes,
    dial: options.dial,
    onTensor: enqueueTensor,
    onTokens,
    onCredit: () => work.poke(),
    onLost(error) {
      if (ending === undefined) coordinator.fail(error, name)
    },
  })

  // ---- what the coordinator says

  function fromCoordinator(message: Message, payload: Uint8Array): void {
    switch (message.kind) {
      case 'link':
        return answerWith(message.request, -1, () => around.dialUpstream(message))
      case 'open':
        return answer(message.request, message.sequence, () => open(message))
      case 'close':
      case 'cancel':
        return answer(message.request, message.sequence, () => endSequence(message.sequence))
      case 'rollback':
        return answer(message.request, message.sequence, () => rollback(message))
      case 'tensor':
        return enqueueTensor(
          message,
          () => {},
          () => asInt32(payload),
          1,
          coordinator.receivedNs,
          SpanPort.promptIn,
        )
      case 'token':
        return onTokens(message.tokens, coordinator.receivedNs)
      case 'stateGet':
        return answer(message.request, message.sequence, () => saveState(message))
      case 'stateSet':
        return answer(message.request, message.sequence, () => restoreState(message, payload))
      case 'credit':
        return onSequenceCredit(message.id, message.limit)
      case 'traceControl':
        return answer(message.request, -1, () => {
          if (recorder === null)
            throw new SeamError('UNSUPPORTED', `${name} was started without a span recorder`)
          recorder.drain()
          recorder.recording = message.level > 0
          instruments?.stop()
          clearInterval(probing)
          if (!recorder.recording) return
          instruments?.start(message.level)
          for (let i = 0; i < PROBE_BURST; i++) around.probe()
          probing = setInterval(() => around.probe(), PROBE_MS)
        })
      case 'traceFetch': {
        instruments?.read()
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
    const acknowledge = async (): Promise<Message> => {
      await action()
      return { kind: 'ack', request }
    }
    answerWith(request, sequence, acknowledge)
  }

  /** The same with an answer of its own. */
  function answerWith(request: number, sequence: number, action: () => Promise<Message>): void {
    const before = sequence === -1 ? undefined : order.get(sequence)
    const done = Promise.resolve(before)
      .then(action)
      .then(
        (reply) => {
          if (request !== 0) coordinator.send(reply)
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
    // What ends everything has looked for open sequences by then.
    if (ending !== undefined) throw new SeamError('CLOSED', `${name} is at its end and opens no sequence`)
    const session = executor.openSession({ sampler: message.sampler, promptTail: message.promptTail })
    sequences.set(sequence, sequenceOf(message, session))
  }

  async function endSequence(id: number): Promise<void> {
    const sequence = sequences.get(id)
    if (sequence === undefined) return
    sequences.delete(id)
    sequence.ended = true
    leaveGroup(sequence)
    await work.clear(sequence)
    await sequence.session.close()
    work.poke()
  }

  async function rollback({ sequence: id, position, epoch, tail }: RollbackMessage): Promise<void> {
    const sequence = sequences.get(id)
    if (sequence !== undefined) {
      if (epoch <= sequence.epoch) {
        throw new SeamError(
          'PROTOCOL',
          `rollback to epoch ${epoch} on ${name}, which is at ${sequence.epoch}`,
        )
      }
      sequence.epoch = epoch
      sequence.held = undefined
    }
    const { session } = await idleSequence(id)
    session.rollback(position, tail)
    sequence!.nextPosition = position
  }

  /** The open sequence `id`, when nothing of it is queued or at the engine. */
  async function idleSequence(id: number): Promise<Sequence> {
    const sequence = sequences.get(id)
    if (sequence === undefined) throw new SeamError('USAGE', `sequence ${id} is not open on ${name}`)
    leaveGroup(sequence)
    await work.clear(sequence)
    work.poke()
    return sequence
  }

  async function saveState(message: StateGetMessage): Promise<void> {
    const { session } = await idleSequence(message.sequence)
    const state = await session.saveState()
    coordinator.send({ ...message, reply: true }, state)
  }

  async function restoreState(message: StateSetMessage, state: Uint8Array): Promise<void> {
    const sequence = await idleSequence(message.sequence)
    await sequence.session.restoreState(state, message.position)
    sequence.epoch = message.epoch
    sequence.nextPosition = message.position
  }

  // ---- tensors

  /** Queues what is still wanted of a tensor. `input` gives the values of all its rows, `perToken` for each token. */
  function enqueueTensor(
    message: TensorMessage,
    release: () => void,
    input: () => Int32Array | Float32Array,
    perToken: number,
    receivedNs: number,
    port: SpanPort,
  ): void {
    const rows = message.rows.flatMap((row, index): JobRow[] => {
      const sequence = sequenceFor(row.sequence)
      if (sequence === undefined || row.epoch < sequence.epoch) return []
      try {
        expectRow(name, sequence, row)
      } catch (error) {
        refuse(SeamError.from(error, 'PROTOCOL'), 0, sequence.id)
        return []
      }
      sequence.nextPosition += row.tokenCount
      sequence.held = undefined
      return [{ sequence, row, index }]
    })
    if (rows.length === 0) return release()
    const arrivedNs = clock.nowNs()
    noteDispatch(receivedNs, arrivedNs, rows[0]!.row, port)
    const job: Job = {
      rows,
      mergeable: false,
      decodes: port === SpanPort.hiddenIn && around.decodes,
      arrivedNs,
      release,
      input: () => {
        const kept = job.rows.map(({ index }) => index)
        return compact(input(), kept, rows[0]!.row.tokenCount * perToken)
      },
    }
    work.push(job)
    work.poke()
  }

  /** The open sequence `id`, or undefined when it has ended already. Throws for one that never was. */
  function sequenceFor(id: number): Sequence | undefined {
    if (id > newestSequence)
      throw new SeamError('PROTOCOL', `row of sequence ${id}, which was never opened on ${name}`)
    return sequences.get(id)
  }

  function sendHidden(job: Job, slot: Slot, current: readonly JobRow[], resumedNs: number): void {
    const { link, edge } = around.downstream!
    const { tokenCount } = job.rows[0]!.row
    const kept = current.map((row) => job.rows.indexOf(row))
    const hidden = compact(slot.hidden, kept, tokenCount * spec.embedding)
    const tokens = current.length * tokenCount
    let payloadBytes = hidden.byteLength
    let sinceNs = resumedNs
    if (!edge.codec.identity) {
      try {
        payloadBytes = edge.codec.encodeInto(hidden, tokens, spec.embedding, slot.payload)
      } catch (error) {
        edge.giveUnsent(slot)
        for (const { sequence } of current) refuse(SeamError.from(error, 'CODEC'), 0, sequence.id)
        return
      }
      if (recorder !== null) {
        sinceNs = clock.nowNs()
        const { sequence, position } = current[0]!.row
        recorder.span(
          SpanName.codecEncode,
          resumedNs,
          sinceNs,
          spanTag(sequence, position),
          payloadBytes,
          SpanPort.hiddenOut,
        )
      }
    }
    link.sendInPlace(
      {
        ...{ kind: 'tensor', run, edge: 0, fragment: 0 },
        rows: current.map(({ row }) => row),
        shape: [tokens, spec.embedding],
        dtype: edge.codec.wireDType,
        codec: edge.codec.id,
      },
      slot.room,
      slot.payloadStart,
      payloadBytes,
      sinceNs,
      () => {
        edge.give(slot)
        work.poke()
      },
    )
  }

  // ---- tokens

  function sendTokens(
    job: Job,
    sampled: readonly number[],
    current: readonly JobRow[],
    resumedNs: number,
  ): void {
    const sampling = job.rows.filter(({ row }) => row.sample)
    const chosen = sampling.flatMap((jobRow, nth) => {
      if (!current.includes(jobRow)) return []
      return [{ nth, sequence: jobRow.sequence, token: tokenAfter(jobRow, sampled[nth]!) }]
    })
    if (chosen.length === 0) return
    const tokens = chosen.map(({ token }) => token)
    const going = tokens.filter(({ finish }) => finish === 'none')
    // Stage 0 first: the next step waits for it.
    let sinceNs = resumedNs
    if (going.length > 0) {
      const sentNs = around.back?.sendCounted({ kind: 'token', tokens: going }, undefined, resumedNs) ?? 0
      if (sentNs > 0) sinceNs = sentNs
    }
    const wanted = chosen.filter(({ sequence }) => sequence.open.returnLogits).map(({ nth }) => nth)
    const logits =
      job.logits === undefined ? undefined : asBytes(compact(job.logits, wanted, spec.vocabulary))
    coordinator.sendCounted({ kind: 'token', tokens }, logits, sinceNs)
    if (isFirst) onTokens(tokens, resumedNs)
  }

  function tokenAfter({ sequence, row }: JobRow, token: number): SampledToken {
    const position = row.position + row.tokenCount
    const { promptTokens, maxTokens, stopTokens } = sequence.open
    const isFull = position - promptTokens + 1 >= maxTokens
    const finish = stopTokens.includes(token) ? 'stop' : isFull ? 'length' : 'none'
    return { sequence: sequence.id, epoch: row.epoch, position, token, finish }
  }

  function onTokens(tokens: readonly SampledToken[], receivedNs: number): void {
    for (const token of tokens) onToken(token, receivedNs)
    work.poke()
  }

  /** The runtime's own work between the end of a message's way into memory and its place in the queue. */
  function noteDispatch(
    receivedNs: number,
    arrivedNs: number,
    { sequence, position }: { readonly sequence: number; readonly position: number },
    port: SpanPort,
  ): void {
    if (recorder === null || receivedNs === 0) return
    recorder.span(SpanName.dispatch, receivedNs, arrivedNs, spanTag(sequence, position), 0, port)
  }

  function onToken(token: SampledToken, receivedNs: number): void {
    const sequence = sequenceFor(token.sequence)
    if (sequence === undefined || token.epoch < sequence.epoch) return
    leaveGroup(sequence)
    if (token.finish !== 'none') return
    // Behind what the coordinator has fed itself: a replay knows its tokens.
    if (token.epoch === sequence.epoch && token.position < sequence.nextPosition) return
    try {
      expectRow(name, sequence, { ...token, tokenCount: 1 })
    } catch (error) {
      return refuse(SeamError.from(error, 'PROTOCOL'), 0, sequence.id)
    }
    if (token.position < sequence.creditLimit) feed(sequence, token, receivedNs)
    else sequence.held = token
  }

  function feed(sequence: Sequence, { epoch, position, token }: SampledToken, receivedNs: number): void {
    sequence.held = undefined
    sequence.nextPosition = position + 1
    const arrivedNs = clock.nowNs()
    noteDispatch(receivedNs, arrivedNs, { sequence: sequence.id, position }, SpanPort.tokensIn)
    const row: TensorRow = { sequence: sequence.id, epoch, position, tokenCount: 1, sample: true }
    work.push({
      rows: [{ sequence, row, index: 0 }],
      mergeable: true,
      decodes: false,
      arrivedNs,
      input: () => Int32Array.of(token),
      release() {},
    })
  }

  function onSequenceCredit(id: number, limit: number): void {
    const sequence = sequenceFor(id)
    if (sequence === undefined) return
    sequence.creditLimit = Math.max(sequence.creditLimit, limit)
    const { held } = sequence
    if (held === undefined || held.position >= sequence.creditLimit) return
    feed(sequence, held, 0)
    work.poke()
  }

  function end(reason?: SeamError): Promise<void> {
    ending ??= (async () => {
      executor.abort()
      await Promise.allSettled([...sequences.keys()].map(endSequence))
      if (recorder !== null) recorder.recording = false
      clearInterval(probing)
      instruments?.stop()
      await Promise.allSettled([coordinator.close(), around.close()])
      ended.resolve(reason)
    })()
    return ending
  }

  return {
    get pulse() {
      return work.pulse
    },
    target(message, payloadBytes) {
      if (message.kind === 'stateSet') {
        if (!sequences.has(message.sequence) || payloadBytes > options.maxStateBytes) {
          throw new SeamError(
            'LIMIT',
            `state of ${payloadBytes} B for sequence ${message.sequence} on ${name}, which takes ${options.maxStateBytes} B for an open sequence`,
          )
        }
        return new Uint8Array(payloadBytes)
      }
      checkTensor(message, payloadBytes, stage)
      if (!isFirst)
        throw new SeamError('PROTOCOL', `token ids sent to ${name}, which starts at layer ${spec.layerFirst}`)
      return new Uint8Array(payloadBytes)
    },
    message: fromCoordinator,
    closed: (reason) => void end(reason),
    adopt: around.adopt,
    get leaving() {
      return ending !== undefined
    },
    ended: ended.promise,
    end: () => end(),
  }
}
