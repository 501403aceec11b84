import { basename, dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'
import {
  hashFile,
  type LayerRange,
  MANIFEST_NAME,
  type Manifest,
  readManifest,
  splitModel,
} from '@seamline/gguf'
import type { Context } from './command.ts'
import { modelDir } from './model-dir.ts'
import { byteProgress } from './ui.ts'

/** A split on disk. */
export interface PreparedSplit {
  readonly manifest: Manifest
  readonly manifestPath: string
  readonly tokenizerPath: string
}

/**
 * Splits a model into the folder for models, where the same model cut in the same way is found again: the name of the
 * folder holds the hash of the model and the ranges, and a worker checks the hash of its stage before it loads it.
 */
export async function prepareSplit(
  { ui, signal }: Context,
  model: string,
  stages: number | readonly LayerRange[],
): Promise<PreparedSplit> {
  const { sha256 } = await hashFile(model, { signal, onProgress: byteProgress(ui, `hashing ${model}`) })
  const cut = typeof stages === 'number' ? `${stages}-stages` : stages.map(rangeText).join('_')
  const folder = join(modelDir(), 'splits', `${sha256.slice(0, 16)}-${cut}`)
  const manifest = await splitModel({
    source: model,
    outDir: folder,
    stages,
    signal,
    onProgress: byteProgress(ui, `splitting ${basename(model)}`),
  })
  return {
    manifest,
    manifestPath: join(folder, MANIFEST_NAME),
    tokenizerPath: join(folder, manifest.tokenizer.file),
  }
}

/** Opens a split that exists; throws `MISMATCH` with both hashes when it is not one of `model`. */
export async function openSplit(
  { ui, signal }: Context,
  manifestPath: string,
  model: string,
): Promise<PreparedSplit> {
  const manifest = await readManifest(manifestPath)
  const { sha256 } = await hashFile(model, { signal, onProgress: byteProgress(ui, `hashing ${model}`) })
  if (sha256 !== manifest.source.sha256) {
    throw new SeamError(
      'MISMATCH',
      `${model} has SHA-256 ${sha256}, ${manifestPath} is a split of ${manifest.source.sha256}`,
    )
  }
  return { manifest, manifestPath, tokenizerPath: join(dirname(manifestPath), manifest.tokenizer.file) }
}

export function rangeText({ layerFirst, layerEnd }: LayerRange): string {
  return `${layerFirst}-${layerEnd}`
}
