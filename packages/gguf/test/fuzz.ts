import { isDeepStrictEqual } from 'node:util'
import { isSeamError } from '@seamline/core'
import { arrayValues, type HeaderSource, readHeader } from '../src/read.ts'
import { referenceHeader } from './reference.ts'

export interface FuzzCounts {
  readonly inputs: number
  readonly accepted: number
  readonly refused: number
}

const HEADER_LIMIT = 1 << 16

/**
 * Reads headers that are made valid and then damaged, some not at all, field by field and byte by byte. Fails when one is accepted that the
 * reference refuses or the other way round, when an accepted one holds something else than the reference finds, when a
 * refusal is not typed or names no offset, and when memory is asked for beyond file and limit.
 */
export function fuzzHeaders(inputs: number, seed: number): FuzzCounts {
  const random = randomSource(seed)
  let accepted = 0
  for (let i = 0; i < inputs; i++) {
    const { bytes, byteLength } = damagedHeader(random)
    const describe = () => `input ${i} of seed ${seed}, ${byteLength} B: ${bytes.toString('hex')}`
    const expected = referenceHeader(bytes, byteLength, HEADER_LIMIT)
    const found = read(bytes, byteLength, describe)
    if ((expected === undefined) !== (found === undefined)) {
      throw new Error(`${found ? 'accepted' : 'refused'} against the reference: ${describe()}`)
    }
    if (found === undefined || expected === undefined) continue
    accepted++
    const tensors = [...found.tensors.values()].map(({ name, offset, byteLength }) => ({
      name,
      offset,
      byteLength,
    }))
    const entries = Buffer.concat([...found.metadata.values()].map((entry) => entry.bytes))
    // The file goes on with zeros.
    const whole = Buffer.alloc(expected.entriesEnd)
    bytes.copy(whole)
    const same =
      isDeepStrictEqual(tensors, expected.tensors) &&
      isDeepStrictEqual([...found.metadata.keys()], expected.keys) &&
      entries.equals(whole.subarray(24)) &&
      [...found.metadata.values()].every(({ array, ...entry }) =>
        array === undefined
          ? entry.value !== undefined
          : arrayValues({ array, ...entry }).length === array.length,
      )
    if (!same) throw new Error(`read as something else: ${describe()}`)
  }
  return { inputs, accepted, refused: inputs - accepted }
}

function read(bytes: Buffer, byteLength: number, describe: () => string) {
  const source: HeaderSource = {
    byteLength,
    read(into, at) {
      if (into.length > Math.min(byteLength, HEADER_LIMIT)) {
        throw new Error(`${into.length} B of memory: ${describe()}`)
      }
      bytes.copy(into, at, at)
      return into.length - at
    },
  }
  try {
    return readHeader('fuzz.gguf', source, HEADER_LIMIT)
  } catch (error) {
    const typed = isSeamError(error) && error.cause === undefined
    if (!typed || !['FILE', 'UNSUPPORTED'].includes(error.code) || !/ at offset \d+/.test(error.message)) {
      throw new Error(`${String(error)}: ${describe()}`, { cause: error })
    }
    return undefined
  }
}

type Random = (below: number) => number

/** xorshift32 (Marsaglia). */
export function randomSource(seed: number): Random {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

const pick = <T>(random: Random, from: readonly T[]): T => from[random(from.length)]!

const TEXTS = ['a', 'general.alignment', 'llama.block_count', 'blk.0.w', 'tokens', 'ü', 'x'.repeat(64)].map(
  (text) => Buffer.from(text),
)
const BAD_TEXTS = ['ff', 'c0af', 'eda080', '6100', 'e282', 'f4908080', ''].map((hex) =>
  Buffer.from(hex, 'hex'),
)
const NUMBERS = [
  0n,
  1n,
  2n,
  3n,
  4n,
  5n,
  8n,
  9n,
  13n,
  31n,
  32n,
  63n,
  64n,
  256n,
  65535n,
  65536n,
  65537n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 40n,
  2n ** 53n,
  2n ** 62n,
  2n ** 63n,
  2n ** 64n - 1n,
]
const VALUE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

/** A part of a header; a number is one that the format gives a meaning. */
interface Field {
  bytes: Buffer
  readonly isNumber: boolean
}

function damagedHeader(random: Random): { bytes: Buffer; byteLength: number } {
  const { fields, dataBytes } = validHeader(random)
  let extra = dataBytes
  for (let damages = random(4); damages > 0; damages--) {
    const field = pick(random, fields)
    const at = fields.indexOf(field)
    switch (random(10)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const number = pick(
          random,
          fields.filter(({ isNumber }) => isNumber),
        )
        number.bytes = changedNumber(random, number.bytes)
        break
      }
      case 4: {
        // Mostly with its new length, and often the name of something else.
        const texts = fields.filter(({ isNumber }, i) => !isNumber && fields[i - 1]?.bytes.length === 8)
        if (texts.length === 0) break
        const text = pick(random, texts)
        text.bytes = pick(random, [...TEXTS, ...BAD_TEXTS, ...texts.map(({ bytes }) => bytes)])
        const length = fields[fields.indexOf(text) - 1]!
        length.bytes = Buffer.alloc(8)
        length.bytes.writeUInt32LE(text.bytes.length + (random(8) === 0 ? 1 : 0))
        break
      }
      case 5:
        fields.splice(at, 1)
        break
      case 6:
        fields.splice(at, 0, { ...pick(random, fields) })
        break
      case 7: {
        const bytes = Buffer.from(field.bytes)
        if (bytes.length > 0) bytes[random(bytes.length)]! ^= 1 << random(8)
        field.bytes = bytes
        break
      }
      case 8:
        extra = pick(random, [0, dataBytes - 1, dataBytes + 1, 2 ** 40])
        break
      default: {
        const joined = Buffer.concat(fields.map(({ bytes }) => bytes))
        return { bytes: joined, byteLength: random(joined.length + 1) }
      }
    }
    if (fields.length === 0) break
  }
  const bytes = Buffer.concat(fields.map(({ bytes }) => bytes))
  return { bytes, byteLength: Math.max(0, bytes.length + extra) }
}

function changedNumber(random: Random, bytes: Buffer): Buffer {
  const wide = bytes.length === 8
  const value = wide ? bytes.readBigUInt64LE() : BigInt(bytes.readUInt32LE())
  const next = pick(random, [pick(random, NUMBERS), value + 1n, value - 1n, value * 2n, value + 32n])
  const changed = Buffer.alloc(bytes.length)
  if (wide) changed.writeBigUInt64LE(BigInt.asUintN(64, next))
  else changed.writeUInt32LE(Number(BigInt.asUintN(32, next)))
  return changed
}

function validHeader(random: Random): { fields: Field[]; dataBytes: number } {
  const fields: Field[] = []
  const number = (size: 4 | 8, value: number) => {
    const bytes = Buffer.alloc(size)
    bytes.writeUInt32LE(value)
    fields.push({ bytes, isNumber: true })
  }
  const raw = (bytes: Buffer) => fields.push({ bytes, isNumber: false })
  const text = (value: string) => {
    number(8, Buffer.byteLength(value))
    raw(Buffer.from(value))
  }
  const entries = random(5)
  const tensors = random(4)
  number(4, 0x46554747)
  number(4, 2 + random(2))
  number(8, tensors)
  number(8, entries)
  let alignment = 32
  for (let i = 0; i < entries; i++) {
    if (i === 0 && random(3) === 0) {
      alignment = 2 ** random(8)
      text('general.alignment')
      number(4, 4)
      number(4, alignment)
      continue
    }
    text(pick(random, ['key', 'größe', 'k']) + i)
    const type = random(13)
    number(4, type)
    if (type === 8) text('value')
    else if (type === 9) {
      const itemType = pick(random, [0, 4, 5, 6, 7, 8, 10])
      const length = random(4)
      number(4, itemType)
      number(8, length)
      for (let item = 0; item < length; item++) {
        if (itemType === 8) text('item')
        else raw(Buffer.alloc(VALUE_BYTES[itemType]!, random(256)))
      }
    } else raw(Buffer.alloc(VALUE_BYTES[type]!, random(256)))
  }
  let offset = 0
  for (let i = 0; i < tensors; i++) {
    text(`blk.${i}.w`)
    const [type, elements, bytes] = pick(random, [
      [0, 1, 4],
      [8, 32, 34],
      [12, 256, 144],
      [41, 128, 18],
    ] as const)
    const dims = [elements * (1 + random(3)), ...Array.from({ length: random(4) }, () => 1 + random(3))]
    number(4, dims.length)
    for (const dim of dims) number(8, dim)
    number(4, type)
    number(8, offset)
    const size = (dims.reduce((product, dim) => product * dim, 1) / elements) * bytes
    offset += Math.ceil(size / alignment) * alignment
  }
  return { fields, dataBytes: offset + alignment }
}
