import type { Message, TensorMessage, TensorRow } from '@seamline/core'
import type { Header } from './decoder.ts'
import { DTYPES } from './schema.ts'

// The way of a tensor header to and from protobuf without an object or a buffer in between, for the frame that every
// token pays for. It knows only well-formed values, ASCII codec names and fields in ascending order; for all else it steps
// aside, so that whatever is refused or unusual is judged by the field tables alone.

const U31 = 2 ** 31 - 1
const U32 = 2 ** 32 - 1
/** Fewer than the tables allow: a header of this way is below 64 KiB. */
const MAX_ROWS = 1024
const MAX_CODEC_CHARACTERS = 127
/** Bound of everything but the rows and the codec's name, and of a row. */
const FIXED_BYTES = 100
const ROW_BYTES = 32

const wide = new DataView(new ArrayBuffer(8))
const wideBytes = new Uint8Array(wide.buffer)

const isInteger = (value: number, max: number): boolean =>
  Number.isInteger(value) && value >= 0 && value <= max

/**
 * Writes `message` as a `Frame` up to the length of its payload so that it ends at `end` of `room`, and returns where it
 * starts. Returns -1, with the room as it was, when it is not a tensor that this way knows or the room may be short.
 */
export function writeTensorBefore(
  message: Message,
  room: Uint8Array,
  end: number,
  payloadBytes: number,
): number {
  if (message.kind !== 'tensor') return -1
  const { run, step, edge, fragment, rows, shape, codec, sentNs, checksum } = message
  const dtype = DTYPES.indexOf(message.dtype) + 1
  if (
    !(
      Array.isArray(rows) &&
      rows.length <= MAX_ROWS &&
      isAscii(codec) &&
      end <= room.byteLength &&
      end >= FIXED_BYTES + codec.length + rows.length * ROW_BYTES &&
      areRows(rows) &&
      Array.isArray(shape) &&
      shape.length === 2 &&
      isInteger(shape[0]!, U31) &&
      isInteger(shape[1]!, U31) &&
      isInteger(step, Number.MAX_SAFE_INTEGER) &&
      isInteger(sentNs, Number.MAX_SAFE_INTEGER) &&
      isInteger(edge, U31) &&
      isInteger(fragment, U31) &&
      (checksum === -1 || isInteger(checksum, U32)) &&
      dtype > 0 &&
      typeof run === 'bigint'
    )
  )
    return -1
  wide.setBigUint64(0, run, true)
  if (wide.getBigUint64(0, true) !== run) return -1

  // From the last byte to the first: every length is known when its turn comes.
  let at = varintBefore(room, end, payloadBytes)
  room[--at] = 0x7a
  const tensorEnd = at
  if (checksum !== -1) {
    at -= 5
    room[at] = 0x55
    for (let i = 0; i < 4; i++) room[at + 1 + i] = checksum >>> (8 * i)
  }
  at = fieldBefore(room, at, 0x48, sentNs)
  if (codec !== '') {
    for (let i = codec.length; i-- > 0; ) room[--at] = codec.charCodeAt(i)
    room[--at] = codec.length
    room[--at] = 0x42
  }
  at = fieldBefore(room, at, 0x38, dtype)
  const shapeEnd = at
  at = varintBefore(room, varintBefore(room, at, shape[1]!), shape[0]!)
  room[--at] = shapeEnd - at - 1
  room[--at] = 0x32
  for (let i = rows.length; i-- > 0; ) at = rowBefore(room, at, rows[i]!)
  at = fieldBefore(room, at, 0x20, fragment)
  at = fieldBefore(room, at, 0x18, edge)
  at = fieldBefore(room, at, 0x10, step)
  if (run !== 0n) {
    at -= 9
    room[at] = 0x09
    room.set(wideBytes, at + 1)
  }
  at = varintBefore(room, at, tensorEnd - at)
  room[--at] = 0x42
  return at
}

function isAscii(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > MAX_CODEC_CHARACTERS) return false
  for (let i = 0; i < value.length; i++) if (value.charCodeAt(i) > 127) return false
  return true
}

function areRows(rows: readonly (TensorRow | undefined)[]): boolean {
  for (let i = 0; i < rows.length; i++) if (!isRow(rows[i])) return false
  return true
}

function isRow(row: TensorRow | undefined): boolean {
  return (
    typeof row === 'object' &&
    row !== null &&
    isInteger(row.sequence, U32) &&
    isInteger(row.epoch, U32) &&
    isInteger(row.position, U31) &&
    isInteger(row.tokenCount, U31) &&
    typeof row.sample === 'boolean'
  )
}

function rowBefore(room: Uint8Array, end: number, row: TensorRow): number {
  let at = fieldBefore(room, end, 0x28, row.sample ? 1 : 0)
  at = fieldBefore(room, at, 0x20, row.tokenCount)
  at = fieldBefore(room, at, 0x18, row.position)
  at = fieldBefore(room, at, 0x10, row.epoch)
  at = fieldBefore(room, at, 0x08, row.sequence)
  room[at - 1] = end - at
  room[at - 2] = 0x2a
  return at - 2
}

function fieldBefore(room: Uint8Array, end: number, tag: number, value: number): number {
  if (value === 0) return end
  const at = varintBefore(room, end, value) - 1
  room[at] = tag
  return at
}

function varintBefore(room: Uint8Array, end: number, value: number): number {
  if (value < 2 ** 7) {
    room[end - 1] = value
    return end - 1
  }
  let bytes = 2
  for (let limit = 2 ** 14; value >= limit; limit *= 128) bytes++
  const at = end - bytes
  let rest = value
  for (let i = at; i < end - 1; i++) {
    const above = rest < 2 ** 31 ? rest >>> 7 : Math.floor(rest / 128)
    room[i] = (rest - above * 128) | 128
    rest = above
  }
  room[end - 1] = rest
  return at
}

/** Where {@link varint} reads next. */
let cursor = 0

/** The number at the cursor, or -1 when it is not from 0 to 2^53 - 1. */
function varint(bytes: Uint8Array): number {
  let value = bytes[cursor++]!
  if (value < 128) return value
  value &= 127
  for (let unit = 128; unit < 2 ** 56; unit *= 128) {
    const byte = bytes[cursor++]!
    value += (byte & 127) * unit
    if (byte < 128) return value <= Number.MAX_SAFE_INTEGER ? value : -1
  }
  return -1
}

/** The field with `tag` at the cursor, 0 when another is there, -1 when it is not from 0 to `max`. */
function field(bytes: Uint8Array, end: number, tag: number, max: number): number {
  if (cursor >= end || bytes[cursor] !== tag) return 0
  cursor++
  const value = varint(bytes)
  return value <= max ? value : -1
}

/**
 * Reads the header from `start` to `end` of `bytes`. Returns undefined when it is not a tensor in the form that
 * {@link writeTensorBefore} writes.
 */
export function readTensor(bytes: Uint8Array, start: number, end: number): Header | undefined {
  if (bytes[start] !== 0x42) return
  cursor = start + 1
  const length = varint(bytes)
  const tensorEnd = cursor + length
  if (length < 0 || tensorEnd > end) return

  let run = 0n
  if (bytes[cursor] === 0x09 && cursor + 9 <= tensorEnd) {
    for (let i = 0; i < 8; i++) wideBytes[i] = bytes[cursor + 1 + i]!
    run = wide.getBigUint64(0, true)
    cursor += 9
  }
  const step = field(bytes, tensorEnd, 0x10, Number.MAX_SAFE_INTEGER)
  const edge = field(bytes, tensorEnd, 0x18, U31)
  const fragment = field(bytes, tensorEnd, 0x20, U31)
  const rows: TensorRow[] = []
  while (cursor < tensorEnd && bytes[cursor] === 0x2a) {
    const row = rows.length < MAX_ROWS ? readRow(bytes, tensorEnd) : undefined
    if (row === undefined) return
    rows.push(row)
  }
  if (bytes[cursor] !== 0x32) return
  const shapeEnd = cursor + 2 + bytes[cursor + 1]!
  cursor += 2
  const shape = [varint(bytes), varint(bytes)] as const
  if (cursor !== shapeEnd || shape[0] > U31 || shape[1] > U31 || shape[0] < 0 || shape[1] < 0) return
  const dtype = DTYPES[field(bytes, tensorEnd, 0x38, DTYPES.length) - 1]
  let codec = ''
  if (cursor < tensorEnd && bytes[cursor] === 0x42) {
    const codecEnd = cursor + 2 + bytes[cursor + 1]!
    if (bytes[cursor + 1]! > MAX_CODEC_CHARACTERS || codecEnd > tensorEnd) return
    for (cursor += 2; cursor < codecEnd; cursor++) {
      if (bytes[cursor]! > 127) return
      codec += String.fromCharCode(bytes[cursor]!)
    }
  }
  const sentNs = field(bytes, tensorEnd, 0x48, Number.MAX_SAFE_INTEGER)
  let checksum = -1
  if (bytes[cursor] === 0x55 && cursor + 5 <= tensorEnd) {
    const at = cursor + 1
    checksum = (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
    cursor += 5
  }
  if (cursor !== tensorEnd || bytes[cursor++] !== 0x7a) return
  const payloadBytes = varint(bytes)
  if (cursor !== end || payloadBytes < 0) return
  if (dtype === undefined || step < 0 || edge < 0 || fragment < 0 || sentNs < 0) return
  const message: TensorMessage = {
    kind: 'tensor',
    run,
    step,
    edge,
    fragment,
    rows,
    shape,
    dtype,
    codec,
    sentNs,
    checksum,
  }
  return { message, payloadBytes }
}

function readRow(bytes: Uint8Array, tensorEnd: number): TensorRow | undefined {
  const end = cursor + 2 + bytes[cursor + 1]!
  if (bytes[cursor + 1]! > 127 || end > tensorEnd) return
  cursor += 2
  const sequence = field(bytes, end, 0x08, U32)
  const epoch = field(bytes, end, 0x10, U32)
  const position = field(bytes, end, 0x18, U31)
  const tokenCount = field(bytes, end, 0x20, U31)
  const sample = field(bytes, end, 0x28, 1)
  if (cursor !== end || sequence < 0 || epoch < 0 || position < 0 || tokenCount < 0 || sample < 0) return
  return { sequence, epoch, position, tokenCount, sample: sample === 1 }
}
