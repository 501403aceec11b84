import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SamplerSettings, StepResult } from '@seamline/core'
import { isErrorCode, SeamError } from '@seamline/core'

export interface NativeOptions {
  readonly libraries: string
  readonly path: string
  readonly identity: string
  readonly first: boolean
  readonly last: boolean
  /** Empty for none. */
  readonly inject: string
  readonly contextLength: number
  readonly chunkTokens: number
  readonly maxSequences: number
  readonly threads: number
  readonly flashAttention: boolean
  readonly kvType: string
  readonly repack: boolean
  readonly uniform: boolean
}

export interface NativeFacts {
  readonly embedding: number
  readonly layers: number
  readonly vocabulary: number
  readonly backend: string
}

/**
 * A stage in the addon. Calls are queued and run one at a time on its own thread, in order. It trusts its
 * arguments: sizes and types are the caller's business. Promises reject with an Error whose `code` is one of
 * SeamError's.
 */
export interface NativeStage {
  /** Once, and before anything else. */
  load(): Promise<NativeFacts>
  open(sequence: number, sampler: SamplerSettings, history: Int32Array): Promise<void>
  /** `rows` holds sequence, position and 0 or 1 for sampling, for each row. */
  step(
    rows: Int32Array,
    tokenCount: number,
    input: Int32Array | Float32Array,
    output: Float32Array | null,
    logits: Float32Array | null,
  ): Promise<StepResult>
  /** Immediate. For a sequence with no step in flight. */
  canRollBack(sequence: number, length: number): boolean
  rollBack(sequence: number, length: number, history: Int32Array): Promise<void>
  /** Ends the steps of the sequence first. */
  closeSequence(sequence: number): Promise<void>
  save(sequence: number): Promise<ArrayBuffer>
  /** Empties the sequence when it fails. */
  restore(sequence: number, position: number, state: Uint8Array): Promise<void>
  /** Immediate: marks the load or the steps that are queued or running. */
  abort(): void
  /** Fails what is queued, waits for what runs, frees the model. Nothing may be called afterwards. */
  stop(): Promise<void>
}

export interface Addon {
  readonly Stage: new (options: NativeOptions) => NativeStage
  /** On a thread of its own; `type` is a number of llama_ftype. Rejects as {@link NativeStage} does. */
  quantize(libraries: string, path: string, out: string, type: number, threads: number): Promise<void>
  /** Release of llama.cpp whose headers the addon was built with, e.g. `v0.5.0`. */
  readonly release: string
}

const BUILT = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist', 'native', 'stage.node')

/** Throws `UNSUPPORTED` with the command to run when the addon was not built or cannot be loaded. */
export function loadAddon(path = BUILT): Addon {
  try {
    return createRequire(import.meta.url)(path) as Addon
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new SeamError(
      'UNSUPPORTED',
      `the native addon cannot be loaded (${reason}); build it with: pnpm --filter @seamline/llama build`,
      { cause: error },
    )
  }
}

/** Turns an error of the addon into a SeamError. */
export function nativeError(error: unknown): SeamError {
  const code = (error as { code?: unknown }).code
  return SeamError.from(error, isErrorCode(code) ? code : 'EXECUTOR')
}
