import { createHash } from 'node:crypto'
import { basename, dirname, join, resolve } from 'node:path'
import { type LinkFacts, SeamError } from '@seamline/core'
import {
  hashModel,
  type LayerRange,
  MANIFEST_NAME,
  type Manifest,
  readManifest,
  splitModel,
} from '@seamline/gguf'
import type { LocalStage } from './cluster.ts'
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
 * Splits a model into a folder of its own below the folder for models. A split of the same bytes into the same ranges
 * that lies there already, undamaged, is used as it is.
 */
export async function prepareSplit(
  { ui, signal }: Context,
  model: string,
  stages: number | readonly LayerRange[],
): Promise<PreparedSplit> {
  const cut = typeof stages === 'number' ? `${stages}-stages` : stages.map(rangeText).join('_')
  const folder = join(modelDir(), 'splits', `${basename(model)}-${pathTag(model)}-${cut}`)
  const manifest = await splitModel({
    source: model,
    outDir: folder,
    stages,
    reuse: 'hashes',
    signal,
    onProgress: byteProgress(ui, `splitting ${basename(model)}`),
  })
  return preparedSplit(manifest, join(folder, MANIFEST_NAME))
}

/** Tells files of the same name apart. */
function pathTag(path: string): string {
  return createHash('sha256').update(resolve(path)).digest('hex').slice(0, 8)
}

/** Reads the manifest of a split that exists; beside it only the tokenizer need be there. */
export async function readSplit(manifestPath: string): Promise<PreparedSplit> {
  return preparedSplit(await readManifest(manifestPath), manifestPath)
}

function preparedSplit(manifest: Manifest, manifestPath: string): PreparedSplit {
  return { manifest, manifestPath, tokenizerPath: join(dirname(manifestPath), manifest.tokenizer.file) }
}

/** Throws `MISMATCH` with both hashes when the split is not one of `model`. */
export async function checkSplitOf(
  { ui, signal }: Context,
  { manifest, manifestPath }: PreparedSplit,
  model: string,
): Promise<void> {
  const { sha256 } = await hashModel(model, { signal, onProgress: byteProgress(ui, `hashing ${model}`) })
  if (sha256 === manifest.source.sha256) return
  throw new SeamError(
    'MISMATCH',
    `${model} has SHA-256 ${sha256}, ${manifestPath} is a split of ${manifest.source.sha256}`,
  )
}

/** One local worker for each stage. */
export function splitStages({ manifest, manifestPath }: PreparedSplit): LocalStage[] {
  return manifest.stages.map((_, stage) => ({ manifest: manifestPath, stage }))
}

/** What the workers of the split must state. */
export function splitFacts({ manifest }: PreparedSplit): Partial<LinkFacts> {
  return { modelSha256: manifest.source.sha256, manifestSha256: manifest.manifestSha256 }
}

export function rangeText({ layerFirst, layerEnd }: LayerRange): string {
  return `${layerFirst}-${layerEnd}`
}
