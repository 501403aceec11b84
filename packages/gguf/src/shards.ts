import { basename, dirname, join } from 'node:path'
import { ErrorCode, SeamError } from '@seamline/core'
import { fileChunks, type HashOptions, hashFiles, type WrittenFile } from './files.ts'
import {
  countValue,
  type GgufFile,
  type GgufTensor,
  type OpenGgufOptions,
  openGguf,
  optionalCount,
} from './read.ts'
import { shown } from './shown.ts'
import { encodeEntry, writeGguf } from './write.ts'

/**
 * A model in one or more files. `path`, `version`, `alignment` and `dataOffset` are those of the first file, `byteLength` is the sum, `metadata`
 * the first file's without `split.*`; `tensors` are those of all, each with the file that it lies in.
 */
export interface GgufModel extends GgufFile {
  /** Its files, in the order of the shards. */
  readonly paths: readonly string[]
}

/**
 * Opens a model by its only file or by any of its shards, which lie in one folder under the names of llama.cpp's gguf-split:
 * `<name>-00001-of-00003.gguf`. Throws what `openGguf` throws, and FILE naming the shard that is missing, has another
 * place or number of shards than its name says, repeats a tensor or lacks some.
 */
export function openModel(path: string, options: OpenGgufOptions = {}): GgufModel {
  const opened = openGguf(path, options)
  const count = optionalCount(opened, COUNT, 1)
  if (count === 1) return { ...opened, paths: [path] }
  const name = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s.exec(basename(path))
  if (name === null || Number(name[3]) !== count || Number(name[2]) < 1 || Number(name[2]) > count) {
    throw wrong(path, `${COUNT} is ${count}, and the name does not end in -<number>-of-<count>.gguf`)
  }
  const prefix = join(dirname(path), name[1]!)

  const files: GgufFile[] = []
  const tensors = new Map<string, GgufTensor>()
  for (let i = 0; i < count; i++) {
    const file = i === Number(name[2]) - 1 ? opened : openShard(shardPath(prefix, i, count), path, options)
    for (const [key, expected] of [
      [COUNT, count],
      [NUMBER, i],
    ] as const) {
      const found = countValue(file, key)
      if (found !== expected) throw wrong(file.path, `${key} is ${found}, its name says ${expected}`)
    }
    for (const tensor of file.tensors.values()) {
      const earlier = tensors.get(tensor.name)
      if (earlier !== undefined) {
        throw wrong(
          file.path,
          `tensor "${shown(tensor.name)}" at offset ${tensor.offset} is in ${shown(basename(earlier.path))} too`,
        )
      }
      tensors.set(tensor.name, tensor)
    }
    files.push(file)
  }
  const [first] = files as [GgufFile]
  const total = optionalCount(first, TENSORS, tensors.size)
  if (total !== tensors.size) {
    throw wrong(first.path, `${TENSORS} is ${total}, its ${count} shards hold ${tensors.size}`)
  }
  return {
    ...first,
    byteLength: files.reduce((sum, { byteLength }) => sum + byteLength, 0),
    metadata: new Map([...first.metadata].filter(([key]) => !key.startsWith('split.'))),
    tensors,
    paths: files.map((file) => file.path),
  }
}

/** SHA-256 and size of a model: of its file, or of its shards' bytes joined in order. Throws what `openModel` does, and ABORTED. */
export async function hashModel(path: string, options: HashOptions = {}): Promise<WrittenFile> {
  return hashFiles(openModel(path).paths, options)
}

export interface ShardOptions {
  readonly source: string
  /** Path of the shards without `-00001-of-00003.gguf`. */
  readonly prefix: string
  /** 1 to 99999, and at most the number of tensors. */
  readonly shards: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Writes a model as shards of equally many tensors, metadata in the first, as llama.cpp's gguf-split does. Returns their paths.
 * Throws USAGE for the number of shards, and what `openModel` and `writeGguf` throw.
 */
export async function shardModel({ source, prefix, shards, signal }: ShardOptions): Promise<string[]> {
  const model = openModel(source)
  const tensors = [...model.tensors.values()]
  if (!Number.isInteger(shards) || shards < 1 || shards > Math.min(99999, tensors.length)) {
    throw new SeamError(ErrorCode.USAGE, `${shards} shards of ${tensors.length} tensors; take 1 to that many`)
  }
  const paths = Array.from({ length: shards }, (_, i) => shardPath(prefix, i, shards))
  for (const [i, path] of paths.entries()) {
    const own = tensors.slice(
      Math.floor((i * tensors.length) / shards),
      Math.floor(((i + 1) * tensors.length) / shards),
    )
    await writeGguf({
      path,
      entries: [
        ...(i === 0 ? [...model.metadata.values()].map(({ bytes }) => bytes) : []),
        encodeEntry(NUMBER, 'uint16', i),
        encodeEntry(COUNT, 'uint16', shards),
        encodeEntry(TENSORS, 'int32', tensors.length),
      ],
      tensors: own.map(({ name, dims, type, path, offset, byteLength }) => ({
        name,
        dims,
        type,
        data: fileChunks(path, offset, byteLength),
      })),
      ...(i === 0 ? { alignment: model.alignment } : {}),
      signal,
    })
  }
  return paths
}

function shardPath(prefix: string, i: number, count: number): string {
  const digits = (value: number) => String(value).padStart(5, '0')
  return `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`
}

const COUNT = 'split.count'
const NUMBER = 'split.no'
const TENSORS = 'split.tensors.count'

function openShard(path: string, asked: string, options: OpenGgufOptions): GgufFile {
  try {
    return openGguf(path, options)
  } catch (error) {
    const { code, message } = SeamError.from(error, ErrorCode.FILE)
    throw new SeamError(code, `shard of ${shown(basename(asked))}: ${message}`, { cause: error })
  }
}

function wrong(path: string, why: string): SeamError {
  return new SeamError(ErrorCode.FILE, `${path}: ${why}`)
}
