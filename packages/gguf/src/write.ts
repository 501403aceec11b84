import { dirname } from 'node:path'
import { ErrorCode, SeamError } from '@seamline/core'
import { ensureRoom, type FreeBytes, type OnProgress, replaceFile, type WrittenFile } from './files.ts'
import {
  ARRAY_ID,
  alignTo,
  DEFAULT_ALIGNMENT,
  type FixedTypeName,
  fixedTypes,
  GGUF_MAGIC,
  type GgufScalar,
  STRING_ID,
  type TensorType,
  tensorBytes,
} from './format.ts'
import { shown } from './shown.ts'

/** A tensor to write; its chunks are asked for when its turn comes and must add up to its size. */
export interface TensorSource {
  readonly name: string
  readonly dims: readonly number[]
  readonly type: TensorType
  readonly data: Iterable<Uint8Array> | AsyncIterable<Uint8Array>
}

export interface WriteGgufOptions {
  readonly path: string
  /** Encoded entries in order: from {@link encodeEntry}, {@link encodeArray}, or `bytes` of an entry that was read. */
  readonly entries: readonly Uint8Array[]
  readonly tensors: readonly TensorSource[]
  /** Must equal the `general.alignment` among the entries when there is one. Default 32. */
  readonly alignment?: number
  readonly onProgress?: OnProgress | undefined
  readonly signal?: AbortSignal | undefined
  readonly freeBytes?: FreeBytes | undefined
}

/**
 * Writes a GGUF v3 file with bounded memory. The file appears under its name only when complete (see `replaceFile`).
 * Throws FILE when the disk is too small (both numbers named, nothing written) or writing fails, ABORTED, and USAGE when a
 * tensor's chunks do not add up to its size.
 */
export async function writeGguf(options: WriteGgufOptions): Promise<WrittenFile> {
  const { path, onProgress, signal, freeBytes } = options
  const alignment = options.alignment ?? DEFAULT_ALIGNMENT
  const header = encodeHeader(options.entries, options.tensors, alignment)
  const total = ggufBytes(options)
  await ensureRoom(dirname(path), total, freeBytes)
  return replaceFile(path, chunks(), signal)

  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield header
    let done = header.byteLength
    for (const tensor of options.tensors) {
      const expected = checkedBytes(tensor)
      let got = 0
      for await (const chunk of tensor.data) {
        yield chunk
        got += chunk.byteLength
        onProgress?.(done + got, total)
      }
      if (got !== expected) {
        throw new SeamError(
          ErrorCode.USAGE,
          `tensor ${shown(tensor.name)} got ${got} B, its shape needs ${expected} B`,
        )
      }
      const padded = alignTo(expected, alignment)
      if (padded > expected) yield new Uint8Array(padded - expected)
      done += padded
    }
    onProgress?.(done, total)
  }
}

/** Bytes that {@link writeGguf} would write. */
export function ggufBytes({
  entries,
  tensors,
  alignment = DEFAULT_ALIGNMENT,
}: Omit<WriteGgufOptions, 'path'>): number {
  const header = encodeHeader(entries, tensors, alignment).byteLength
  return tensors.reduce((bytes, tensor) => bytes + alignTo(checkedBytes(tensor), alignment), header)
}

function checkedBytes(tensor: TensorSource): number {
  const bytes = tensorBytes(tensor.type, tensor.dims)
  if (Number.isNaN(bytes)) {
    throw new SeamError(
      ErrorCode.USAGE,
      `tensor ${shown(tensor.name)} of ${tensor.dims.join(' x ')}: ${tensor.type.name} needs rows of whole ${tensor.type.blockElements}-element blocks`,
    )
  }
  return bytes
}

// Padded up to the tensor data, also when there is none: other readers expect the data section to begin inside the file.
function encodeHeader(
  entries: readonly Uint8Array[],
  tensors: readonly TensorSource[],
  alignment: number,
): Uint8Array {
  const parts: Uint8Array[] = [
    uint32(GGUF_MAGIC),
    uint32(3),
    uint64(tensors.length),
    uint64(entries.length),
    ...entries,
  ]
  let offset = 0
  for (const tensor of tensors) {
    parts.push(text(tensor.name), uint32(tensor.dims.length), ...tensor.dims.map(uint64))
    parts.push(uint32(tensor.type.id), uint64(offset))
    offset += alignTo(checkedBytes(tensor), alignment)
  }
  const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0)
  return Buffer.concat(parts, alignTo(bytes, alignment))
}

/** Encodes a metadata entry that is not an array. Throws a RangeError when the value does not fit its type. */
export function encodeEntry(key: string, type: FixedTypeName | 'string', value: GgufScalar): Uint8Array {
  return Buffer.concat([text(key), uint32(typeId(type)), encodeValue(type, value)])
}

/** Encodes an array entry. Throws a RangeError when a value does not fit its type. */
export function encodeArray(
  key: string,
  itemType: FixedTypeName | 'string',
  values: readonly GgufScalar[],
): Uint8Array {
  const items = values.map((value) => encodeValue(itemType, value))
  return Buffer.concat([
    text(key),
    uint32(ARRAY_ID),
    uint32(typeId(itemType)),
    uint64(values.length),
    ...items,
  ])
}

function typeId(type: FixedTypeName | 'string'): number {
  return type === 'string' ? STRING_ID : fixedTypes[type].id
}

function encodeValue(type: FixedTypeName | 'string', value: GgufScalar): Uint8Array {
  if (type === 'string') return text(String(value))
  const buffer = Buffer.alloc(fixedTypes[type].bytes)
  fixedTypes[type].write(buffer, value)
  return buffer
}

function text(value: string): Uint8Array {
  const bytes = Buffer.from(value, 'utf8')
  return Buffer.concat([uint64(bytes.byteLength), bytes])
}

function uint32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function uint64(value: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
