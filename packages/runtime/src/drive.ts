import {
  asBytes,
  type Clock,
  type LinkFacts,
  type Message,
  type SampledToken,
  SeamError,
  SpanName,
  SpanPort,
  type SpanSink,
  spanTag,
  type TensorRow,
} from '@seamline/core'
import { deferred } from './deferred.ts'
import { type Generation, type GenerationRequest, type SavedSequence, tokenQueue } from './generation.ts'
import type { Link, UnsealedTensor } from './link.ts'
import type { Answer } from './requests.ts'

/** What a sequence needs of its pipeline. */
export interface DriveContext {
  readonly sequence: number
  readonly run: bigint
  readonly sink: SpanSink | null
  readonly beforeEmit: (() => void) | undefined
  readonly beforeOpen: (() => Promise<void>) | undefined
  readonly clock: Clock
  readonly chunkTokens: number
  /** To stage 0. */
  readonly first: Link
  /** Name of the last stage. */
  readonly lastName: string
  /** Asks every stage and waits for all; `payload` goes to the stage of that index. */
  askAll(
    message: (request: number) => Message,
    what: string,
    payload?: (stage: number) => Uint8Array,
  ): Promise<readonly Answer[]>
  /** Something arrived or was sent on: the watch on progress starts anew. */
  progressed(): void
  /** Every stage has freed the sequence, or cannot be asked any more. */
  over(): void
}

/** How a sequence begins that was begun before. */
export interface Resumption {
  /** Tokens that are known: they are not sampled again. */
  readonly tokens: readonly number[]
  /** KV state to start from; without it the tokens are fed again. */
  readonly saved?: SavedSequence
  /** Sample at every replayed position and report what the model chooses there. @default false */
  readonly sampleReplayed?: boolean
}

/** A generation as the links of its pipeline see it. */
export interface DrivenSequence extends Generation {
  readonly request: GenerationRequest
  readonly sequence: number
  /** Settles once the prompt, or a saved state, is on its way. */
  readonly begun: Promise<void>
  readonly tokens: readonly number[]
  /** Lets stage 0 go on by itself. */
  goLive(): void
  /** True while a token is due that neither the reader nor credit holds back. */
  readonly waiting: boolean
  /** Returns true when the sequence goes on from this token. */
  onToken(sampled: SampledToken, step: number, logits: Float32Array | undefined): boolean
  /** Ends with `reason`; resolves once every stage has freed the sequence or cannot be asked. */
  fail(reason: SeamError): Promise<void>
}

/** Tokens that stage 0 may run ahead of the reader. */
const TOKEN_WINDOW = 32

/** Opens a sequence on every stage, feeds its prompt in chunks and turns what comes back into a {@link Generation}. */
export function driveSequence(
  request: GenerationRequest,
  context: DriveContext,
  resumption: Resumption = { tokens: [] },
): DrivenSequence {
  const { sequence, run, clock, sink, chunkTokens, first, lastName, askAll } = context
  const { prompt, sampler, signal } = request
  const driveNs = clock.nowNs()
  const startedNs = request.acceptedNs ?? driveNs
  sink?.span(SpanName.request, startedNs, startedNs, spanTag(sequence, 0), 0)
  const lastChunk = prompt.length - 1 - ((prompt.length - 1) % chunkTokens)
  const { saved, sampleReplayed = false } = resumption
  const tokens = [...resumption.tokens]
  /** Tokens that have been sampled, or are taken as sampled. */
  let sampled = sampleReplayed ? 0 : tokens.length
  let epoch = 0
  let creditLimit = prompt.length
  let ended: Promise<void> | undefined
  /** Every stage has computed what this sequence began with: its first token of its own is here, or it has ended. */
  const caughtUp = deferred<void>()

  const queue = tokenQueue(({ position, receivedNs }) => {
    if (sink !== null) {
      const tag = spanTag(sequence, position)
      sink.span(SpanName.emit, receivedNs, clock.nowNs(), tag, 0, SpanPort.resultIn)
    }
    const limit = position + 1 + TOKEN_WINDOW
    if (live && limit - creditLimit >= TOKEN_WINDOW / 2) grant(limit)
  })
  let live = false

  function grant(limit: number): void {
    if (ended !== undefined) return
    creditLimit = limit
    first.send({ kind: 'credit', scope: 'sequence', id: sequence, limit })
  }

  /** The tokens before the next sampled one, as far back as the penalties look. */
  function tail(): number[] {
    return sampler.penaltyLastN === 0
      ? []
      : [...prompt, ...tokens.slice(0, sampled)].slice(-sampler.penaltyLastN)
  }

  /** Since `sinceNs` there has been nothing but this to do; returns when the frame was handed over, or 0. */
  function feed(position: number, ids: readonly number[], sample: boolean, sinceNs = 0): number {
    const rows = [{ sequence, epoch, position, tokenCount: ids.length, sample }]
    return first.sendCounted(tokenTensor(run, rows, ids), asBytes(Int32Array.from(ids)), sinceNs)
  }

  async function begin(): Promise<void> {
    const { maxTokens, stopTokens, returnLogits = false } = request
    const what = { maxTokens, stopTokens, returnLogits, sampler, promptTail: tail() }
    if (context.beforeOpen !== undefined) await context.beforeOpen()
    await askAll(
      (id) => ({ kind: 'open', request: id, sequence, promptTokens: prompt.length, ...what }),
      `open of sequence ${sequence}`,
    )
    if (ended !== undefined) return
    let sinceNs = 0
    if (sink !== null) {
      sinceNs = clock.nowNs()
      sink.span(SpanName.open, driveNs, sinceNs, spanTag(sequence, 0), 0)
    }
    context.progressed()
    if (saved !== undefined) {
      const { position, states } = saved
      await context.askAll(
        (id) => ({ kind: 'stateSet', request: id, sequence, position, epoch, checksum: -1 }),
        `restoring of sequence ${sequence}`,
        (stage) => states[stage]!,
      )
      return feedFrom(position)
    }
    for (let at = 0; at < prompt.length; at += chunkTokens) {
      const sample = at === lastChunk && (tokens.length === 0 || sampleReplayed)
      sinceNs = feed(at, prompt.slice(at, at + chunkTokens), sample, sinceNs)
    }
  }

  /** Feeds again what follows position `from`: the last token known, or the last chunk in its recorded shape. */
  function feedFrom(from: number): void {
    if (ended === undefined) feed(from, from >= prompt.length ? tokens.slice(-1) : prompt.slice(from), true)
  }

  /** Frees the sequence everywhere, then ends the iteration. */
  function finish(kind: 'close' | 'cancel', reason?: SeamError): Promise<void> {
    if (ended !== undefined) return ended
    caughtUp.resolve()
    signal?.removeEventListener('abort', onAbort)
    // Nothing may be read after a fault, so the reader learns of it before the workers have answered.
    if (reason !== undefined) queue.finish(reason)
    ended = askAll((id) => ({ kind, request: id, sequence }), `${kind} of sequence ${sequence}`)
      .then(
        () => queue.finish(undefined),
        (error) => queue.finish(SeamError.from(error, 'WORKER')),
      )
      .then(context.over)
    return ended
  }

  /** Stages that no longer agree on a sequence cannot go on with it: a refusal by one of them ends it. */
  async function askOrEnd(message: (request: number) => Message, what: string): Promise<readonly Answer[]> {
    try {
      return await askAll(message, what)
    } catch (error) {
      const reason = SeamError.from(error, 'WORKER')
      void driven.fail(reason)
      throw reason
    }
  }

  /** Drops all but `keepTokens` tokens on every stage, where nothing moves then, and returns the KV length. */
  async function truncate(keepTokens: number): Promise<number> {
    if (ended !== undefined)
      throw new SeamError('CLOSED', `sequence ${sequence} has ended: its KV cells are free`)
    if (!Number.isSafeInteger(keepTokens) || keepTokens < 0 || keepTokens > tokens.length) {
      throw new SeamError('USAGE', `cannot keep ${keepTokens} tokens: ${tokens.length} were generated`)
    }
    tokens.length = keepTokens
    sampled = keepTokens
    queue.drop(prompt.length + keepTokens)
    epoch++
    const position = keepTokens > 0 ? prompt.length + keepTokens - 1 : lastChunk
    await askOrEnd(
      (id) => ({ kind: 'rollback', request: id, sequence, position, epoch, tail: tail() }),
      `rollback of sequence ${sequence}`,
    )
    context.progressed()
    return position
  }

  async function save(): Promise<SavedSequence> {
    const position = await truncate(tokens.length)
    const answers = await askOrEnd(
      (id) => ({ kind: 'stateGet', request: id, sequence, reply: false, checksum: -1 }),
      `state of sequence ${sequence}`,
    )
    const saved = { prompt, tokens: [...tokens], position, states: answers.map(({ payload }) => payload) }
    feedFrom(position)
    return saved
  }

  /** One after the other: each starts where the last one has left every stage. */
  function inTurn<T>(action: () => Promise<T>): Promise<T> {
    const result = settled.then(() => caughtUp.promise).then(action)
    settled = result.then(
      () => {},
      () => {},
    )
    return result
  }

  const cancel = () => finish('cancel', new SeamError('ABORTED', `sequence ${sequence} was cancelled`))
  const onAbort = () => void finish('cancel', SeamError.from(signal!.reason, 'ABORTED'))

  const driven: DrivenSequence = {
    request,
    sequence,
    tokens,
    startedNs,
    cancel,
    get begun() {
      return begun
    },
    get waiting() {
      return ended === undefined && prompt.length + sampled - 1 < creditLimit
    },
    onToken({ epoch: sampledIn, position, token, finish: end }, step, logits) {
      if (ended !== undefined || sampledIn !== epoch) return false
      const due = prompt.length + sampled
      // Within a replayed window nothing is sampled.
      const mostDue = prompt.length + Math.max(sampled, tokens.length)
      if (position < due || position > mostDue) {
        const text = `token for position ${position} from ${lastName} where ${due} was due`
        void driven.fail(new SeamError('PROTOCOL', text, { worker: lastName }))
        return false
      }
      const isReplayed = position < prompt.length + tokens.length
      sampled = position - prompt.length + 1
      if (!isReplayed) {
        tokens.push(token)
        caughtUp.resolve()
      }
      context.progressed()
      const finished = isReplayed && sampled < tokens.length ? 'none' : end
      const receivedNs = clock.nowNs()
      context.beforeEmit?.()
      queue.push({
        token,
        position,
        finish: finished,
        receivedNs,
        step,
        ...(logits === undefined ? {} : { logits }),
      })
      if (finished === 'none') return true
      void finish('close')
      return false
    },
    fail: (reason) => finish('cancel', reason),
    rollback: (keepTokens) => inTurn(async () => feedFrom(await truncate(keepTokens))),
    save: () => inTurn(save),
    goLive() {
      live = true
      grant(prompt.length + tokens.length + TOKEN_WINDOW)
    },
    [Symbol.asyncIterator]: () => ({
      next: () => queue.next(),
      async return() {
        await cancel()
        return { value: undefined, done: true }
      },
    }),
  }
  signal?.addEventListener('abort', onAbort, { once: true })
  const begun = begin()
  begun.catch((error) => driven.fail(SeamError.from(error, 'WORKER')))
  let settled: Promise<void> = begun
  return driven
}

/** Token ids for stage 0: one for each token of `rows`, in order. */
export function tokenTensor(run: bigint, rows: readonly TensorRow[], ids: readonly number[]): UnsealedTensor {
  return {
    ...{ kind: 'tensor', run, edge: 0, fragment: 0, dtype: 'i32', codec: 'none' },
    rows,
    shape: [ids.length, 1],
  }
}

/** Throws `USAGE`, `LIMIT` or `ABORTED` for a request that no pipeline of these facts can serve. */
export function checkRequest(request: GenerationRequest, { vocabulary, contextLength }: LinkFacts): void {
  const { prompt, maxTokens, signal } = request
  if (signal?.aborted) throw SeamError.from(signal.reason, 'ABORTED')
  if (prompt.length === 0) throw new SeamError('USAGE', 'the prompt has no token')
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    throw new SeamError('USAGE', `maxTokens ${maxTokens} is not a positive number of tokens`)
  }
  const strange = prompt.find((token) => !Number.isSafeInteger(token) || token < 0 || token >= vocabulary)
  if (strange !== undefined) {
    throw new SeamError('USAGE', `prompt token ${strange} is outside the vocabulary of ${vocabulary} tokens`)
  }
  if (prompt.length + maxTokens > contextLength) {
    throw new SeamError(
      'LIMIT',
      `${prompt.length} prompt tokens + ${maxTokens} new tokens exceed the context of ${contextLength} tokens: ask for fewer, or start the workers with a larger context`,
    )
  }
}
