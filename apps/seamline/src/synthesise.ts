import { rm } from 'node:fs/promises'
import { hashModel, type SynthOptions, shardModel, synthModel, type WrittenFile } from '@seamline/gguf'
import type { QuantizeType } from '@seamline/llama/quantize'
import type { Context } from './command.ts'
import { byteProgress } from './ui.ts'

export interface SynthesiseOptions extends Omit<SynthOptions, 'onProgress' | 'signal' | 'freeBytes'> {
  /** Written in F32 first, then rounded by llama.cpp's own quantiser. */
  readonly quantize?: QuantizeType | undefined
  /** Number of files that it is written to. */
  readonly shards?: number | undefined
}

/** A model of random weights on disk. */
export interface SyntheticModel extends WrittenFile {
  /** In shards: the first is what names the model. */
  readonly paths: readonly [string, ...string[]]
}

/** Makes a model of random weights; what lies on the way is removed again. */
export async function synthesise(
  { ui, signal }: Context,
  { quantize, shards, ...shape }: SynthesiseOptions,
): Promise<SyntheticModel> {
  const { path } = shape
  const source = quantize === undefined ? path : `${path}.f32`
  const whole = shards === undefined ? path : `${path}.whole`
  try {
    let written = await synthModel({
      ...shape,
      type: quantize === undefined ? shape.type : 'F32',
      path: quantize === undefined ? whole : source,
      signal,
      onProgress: byteProgress(ui, `writing ${path}`),
    })
    if (quantize !== undefined) {
      ui.progress(`quantising ${path}`)
      const { quantizeModel } = await import('@seamline/llama/quantize')
      await quantizeModel({ path: source, out: whole, type: quantize })
      written = await hashModel(whole, { signal })
    }
    if (shards === undefined) return { ...written, paths: [path] }
    const [first = path, ...more] = await shardModel({
      ...{ source: whole, prefix: path.replace(/\.gguf$/, ''), shards, signal },
    })
    return { ...(await hashModel(first, { signal })), paths: [first, ...more] }
  } finally {
    for (const passing of [source, whole]) if (passing !== path) await rm(passing, { force: true })
  }
}
