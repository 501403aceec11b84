import type { FinishReason, SamplerSettings, SeamError } from '@seamline/core'

export interface GenerationRequest {
  /** Token ids, at least one. */
  readonly prompt: readonly number[]
  readonly maxTokens: number
  readonly sampler: SamplerSettings
  /** Sampling one of these ends the text; it is reported like any other token. */
  readonly stopTokens: readonly number[]
  /** Brings the logits of every sampled position along. @default false */
  readonly returnLogits?: boolean
  /** Aborting it cancels the generation, which then throws `ABORTED`. */
  readonly signal?: AbortSignal
  /** When the caller took the request on, where it has worked on it since: tokenizing its text. @default now */
  readonly acceptedNs?: number
}

export interface TokenEvent {
  readonly token: number
  /** Where the token stands in its sequence, counting the prompt from 0. */
  readonly position: number
  readonly finish: FinishReason
  /** Vocabulary values, in memory of their own; present when asked for. */
  readonly logits?: Float32Array
  /** When it arrived, on this host's clock. */
  readonly receivedNs: number
  /** Number of the step that sampled it: tokens of several sequences with one step shared a decode call. */
  readonly step: number
}

/** A sequence apart from its workers: what another chain of the same stages needs to go on with it. */
export interface SavedSequence {
  readonly prompt: readonly number[]
  /** Tokens generated so far; the last one is not in the KV cache yet. */
  readonly tokens: readonly number[]
  /** KV length that the states have. */
  readonly position: number
  /** One a stage, in the order of their layers; opaque. */
  readonly states: readonly Uint8Array[]
}

/** A sequence to be computed again from its tokens. */
export interface ReplayPart {
  readonly request: GenerationRequest
  /** What was generated before. */
  readonly tokens: readonly number[]
}

/**
 * Tokens that were fed in one step: the part, which of its tokens, and how many from there on (default 1, the same for all of a
 * step). Only the last token of such a window is sampled after.
 */
export type ReplayStep = readonly { readonly part: number; readonly index: number; readonly count?: number }[]

/**
 * The tokens of one sequence in order. Iterating drives it: the pipeline works a bounded number of tokens ahead of
 * the reader. Ends after the token whose `finish` is not `none`, or throws the error that ended it. Leaving the loop early
 * cancels it.
 */
export interface Generation extends AsyncIterable<TokenEvent> {
  /** Its number in the pipeline; spans are tagged with it. */
  readonly sequence: number
  /** When the request was accepted, on this host's clock: where TTFT starts. */
  readonly startedNs: number
  /**
   * Drops all but the first `keepTokens` tokens on every stage and goes on from there. The tokens that follow
   * are those that would have followed. What was dropped and not yet read is not delivered.
   */
  rollback(keepTokens: number): Promise<void>
  /** Takes the sequence out of every stage as it stands after the last token received, and goes on. */
  save(): Promise<SavedSequence>
  /** Frees the KV cells on every stage; the iteration throws `ABORTED`. Idempotent. */
  cancel(): Promise<void>
}

/** Hands events to one reader and remembers how it ended. */
export interface TokenQueue {
  push(event: TokenEvent): void
  /** Forgets events at and beyond `position` that were not read. */
  drop(position: number): void
  finish(error: SeamError | undefined): void
  next(): Promise<IteratorResult<TokenEvent, undefined>>
}

export function tokenQueue(onRead: (event: TokenEvent) => void): TokenQueue {
  const events: TokenEvent[] = []
  let waiting:
    | { resolve(result: IteratorResult<TokenEvent, undefined>): void; reject(error: SeamError): void }
    | undefined
  let end: { readonly error: SeamError | undefined } | undefined

  function deliver(): void {
    if (waiting === undefined) return
    const { resolve, reject } = waiting
    const event = events.shift()
    if (end?.error !== undefined) reject(end.error)
    else if (event !== undefined) {
      onRead(event)
      resolve({ value: event, done: false })
    } else if (end !== undefined) resolve({ value: undefined, done: true })
    else return
    waiting = undefined
  }

  return {
    push(event) {
      events.push(event)
      deliver()
    },
    drop(position) {
      const kept = events.filter((event) => event.position < position)
      events.splice(0, events.length, ...kept)
    },
    finish(error) {
      end ??= { error }
      deliver()
    },
    next() {
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
        deliver()
      })
    },
  }
}
