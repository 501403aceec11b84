import { ErrorCode, SeamError } from '@seamline/core'
import type { FreeBytes, OnProgress, WrittenFile } from './files.ts'
import { tensorTypeNamed } from './format.ts'
import { blockEncoders } from './quantise.ts'
import { normalSource, tensorSeed } from './random.ts'
import { MAX_LAYERS } from './stage.ts'
import { EXPERTS, type Size, type SynthArchitecture, type SynthModel, synthModels } from './synth-models.ts'
import {
  BEGIN_TOKEN,
  END_TOKEN,
  MIN_VOCABULARY,
  RESERVED_TOKENS,
  UNKNOWN_TOKEN,
  vocabulary,
} from './vocabulary.ts'
import { encodeArray, encodeEntry, type TensorSource, writeGguf } from './write.ts'

type MatrixType = keyof typeof blockEncoders

/** Types of matrices that stand for two: the second for the head, the values and the way down, as in llama.cpp's mixes. */
const mixes = { Q4_K_M: ['Q4_K', 'Q6_K'], Q5_K_M: ['Q5_K', 'Q6_K'] } as const
const BETTER = /^output\.|\.attn_v\.|\.ffn_down/

export type SynthType = MatrixType | keyof typeof mixes

/** What `type` and `architecture` of {@link synthModel} may be. */
export const synthTypes = [...Object.keys(blockEncoders), ...Object.keys(mixes)] as readonly SynthType[]
export const synthArchitectures = Object.keys(synthModels) as readonly SynthArchitecture[]

function matrixType(type: SynthType, name: string): MatrixType {
  return Object.hasOwn(mixes, type)
    ? mixes[type as keyof typeof mixes][BETTER.test(name) ? 1 : 0]
    : (type as MatrixType)
}

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
  /** Type of every matrix; norms, biases and routers are F32. */
  readonly type: SynthType
  /** Models with experts have 8 of the feed-forward width, two of which are used. Default llama. */
  readonly architecture?: SynthArchitecture
}

export interface SynthOptions extends SynthShape {
  readonly path: string
  /** uint32. The same shape and seed give the same bytes on every machine; types share the weights before rounding. */
  readonly seed: number
  /** One tensor serves as token embedding and head. Default false; some architectures leave no choice. */
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
const FILE_TYPES: Record<SynthType, number> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q8_0: 7,
  Q4_K: 14,
  Q4_K_M: 15,
  Q5_K: 16,
  Q5_K_M: 17,
  Q6_K: 18,
  BF16: 32,
}

/**
 * Writes a model of random weights with a working SentencePiece-style tokenizer: it loads and runs like
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
  const { width, heads, kvHeads, feedForward, type, architecture = 'llama' } = shape
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
  if (shape.layers > MAX_LAYERS) refuse(`${shape.layers} layers; llama.cpp takes at most ${MAX_LAYERS}`)
  if (!synthTypes.includes(type)) refuse(`type ${type} is not one of ${synthTypes.join(', ')}`)
  if (!synthArchitectures.includes(architecture)) {
    refuse(`architecture ${architecture} is not one of ${synthArchitectures.join(', ')}`)
  }
  if (!Number.isInteger(shape.seed) || shape.seed < 0 || shape.seed > 0xffffffff) {
    refuse(`seed ${shape.seed} is not a whole number from 0 to 4294967295`)
  }
  if (shape.vocabulary < MIN_VOCABULARY) refuse(`vocabulary ${shape.vocabulary} is below ${MIN_VOCABULARY}`)
  if (width % heads !== 0 || (width / heads) % 2 !== 0) {
    refuse(`width ${width} is not ${heads} heads of an even size`)
  }
  if (heads % kvHeads !== 0) refuse(`${kvHeads} KV heads do not divide ${heads} heads`)
  const { blockElements } = tensorTypeNamed(matrixType(type, ''))
  for (const [name, value] of Object.entries({ width, feedForward })) {
    if (value % blockElements !== 0) {
      refuse(
        `${name} ${value} is not a multiple of ${blockElements}, the block of ${type}; F32, F16 and BF16 take any`,
      )
    }
  }
}

function modelOf({ architecture = 'llama' }: SynthShape): SynthModel {
  return synthModels[architecture]
}

function kvHeadsOf(shape: SynthShape, layer: number): number {
  return modelOf(shape).unevenKvHeads && layer % 2 === 1 ? shape.heads : shape.kvHeads
}

function sizeOf(shape: SynthShape, layer: number, size: Size): number {
  const { width, heads, feedForward } = shape
  const head = width / heads
  const keyValue = head * kvHeadsOf(shape, layer)
  const sizes: Record<Size, number> = {
    width,
    query: width,
    keyValue,
    queryKeyValue: width + 2 * keyValue,
    head,
    heads,
    feedForward,
    twiceFeedForward: 2 * feedForward,
    experts: EXPERTS,
  }
  return sizes[size]
}

function entriesOf(shape: SynthOptions): Uint8Array[] {
  const { width, layers, feedForward, heads, kvHeads, vocabulary: size, context, type, seed } = shape
  const { architecture: name = 'llama' } = shape
  const { architecture = name, label = name, unevenKvHeads, entries = [] } = modelOf(shape)
  const { tokens, scores, kinds } = vocabulary(size)
  const count = (key: string, value: number) => encodeEntry(key, 'uint32', value)
  const own = (key: string) => `${architecture}.${key}`
  const kvHeadsByLayer = Array.from({ length: layers }, (_, layer) => kvHeadsOf(shape, layer))
  const headsKey = own('attention.head_count_kv')
  return [
    encodeEntry('general.architecture', 'string', architecture),
    encodeEntry('general.name', 'string', `synthetic ${label} ${width}x${layers} ${type} seed ${seed}`),
    count('general.file_type', FILE_TYPES[type]),
    count('general.quantization_version', 2),
    count(own('block_count'), layers),
    count(own('context_length'), context),
    count(own('embedding_length'), width),
    count(own('feed_forward_length'), feedForward),
    count(own('attention.head_count'), heads),
    unevenKvHeads ? encodeArray(headsKey, 'uint32', kvHeadsByLayer) : count(headsKey, kvHeads),
    encodeEntry(own('attention.layer_norm_rms_epsilon'), 'float32', 1e-5),
    count(own('rope.dimension_count'), width / heads),
    encodeEntry(own('rope.freq_base'), 'float32', 10000),
    count(own('vocab_size'), size),
    ...entries.map(([key, type, value]) =>
      encodeEntry(own(key), type, typeof value === 'string' ? sizeOf(shape, 0, value) : value),
    ),
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

// A small embedding leaves the residual stream to the layers, which with sharp attention keeps greedy decoding out of short
// cycles. Rows of special and byte tokens are small so that it neither ends nor leaves the printable pieces.
const EMBEDDING_SIGMA = 0.1
const BIAS_SIGMA = 0.1
const NORM_SIGMA = 0.05
const RESERVED_ROW_FACTOR = 1 / 64

function tensorsOf(shape: SynthOptions): TensorSource[] {
  const { width, layers, vocabulary: size, type } = shape
  const { layer: layerRows, lead, head, scalesEmbedding } = modelOf(shape)
  const tied = head === undefined ? shape.tied === true : head === 'embedding'
  function tensor(name: string, dims: readonly number[], type: MatrixType, values: Values): TensorSource {
    const [columns = 1, ...rest] = dims
    const rows = rest.reduce((product, dim) => product * dim, 1)
    const seed = tensorSeed(shape.seed, name)
    return {
      name,
      dims,
      type: tensorTypeNamed(type),
      data: randomRows({ type, columns, rows, seed, ...values }),
    }
  }
  const matrix = (name: string, dims: readonly number[], values: Values) =>
    tensor(name, dims, matrixType(type, name), values)
  const embeddingSigma = EMBEDDING_SIGMA / (scalesEmbedding ? Math.sqrt(width) : 1)

  const tensors = [
    matrix('token_embd.weight', [width, size], {
      sigma: embeddingSigma,
      smallRows: tied ? RESERVED_TOKENS : 0,
    }),
  ]
  for (let layer = 0; layer < layers; layer++) {
    const isLead = lead !== undefined && layer < lead.layers
    for (const { name: part, kind, dims, gain } of isLead ? lead.layer : layerRows) {
      const name = `blk.${layer}.${part}`
      const sizes = dims.map((size) => sizeOf(shape, layer, size))
      const sigma = gain / Math.sqrt(sizes[0]!)
      if (kind === 'matrix') tensors.push(matrix(name, sizes, { sigma }))
      else if (kind === 'router') tensors.push(tensor(name, sizes, 'F32', { sigma }))
      else if (kind === 'bias') tensors.push(tensor(name, sizes, 'F32', { sigma: BIAS_SIGMA }))
      else tensors.push(tensor(name, sizes, 'F32', { sigma: NORM_SIGMA, mean: gain }))
    }
  }
  tensors.push(tensor('output_norm.weight', [width], 'F32', { sigma: NORM_SIGMA, mean: 1 }))
  if (!tied) {
    const values = { sigma: 1 / Math.sqrt(width), smallRows: RESERVED_TOKENS }
    tensors.push(matrix('output.weight', [width, size], values))
  }
  return tensors
}

interface Values {
  readonly sigma: number
  /** Added to every value. */
  readonly mean?: number
  /** The first rows are scaled down by RESERVED_ROW_FACTOR. */
  readonly smallRows?: number
}

interface RowsOptions extends Values {
  readonly type: MatrixType
  readonly columns: number
  readonly rows: number
  readonly seed: Uint32Array
}

const CHUNK_ELEMENTS = 1 << 16

function* randomRows(options: RowsOptions): Generator<Uint8Array> {
  const { type, columns, rows, sigma, mean = 0, smallRows = 0, seed } = options
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
    if (mean !== 0) for (let i = 0; i < count; i++) values[i]! += mean
    yield bytes.subarray(0, encode(values, count, bytes, 0))
  }
}
