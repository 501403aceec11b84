import type { SamplerSettings } from './sampler.ts'

/** What a stage is and which limits it has; fixed while the executor lives. */
export interface StageSpec {
  readonly modelSha256: string
  readonly manifestSha256: string
  readonly layerFirst: number
  /** One past the last layer. */
  readonly layerEnd: number
  /** Layers of the whole model. */
  readonly layerCount: number
  /** Values in one hidden row. */
  readonly embedding: number
  /** Tokens in the vocabulary of the whole model. */
  readonly vocabulary: number
  /** Positions one sequence may take. */
  readonly contextLength: number
  /** Most tokens in one step. */
  readonly chunkTokens: number
  readonly maxSequences: number
  readonly kvType: string
  readonly flashAttention: string
  /** `per-row`, or a name that says otherwise: which batch shapes give the same bits. */
  readonly regime: string
  readonly threads: number
  /** Engine and release, e.g. `llama.cpp v0.5.0`. */
  readonly engine: string
  /** Back end and kernel variant, e.g. `cpu haswell`. */
  readonly backend: string
}

export interface SessionOptions {
  /** Used by a last stage only. */
  readonly sampler: SamplerSettings
  /**
   * Tokens before the first sampled one, oldest first, as far back as the penalties look. The session appends what
   * it samples.
   */
  readonly promptTail: readonly number[]
}

/** One sequence's place in the KV cache of a stage. */
export interface StageSession {
  /** KV length: the position that the next row must have. */
  readonly position: number
  /**
   * Truncates to `position`, verified against the cache. `tail` replaces the history of the penalties: the tokens
   * before the next sampled one, oldest first, including those that are about to be fed again.
   * Throws `EXECUTOR` when the engine cannot, `USAGE` when `position` is beyond the KV length or the session is in a step.
   */
  rollback(position: number, tail: readonly number[]): void
  /** Copies the state out. Valid on the same stage of another process. */
  saveState(): Promise<Uint8Array>
  /** Replaces the state; `position` becomes `position`. Throws for a state that was altered or is of another stage. */
  restoreState(state: Uint8Array, position: number): Promise<void>
  /** Frees the KV cells. Idempotent. Waits for nothing: a step in flight ends with `ABORTED` first. */
  close(): Promise<void>
}

/** Consecutive tokens of one session in a step. */
export interface StepRow {
  readonly session: StageSession
  readonly position: number
  readonly tokenCount: number
  /** Sample after the last token; a last stage alone can. */
  readonly sample: boolean
}

/**
 * One decode call. All memory is the caller's and must stay unchanged until the promise settles; the executor keeps
 * no reference after that. Rows are in order and their tokens are contiguous in `input` and `output`.
 * With several rows all have the same token count.
 */
export interface Step {
  readonly rows: readonly StepRow[]
  /** Token ids on stage 0, else hidden rows: tokens * embedding values. */
  readonly input: Int32Array | Float32Array
  /** Receives the hidden rows; null on a last stage. No overlap with `input`. */
  readonly output: Float32Array | null
  /** Receives vocabulary values for each sampling row, in order; null on any but a last stage. */
  readonly logits: Float32Array | null
  /** Joins the spans of this step. */
  readonly tag: number
}

export interface StepResult {
  /** The sampled token of each sampling row, in order; empty on other stages. */
  readonly tokens: readonly number[]
  /** When the engine began and had finished computing (decode and synchronise), on the host's clock. */
  readonly computeStartNs: number
  readonly computeEndNs: number
  /** When sampling was finished; equal to `computeEndNs` where nothing was sampled. */
  readonly sampleEndNs: number
  /** How much of that time the engine's thread could run and had no CPU; 0 where that is not known. */
  readonly cpuWaitNs: number
}

/**
 * Runs one contiguous range of layers. Steps run one at a time in the order of the calls. A failed step leaves the
 * KV length of its sessions as it was.
 */
export interface StageExecutor {
  readonly spec: StageSpec
  /** Sessions that can still be opened. */
  readonly freeSessions: number
  /** Throws `BUSY` when all sessions are taken, naming how many there are. */
  openSession(options: SessionOptions): StageSession
  /**
   * Throws `USAGE` for sizes that do not fit, `PROTOCOL` for a row whose position is not its session's, `LIMIT` beyond the
   * context or the chunk, `EXECUTOR` when the engine fails, `ABORTED` after {@link abort} or a closed session.
   */
  step(step: Step): Promise<StepResult>
  /** Ends the steps in flight or queued with `ABORTED` as soon as the engine notices. */
  abort(): void
  /** Waits for the step in flight, then frees everything. Idempotent. */
  close(): Promise<void>
}
