import { createRequire } from 'node:module'
import { resolve } from 'node:path'
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
  /** The clock that steps are stamped with. */
  nowNs(): number
  /** From now on the kernel kills this process with its parent, also while it is stopped. Linux; nothing elsewhere. */
  dieWithParent(): void
  /** On a thread of its own; `type` is a number of llama_ftype. Rejects as {@link NativeStage} does. */
  quantize(libraries: string, path: string, out: string, type: number, threads: number): Promise<void>
}

export interface FoundAddon {
  readonly addon: Addon
  readonly path: string
  /** `chosen` by the environment variable, `prebuilt` in the package or `built` here. */
  readonly origin: 'chosen' | 'prebuilt' | 'built'
  /** Why the addons that come first were passed over. */
  readonly obstacles: readonly string[]
}

/**
 * Finds and loads the addon: the file that the environment variable SEAMLINE_LLAMA_ADDON names, else the prebuilt one
 * of the package for this platform, else the one that was built here. Throws `UNSUPPORTED` with what is wrong with each.
 */
export function findAddon(
  chosen = process.env[ADDON_VARIABLE],
  { path, obstacle }: Prebuild = prebuild(),
): FoundAddon {
  if (chosen) {
    const path = resolve(chosen)
    try {
      return { addon: load(path), path, origin: 'chosen', obstacles: [] }
    } catch (error) {
      throw new SeamError(
        'UNSUPPORTED',
        `${ADDON_VARIABLE}=${chosen} cannot be used: ${firstLine(error, path)}. Unset it to use the addon of the package`,
        { cause: error },
      )
    }
  }
  const obstacles: string[] = obstacle === null ? [] : [obstacle]
  const candidates = [
    ...(obstacle === null ? [{ path, origin: 'prebuilt' } as const] : []),
    { path: builtAddon, origin: 'built' } as const,
  ]
  for (const candidate of candidates) {
    try {
      return { addon: load(candidate.path), ...candidate, obstacles }
    } catch (error) {
      obstacles.push(firstLine(error, candidate.path))
    }
  }
  throw new SeamError(
    'UNSUPPORTED',
    `no native addon for ${process.platform}-${process.arch}: ${obstacles.join('; ')}. ` +
      'Build it in a checkout with: pnpm --filter @seamline/llama build',
  )
}

/** The addon that {@link findAddon} finds. */
export function loadAddon(...from: Parameters<typeof findAddon>): Addon {
  return findAddon(...from).addon
}

const ADDON_VARIABLE = 'SEAMLINE_LLAMA_ADDON'

/** Throws for a module that is none of ours, whatever it is. */
function load(path: string): Addon {
  const found: Partial<Addon> | null | undefined = createRequire(import.meta.url)(path)
  const types = [typeof found?.Stage, typeof found?.napi, typeof found?.release]
  if (types.join() === 'function,number,string') return found as Addon
  throw new TypeError(
    `${path} is no addon of seamline: its Stage, napi and release are ${types.join(', ')}, not function, number, string`,
  )
}

function firstLine(error: unknown, path: string): string {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
  return line.includes(path) ? line : `${path}: ${line}`
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
