import {
  asBytes,
  type Clock,
  type LinkFacts,
  type Message,
  SeamError,
  type TokenMessage,
} from '@seamline/core'
import { type Generation, type GenerationRequest, tokenQueue } from './generation.ts'
import type { Link } from './link.ts'

/** What a sequence needs of its pipeline. */
export interface DriveContext {
  readonly sequence: number
  /** Low 32 bits of the run. */
  readonly runTag: number
  readonly clock: Clock
  readonly chunkTokens: number
  /** To stage 0. */
  readonly first: Link
  /** Name of the last stage. */
  readonly lastName: string
  readonly returnsThroughCoordinator: boolean
  /** Asks every stage and waits for all. */
  askAll(message: (request: number) => Message, what: string): Promise<unknown>
  /** Something arrived or was sent on: the watch on progress starts anew. */
  progressed(): void
  /** Every stage has freed the sequence, or cannot be asked any more. */
  over(): void
}

/** A generation as the links of its pipeline see it. */
export interface DrivenSequence extends Generation {
  readonly request: GenerationRequest
  /** True while a token is due that neither the reader nor credit holds back. */
  readonly waiting: boolean
  onToken(message: TokenMessage, logits: Float32Array | undefined): void
  fail(reason: SeamError): void
}

/** Tokens that stage 0 may run ahead of the reader. */
const TOKEN_WINDOW = 32

/** Opens a sequence on every stage, feeds its prompt in chunks and turns what comes back into a {@link Generation}. */
export function driveSequence(request: GenerationRequest, context: DriveContext): DrivenSequence {
  const { sequence, runTag, clock, chunkTokens, first, lastName, returnsThroughCoordinator, askAll } = context
  const { prompt, sampler, signal } = request
  const startedNs = clock.nowNs()
  const lastChunk = prompt.length - 1 - ((prompt.length - 1) % chunkTokens)
  const tokens: number[] = []
  let epoch = 0
  let creditLimit = prompt.length + TOKEN_WINDOW
  let ended: Promise<void> | undefined

  const queue = tokenQueue(({ position }) => {
    const limit = position + 1 + TOKEN_WINDOW
    if (ended !== undefined || limit - creditLimit < TOKEN_WINDOW / 2) return
    creditLimit = limit
    first.send({ kind: 'credit', scope: 'sequence', id: sequence, limit })
  })

  /** The tokens before the next sampled one, as far back as the penalties look. */
  function tail(): number[] {
    return sampler.penaltyLastN === 0 ? [] : [...prompt, ...tokens].slice(-sampler.penaltyLastN)
  }

  function feed(position: number, ids: readonly number[], sample: boolean): void {
    first.sendCounted(
      {
        ...{ kind: 'tensor', run: runTag, edge: 0, fragment: 0, dtype: 'i32', codec: 'none' },
        rows: [{ sequence, epoch, position, tokenCount: ids.length, sample }],
        shape: [ids.length, 1],
      },
      asBytes(Int32Array.from(ids)),
    )
  }

  async function begin(): Promise<void> {
    const { maxTokens, stopTokens, returnLogits = false } = request
    const what = { maxTokens, stopTokens, returnLogits, sampler, promptTail: tail() }
    await askAll(
      (id) => ({ kind: 'open', request: id, sequence, promptTokens: prompt.length, ...what }),
      `open of sequence ${sequence}`,
    )
    if (ended !== undefined) return
    context.progressed()
    first.send({ kind: 'credit', scope: 'sequence', id: sequence, limit: creditLimit })
    for (let at = 0; at < prompt.length; at += chunkTokens) {
      feed(at, prompt.slice(at, at + chunkTokens), at === lastChunk)
    }
  }

  /** Frees the sequence everywhere, then ends the iteration. */
  function finish(kind: 'close' | 'cancel', reason?: SeamError): Promise<void> {
    if (ended !== undefined) return ended
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

  async function rollback(keepTokens: number): Promise<void> {
    if (ended !== undefined)
      throw new SeamError('CLOSED', `sequence ${sequence} has ended: its KV cells are free`)
    if (!Number.isSafeInteger(keepTokens) || keepTokens < 0 || keepTokens > tokens.length) {
      throw new SeamError('USAGE', `cannot keep ${keepTokens} tokens: ${tokens.length} were generated`)
    }
    tokens.length = keepTokens
    queue.drop(prompt.length + keepTokens)
    epoch++
    // The last token kept is fed again to sample the next; without one, the last chunk in its recorded shape.
    const position = keepTokens > 0 ? prompt.length + keepTokens - 1 : lastChunk
    await askAll(
      (id) => ({ kind: 'rollback', request: id, sequence, position, epoch, tail: tail() }),
      `rollback of sequence ${sequence}`,
    )
    context.progressed()
    if (ended === undefined) feed(position, keepTokens > 0 ? tokens.slice(-1) : prompt.slice(lastChunk), true)
  }

  const cancel = () => finish('cancel', new SeamError('ABORTED', `sequence ${sequence} was cancelled`))
  const onAbort = () => void finish('cancel', SeamError.from(signal!.reason, 'ABORTED'))

  const driven: DrivenSequence = {
    request,
    startedNs,
    cancel,
    get waiting() {
      return ended === undefined && prompt.length + tokens.length - 1 < creditLimit
    },
    onToken(message, logits) {
      if (ended !== undefined || message.epoch !== epoch) return
      const { token, position, finish: end } = message
      const due = prompt.length + tokens.length
      if (position !== due) {
        const text = `token for position ${position} from ${lastName} where ${due} was due`
        return driven.fail(new SeamError('PROTOCOL', text, { worker: lastName }))
      }
      tokens.push(token)
      context.progressed()
      const receivedNs = clock.nowNs()
      queue.push({ token, position, finish: end, receivedNs, ...(logits === undefined ? {} : { logits }) })
      if (end !== 'none') void finish('close')
      else if (returnsThroughCoordinator)
        first.sendCounted({ kind: 'token', sequence, epoch, position, token, finish: end })
    },
    fail: (reason) => void finish('cancel', reason),
    rollback(keepTokens) {
      // One after the other: a rollback starts where the last one has left every stage.
      settled = settled.catch(() => {}).then(() => rollback(keepTokens))
      return settled
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
  let settled = begin()
  settled.catch((error) => driven.fail(SeamError.from(error, 'WORKER')))
  return driven
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
      `${prompt.length} prompt tokens + ${maxTokens} new tokens exceed the context of ${contextLength} tokens`,
    )
  }
}
