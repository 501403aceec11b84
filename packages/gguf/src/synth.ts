import { ErrorCode, SeamError } from '@seamline/core'
import type { FreeBytes, OnProgress, WrittenFile } from './files.ts'
import { tensorTypeNamed } from './format.ts'
import { blockEncoders } from './quantise.ts'
import { normalSource, tensorSeed } from './random.ts'
import {
  BEGIN_TOKEN,
  END_TOKEN,
  MIN_VOCABULARY,
  RESERVED_TOKENS,
  UNKNOWN_TOKEN,
  vocabulary,
} from './vocabulary.ts'
import { encodeArray, encodeEntry, type TensorSource, writeGguf } from './write.ts'

export type SynthType = keyof typeof blockEncoders

/** Shape of a synthetic model. */
export interface SynthShape {
  /** Values in a hidden row (n_embd). */
  readonly width: number
  readonly layers: number
  readonly feedForward: number
  readonly heads: number
  /** Divides `heads`. */
  readonly kvHeads: number
  /** At least 354. */
  readonly vocabulary: number
  /** Positions that the model says it was trained for. */
  readonly context: number
  /** Type of every matrix; norms are F32. */
  readonly type: SynthType
}

export interface SynthOptions extends SynthShape {
  readonly path: string
  /** uint32. The same shape and seed give the same bytes on every machine; types share the weights before rounding. */
  readonly seed: number
  /** One tensor serves as token embedding and head. Default false. */
  readonly tied?: boolean
  readonly onProgress?: OnProgress
  readonly signal?: AbortSignal
  readonly freeBytes?: FreeBytes
}

/** Shapes by name: `demo` (some 7 million weights, made in a blink) and `1.1b` (1,104 million weights, 621 MB). */
export const synthPresets = {
  demo: {
    width: 256,
    layers: 8,
    feedForward: 704,
    heads: 8,
    kvHeads: 4,
    vocabulary: 1024,
    context: 2048,
    type: 'Q8_0',
  },
  '1.1b': {
    width: 2048,
    layers: 16,
    feedForward: 8192,
    heads: 32,
    kvHeads: 8,
    vocabulary: 32000,
    context: 4096,
    type: 'Q4_0',
  },
} as const satisfies Record<string, SynthShape>

// llama.cpp's `general.file_type`.
const FILE_TYPES: Record<SynthType, number> = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 7 }

/**
 * Writes a llama-architecture model of random weights with a working SentencePiece-style tokenizer: it loads and runs like
 * a trained one of its shape, and writes noise. Greedy decoding does not end and varies.
 * Throws USAGE naming the numbers when the shape is impossible; see `writeGguf` for the rest.
 */
export async function synthModel(options: SynthOptions): Promise<WrittenFile> {
  checkShape(options)
  const { path, onProgress, signal, freeBytes } = options
  return writeGguf({
    path,
    entries: entriesOf(options),
    tensors: tensorsOf(options),
    onProgress,
    signal,
    freeBytes,
  })
}

function checkShape(shape: SynthOptions): void {
  const refuse = (message: string): never => {
    throw new SeamError(ErrorCode.USAGE, message)
  }
  const { width, heads, kvHeads, feedForward, type } = shape
  for (const name of [
    'width',
    'layers',
    'feedForward',
    'heads',
    'kvHeads',
    'vocabulary',
    'context',
  ] as const) {
    if (!Number.isInteger(shape[name]) || shape[name] < 1 || shape[name] > 2 ** 31 - 1) {
      refuse(`${name} ${shape[name]} is not a whole number from 1 to 2147483647`)
    }
  }
  if (!Object.hasOwn(blockEncoders, type)) {
    refuse(`type ${type} is not one of ${Object.keys(blockEncoders).join(', ')}`)
  }
  if (!Number.isInteger(shape.seed) || shape.seed < 0 || shape.seed > 0xffffffff) {
    refuse(`seed ${shape.seed} is not a whole number from 0 to 4294967295`)
  }
  if (shape.vocabulary < MIN_VOCABULARY) refuse(`vocabulary ${shape.vocabulary} is below ${MIN_VOCABULARY}`)
  if (width % heads !== 0 || (width / heads) % 2 !== 0) {
    refuse(`width ${width} is not ${heads} heads of an even size`)
  }
  if (heads % kvHeads !== 0) refuse(`${kvHeads} KV heads do not divide ${heads} heads`)
  const { blockElements } = tensorTypeNamed(type)
  for (const [name, value] of Object.entries({ width, feedForward })) {
    if (value % blockElements !== 0) {
      refuse(
        `${name} ${value} is not a multiple of ${blockElements}, the block of ${type}; F32 and F16 take any`,
      )
    }
  }
}

function entriesOf(shape: SynthOptions): Uint8Array[] {
  const { width, layers, feedForward, heads, kvHeads, vocabulary: size, context, type, seed } = shape
  const { tokens, scores, kinds } = vocabulary(size)
  const count = (key: string, value: number) => encodeEntry(key, 'uint32', value)
  const name = `synthetic llama ${width}x${layers} ${type} seed ${seed}`
  return [
    encodeEntry('general.architecture', 'string', 'llama'),
    encodeEntry('general.name', 'string', name),
    count('general.file_type', FILE_TYPES[type]),
    count('general.quantization_version', 2),
    count('llama.block_count', layers),
    count('llama.context_length', context),
    count('llama.embedding_length', width),
    count('llama.feed_forward_length', feedForward),
    count('llama.attention.head_count', heads),
    count('llama.attention.head_count_kv', kvHeads),
    encodeEntry('llama.attention.layer_norm_rms_epsilon', 'float32', 1e-5),
    count('llama.rope.dimension_count', width / heads),
    encodeEntry('llama.rope.freq_base', 'float32', 10000),
    count('llama.vocab_size', size),
    encodeEntry('tokenizer.ggml.model', 'string', 'llama'),
    encodeArray('tokenizer.ggml.tokens', 'string', tokens),
    encodeArray('tokenizer.ggml.scores', 'float32', scores),
    encodeArray('tokenizer.ggml.token_type', 'int32', kinds),
    count('tokenizer.ggml.unknown_token_id', UNKNOWN_TOKEN),
    count('tokenizer.ggml.bos_token_id', BEGIN_TOKEN),
    count('tokenizer.ggml.eos_token_id', END_TOKEN),
    encodeEntry('tokenizer.ggml.add_bos_token', 'bool', true),
    encodeEntry('tokenizer.ggml.add_eos_token', 'bool', false),
  ]
}

// A small embedding leaves the residual stream to the layers, and sharp attention makes them depend on the whole context:
// together they keep greedy decoding out of short cycles. Rows of special and byte tokens are small so that it
// neither ends nor leaves the printable pieces.
const EMBEDDING_SIGMA = 0.1
const ATTENTION_GAIN = 2
const RESERVED_ROW_FACTOR = 1 / 64

function tensorsOf(shape: SynthOptions): TensorSource[] {
  const { width, layers, feedForward, heads, kvHeads, vocabulary: size, type, tied } = shape
  const kvWidth = (width / heads) * kvHeads
  const matrix = (
    name: string,
    columns: number,
    rows: number,
    sigma: number,
    smallRows = 0,
  ): TensorSource => ({
    name,
    dims: [columns, rows],
    type: tensorTypeNamed(type),
    data: randomMatrix({ type, columns, rows, sigma, smallRows, seed: tensorSeed(shape.seed, name) }),
  })
  const linear = (name: string, columns: number, rows: number, gain = 1) =>
    matrix(name, columns, rows, gain / Math.sqrt(columns))
  const norm = (name: string): TensorSource => ({
    name,
    dims: [width],
    type: tensorTypeNamed('F32'),
    data: randomNorm(width, tensorSeed(shape.seed, name)),
  })
  const tensors = [
    matrix('token_embd.weight', width, size, EMBEDDING_SIGMA, tied === true ? RESERVED_TOKENS : 0),
  ]
  for (let i = 0; i < layers; i++) {
    tensors.push(
      norm(`blk.${i}.attn_norm.weight`),
      linear(`blk.${i}.attn_q.weight`, width, width, ATTENTION_GAIN),
      linear(`blk.${i}.attn_k.weight`, width, kvWidth, ATTENTION_GAIN),
      linear(`blk.${i}.attn_v.weight`, width, kvWidth),
      linear(`blk.${i}.attn_output.weight`, width, width),
      norm(`blk.${i}.ffn_norm.weight`),
      linear(`blk.${i}.ffn_gate.weight`, width, feedForward),
      linear(`blk.${i}.ffn_up.weight`, width, feedForward),
      linear(`blk.${i}.ffn_down.weight`, feedForward, width),
    )
  }
  tensors.push(norm('output_norm.weight'))
  if (tied !== true) tensors.push(matrix('output.weight', width, size, 1 / Math.sqrt(width), RESERVED_TOKENS))
  return tensors
}

interface MatrixOptions {
  readonly type: SynthType
  readonly columns: number
  readonly rows: number
  readonly sigma: number
  /** The first rows are scaled down by RESERVED_ROW_FACTOR. */
  readonly smallRows: number
  readonly seed: Uint32Array
}

const CHUNK_ELEMENTS = 1 << 16

function* randomMatrix({
  type,
  columns,
  rows,
  sigma,
  smallRows,
  seed,
}: MatrixOptions): Generator<Uint8Array> {
  const encode = blockEncoders[type]
  const { blockElements, blockBytes } = tensorTypeNamed(type)
  const fill = normalSource(seed)
  const rowsPerChunk = Math.max(1, Math.floor(CHUNK_ELEMENTS / columns))
  const values = new Float32Array(rowsPerChunk * columns)
  const bytes = new Uint8Array((values.length / blockElements) * blockBytes)
  for (let row = 0; row < rows; row += rowsPerChunk) {
    const count = Math.min(rowsPerChunk, rows - row) * columns
    fill(values, count, sigma)
    const small = Math.max(0, Math.min(smallRows - row, rowsPerChunk)) * columns
    for (let i = 0; i < small; i++) values[i]! *= RESERVED_ROW_FACTOR
    yield bytes.subarray(0, encode(values, count, bytes, 0))
  }
}

function* randomNorm(width: number, seed: Uint32Array): Generator<Uint8Array> {
  const values = new Float32Array(width)
  normalSource(seed)(values, width, 0.05)
  for (let i = 0; i < width; i++) values[i]! += 1
  const bytes = new Uint8Array(4 * width)
  yield bytes.subarray(0, blockEncoders.F32(values, width, bytes, 0))
}
