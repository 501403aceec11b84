import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { ErrorCode, SeamError } from '@seamline/core'
import { fileBytes } from './files.ts'
import { checkLayerRanges, type LayerRange } from './layers.ts'
import { shown } from './shown.ts'
import type { ModelFacts } from './stage.ts'

/** A file named by a manifest, beside which it lies. */
export interface ManifestFile {
  readonly file: string
  readonly byteLength: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** One stage of a split. */
export interface ManifestStage extends ManifestFile, LayerRange {
  /** Node of the graph that the engine must overwrite with hidden rows that come in. Absent: feeding them is enough. */
  readonly inject?: string
}

/** What a split consists of. */
export interface Manifest extends ModelFacts {
  readonly formatVersion: 1
  /** The whole model: file name (without folder), size and hash; in shards: the first one's name, all of them joined. */
  readonly source: ManifestFile
  readonly tokenizer: ManifestFile
  readonly stages: readonly ManifestStage[]
  /** SHA-256 of {@link manifestBytes}; not stored in the file. */
  readonly manifestSha256: string
}

export const MANIFEST_NAME = 'manifest.json'
const MAX_MANIFEST_BYTES = 1 << 20
const FILE_NAME = /^(?!\.{1,2}$)[^/\\\0]+$/
/** Names of files that are opened, and so stand in error messages as part of a path. */
const BESIDE = /^(?!\.{1,2}$)[^/\\\p{Cc}]{1,255}$/u

/** Completes a manifest with its hash. */
export function manifest(facts: Omit<Manifest, 'formatVersion' | 'manifestSha256'>): Manifest {
  const unsigned: Manifest = { ...facts, formatVersion: 1, manifestSha256: '' }
  return { ...unsigned, manifestSha256: createHash('sha256').update(manifestBytes(unsigned)).digest('hex') }
}

/**
 * The canonical bytes: JSON of the fields in this order, two-space indent, one newline at the end, UTF-8. The hash is taken over
 * these, so white space and the order of keys in a file do not change it.
 */
export function manifestBytes(manifest: Manifest): Uint8Array {
  const fileFields = ({ file, byteLength, sha256 }: ManifestFile) => ({ file, byteLength, sha256 })
  const fields = {
    formatVersion: manifest.formatVersion,
    modelName: manifest.modelName,
    architecture: manifest.architecture,
    layerCount: manifest.layerCount,
    embedding: manifest.embedding,
    vocabulary: manifest.vocabulary,
    contextLength: manifest.contextLength,
    source: fileFields(manifest.source),
    tokenizer: fileFields(manifest.tokenizer),
    stages: manifest.stages.map(({ layerFirst, layerEnd, inject, ...stage }) => ({
      layerFirst,
      layerEnd,
      ...(inject === undefined ? {} : { inject }),
      ...fileFields(stage),
    })),
  }
  return Buffer.from(`${JSON.stringify(fields, null, 2)}\n`, 'utf8')
}

/**
 * Reads and checks a manifest: every field and type, hashes, plain file names, contiguous layer ranges.
 * Throws FILE when it cannot be read or a field is wrong (named with its value), UNSUPPORTED for another format version.
 */
export async function readManifest(path: string): Promise<Manifest> {
  const parsed = parseJson(path, await readLimited(path))
  const field = fieldsOf(path, parsed, '')
  if (field.value('formatVersion') !== 1) {
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `${path}: format version ${described(field.value('formatVersion'))}, this release reads 1; split the model again`,
    )
  }
  const stages = field.value('stages')
  if (!Array.isArray(stages) || stages.length === 0)
    throw field.wrong('stages', 'a list of one stage or more')
  const found = {
    modelName: field.text('modelName'),
    architecture: field.text('architecture'),
    layerCount: field.count('layerCount'),
    embedding: field.count('embedding'),
    vocabulary: field.count('vocabulary'),
    contextLength: field.count('contextLength'),
    source: fieldsOf(path, field.value('source'), 'source.').file(FILE_NAME),
    tokenizer: fieldsOf(path, field.value('tokenizer'), 'tokenizer.').file(),
    stages: stages.map((stage: unknown, index) => {
      const fields = fieldsOf(path, stage, `stages[${index}].`)
      return {
        layerFirst: fields.count('layerFirst', 0),
        layerEnd: fields.count('layerEnd'),
        ...(fields.value('inject') === undefined
          ? {}
          : { inject: fields.text('inject', /^[\w.-]{1,63}$/, 'the name of a node') }),
        ...fields.file(),
      }
    }),
  }
  try {
    checkLayerRanges(found.stages, found.layerCount)
  } catch (error) {
    throw new SeamError(ErrorCode.FILE, `${path}: ${(error as Error).message}`)
  }
  return manifest(found)
}

async function readLimited(path: string): Promise<Buffer> {
  const byteLength = await fileBytes(path)
  if (byteLength > MAX_MANIFEST_BYTES) {
    throw new SeamError(
      ErrorCode.FILE,
      `${path}: ${byteLength} B, a manifest has at most ${MAX_MANIFEST_BYTES} B`,
    )
  }
  try {
    return await readFile(path)
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
}

function parseJson(path: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new SeamError(ErrorCode.FILE, `${path}: not JSON: ${shown((error as Error).message)}`, {
      cause: error,
    })
  }
}

function described(value: unknown): string {
  if (typeof value === 'string') return `"${shown(value)}"`
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (value === undefined) return 'missing'
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

function fieldsOf(path: string, value: unknown, prefix: string) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SeamError(
      ErrorCode.FILE,
      `${path}: ${prefix === '' ? 'content' : prefix.slice(0, -1)} is not an object`,
    )
  }
  const fields = value as Record<string, unknown>
  const get = (name: string) => (Object.hasOwn(fields, name) ? fields[name] : undefined)
  const wrong = (name: string, wanted: string) =>
    new SeamError(ErrorCode.FILE, `${path}: ${prefix}${name} is ${described(get(name))}, not ${wanted}`)
  function text(name: string, pattern = /^/, wanted = 'a text'): string {
    const found = get(name)
    if (typeof found !== 'string' || !pattern.test(found)) throw wrong(name, wanted)
    return found
  }
  function count(name: string, minimum = 1): number {
    const found = get(name)
    if (typeof found !== 'number' || !Number.isSafeInteger(found) || found < minimum) {
      throw wrong(name, `a whole number of at least ${minimum}`)
    }
    return found
  }
  return {
    value: get,
    wrong,
    text,
    count,
    file: (pattern = BESIDE): ManifestFile => ({
      file: text('file', pattern, 'a file name without a folder'),
      byteLength: count('byteLength'),
      sha256: text('sha256', /^[0-9a-f]{64}$/, '64 lower-case hex digits'),
    }),
  }
}
