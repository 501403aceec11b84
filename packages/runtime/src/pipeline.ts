import { randomBytes } from 'node:crypto'
import {
  asBytes,
  asFloat32,
  type Clock,
  type FramingFactory,
  type HeartbeatMessage,
  type HelloMessage,
  type LinkFacts,
  type Message,
  monotonicClock,
  SeamError,
  SpanName,
  SpanPort,
  type SpanSink,
  spanTag,
  type TokenMessage,
  type Transport,
  type TransportAddress,
} from '@seamline/core'
import { deferred, within } from './deferred.ts'
import { checkRequest, type DrivenSequence, driveSequence, type Resumption, tokenTensor } from './drive.ts'
import { checkFacts, NO_OPINION, sharedFacts } from './facts.ts'
import type { Generation, GenerationRequest, ReplayPart, ReplayStep, SavedSequence } from './generation.ts'
import { dialWithHello } from './handshake.ts'
import type { Link, LinkHandler, LinkSettings } from './link.ts'
import { reach } from './reach.ts'
import { checkReplay, oneByOne } from './replay.ts'
import { type Answer, requestTable, settleAll } from './requests.ts'
import { runNumber } from './rows.ts'
import { DEFAULT_LIVENESS_MS } from './worker.ts'

export interface PipelineOptions {
  /** In any order: layer ranges tell who is who. Addresses are tried in their order while a dial fails, also by neighbours. */
  readonly workers: readonly { readonly name: string; readonly addresses: readonly TransportAddress[] }[]
  /** By name. */
  readonly transports: ReadonlyMap<string, Transport>
  /** In order of preference; neighbours use no others among themselves. */
  readonly framings: readonly FramingFactory[]
  /** Codecs that hidden rows may travel in, lossy ones among them. @default every lossless one that two neighbours share */
  readonly codecs?: readonly string[]
  /** What every worker must state, such as the hashes of the model and its split. */
  readonly expected?: Partial<LinkFacts>
  /** Names this side in errors. @default 'coordinator' */
  readonly name?: string
  /** A worker that is silent for this long is dead. @default 5000 */
  readonly livenessMs?: number
  /** A compute step, or a request that waits, may take this long without any stage finishing a step. @default 60000 */
  readonly progressMs?: number
  /**
   * Sequences that stage 0 may put into one decode step. Above 1 the output depends on which sequences met, unless the
   * stages run in the `uniform` regime. @default 1
   */
  readonly rowsPerStep?: number
  readonly clock?: Clock
  readonly sink?: SpanSink | null
  readonly signal?: AbortSignal
  /** For experiments: called for each token after it arrived and before its reader has it. */
  readonly beforeEmit?: () => void
  /** For experiments: awaited before the stages are asked to open a sequence. */
  readonly beforeOpen?: () => Promise<void>
}

export interface StageTrace {
  readonly worker: string
  readonly layerFirst: number
  readonly layerEnd: number
  /** Resident memory of the worker's process. */
  readonly rssBytes: number
  /** Records of {@link SPAN_RECORD_LENGTH} numbers. */
  readonly spans: Float64Array
  readonly dropped: number
}

/** A link between two neighbours and what they agreed on. */
export interface PipelineLink {
  /** Names of the sending and the receiving stage. */
  readonly from: string
  readonly to: string
  readonly carries: 'hidden rows' | 'tokens'
  readonly transport: string
  readonly address: string
  readonly framing: string
  /** Empty for tokens. */
  readonly codec: string
}

/** A chain of workers that is ready to generate. */
export interface Pipeline {
  /** What all stages share; the layer range is the whole model. */
  readonly facts: LinkFacts
  /** In the order of their layers. */
  readonly stages: readonly (TransportAddress & {
    readonly name: string
    /** Of the link with this process. */
    readonly framing: string
    readonly facts: LinkFacts
  })[]
  /** In the order of the stages that send. Without the token return where that goes through this process. */
  readonly links: readonly PipelineLink[]
  /** True when tokens return to stage 0 through this process, because the last stage could not be dialled from there. */
  readonly returnsThroughCoordinator: boolean
  /** Starts a sequence. Throws `LIMIT` or `USAGE` at once; everything later comes out of the iteration. */
  generate(request: GenerationRequest): Generation
  /** Goes on with a sequence that was saved, here or on another chain of the same stages. */
  restore(saved: SavedSequence, request: Omit<GenerationRequest, 'prompt'>): Generation
  /**
   * Computes sequences again from their tokens, in the batch shapes they had, and goes on from there. `steps` are the
   * recorded decode steps in order; by default every token had a step of its own. With `sampleReplayed` the generations also
   * report what the model chooses after the prompt and each replayed row.
   */
  replay(
    parts: readonly ReplayPart[],
    options?: { readonly steps?: readonly ReplayStep[]; readonly sampleReplayed?: boolean },
  ): Promise<readonly Generation[]>
  /**
   * Begins to record spans in every worker and in {@link PipelineOptions.sink}, and to probe clocks. Level 1 takes spans, 2 also what
   * keeps event loops from a CPU, 0 stops. @default level 1
   */
  startTrace(level?: number): Promise<void>
  /** Takes the spans out of every worker, in the order of the stages. */
  fetchTraces(): Promise<readonly StageTrace[]>
  /** Ends everything with `reason`: for a fault that only the caller can see, such as the end of a process. */
  fail(reason: SeamError): void
  /** Settles when the pipeline is over, with the reason when it failed. */
  readonly closed: Promise<SeamError | undefined>
  /** Cancels what runs and leaves the workers. Idempotent. */
  close(): Promise<void>
}

interface Stage {
  readonly name: string
  readonly at: TransportAddress
  /** As configured: a neighbour may reach what this process could not. */
  readonly addresses: readonly TransportAddress[]
  readonly link: Link
  readonly hello: HelloMessage
  pulse: HeartbeatMessage | undefined
  /** When the pulse arrived. */
  pulseNs: number
}

/** How long a report about a link waits for the cause to show itself: a process that ended, or its own connection. */
const BLAME_MS = 250
const DEFAULT_PROGRESS_MS = 60_000
const PULSES_PER_DEADLINE = 10
const PROBE_MS = 100
const PROBE_BURST = 32
/** What the coordinator's probes of stage s are recorded under: this plus s. */
export const STAGE_PROBES = 100

/**
 * Dials every worker, checks that together they are one model in one setting, and has them dial each other. Rejects
 * with the first refusal, naming the worker and both values, and leaves no connection behind.
 */
export async function connectPipeline(options: PipelineOptions): Promise<Pipeline> {
  const { transports, framings, codecs = [], signal } = options
  const name = options.name ?? 'coordinator'
  const livenessMs = options.livenessMs ?? DEFAULT_LIVENESS_MS
  const progressMs = options.progressMs ?? DEFAULT_PROGRESS_MS
  const rowsPerStep = options.rowsPerStep ?? 1
  const clock = options.clock ?? monotonicClock
  const sink = options.sink ?? null
  const run = randomBytes(8).toString('hex')
  const framingIds = framings.map((make) => make().id)
  if (options.workers.length === 0) throw new SeamError('USAGE', 'a pipeline needs at least one worker')
  // A cancel or rollback waits for the step in hand, so the deadline of an answer is that of progress.
  const requests = requestTable(progressMs)
  const active = new Map<number, DrivenSequence>()
  const stages: Stage[] = []
  const links: PipelineLink[] = []
  const closed = deferred<SeamError | undefined>()
  let lastSequence = -1
  let failure: SeamError | undefined
  let suspicion: NodeJS.Timeout | undefined
  let probing: NodeJS.Timeout | undefined
  let closing: Promise<void> | undefined
  let returnsThroughCoordinator = false
  let completedSteps = 0
  let progressedNs = clock.nowNs()

  // ---- links

  const settings: LinkSettings = {
    ...{ framings, clock, livenessMs },
    sink,
    maxPayloadBytes: MAX_REPLY_BYTES,
    pulse: () => ({ completedSteps: 0, busyNs: 0 }),
  }
  const hello: HelloMessage = {
    ...{ kind: 'hello', role: 'coordinator', name, run, livenessMs },
    facts: { ...NO_OPINION, ...options.expected },
    codecs,
    framings: framingIds,
    transports: [...transports.keys()],
    addresses: [],
    maxPayloadBytes: settings.maxPayloadBytes,
    rowsPerStep,
  }

  async function dial({ name: workerName, addresses }: PipelineOptions['workers'][number]): Promise<void> {
    try {
      await reach(transports, addresses, (transport, at) => {
        const join = (link: Link, theirs: HelloMessage) => enter(link, theirs, at, addresses)
        return dialWithHello(transport, at.address, settings, hello, join, signal)
      })
    } catch (error) {
      const reason = SeamError.from(error, 'WORKER')
      const where = addresses.map(({ address }) => address).join(', ')
      throw new SeamError(reason.code, `${workerName} at ${where}: ${reason.message}`, {
        cause: error,
        worker: reason.worker || workerName,
      })
    }
  }

  /** Takes a worker in whose hello fits. */
  function enter(
    link: Link,
    theirs: HelloMessage,
    at: TransportAddress,
    addresses: readonly TransportAddress[],
  ): LinkHandler {
    if (codecs.length > 0 && !codecs.some((id) => theirs.codecs.includes(id))) {
      throw new SeamError(
        'MISMATCH',
        `${name} asks for codec ${codecs.join(' or ')}, ${theirs.name} offers ${theirs.codecs.join(', ')}`,
      )
    }
    checkFacts(hello.facts, theirs.facts, name, theirs.name)
    const first = stages[0]
    if (first !== undefined)
      checkFacts(sharedFacts(first.hello.facts), sharedFacts(theirs.facts), first.name, theirs.name)
    const stage: Stage = {
      ...{ name: theirs.name, at, addresses, link, hello: theirs },
      ...{ pulse: undefined, pulseNs: 0 },
    }
    stages.push(stage)
    return handlerOf(stage)
  }

  function handlerOf(stage: Stage): LinkHandler {
    return {
      target(message, payloadBytes) {
        if (message.kind === 'token') {
          const wanted = message.tokens.filter(
            ({ sequence }) => active.get(sequence)?.request.returnLogits === true,
          )
          const due = wanted.length * stage.hello.facts.vocabulary * 4
          if (payloadBytes !== due) {
            throw new SeamError(
              'PROTOCOL',
              `token with ${payloadBytes} B of logits from ${stage.name}, ${due} B were due`,
            )
          }
        } else if (!('request' in message) || !requests.has(message.request)) {
          throw new SeamError(
            'PROTOCOL',
            `payload of ${payloadBytes} B with ${message.kind} from ${stage.name} that nobody asked for`,
          )
        }
        return new Uint8Array(payloadBytes)
      },
      message(message, payload) {
        switch (message.kind) {
          case 'heartbeat':
            stage.pulse = message
            stage.pulseNs = clock.nowNs()
            return noteProgress()
          case 'token':
            return onTokens(message, payload)
          case 'error': {
            const error = new SeamError(message.code, message.message, {
              worker: message.worker || stage.name,
            })
            if (message.request !== 0) requests.refuse(message.request, error)
            else void active.get(message.sequence)?.fail(error)
            return
          }
          case 'ack':
          case 'link':
          case 'traceFetch':
          case 'stateGet':
            return requests.answer(message.request, message, payload)
          case 'probe':
            return
          default:
            throw new SeamError(
              'PROTOCOL',
              `${stage.name} sent ${message.kind}, which a coordinator does not take`,
            )
        }
      },
      closed(reason) {
        if (closing !== undefined || failure !== undefined) return
        const worker = reason?.worker || stage.name
        const error = new SeamError(
          reason?.code ?? 'CLOSED',
          reason === undefined ? `${stage.name} closed the connection` : `${stage.name}: ${reason.message}`,
          { worker },
        )
        // A worker that reports on another one may be faster than the cause: hear that too before blaming.
        if (worker === stage.name && reason?.code !== 'TIMEOUT') return fail(error)
        suspicion ??= setTimeout(() => fail(error), BLAME_MS)
      },
    }
  }

  function onTokens({ tokens, step }: TokenMessage, payload: Uint8Array): void {
    const logitsBytes = facts.vocabulary * 4
    let at = 0
    const going = tokens.filter((sampled) => {
      const driven = active.get(sampled.sequence)
      let logits: Float32Array | undefined
      if (driven?.request.returnLogits === true) {
        logits = asFloat32(payload.subarray(at, at + logitsBytes))
        at += logitsBytes
      }
      return driven?.onToken(sampled, step, logits) === true
    })
    const arrivedNs = stages.at(-1)!.link.receivedNs
    if (sink !== null && arrivedNs > 0) {
      const { sequence, position } = tokens[0]!
      const tag = spanTag(sequence, position)
      sink.span(SpanName.dispatch, arrivedNs, clock.nowNs(), tag, 0, SpanPort.resultIn)
    }
    if (returnsThroughCoordinator && going.length > 0)
      stages[0]!.link.sendCounted({ kind: 'token', tokens: going })
  }

  const askAll = (
    message: (request: number) => Message,
    what: string,
    payload?: (stage: number) => Uint8Array,
  ): Promise<Answer[]> =>
    settleAll(stages.map((stage, i) => requests.ask(stage, message, what, payload?.(i))))

  // ---- failure and progress

  function fail(reason: SeamError): void {
    if (failure !== undefined || closing !== undefined) return
    failure = reason
    clearTimeout(suspicion)
    clearInterval(watchdog)
    clearInterval(probing)
    requests.fail(reason)
    for (const generation of [...active.values()]) void generation.fail(reason)
    for (const { link } of stages) link.fail(reason, name)
    closed.resolve(reason)
  }

  function noteProgress(): void {
    const done = stages.reduce((sum, { pulse }) => sum + (pulse?.completedSteps ?? 0), 0)
    if (done !== completedSteps) progressedNs = clock.nowNs()
    completedSteps = done
  }

  /** How long the step that `stage` is computing has been running, as far as its last beat tells. */
  function busyMs({ pulse, pulseNs }: Stage): number {
    return pulse === undefined || pulse.busyNs === 0 ? 0 : (pulse.busyNs + clock.nowNs() - pulseNs) / 1e6
  }

  function checkProgress(): void {
    if (![...active.values()].some((generation) => generation.waiting)) progressedNs = clock.nowNs()
    const idleMs = (clock.nowNs() - progressedNs) / 1e6
    if (idleMs <= progressMs) return
    const slowest = stages.reduce((a, b) => (busyMs(b) > busyMs(a) ? b : a))
    const deadline = `deadline ${progressMs} ms`
    if (busyMs(slowest) > 0) {
      const worker = slowest.name
      const text = `${worker}: a compute step has been running for ${Math.round(busyMs(slowest))} ms, ${deadline}`
      return fail(new SeamError('EXECUTOR', text, { worker }))
    }
    const states = stages.map(
      ({ name: worker, pulse }) => `${worker} finished ${pulse?.completedSteps ?? 0} steps`,
    )
    fail(
      new SeamError(
        'TIMEOUT',
        `no stage finished a step for ${Math.round(idleMs)} ms, ${deadline}: ${states.join(', ')}`,
      ),
    )
  }

  const watchdog = setInterval(checkProgress, Math.max(10, progressMs / PULSES_PER_DEADLINE))
  watchdog.unref()

  // ---- the chain

  async function connect(): Promise<void> {
    await settleAll(options.workers.map(dial))
    stages.sort((a, b) => a.hello.facts.layerFirst - b.hello.facts.layerFirst)
    checkChain(stages.map(({ name: worker, hello: { facts } }) => ({ name: worker, facts })))
    const last = stages.at(-1)!
    for (const [index, { link }] of stages.entries()) {
      link.label({
        in: index === stages.length - 1 ? SpanPort.resultIn : SpanPort.none,
        out: index === 0 ? SpanPort.promptOut : SpanPort.none,
        probe: STAGE_PROBES + index,
      })
    }
    if (stages.length === 1) return
    const edges = stages.map(async (stage, index): Promise<PipelineLink> => {
      const from = index === 0 ? last : stages[index - 1]!
      const edge = index === 0 ? stages.length - 1 : index - 1
      const wanted = { edge, reply: false, addresses: from.addresses, codecs, framings: framingIds }
      const { message } = await requests.ask(
        stage,
        (request) => ({ kind: 'link', request, ...wanted }),
        `link to ${from.name}`,
      )
      if (message.kind !== 'link')
        throw new SeamError('PROTOCOL', `${message.kind} from ${stage.name} in answer to link`)
      const { addresses, codecs: chosen, framings: agreed } = message
      return {
        ...{ from: from.name, to: stage.name, carries: index === 0 ? 'tokens' : 'hidden rows' },
        ...{ transport: addresses[0]?.transport ?? '', address: addresses[0]?.address ?? '' },
        ...{ framing: agreed[0] ?? '', codec: chosen[0] ?? '' },
      }
    })
    const [direct, ...hidden] = await Promise.allSettled(edges)
    for (const edge of hidden) {
      if (edge.status === 'rejected') throw edge.reason
      links.push(edge.value)
    }
    if (direct?.status === 'fulfilled') links.push(direct.value)
    else {
      const { code } = SeamError.from(direct?.reason, 'WORKER')
      if (code !== 'RESET' && code !== 'TIMEOUT' && code !== 'UNSUPPORTED') throw direct?.reason
      returnsThroughCoordinator = true
    }
  }

  function drive(request: GenerationRequest, resumption?: Resumption): DrivenSequence {
    if (failure !== undefined) throw failure
    if (closing !== undefined) throw new SeamError('CLOSED', 'the pipeline is closed')
    checkRequest(request, facts)
    const sequence = ++lastSequence
    const context = {
      ...{ sequence, run: runNumber(run), clock, sink, askAll },
      ...{ beforeEmit: options.beforeEmit, beforeOpen: options.beforeOpen },
      chunkTokens: facts.chunkTokens,
      first: stages[0]!.link,
      lastName: stages.at(-1)!.name,
      progressed: () => {
        progressedNs = clock.nowNs()
      },
      over: () => active.delete(sequence),
    }
    const driven = driveSequence(request, context, resumption)
    active.set(sequence, driven)
    return driven
  }

  /** Starts a sequence that stage 0 carries on by itself as soon as it has begun. */
  function start(request: GenerationRequest, resumption?: Resumption): Generation {
    const driven = drive(request, resumption)
    driven.begun.then(driven.goLive, () => {})
    return driven
  }

  async function replay(
    parts: readonly ReplayPart[],
    steps: readonly ReplayStep[],
    sampleReplayed: boolean,
  ): Promise<readonly Generation[]> {
    checkReplay(parts, steps, facts.chunkTokens, sampleReplayed)
    const driven = parts.map(({ request, tokens }) => drive(request, { tokens, sampleReplayed }))
    await settleAll(driven.map(({ begun }) => begun))
    for (const step of steps) {
      const ids = step.flatMap(({ part, index, count = 1 }) =>
        parts[part]!.tokens.slice(index, index + count),
      )
      const rows = step.map(({ part, index, count: tokenCount = 1 }) => {
        const { request, tokens } = parts[part]!
        const sample = sampleReplayed || index + tokenCount === tokens.length
        const position = request.prompt.length + index
        return { sequence: driven[part]!.sequence, epoch: 0, position, tokenCount, sample }
      })
      stages[0]!.link.sendCounted(tokenTensor(runNumber(run), rows, ids), asBytes(Int32Array.from(ids)))
    }
    for (const { goLive } of driven) goLive()
    return driven
  }

  try {
    await connect()
  } catch (error) {
    const reason = SeamError.from(error, 'WORKER')
    fail(reason)
    throw reason
  }
  if (failure !== undefined) throw failure
  const facts: LinkFacts = {
    ...stages[0]!.hello.facts,
    layerFirst: 0,
    layerEnd: stages.at(-1)!.hello.facts.layerEnd,
  }

  return {
    facts,
    stages: stages.map(({ name: worker, at, link, hello: { facts } }) => {
      return { name: worker, ...at, framing: link.framing, facts }
    }),
    links,
    returnsThroughCoordinator,
    generate: (request) => start(request),
    restore(saved, request) {
      if (saved.states.length !== stages.length) {
        throw new SeamError('MISMATCH', `${saved.states.length} saved states for ${stages.length} stages`)
      }
      if (saved.tokens.length >= request.maxTokens) {
        throw new SeamError(
          'USAGE',
          `${saved.tokens.length} tokens were saved, maxTokens ${request.maxTokens} leaves none`,
        )
      }
      return start({ ...request, prompt: saved.prompt }, { tokens: saved.tokens, saved })
    },
    replay: (parts, { steps = oneByOne(parts), sampleReplayed = false } = {}) =>
      replay(parts, steps, sampleReplayed),
    async startTrace(level = 1) {
      await askAll((request) => ({ kind: 'traceControl', request, level }), 'start of the trace')
      clearInterval(probing)
      if (level === 0) return
      const probe = () => {
        for (const { link } of stages) link.probe()
      }
      for (let i = 0; i < PROBE_BURST; i++) probe()
      probing = setInterval(probe, PROBE_MS)
      probing.unref()
    },
    async fetchTraces() {
      const answers = await askAll(
        (request) => ({ kind: 'traceFetch', request, reply: false, dropped: 0, rssBytes: 0 }),
        'trace',
      )
      return answers.map(({ message, payload }, index) => {
        if (message.kind !== 'traceFetch')
          throw new SeamError('PROTOCOL', `${message.kind} in answer to traceFetch`)
        const { name: worker, hello } = stages[index]!
        const { layerFirst, layerEnd } = hello.facts
        const { rssBytes, dropped } = message
        return {
          worker,
          layerFirst,
          layerEnd,
          rssBytes,
          dropped,
          spans: new Float64Array(payload.slice().buffer),
        }
      })
    },
    fail,
    closed: closed.promise,
    close() {
      closing ??= (async () => {
        clearTimeout(suspicion)
        clearInterval(watchdog)
        clearInterval(probing)
        const reason = new SeamError('ABORTED', 'the pipeline was closed')
        const freed = Promise.all([...active.values()].map((generation) => generation.fail(reason)))
        await within(freed, livenessMs, 'close of the pipeline').catch(() => {})
        requests.fail(reason)
        await Promise.allSettled(stages.map(({ link }) => link.close()))
        closed.resolve(failure)
      })()
      return closing
    },
  }
}

/** Most bytes of one reply: a full span ring, or the logits of a large vocabulary. */
const MAX_REPLY_BYTES = 64 * 2 ** 20

function checkChain(stages: readonly { readonly name: string; readonly facts: LinkFacts }[]): void {
  let end = 0
  for (const { name, facts } of stages) {
    if (facts.layerFirst !== end) {
      throw new SeamError(
        'MISMATCH',
        `${name} starts at layer ${facts.layerFirst} where layer ${end} is due`,
        { worker: name },
      )
    }
    end = facts.layerEnd
  }
  const { name, facts } = stages.at(-1)!
  if (end !== facts.layerCount) {
    throw new SeamError(
      'MISMATCH',
      `${name} ends at layer ${end} of ${facts.layerCount}: a stage is missing`,
      { worker: name },
    )
  }
}
