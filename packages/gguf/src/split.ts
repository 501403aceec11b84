import type { Stats } from 'node:fs'
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ErrorCode, isSeamError, SeamError } from '@seamline/core'
import {
  ensureRoom,
  type FreeBytes,
  fileBytes,
  fileRange,
  hashFile,
  type OnProgress,
  removeStalePartials,
  replaceFile,
  verifyFile,
  type WrittenFile,
} from './files.ts'
import { balanceByBytes, checkLayerRanges, type LayerRange } from './layers.ts'
import { MANIFEST_NAME, type Manifest, manifest, manifestBytes, readManifest } from './manifest.ts'
import { type GgufFile, openGguf } from './read.ts'
import { type ModelFacts, modelFacts, planStage, stageWeights } from './stage.ts'
import { ggufBytes, writeGguf } from './write.ts'

export interface SplitOptions {
  /** The whole model, one GGUF file. */
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
  const file = openGguf(source)
  const facts = modelFacts(file)
  const ranges = chooseRanges(file, facts, options.stages)
  let handle: FileHandle | undefined
  try {
    handle = await open(source, 'r')
    return await split(handle)
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  } finally {
    await handle?.close()
  }

  async function split(handle: FileHandle): Promise<Manifest> {
    const before = await handle.stat()
    const outputs = planOutputs(file, facts, ranges, handle)
    const outputBytes = outputs.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const totalBytes = file.byteLength + outputBytes
    let doneBytes = 0
    const progress = (bytes: number) => options.onProgress?.(doneBytes + bytes, totalBytes)

    const sourceHash = await hashFile(source, { onProgress: progress, signal })
    doneBytes += file.byteLength
    const earlier = reuse === 'never' ? undefined : await reusable(outDir, sourceHash, ranges, reuse, signal)
    if (earlier !== undefined) {
      progress(outputBytes)
      return earlier
    }

    await mkdir(outDir, { recursive: true })
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
    checkUnchanged(source, before, await stat(source))
    const files = outputs.map(({ name }, i) => ({ file: name, ...written[i]! }))
    const complete = manifest({
      ...facts,
      source: { file: basename(source), ...sourceHash },
      tokenizer: files[0]!,
      stages: ranges.map((range, i) => ({ ...range, ...files[i + 1]! })),
    })
    await replaceFile(manifestPath, [manifestBytes(complete)], signal)
    return complete
  }
}

function chooseRanges(
  file: GgufFile,
  facts: ModelFacts,
  stages: number | readonly LayerRange[],
): readonly LayerRange[] {
  if (typeof stages === 'number') {
    const { layerBytes, firstBytes, lastBytes } = stageWeights(file, facts.layerCount)
    return balanceByBytes(layerBytes, stages, firstBytes, lastBytes)
  }
  checkLayerRanges(stages, facts.layerCount)
  return stages
}

function planOutputs(file: GgufFile, facts: ModelFacts, ranges: readonly LayerRange[], handle: FileHandle) {
  const { alignment } = file
  const tokenizer = { entries: [...file.metadata.values()].map(({ bytes }) => bytes), tensors: [], alignment }
  const stages = ranges.map((range) => ({
    ...planStage(file, facts, range, ({ offset, byteLength }) => fileRange(handle, offset, byteLength)),
    alignment,
  }))
  return [tokenizer, ...stages].map((plan, i) => ({
    name: i === 0 ? 'tokenizer.gguf' : `stage-${i - 1}-of-${stages.length}.gguf`,
    plan,
    byteLength: ggufBytes(plan),
  }))
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

function checkUnchanged(path: string, before: Stats, after: Stats): void {
  if (before.ino !== after.ino || before.size !== after.size || before.mtimeMs !== after.mtimeMs) {
    throw new SeamError(
      ErrorCode.FILE,
      `${path} changed while it was split (${before.size} B, then ${after.size} B); split it again`,
    )
  }
}
