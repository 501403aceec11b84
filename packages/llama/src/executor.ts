import { createHash } from 'node:crypto'
import type {
  SessionOptions,
  SpanSink,
  StageExecutor,
  StageSession,
  StageSpec,
  Step,
  StepResult,
} from '@seamline/core'
import { SeamError, SpanName } from '@seamline/core'
import { checkClocks } from './clocks.ts'
import { findLibraries } from './libraries.ts'
import type { NativeFacts, NativeStage } from './native.ts'
import { loadAddon, nativeError } from './native.ts'
import { checkSampler } from './sampler.ts'

/** What the manifest says about a stage file; checked against the file. */
export type StageFacts = Pick<
  StageSpec,
  'modelSha256' | 'manifestSha256' | 'layerFirst' | 'layerEnd' | 'layerCount' | 'embedding' | 'vocabulary'
>

export interface LlamaExecutorOptions {
  /** A GGUF file: one stage of a split, or a whole model. */
  readonly path: string
  /**
   * Facts of the stage; null for a whole model, which is then its own only stage with empty digests.
   * @default null
   */
  readonly facts?: StageFacts | null
  /**
   * Name of the graph node that is overwritten with the hidden rows before the rest runs, e.g. `inp_scaled` of
   * gemma: for models that would scale them once more on their way in; null to feed them as they are. Not for
   * stage 0. A step fails with `EXECUTOR` when the graph has no such node. @default null
   */
  readonly inject?: string | null
  /** Positions one sequence may take; at most what the model was trained for. */
  readonly contextLength: number
  /** Most tokens in one step. Part of the identity of the output. @default 64 */
  readonly chunkTokens?: number
  /** Sequences that may be open at once; each owns the KV cells of one context. @default 1 */
  readonly maxSequences?: number
  /** Compute threads. Keep the sum over the stages of a host within its cores: they spin. @default 1 */
  readonly threads?: number
  /** @default 'on' */
  readonly flashAttention?: 'on' | 'off'
  /** @default 'f16' */
  readonly kvType?: 'f16' | 'f32' | 'q8_0'
  /**
   * Repack quantised weights at load: faster, at the price of a second copy in memory. Part of the identity of the
   * output. @default true, false where `regime` is `uniform`, which has to do without
   */
  readonly repack?: boolean
  /**
   * `per-row`: a step is one decode call; its output is reproduced by steps of the same shape. `uniform`: the
   * output does not depend on how tokens were grouped into steps. A step is cut into decode calls of 2 to 60 rows,
   * and a lone row gets a dummy after it that is dropped again. Needs flash attention; `UNSUPPORTED` for weights of
   * IQ types and recurrent models. @default 'per-row'
   */
  readonly regime?: 'per-row' | 'uniform'
  /** Folder of the llama.cpp libraries. @default {@link findLibraries} */
  readonly libraries?: string
  /** Ends the load with `ABORTED`. */
  readonly signal?: AbortSignal
  /** Receives a `compute` span for each step and a `sample` span where tokens were sampled. @default null */
  readonly sink?: SpanSink | null
}

interface Settings {
  readonly contextLength: number
  readonly chunkTokens: number
  readonly maxSequences: number
  readonly threads: number
}

/**
 * Loads a GGUF file into stock llama.cpp on the CPU and runs its layers. The model is memory-mapped; compute
 * has a native thread of its own. llama.cpp ends the whole process on an internal assertion, after its last
 * log lines went to stderr: run a stage in a process of its own.
 *
 * Throws `FILE` for a file that cannot be read or loaded, `MISMATCH` when it or the llama.cpp release is not
 * what was expected, `UNSUPPORTED` without addon or libraries, `LIMIT` beyond the trained context, `USAGE`
 * for bad options and `ABORTED` through `signal`; messages carry llama.cpp's own.
 */
export async function llamaExecutor(options: LlamaExecutorOptions): Promise<StageExecutor> {
  const settings = checkedSettings(options)
  const { facts = null, flashAttention = 'on', kvType = 'f16', regime = 'per-row', signal } = options
  const uniform = regime === 'uniform'
  const first = facts === null || facts.layerFirst === 0
  const last = facts === null || facts.layerEnd === facts.layerCount
  const inject = options.inject ?? ''
  if (first && inject !== '') throw new SeamError('USAGE', `inject is ${inject}; stage 0 takes tokens`)
  const addon = loadAddon()
  checkClocks(() => addon.nowNs())
  const engine = `llama.cpp ${addon.release}`
  if (signal?.aborted) throw new SeamError('ABORTED', `loading of ${options.path} was aborted`)
  const native = new addon.Stage({
    ...settings,
    libraries: options.libraries ?? findLibraries(),
    path: options.path,
    identity: identityOf(facts, engine, `KV ${kvType}, flash attention ${flashAttention}, ${regime}`),
    first,
    last,
    inject,
    flashAttention: flashAttention === 'on',
    kvType,
    repack: options.repack ?? !uniform,
    uniform,
  })
  const onAbort = () => native.abort()
  signal?.addEventListener('abort', onAbort)
  try {
    const loaded = await native.load()
    if (facts !== null) checkFacts(options.path, facts, loaded, first || last)
    return executorOf(native, options.sink ?? null, {
      modelSha256: '',
      manifestSha256: '',
      layerFirst: 0,
      layerEnd: loaded.layers,
      layerCount: loaded.layers,
      embedding: loaded.embedding,
      vocabulary: loaded.vocabulary,
      ...facts,
      ...settings,
      kvType,
      flashAttention,
      regime,
      engine,
      backend: loaded.backend,
    })
  } catch (error) {
    await native.stop()
    throw nativeError(error)
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
}

/** Names what a saved state belongs to. */
function identityOf(facts: StageFacts | null, engine: string, mode: string): string {
  const part =
    facts === null
      ? 'a whole model'
      : `layers ${facts.layerFirst}-${facts.layerEnd} of ${facts.modelSha256} split as ${facts.manifestSha256}`
  return `${part} on ${engine}, ${mode}`
}

function checkedSettings(options: LlamaExecutorOptions): Settings {
  const settings = {
    contextLength: options.contextLength,
    chunkTokens: options.chunkTokens ?? 64,
    maxSequences: options.maxSequences ?? 1,
    threads: options.threads ?? 1,
  }
  for (const [name, value] of Object.entries(settings)) {
    if (!Number.isInteger(value) || value < 1) {
      throw new SeamError('USAGE', `${name} is ${value}; it must be an integer >= 1`)
    }
  }
  const cells = settings.contextLength * settings.maxSequences
  if (cells >= 2 ** 31) {
    throw new SeamError('LIMIT', `${settings.maxSequences} sequences of ${settings.contextLength} positions`)
  }
  return settings
}

function checkFacts(path: string, facts: StageFacts, loaded: NativeFacts, whole: boolean): void {
  const pairs: [name: string, inFile: number, expected: number][] = [
    ['layers', loaded.layers, facts.layerEnd - facts.layerFirst],
    ['values in a hidden row', loaded.embedding, facts.embedding],
  ]
  if (whole) pairs.push(['tokens in the vocabulary', loaded.vocabulary, facts.vocabulary])
  for (const [name, inFile, expected] of pairs) {
    if (inFile !== expected) {
      throw new SeamError('MISMATCH', `${path} has ${inFile} ${name}, the manifest says ${expected}`)
    }
  }
}

/** What the executor knows of a session beyond its public face. */
interface Session extends StageSession {
  readonly sequence: number
  position: number
  /** Steps and restores that have not settled. */
  inFlight: number
}

function executorOf(native: NativeStage, sink: SpanSink | null, spec: StageSpec): StageExecutor {
  const first = spec.layerFirst === 0
  const last = spec.layerEnd === spec.layerCount
  const sessions = new Set<StageSession>()
  const free = Array.from({ length: spec.maxSequences }, (_, i) => i)
  let closing: Promise<void> | null = null

  /**
   * Tracks work that moves the position of its sessions, and ends with `ABORTED` when one was closed
   * meanwhile.
   */
  async function during<T>(moved: readonly Session[], work: Promise<T>): Promise<T> {
    for (const session of moved) session.inFlight += 1
    try {
      const result = await work
      requireSessions(moved)
      return result
    } catch (error) {
      throw nativeError(error)
    } finally {
      for (const session of moved) session.inFlight -= 1
    }
  }

  function requireOpen(): void {
    if (closing !== null) throw new SeamError('CLOSED', 'the executor is closed')
  }

  function requireSessions(used: readonly StageSession[]): void {
    if (!used.every((session) => sessions.has(session)))
      throw new SeamError('ABORTED', 'the session is closed')
  }

  /** The tokens that the penalties look at; a stage that does not sample has no use for them. */
  function historyOf(tail: readonly number[]): Int32Array {
    if (!last) return new Int32Array()
    checkTokens(tail, spec.vocabulary, 'tail')
    return Int32Array.from(tail)
  }

  function openSession({ sampler, promptTail }: SessionOptions): StageSession {
    requireOpen()
    if (last) checkSampler(sampler)
    const history = historyOf(promptTail)
    const sequence = free.shift()
    if (sequence === undefined) {
      throw new SeamError('BUSY', `all ${spec.maxSequences} sequences are taken, 0 free; close one first`)
    }
    native.open(sequence, sampler, history).catch(() => {})

    let closed: Promise<void> | null = null
    const session: Session = {
      sequence,
      position: 0,
      inFlight: 0,

      rollback(position, tail) {
        requireOpen()
        requireSessions([session])
        if (session.inFlight > 0) {
          throw new SeamError('USAGE', `rollback with ${session.inFlight} calls of the session in flight`)
        }
        if (!Number.isInteger(position) || position < 0 || position > session.position) {
          throw new SeamError(
            'USAGE',
            `rollback to position ${position}; the KV length is ${session.position}`,
          )
        }
        if (position < session.position && !native.canRollBack(sequence, position)) {
          throw new SeamError(
            'EXECUTOR',
            `the cache no longer holds what position ${position} attends to; open a new session and feed it again`,
          )
        }
        const history = historyOf(tail)
        // Runs before anything that is called later; a failed check there fails every later step of the
        // session.
        native.rollBack(sequence, position, history).catch(() => {})
        session.position = position
      },

      async saveState() {
        requireOpen()
        requireSessions([session])
        return sealState(new Uint8Array(await during([], native.save(sequence))))
      },

      async restoreState(state, position) {
        requireOpen()
        requireSessions([session])
        const opened = openState(state)
        session.position = 0
        await during([session], native.restore(sequence, position, opened))
        session.position = position
      },

      close() {
        closed ??= (async () => {
          if (closing !== null) return closing
          sessions.delete(session)
          await native.closeSequence(sequence).catch(() => {})
          free.push(sequence)
          free.sort((a, b) => a - b) // llama.cpp computes rows of neighbouring streams together
        })()
        return closed
      },
    }
    sessions.add(session)
    return session
  }

  async function step(step: Step): Promise<StepResult> {
    requireOpen()
    const { rows, tokenCount, packed } = packRows(step)
    const samples = step.rows.filter((row) => row.sample).length
    checkMemory(step, rows.length * tokenCount, samples)
    const result = await during(rows, native.step(packed, tokenCount, step.input, step.output, step.logits))
    for (const [i, session] of rows.entries()) session.position = step.rows[i]!.position + tokenCount
    if (sink !== null) {
      const bytes = step.output === null ? 0 : step.output.byteLength
      sink.span(SpanName.compute, result.computeStartNs, result.computeEndNs, step.tag, bytes)
      if (result.cpuWaitNs > 0) {
        sink.span(SpanName.cpuWait, result.computeEndNs - result.cpuWaitNs, result.computeEndNs, step.tag, 0)
      }
      if (samples > 0) sink.span(SpanName.sample, result.computeEndNs, result.sampleEndNs, step.tag, 0)
    }
    return result
  }

  function packRows(step: Step) {
    const tokenCount = step.rows[0]?.tokenCount ?? 0
    if (!Number.isInteger(tokenCount) || tokenCount < 1) {
      throw new SeamError('USAGE', `a step of ${step.rows.length} rows, the first with ${tokenCount} tokens`)
    }
    const packed = new Int32Array(3 * step.rows.length)
    const rows = step.rows.map((row, i) => {
      const session = row.session as Session
      requireSessions([session])
      if (row.tokenCount !== tokenCount) {
        throw new SeamError('USAGE', `rows of ${tokenCount} and ${row.tokenCount} tokens in one step`)
      }
      if (row.sample && !last) throw new SeamError('USAGE', 'only the last stage samples')
      if (step.rows.findIndex((other) => other.session === row.session) !== i) {
        throw new SeamError('USAGE', 'two rows of one session in a step')
      }
      packed.set([session.sequence, row.position, row.sample ? 1 : 0], 3 * i)
      return session
    })
    return { rows, tokenCount, packed }
  }

  function checkMemory(step: Step, tokens: number, samples: number): void {
    if (tokens > spec.chunkTokens) {
      throw new SeamError('LIMIT', `${tokens} tokens in a step; the chunk size is ${spec.chunkTokens}`)
    }
    const hidden = tokens * spec.embedding
    if (first !== step.input instanceof Int32Array) {
      throw new SeamError(
        'USAGE',
        first ? 'stage 0 takes token ids (Int32Array)' : 'only stage 0 takes token ids',
      )
    }
    checkLength('input', step.input, first ? tokens : hidden)
    if (first) checkTokens(step.input, spec.vocabulary, 'input')
    if (last !== (step.output === null)) {
      throw new SeamError('USAGE', last ? 'a last stage has no output' : 'output is missing')
    }
    if (step.output !== null) checkLength('output', step.output, hidden)
    if (step.logits !== null) {
      if (!last) throw new SeamError('USAGE', 'only the last stage has logits')
      checkLength('logits', step.logits, samples * spec.vocabulary)
    }
  }

  return {
    spec,
    get freeSessions() {
      return free.length
    },
    openSession,
    step,
    abort: () => {
      if (closing === null) native.abort()
    },
    close: () => (closing ??= native.stop()),
  }
}

const DIGEST_BYTES = 32

/** llama.cpp trusts the counts inside a state: a damaged one must not reach it. The SHA-256 stands in front. */
function sealState(state: Uint8Array): Uint8Array {
  const sealed = new Uint8Array(DIGEST_BYTES + state.length)
  sealed.set(createHash('sha256').update(state).digest())
  sealed.set(state, DIGEST_BYTES)
  return sealed
}

function openState(sealed: Uint8Array): Uint8Array {
  const state = sealed.subarray(DIGEST_BYTES)
  const digest = createHash('sha256').update(state).digest()
  if (sealed.length < DIGEST_BYTES || digest.compare(sealed, 0, DIGEST_BYTES) !== 0) {
    throw new SeamError(
      'PROTOCOL',
      `the saved state of ${sealed.length} B was altered: its SHA-256 does not fit`,
    )
  }
  return state
}

function checkLength(name: string, view: Int32Array | Float32Array, length: number): void {
  if (view.length !== length) {
    throw new SeamError('USAGE', `${name} has ${view.length} values, the rows need ${length}`)
  }
}

function checkTokens(tokens: ArrayLike<number>, vocabulary: number, name: string): void {
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!
    if (!Number.isInteger(token) || token < 0 || token >= vocabulary) {
      throw new SeamError('USAGE', `${name}[${i}] is token ${token}; the vocabulary has ${vocabulary}`)
    }
  }
}
