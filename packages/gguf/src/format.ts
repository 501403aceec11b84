import { ErrorCode, SeamError } from '@seamline/core'

/** A metadata value. 64-bit integers beyond 2^53 are bigints, all other numbers are numbers. */
export type GgufScalar = number | bigint | boolean | string

interface FixedType {
  /** Id in the file (ggml's gguf.h). */
  readonly id: number
  readonly bytes: number
  readonly read: (from: Buffer, at: number) => GgufScalar
  readonly write: (to: Buffer, value: GgufScalar) => void
}

/** Value types of a fixed size. */
export const fixedTypes = {
  uint8: numeric(0, 1, 'UInt8'),
  int8: numeric(1, 1, 'Int8'),
  uint16: numeric(2, 2, 'UInt16LE'),
  int16: numeric(3, 2, 'Int16LE'),
  uint32: numeric(4, 4, 'UInt32LE'),
  int32: numeric(5, 4, 'Int32LE'),
  float32: numeric(6, 4, 'FloatLE'),
  bool: { ...numeric(7, 1, 'UInt8'), read: (from: Buffer, at: number) => from[at] !== 0 },
  uint64: wide(10, 'BigUInt64LE'),
  int64: wide(11, 'BigInt64LE'),
  float64: numeric(12, 8, 'DoubleLE'),
} satisfies Record<string, FixedType>

export type FixedTypeName = keyof typeof fixedTypes
export type ValueTypeName = FixedTypeName | 'string' | 'array'

export const STRING_ID = 8
export const ARRAY_ID = 9

const valueTypeNames = new Map<number, ValueTypeName>([
  ...Object.entries(fixedTypes).map(([name, { id }]) => [id, name as FixedTypeName] as const),
  [STRING_ID, 'string'],
  [ARRAY_ID, 'array'],
])

/** Name of a value type id, undefined for an unknown one. */
export function valueTypeName(id: number): ValueTypeName | undefined {
  return valueTypeNames.get(id)
}

type NumericAccess =
  | 'UInt8'
  | 'Int8'
  | 'UInt16LE'
  | 'Int16LE'
  | 'UInt32LE'
  | 'Int32LE'
  | 'FloatLE'
  | 'DoubleLE'

function numeric(id: number, bytes: number, access: NumericAccess): FixedType {
  return {
    id,
    bytes,
    read: (from, at) => from[`read${access}`](at),
    write: (to, value) => to[`write${access}`](Number(value)),
  }
}

function wide(id: number, access: 'BigUInt64LE' | 'BigInt64LE'): FixedType {
  return {
    id,
    bytes: 8,
    read(from, at) {
      const value = from[`read${access}`](at)
      return Number.isSafeInteger(Number(value)) ? Number(value) : value
    },
    write: (to, value) => to[`write${access}`](BigInt(value)),
  }
}

/** A tensor element type: `blockBytes` bytes hold `blockElements` consecutive elements of a row. */
export interface TensorType {
  readonly name: string
  readonly id: number
  readonly blockElements: number
  readonly blockBytes: number
}

// Ids from `enum ggml_type`; block sizes from the static_asserts of ggml-common.h (llama.cpp v0.5.0).
const tensorTypes: readonly TensorType[] = (
  [
    ['F32', 0, 1, 4],
    ['F16', 1, 1, 2],
    ['Q4_0', 2, 32, 18],
    ['Q4_1', 3, 32, 20],
    ['Q5_0', 6, 32, 22],
    ['Q5_1', 7, 32, 24],
    ['Q8_0', 8, 32, 34],
    ['Q8_1', 9, 32, 36],
    ['Q2_K', 10, 256, 84],
    ['Q3_K', 11, 256, 110],
    ['Q4_K', 12, 256, 144],
    ['Q5_K', 13, 256, 176],
    ['Q6_K', 14, 256, 210],
    ['Q8_K', 15, 256, 292],
    ['IQ2_XXS', 16, 256, 66],
    ['IQ2_XS', 17, 256, 74],
    ['IQ3_XXS', 18, 256, 98],
    ['IQ1_S', 19, 256, 50],
    ['IQ4_NL', 20, 32, 18],
    ['IQ3_S', 21, 256, 110],
    ['IQ2_S', 22, 256, 82],
    ['IQ4_XS', 23, 256, 136],
    ['I8', 24, 1, 1],
    ['I16', 25, 1, 2],
    ['I32', 26, 1, 4],
    ['I64', 27, 1, 8],
    ['F64', 28, 1, 8],
    ['IQ1_M', 29, 256, 56],
    ['BF16', 30, 1, 2],
    ['TQ1_0', 34, 256, 54],
    ['TQ2_0', 35, 256, 66],
    ['MXFP4', 39, 32, 17],
    ['NVFP4', 40, 64, 36],
    ['Q1_0', 41, 128, 18],
    ['Q2_0', 42, 64, 18],
  ] as const
).map(([name, id, blockElements, blockBytes]) => ({ name, id, blockElements, blockBytes }))

const tensorTypeById = new Map(tensorTypes.map((type) => [type.id, type]))
const tensorTypeByName = new Map(tensorTypes.map((type) => [type.name, type]))

/** The tensor type with this ggml id, undefined for an unknown one. */
export function tensorTypeOf(id: number): TensorType | undefined {
  return tensorTypeById.get(id)
}

/** The tensor type with this name. Throws UNSUPPORTED for an unknown one. */
export function tensorTypeNamed(name: string): TensorType {
  const type = tensorTypeByName.get(name)
  if (type === undefined) {
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `tensor type ${name} is unknown; known: ${[...tensorTypeByName.keys()].join(', ')}`,
    )
  }
  return type
}

/**
 * Bytes of a tensor whose first dimension is the row length, rows following one another without padding. NaN when the row is
 * not a whole number of blocks or the size is not exactly representable.
 */
export function tensorBytes(type: TensorType, dims: readonly number[]): number {
  if ((dims[0] ?? 1) % type.blockElements !== 0) return Number.NaN
  const blocks = dims.reduce((product, dim) => product * dim, 1) / type.blockElements
  const bytes = blocks * type.blockBytes
  return Number.isSafeInteger(bytes) ? bytes : Number.NaN
}

/** Rounds an offset up to a multiple of `alignment`. */
export function alignTo(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment
}

export const GGUF_MAGIC = 0x46554747
/** Alignment of tensor data when the file does not state one in `general.alignment`. */
export const DEFAULT_ALIGNMENT = 32
