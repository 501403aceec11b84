/**
 * llama.cpp's own quantiser.
 *
 * @packageDocumentation
 */
import { rename, rm } from 'node:fs/promises'
import { SeamError } from '@seamline/core'
import { findLibraries } from './libraries.ts'
import { loadAddon, nativeError } from './native.ts'

/** Names of quantisations with their numbers in llama.h (`llama_ftype`). */
export const quantizeTypes = {
  F16: 1,
  BF16: 32,
  Q4_0: 2,
  Q5_0: 8,
  Q8_0: 7,
  Q2_K: 10,
  Q3_K_M: 12,
  Q4_K_S: 14,
  Q4_K_M: 15,
  Q5_K_S: 16,
  Q5_K_M: 17,
  Q6_K: 18,
  IQ4_XS: 30,
} as const

export type QuantizeType = keyof typeof quantizeTypes

export interface QuantizeOptions {
  /** A whole model in F32, F16 or BF16. */
  readonly path: string
  /** Written beside itself and renamed when whole. */
  readonly out: string
  /** llama.cpp chooses other types for some tensors, and where rows are no multiple of a block (256 for K-quants). */
  readonly type: QuantizeType
  /** @default 1 */
  readonly threads?: number
  /** Folder of the llama.cpp libraries. @default {@link findLibraries} */
  readonly libraries?: string
}

/**
 * Quantises a GGUF file on a thread of its own. Throws `USAGE` for an unknown type, `FILE` when a file cannot be
 * opened or written, `EXECUTOR` with llama.cpp's reason when it refuses the model. It cannot be interrupted, and
 * the process does not end before it has.
 */
export async function quantizeModel(options: QuantizeOptions): Promise<void> {
  const { path, out, type, threads = 1 } = options
  if (!Object.hasOwn(quantizeTypes, type)) {
    throw new SeamError('USAGE', `type ${type} is not one of ${Object.keys(quantizeTypes).join(', ')}`)
  }
  if (!Number.isInteger(threads) || threads < 1) {
    throw new SeamError('USAGE', `threads is ${threads}; it must be an integer >= 1`)
  }
  const part = `${out}.part`
  try {
    const libraries = options.libraries ?? findLibraries()
    await loadAddon().quantize(libraries, path, part, quantizeTypes[type], threads)
    await rename(part, out)
  } catch (error) {
    await rm(part, { force: true })
    throw nativeError(error)
  }
}
