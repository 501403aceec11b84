import { createRequire } from 'node:module'
import type { SamplerSettings, StepResult } from '@seamline/core'
import { isErrorCode, SeamError } from '@seamline/core'
import { type AddonBuild, builtAddon, type Prebuild, prebuild } from './prebuild.ts'

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

export interface Addon extends AddonBuild {
  readonly Stage: new (options: NativeOptions) => NativeStage
  /** From now on the kernel kills this process with its parent, also while it is stopped. Linux; nothing elsewhere. */
  dieWithParent(): void
  /** On a thread of its own; `type` is a number of llama_ftype. Rejects as {@link NativeStage} does. */
  quantize(libraries: string, path: string, out: string, type: number, threads: number): Promise<void>
}

/**
 * Loads the addon: the file that the environment variable SEAMLINE_LLAMA_ADDON names, else the prebuilt one of the
 * package for this platform, else the one that was built here. Throws `UNSUPPORTED` with what is wrong with each.
 */
export function loadAddon(
  chosen = process.env.SEAMLINE_LLAMA_ADDON,
  { path, obstacle }: Prebuild = prebuild(),
): Addon {
  const require = createRequire(import.meta.url)
  const obstacles = chosen || obstacle === null ? [] : [obstacle]
  for (const candidate of chosen ? [chosen] : obstacle === null ? [path, builtAddon] : [builtAddon]) {
    try {
      return require(candidate) as Addon
    } catch (error) {
      obstacles.push((error as Error).message.split('\n')[0]!)
    }
  }
  throw new SeamError(
    'UNSUPPORTED',
    `no native addon for ${process.platform}-${process.arch}: ${obstacles.join('; ')}. ` +
      'Build it in a checkout with: pnpm --filter @seamline/llama build',
  )
}

/** Turns an error of the addon into a SeamError. */
export function nativeError(error: unknown): SeamError {
  const code = (error as { code?: unknown }).code
  return SeamError.from(error, isErrorCode(code) ? code : 'EXECUTOR')
}

/**
 * Has the kernel kill this process with the one that started it, also while it is stopped and can notice nothing. Linux only:
 * elsewhere a stopped process outlives its parent until it is continued. Throws `UNSUPPORTED` without the addon.
 */
export function dieWithParent(): void {
  loadAddon().dieWithParent()
}
