import { rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ErrorCode, isSeamError, SeamError } from '@seamline/core'
import {
  ensureRoom,
  type FreeBytes,
  fileBytes,
  fileChunks,
  hashFiles,
  makeFolder,
  type OnProgress,
  removeStalePartials,
  replaceFile,
  verifyFile,
  type WrittenFile,
} from './files.ts'
import { balanceByBytes, checkLayerRanges, type LayerRange } from './layers.ts'
import { MANIFEST_NAME, type Manifest, manifest, manifestBytes, readManifest } from './manifest.ts'
import { type GgufModel, openModel } from './shards.ts'
import { cutRules, type ModelFacts, modelFacts, planStage, stageWeights } from './stage.ts'
import { ggufBytes, writeGguf } from './write.ts'

export interface SplitOptions {
  /** The whole model: one GGUF file, or any shard of one. */
  readonly source: string
  /** Created when absent. */
  readonly outDir: string
  /** A number of stages, balanced by bytes, or the layers of each. */
  readonly stages: number | readonly LayerRange[]
  /**
   * What makes an earlier split of the same source into the same ranges good enough to be kept: the files' sizes (default),
   * their hashes, or nothing.
   */
  readonly reuse?: 'sizes' | 'hashes' | 'never'
  /** Bytes of the source read (once to hash it) plus bytes written. */
  readonly onProgress?: OnProgress
  readonly signal?: AbortSignal
  readonly freeBytes?: FreeBytes
}

/**
 * Splits a model into one file a stage, `tokenizer.gguf` (all metadata, no tensors) and `manifest.json`, which is written
 * last: a folder with a manifest is complete. Memory is bounded whatever the size of the model. Every file appears under its
 * name only when complete; running again after a kill or an error starts over and leaves nothing behind.
 * Throws UNSUPPORTED, FILE (also: the disk is too small, before anything is written), USAGE for the stages, ABORTED.
 */
export async function splitModel(options: SplitOptions): Promise<Manifest> {
  const { source, outDir, signal, reuse = 'sizes' } = options
  const model = openModel(source)
  const facts = modelFacts(model)
  const ranges = chooseRanges(model, facts, options.stages)
  try {
    return await split()
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }

  async function split(): Promise<Manifest> {
    const before = await signature(model.paths)
    const outputs = planOutputs(model, facts, ranges)
    const outputBytes = outputs.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const totalBytes = model.byteLength + outputBytes
    let doneBytes = 0
    const progress = (bytes: number) => options.onProgress?.(doneBytes + bytes, totalBytes)

    const sourceHash = await hashFiles(model.paths, { onProgress: progress, signal })
    doneBytes += model.byteLength
    const earlier = reuse === 'never' ? undefined : await reusable(outDir, sourceHash, ranges, reuse, signal)
    if (earlier !== undefined) {
      progress(outputBytes)
      return earlier
    }

    await makeFolder(outDir)
    await removeStalePartials(outDir)
    await ensureRoom(outDir, outputBytes, options.freeBytes)
    // From here on the folder is incomplete, and a reader must see that.
    const manifestPath = join(outDir, MANIFEST_NAME)
    await rm(manifestPath, { force: true })

    const written: WrittenFile[] = []
    for (const { name, byteLength, plan } of outputs) {
      const path = join(outDir, name)
      written.push(
        await writeGguf({ ...plan, path, onProgress: progress, signal, freeBytes: options.freeBytes }),
      )
      doneBytes += byteLength
    }
    if ((await signature(model.paths)) !== before) {
      throw new SeamError(ErrorCode.FILE, `${source} changed while it was split; split it again`)
    }
    const files = outputs.map(({ name }, i) => ({ file: name, ...written[i]! }))
    const complete = manifest({
      ...facts,
      source: { file: basename(model.path), ...sourceHash },
      tokenizer: files[0]!,
      stages: ranges.map((range, i) => {
        const inject = outputs[i + 1]!.inject
        return { ...range, ...(inject === undefined ? {} : { inject }), ...files[i + 1]! }
      }),
    })
    await replaceFile(manifestPath, [manifestBytes(complete)], signal)
    return complete
  }
}

function chooseRanges(
  model: GgufModel,
  facts: ModelFacts,
  stages: number | readonly LayerRange[],
): readonly LayerRange[] {
  const { layerCount, alignment, refusal } = cutRules(model, facts)
  const usage = (message: string) => new SeamError(ErrorCode.USAGE, message)
  if (typeof stages === 'number') {
    const most = Math.ceil(layerCount / alignment)
    if (alignment > 1 && stages > most) {
      throw usage(
        `${stages} stages: a ${facts.architecture} model of ${layerCount} layers takes 1 to ${most} stages, which begin at multiples of ${alignment}`,
      )
    }
    const { layerBytes, firstBytes, lastBytes } = stageWeights(model, layerCount)
    return balanceByBytes(layerBytes, stages, firstBytes, lastBytes, (range) => refusal(range) === undefined)
  }
  checkLayerRanges(stages, layerCount)
  for (const range of stages) {
    const why = refusal(range)
    if (why !== undefined) throw usage(why)
  }
  return stages
}

function planOutputs(model: GgufModel, facts: ModelFacts, ranges: readonly LayerRange[]) {
  const { alignment } = model
  const tokenizer = {
    entries: [...model.metadata.values()].map(({ bytes }) => bytes),
    tensors: [],
    inject: undefined,
  }
  const stages = ranges.map((range) =>
    planStage(model, facts, range, ({ path, offset, byteLength }) => fileChunks(path, offset, byteLength)),
  )
  return [tokenizer, ...stages].map(({ inject, ...content }, i) => {
    const plan = { ...content, alignment }
    const name = i === 0 ? 'tokenizer.gguf' : `stage-${i - 1}-of-${stages.length}.gguf`
    return { name, plan, inject, byteLength: ggufBytes(plan) }
  })
}

/** The manifest that lies in `outDir`, when it is of this source and these ranges and its files are whole. */
async function reusable(
  outDir: string,
  source: WrittenFile,
  ranges: readonly LayerRange[],
  check: 'sizes' | 'hashes',
  signal: AbortSignal | undefined,
): Promise<Manifest | undefined> {
  try {
    const found = await readManifest(join(outDir, MANIFEST_NAME))
    if (found.source.sha256 !== source.sha256 || found.stages.length !== ranges.length) return undefined
    if (!found.stages.every(({ layerEnd }, i) => layerEnd === ranges[i]?.layerEnd)) return undefined
    for (const named of [found.tokenizer, ...found.stages]) {
      const path = join(outDir, named.file)
      if (check === 'hashes') await verifyFile(path, named, { signal })
      else if ((await fileBytes(path)) !== named.byteLength) return undefined
    }
    return found
  } catch (error) {
    if (isSeamError(error) && error.code === ErrorCode.ABORTED) throw error
    return undefined
  }
}

/** Changes when one of the files is replaced or written to. */
async function signature(paths: readonly string[]): Promise<string> {
  const found = await Promise.all(paths.map((path) => stat(path)))
  return found.map(({ ino, size, mtimeMs }) => `${ino} ${size} ${mtimeMs}`).join()
}
