/**
 * A stage executor without a model: it computes nothing but depends on everything. Same contract, chosen compute
 * times, and output that is a function of every input byte, every position and every layer, so that a chain of
 * stages gives the tokens of the unsplit one and any byte that goes wrong on the way changes them.
 *
 * @packageDocumentation
 */
import { createHash } from 'node:crypto'
import {
  type Clock,
  monotonicClock,
  type SamplerSettings,
  SeamError,
  type SessionOptions,
  SpanName,
  type SpanSink,
  type StageExecutor,
  type StageSession,
  type StageSpec,
  type Step,
  type StepResult,
  type StepRow,
} from '@seamline/core'

export interface FakeOptions {
  /** @default 0 */
  readonly layerFirst?: number
  /** @default layerCount */
  readonly layerEnd?: number
  /** @default 4 */
  readonly layerCount?: number
  /** @default 64 */
  readonly embedding?: number
  /** @default 256 */
  readonly vocabulary?: number
  /** @default 512 */
  readonly contextLength?: number
  /** @default 64 */
  readonly chunkTokens?: number
  /** @default 4 */
  readonly maxSequences?: number
  /** Stands for the weights. @default 1 */
  readonly model?: number
  /** How long a step of so many tokens takes. 0 takes one turn of the event loop. @default () => 0 */
  readonly computeMs?: (tokens: number) => number
  readonly clock?: Clock
  readonly sink?: SpanSink | null
}

interface FakeSession extends StageSession {
  readonly state: Uint32Array
  readonly sampler: SamplerSettings
  history: number[]
  position: number
  open: boolean
}

/** Makes a fake stage; synchronous and cheap. */
export function fakeExecutor(options: FakeOptions = {}): StageExecutor {
  const layerCount = options.layerCount ?? 4
  const layerFirst = options.layerFirst ?? 0
  const layerEnd = options.layerEnd ?? layerCount
  const {
    embedding = 64,
    vocabulary = 256,
    contextLength = 512,
    chunkTokens = 64,
    maxSequences = 4,
  } = options
  const model = options.model ?? 1
  const computeMs = options.computeMs ?? (() => 0)
  const clock = options.clock ?? monotonicClock
  const sink = options.sink ?? null
  const layers = layerEnd - layerFirst
  const isFirst = layerFirst === 0
  const isLast = layerEnd === layerCount

  const spec: StageSpec = {
    modelSha256: mix(model, 0x5ea41).toString(16).padStart(64, '0'),
    manifestSha256: mix(model, 0x3a11f).toString(16).padStart(64, '0'),
    ...{ layerFirst, layerEnd, layerCount, embedding, vocabulary, contextLength, chunkTokens, maxSequences },
    ...{
      kvType: 'u32',
      flashAttention: 'off',
      regime: 'per-row',
      threads: 1,
      engine: 'fake',
      backend: 'fake',
    },
  }
  const sessions = new Set<FakeSession>()
  const queue: { readonly step: Step; resolve(result: StepResult): void; reject(error: SeamError): void }[] =
    []
  let timer: NodeJS.Timeout | NodeJS.Immediate | undefined
  let closed = false

  function openSession({ sampler, promptTail }: SessionOptions): StageSession {
    if (closed) throw new SeamError('CLOSED', 'the executor is closed')
    if (sessions.size === maxSequences) {
      throw new SeamError('BUSY', `all ${maxSequences} sequences are taken, 0 free`)
    }
    const session: FakeSession = {
      state: new Uint32Array(layers * contextLength),
      sampler,
      history: [...promptTail],
      position: 0,
      open: true,
      rollback(position, tail) {
        if (!session.open) throw new SeamError('CLOSED', 'the session is closed')
        if (position < 0 || position > session.position) {
          throw new SeamError(
            'USAGE',
            `cannot roll back to ${position}: the KV length is ${session.position}`,
          )
        }
        if (queue.some(({ step }) => step.rows.some((row) => row.session === session))) {
          throw new SeamError('USAGE', 'the session is in a step')
        }
        session.position = position
        session.history = [...tail]
      },
      async saveState() {
        const used = new Uint32Array(layers * session.position)
        for (let layer = 0; layer < layers; layer++) {
          const from = layer * contextLength
          used.set(session.state.subarray(from, from + session.position), layer * session.position)
        }
        return withDigest(new Uint8Array(used.buffer))
      },
      async restoreState(bytes, position) {
        const state = withoutDigest(bytes)
        if (state.length !== layers * position * 4) {
          throw new SeamError(
            'EXECUTOR',
            `state of ${state.length} B for ${layers} layers x ${position} positions`,
          )
        }
        const used = new Uint32Array(state.buffer)
        for (let layer = 0; layer < layers; layer++) {
          session.state.set(used.subarray(layer * position, (layer + 1) * position), layer * contextLength)
        }
        session.position = position
      },
      async close() {
        session.open = false
        sessions.delete(session)
      },
    }
    sessions.add(session)
    return session
  }

  function next(): void {
    const head = queue[0]
    if (head === undefined || timer !== undefined) return
    const tokens = head.step.rows.reduce((sum, row) => sum + row.tokenCount, 0)
    const ms = computeMs(tokens)
    const startNs = clock.nowNs()
    const run = () => {
      timer = undefined
      try {
        const sampled = compute(head.step)
        const endNs = clock.nowNs()
        if (sink !== null) sink.span(SpanName.compute, startNs, endNs, head.step.tag, 0)
        queue.shift()
        head.resolve({
          tokens: sampled,
          computeStartNs: startNs,
          computeEndNs: endNs,
          sampleEndNs: endNs,
          cpuWaitNs: 0,
        })
      } catch (error) {
        queue.shift()
        head.reject(SeamError.from(error, 'EXECUTOR'))
      }
      next()
    }
    timer = ms > 0 ? setTimeout(run, ms) : setImmediate(run)
  }

  function check(step: Step): void {
    const tokens = step.rows.reduce((sum, row) => sum + row.tokenCount, 0)
    if (tokens < 1 || tokens > chunkTokens) {
      throw new SeamError(
        'LIMIT',
        `step of ${tokens} tokens, at least 1 and at most ${chunkTokens} are taken`,
      )
    }
    const expected = isFirst ? tokens : tokens * embedding
    if (step.input.length !== expected || isFirst !== step.input instanceof Int32Array) {
      throw new SeamError('USAGE', `input of ${step.input.length} values, ${expected} were due`)
    }
    if (!isLast && step.output?.length !== tokens * embedding) {
      throw new SeamError(
        'USAGE',
        `output of ${step.output?.length ?? 0} values, ${tokens * embedding} were due`,
      )
    }
    const sampling = step.rows.filter((row) => row.sample).length
    if (!isLast && sampling > 0) throw new SeamError('USAGE', 'only the last stage samples')
    if (!isLast && step.logits !== null) throw new SeamError('USAGE', 'only the last stage has logits')
    if (step.logits !== null && step.logits.length !== sampling * vocabulary) {
      throw new SeamError(
        'USAGE',
        `logits of ${step.logits.length} values, ${sampling * vocabulary} were due`,
      )
    }
    for (const row of step.rows) {
      const session = row.session as FakeSession
      if (!session.open) throw new SeamError('ABORTED', 'the session was closed')
      if (row.position !== session.position) {
        throw new SeamError(
          'PROTOCOL',
          `row at position ${row.position} where the KV length is ${session.position}`,
        )
      }
      if (row.position + row.tokenCount > contextLength) {
        throw new SeamError(
          'LIMIT',
          `row ends at ${row.position + row.tokenCount}, the context is ${contextLength}`,
        )
      }
    }
  }

  function compute(step: Step): number[] {
    check(step)
    const tokens: number[] = []
    let at = 0
    for (const row of step.rows) {
      const session = row.session as FakeSession
      let hidden = new Float32Array(embedding)
      for (let i = 0; i < row.tokenCount; i++, at++) {
        if (isFirst) hidden = embed(step.input[at]!)
        else hidden.set((step.input as Float32Array).subarray(at * embedding, (at + 1) * embedding))
        for (let layer = layerFirst; layer < layerEnd; layer++)
          attend(session, layer, row.position + i, hidden)
        if (!isLast) step.output!.set(hidden, at * embedding)
      }
      session.position += row.tokenCount
      if (isLast && row.sample) tokens.push(sample(session, row, hidden, step.logits, tokens.length))
    }
    return tokens
  }

  function embed(token: number): Float32Array<ArrayBuffer> {
    return Float32Array.from({ length: embedding }, (_, i) => mix(mix(model, token), i) >>> 8)
  }

  /** One layer: the row depends on itself, the layer and everything before it in the sequence. */
  function attend(session: FakeSession, layer: number, position: number, hidden: Float32Array): void {
    const at = (layer - layerFirst) * contextLength + position
    const before = position === 0 ? 0 : session.state[at - 1]!
    const bits = new Uint32Array(hidden.buffer, hidden.byteOffset, embedding)
    const state = bits.reduce(mix, mix(mix(model, layer), before))
    session.state[at] = state
    for (let i = 0; i < embedding; i++) hidden[i] = mix(bits[i]!, mix(state, i)) >>> 8
  }

  function sample(
    session: FakeSession,
    row: StepRow,
    hidden: Float32Array,
    logits: Float32Array | null,
    nth: number,
  ): number {
    const { temperature, seed, penaltyLastN, repeatPenalty } = session.sampler
    const final = new Uint32Array(hidden.buffer, hidden.byteOffset, embedding).reduce(mix, model)
    const own = Float32Array.from({ length: vocabulary }, (_, token) => mix(final, token) / 2 ** 28)
    logits?.set(own, nth * vocabulary)
    const recent = penaltyLastN === 0 || repeatPenalty === 1 ? [] : session.history.slice(-penaltyLastN)
    for (const token of recent) own[token]! /= repeatPenalty
    const position = row.position + row.tokenCount
    const token =
      temperature === 0
        ? own.reduce((best, value, i) => (value > own[best]! ? i : best), 0)
        : mix(mix(recent.reduce(mix, final), seed), position) % vocabulary
    session.history.push(token)
    return token
  }

  function abort(): void {
    if (timer !== undefined) {
      clearTimeout(timer as NodeJS.Timeout)
      clearImmediate(timer as NodeJS.Immediate)
    }
    timer = undefined
    for (const { reject } of queue.splice(0)) reject(new SeamError('ABORTED', 'the step was aborted'))
  }

  return {
    spec,
    get freeSessions() {
      return maxSequences - sessions.size
    },
    openSession,
    step(step) {
      return new Promise((resolve, reject) => {
        if (closed) return reject(new SeamError('CLOSED', 'the executor is closed'))
        queue.push({ step, resolve, reject })
        next()
      })
    },
    abort,
    async close() {
      closed = true
      while (queue.length > 0) await new Promise((resolve) => setImmediate(resolve))
      for (const session of sessions) await session.close()
    },
  }
}

/** Mixes two 32-bit words into one (multiply, xor-shift: the finaliser of MurmurHash3). */
function mix(a: number, b: number): number {
  let h = Math.imul(a ^ (b + 0x9e3779b9), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

const DIGEST_BYTES = 32

/** A state behind its SHA-256, so that one that was altered is told. */
function withDigest(state: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(DIGEST_BYTES + state.length)
  bytes.set(createHash('sha256').update(state).digest())
  bytes.set(state, DIGEST_BYTES)
  return bytes
}

/** The state in memory of its own. */
function withoutDigest(bytes: Uint8Array): Uint8Array {
  const state = bytes.slice(DIGEST_BYTES)
  const digest = createHash('sha256').update(state).digest()
  if (bytes.length < DIGEST_BYTES || Buffer.compare(digest, bytes.subarray(0, DIGEST_BYTES)) !== 0)
    throw new SeamError('EXECUTOR', `the state of ${bytes.length} B is not as it was saved`)
  return state
}
