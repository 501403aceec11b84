import { isUtf8 } from 'node:buffer'
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { ErrorCode, SeamError } from '@seamline/core'
import {
  alignTo,
  DEFAULT_ALIGNMENT,
  type FixedTypeName,
  fixedTypes,
  GGUF_MAGIC,
  type GgufScalar,
  type TensorType,
  tensorBytes,
  tensorTypeOf,
  type ValueTypeName,
  valueTypeName,
} from './format.ts'
import { shown } from './shown.ts'

/** One metadata entry; `bytes` is how it stands in the file: key, type and value. */
export interface GgufEntry {
  readonly key: string
  readonly type: ValueTypeName
  /** The value; undefined for an array, which {@link arrayValues} decodes on demand. */
  readonly value: GgufScalar | undefined
  /** Element type and length of an array. */
  readonly array: { readonly type: FixedTypeName | 'string'; readonly length: number } | undefined
  /** View of the header that the file object holds; do not write to it. */
  readonly bytes: Uint8Array
  /** Where the value (for an array: its first element) begins in `bytes`. */
  readonly valueOffset: number
}

export interface GgufTensor {
  readonly name: string
  /** Row length first, 1 to 4 dimensions, all positive. */
  readonly dims: readonly number[]
  readonly type: TensorType
  /** The file that holds it: of a model in shards, one of them. */
  readonly path: string
  /** Absolute position in that file. */
  readonly offset: number
  readonly byteLength: number
}

/** Header of a GGUF file. Holds no open file. */
export interface GgufFile {
  readonly path: string
  readonly version: 2 | 3
  readonly byteLength: number
  readonly alignment: number
  /** Absolute position of the tensor data. */
  readonly dataOffset: number
  /** In file order. */
  readonly metadata: ReadonlyMap<string, GgufEntry>
  /** In file order. */
  readonly tensors: ReadonlyMap<string, GgufTensor>
}

export interface OpenGgufOptions {
  /** Most bytes of header that are read into memory. Default 64 MiB; a vocabulary of 262144 tokens takes some 10 MB. */
  readonly maxHeaderBytes?: number
}

const MAX_KEY_BYTES = 65535
const MAX_TENSOR_NAME_BYTES = 63
const MAX_DIMS = 4
const MAX_STRING_BYTES = 4 << 20
const MAX_ENTRIES = 65536
const MAX_TENSORS = 65536
const MAX_ALIGNMENT = 65536
// Least bytes of a string; of an entry with key and value of one byte; of a tensor of one dimension.
const MIN_STRING_BYTES = 8
const MIN_ENTRY_BYTES = 8 + 1 + 4 + 1
const MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8
const READ_STEP_BYTES = 1 << 20
const MAX_SHOWN_BYTES = 64

/**
 * Reads the header of a GGUF v2 or v3 little-endian file; tensor data is never read. Every count and length is checked
 * against the bytes that the file has left before anything is allocated for it.
 * Throws FILE with the offset and the value when the file cannot be read, is truncated or is malformed, and UNSUPPORTED
 * for another version, byte order or an unknown tensor type.
 */
export function openGguf(path: string, options: OpenGgufOptions = {}): GgufFile {
  const maxHeaderBytes = options.maxHeaderBytes ?? 64 * 2 ** 20
  let fd: number
  try {
    if (!statSync(path).isFile()) throw new SeamError(ErrorCode.FILE, `${path} is not a regular file`)
    fd = openSync(path, 'r')
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
  try {
    const source = {
      byteLength: fstatSync(fd).size,
      read: (into: Buffer, at: number) => readSync(fd, into, at, into.length - at, at),
    }
    return readHeader(path, source, maxHeaderBytes)
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  } finally {
    closeSync(fd)
  }
}

/** Bytes of a file: `read` fills a buffer from position `at` on with what stands there in the file, and says how many bytes it got. */
export interface HeaderSource {
  readonly byteLength: number
  readonly read: (into: Buffer, at: number) => number
}

type Cursor = ReturnType<typeof cursor>

/** A position in the header, of which as much is in memory as was needed so far. */
function cursor(path: string, { byteLength: fileBytes, read }: HeaderSource, maxHeaderBytes: number) {
  let buffer = Buffer.alloc(0)
  let at = 0

  function error(what: string, offset = at): SeamError {
    return new SeamError(ErrorCode.FILE, `${path}: ${what} at offset ${offset}`)
  }
  function take(bytes: number, what: string): number {
    const end = at + bytes
    if (end > fileBytes) {
      throw error(`${what} of ${bytes} B runs past the end of the file (${fileBytes} B)`)
    }
    if (end > maxHeaderBytes)
      throw error(`${what} of ${bytes} B exceeds the header limit of ${maxHeaderBytes} B`)
    if (end > buffer.length) grow(end)
    const start = at
    at = end
    return start
  }
  function grow(end: number): void {
    const wanted = Math.max(end, 2 * buffer.length, READ_STEP_BYTES)
    const larger = Buffer.alloc(Math.min(fileBytes, maxHeaderBytes, wanted))
    let filled = buffer.copy(larger)
    while (filled < larger.length) {
      const got = read(larger, filled)
      if (got === 0) throw error(`the file shrank to ${filled} B while it was read`)
      filled += got
    }
    buffer = larger
  }
  function count(what: string, minBytes: number, most = Number.MAX_SAFE_INTEGER): number {
    const start = take(8, what)
    const value = buffer.readBigUInt64LE(start)
    if (value > BigInt(most)) throw error(`${what} ${value} exceeds ${most}`, start)
    if (value * BigInt(minBytes) > BigInt(fileBytes - at)) {
      throw error(`${what} ${value} cannot fit into the ${fileBytes - at} B that are left`, start)
    }
    return Number(value)
  }
  function text(what: string, maxBytes: number): string {
    const bytes = count(`${what} length`, 1, maxBytes)
    const first = take(bytes, what)
    const found = buffer.subarray(first, at)
    // llama.cpp ends a text at a zero: two names could be one to it.
    if (!isUtf8(found) || found.includes(0)) {
      const shown = found.subarray(0, MAX_SHOWN_BYTES).toString('hex')
      throw error(`${what} is not UTF-8 text without zeros (${shown})`, first)
    }
    return found.toString('utf8')
  }
  return {
    error,
    take,
    count,
    text,
    uint32(what: string): number {
      const start = take(4, what)
      return buffer.readUInt32LE(start)
    },
    uint64(what: string): number {
      const start = take(8, what)
      const value = buffer.readBigUInt64LE(start)
      if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw error(`${what} ${value} exceeds 2^53 - 1`, start)
      return Number(value)
    },
    value(type: FixedTypeName): GgufScalar {
      const start = take(fixedTypes[type].bytes, type)
      return fixedTypes[type].read(buffer, start)
    },
    slice: (start: number, end: number) => buffer.subarray(start, end),
    position: () => at,
    fileBytes,
  }
}

/** {@link openGguf} on bytes from anywhere. */
export function readHeader(path: string, source: HeaderSource, maxHeaderBytes: number): GgufFile {
  const input = cursor(path, source, maxHeaderBytes)
  const magic = input.uint32('magic')
  if (magic !== GGUF_MAGIC) throw input.error(`magic 0x${magic.toString(16)} is not GGUF`, 0)
  const version = input.uint32('version')
  if (!isVersion(version)) {
    const swapped = Buffer.from(input.slice(4, 8)).readUInt32BE()
    const found = isVersion(swapped) ? `${swapped} big-endian` : version
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `${path}: GGUF version ${found} at offset 4 is not supported; 2 and 3 little-endian are`,
    )
  }
  const tensorCount = input.count('tensor count', MIN_TENSOR_BYTES, MAX_TENSORS)
  const entryCount = input.count('metadata count', MIN_ENTRY_BYTES, MAX_ENTRIES)
  const spans: EntrySpan[] = []
  for (let i = 0; i < entryCount; i++) spans.push(readEntry(input))
  const infos: TensorInfo[] = []
  for (let i = 0; i < tensorCount; i++) infos.push(readTensorInfo(path, input))

  const metadata = new Map<string, GgufEntry>()
  for (const { start, end, ...entry } of spans) {
    if (metadata.has(entry.key)) throw input.error(`repeated key "${shown(entry.key)}"`, start)
    metadata.set(entry.key, { ...entry, bytes: input.slice(start, end) })
  }
  const alignment = alignmentOf(input, metadata)
  const dataOffset = alignTo(input.position(), alignment)
  const tensors = new Map<string, GgufTensor>()
  for (const { at, relativeOffset, ...info } of infos) {
    if (tensors.has(info.name)) throw input.error(`repeated tensor "${shown(info.name)}"`, at)
    const offset = dataOffset + relativeOffset
    if (relativeOffset % alignment !== 0) {
      throw input.error(
        `tensor "${shown(info.name)}" begins at ${relativeOffset}, not a multiple of ${alignment},`,
        at,
      )
    }
    if (offset + info.byteLength > input.fileBytes) {
      throw input.error(
        `tensor "${shown(info.name)}" of ${info.byteLength} B at ${offset} runs past the end of the file (${input.fileBytes} B),`,
        at,
      )
    }
    tensors.set(info.name, { ...info, path, offset })
  }
  checkOverlap(input, [...tensors.values()])
  return { path, version, byteLength: input.fileBytes, alignment, dataOffset, metadata, tensors }
}

function isVersion(value: number): value is 2 | 3 {
  return value === 2 || value === 3
}

function alignmentOf(input: Cursor, metadata: ReadonlyMap<string, GgufEntry>): number {
  const entry = metadata.get('general.alignment')
  if (entry === undefined) return DEFAULT_ALIGNMENT
  const { type, value } = entry
  const isPower = type === 'uint32' && typeof value === 'number' && Number.isInteger(Math.log2(value))
  if (isPower && value <= MAX_ALIGNMENT) return value
  throw input.error(
    `general.alignment is ${described(entry)}, not a power of two up to ${MAX_ALIGNMENT} of type uint32`,
  )
}

type EntrySpan = Omit<GgufEntry, 'bytes'> & { readonly start: number; readonly end: number }

function readEntry(input: Cursor): EntrySpan {
  const start = input.position()
  const key = input.text('key', MAX_KEY_BYTES)
  if (key === '') throw input.error('empty key', start)
  const named = shown(key)
  const type = readType(input, named)
  if (type !== 'array') {
    const valueOffset = input.position() - start
    const value = type === 'string' ? input.text(`value of ${named}`, MAX_STRING_BYTES) : input.value(type)
    return { key, type, value, array: undefined, start, end: input.position(), valueOffset }
  }
  const itemType = readType(input, named)
  if (itemType === 'array') throw input.error(`array of arrays in ${named}`)
  const itemBytes = itemType === 'string' ? MIN_STRING_BYTES : fixedTypes[itemType].bytes
  const length = input.count(`array length of ${named}`, itemBytes)
  const valueOffset = input.position() - start
  if (itemType === 'string') {
    for (let i = 0; i < length; i++) {
      input.take(input.count(`string length in ${named}`, 1), `string in ${named}`)
    }
  } else {
    input.take(length * itemBytes, `array ${named}`)
  }
  const array = { type: itemType, length }
  return { key, type, value: undefined, array, start, end: input.position(), valueOffset }
}

function readType(input: Cursor, named: string): ValueTypeName {
  const start = input.position()
  const id = input.uint32(`value type of ${named}`)
  const name = valueTypeName(id)
  if (name === undefined) throw input.error(`unknown value type ${id} of ${named}`, start)
  return name
}

type TensorInfo = Omit<GgufTensor, 'offset' | 'path'> & {
  readonly at: number
  readonly relativeOffset: number
}

function readTensorInfo(path: string, input: Cursor): TensorInfo {
  const at = input.position()
  const name = input.text('tensor name', MAX_TENSOR_NAME_BYTES)
  if (name === '') throw input.error('empty tensor name', at)
  const named = shown(name)
  const dimCount = input.uint32(`dimension count of ${named}`)
  if (dimCount < 1 || dimCount > MAX_DIMS) {
    throw input.error(`tensor "${named}" with ${dimCount} dimensions (1 to ${MAX_DIMS} are allowed)`, at)
  }
  const dims = Array.from({ length: dimCount }, () => input.uint64(`dimension of ${named}`))
  if (dims.includes(0))
    throw input.error(`tensor "${named}" with an empty dimension (${dims.join(' x ')})`, at)
  const typeId = input.uint32(`type of ${named}`)
  const type = tensorTypeOf(typeId)
  if (type === undefined) {
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `${path}: tensor "${named}" at offset ${at} has unknown type ${typeId}`,
    )
  }
  const byteLength = tensorBytes(type, dims)
  if (Number.isNaN(byteLength)) {
    throw input.error(
      `tensor "${named}" of ${dims.join(' x ')} cannot hold ${type.name} blocks of ${type.blockElements}`,
      at,
    )
  }
  return { name, dims, type, byteLength, at, relativeOffset: input.uint64(`offset of ${named}`) }
}

function checkOverlap(input: Cursor, tensors: GgufTensor[]): void {
  tensors.sort((a, b) => a.offset - b.offset)
  for (const [i, tensor] of tensors.entries()) {
    const next = tensors[i + 1]
    if (next !== undefined && tensor.offset + tensor.byteLength > next.offset) {
      throw input.error(`tensors "${shown(tensor.name)}" and "${shown(next.name)}" overlap`, next.offset)
    }
  }
}

/** Decodes the elements of an array entry. Throws USAGE when the entry is not an array. */
export function arrayValues(entry: GgufEntry): GgufScalar[] {
  if (entry.array === undefined) {
    throw new SeamError(ErrorCode.USAGE, `${shown(entry.key)} is a ${entry.type}, not an array`)
  }
  const { type, length } = entry.array
  const buffer = Buffer.from(entry.bytes.buffer, entry.bytes.byteOffset, entry.bytes.byteLength)
  const values: GgufScalar[] = []
  let at = entry.valueOffset
  for (let i = 0; i < length; i++) {
    if (type === 'string') {
      const bytes = Number(buffer.readBigUInt64LE(at))
      values.push(buffer.toString('utf8', at + 8, at + 8 + bytes))
      at += 8 + bytes
    } else {
      values.push(fixedTypes[type].read(buffer, at))
      at += fixedTypes[type].bytes
    }
  }
  return values
}

/** Value of a string key. Throws FILE when it is absent or of another type. */
export function stringValue(file: GgufFile, key: string): string {
  const value = file.metadata.get(key)?.value
  if (typeof value !== 'string') throw wrongKey(file, key, 'a string')
  return value
}

/** Value of a key that counts something. Throws FILE when it is absent or not a non-negative integer. */
export function countValue(file: GgufFile, key: string): number {
  const value = file.metadata.get(key)?.value
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw wrongKey(file, key, 'a whole number from 0 on')
  return value
}

/** {@link countValue}, or `absent` when there is no such key. */
export function optionalCount(file: GgufFile, key: string, absent: number): number {
  return file.metadata.has(key) ? countValue(file, key) : absent
}

function wrongKey(file: GgufFile, key: string, wanted: string): SeamError {
  const entry = file.metadata.get(key)
  const found = entry === undefined ? 'is missing' : `is ${described(entry)}, not ${wanted}`
  return new SeamError(ErrorCode.FILE, `${file.path}: ${shown(key)} ${found}`)
}

/** Type and value of an entry, for an error message. */
function described({ type, value, array }: GgufEntry): string {
  if (array !== undefined) return `array of ${array.length} ${array.type}`
  return typeof value === 'string' ? `${type} "${shown(value)}"` : `${type} ${String(value)}`
}
