import { ErrorCode, SeamError } from '@seamline/core'
import { fixedTypes, tensorTypeNamed } from './format.ts'
import type { LayerRange } from './layers.ts'
import { countValue, type GgufEntry, type GgufFile, type GgufTensor, stringValue } from './read.ts'
import { encodeArray, encodeEntry, type TensorSource } from './write.ts'

/** How an architecture is cut. Every one listed takes `token_embd.weight` as its head when `output.weight` is absent. */
interface ArchitectureRules {
  /** Keys under `<architecture>.` that may hold one element a layer. */
  readonly layerArrays: readonly string[]
  /** Tensors outside the layers, beside token_embd and output, that every stage holds. */
  readonly sharedTensors: readonly string[]
}

/** The architectures that are known to run exactly when cut into stages. */
const architectures: Readonly<Record<string, ArchitectureRules>> = {
  llama: {
    layerArrays: ['attention.head_count', 'attention.head_count_kv', 'feed_forward_length'],
    sharedTensors: [
      'output_norm.weight',
      'rope_freqs.weight',
      'rope_factors_long.weight',
      'rope_factors_short.weight',
    ],
  },
}

/** Facts about a model that a manifest states. */
export interface ModelFacts {
  /** `general.name`, cut to 200 characters; empty when the file has none. */
  readonly modelName: string
  readonly architecture: string
  readonly layerCount: number
  /** Values in one hidden row (n_embd). */
  readonly embedding: number
  /** Tokens in the vocabulary. */
  readonly vocabulary: number
  /** Positions the model was trained for. */
  readonly contextLength: number
}

/**
 * Facts about a model that can be split. Throws UNSUPPORTED with the reason for an architecture that is not on the list, one
 * shard of a model or a tensor whose place is not known, and FILE for a missing or contradictory key or tensor.
 */
export function modelFacts(file: GgufFile): ModelFacts {
  const architecture = stringValue(file, 'general.architecture')
  const rules = rulesOf(architecture)
  if ((file.metadata.get('split.count')?.value ?? 1) !== 1) {
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `${file.path} is one of ${String(file.metadata.get('split.count')?.value)} shards; join them with llama-gguf-split --merge first`,
    )
  }
  const layerCount = countValue(file, `${architecture}.block_count`)
  const embedding = countValue(file, `${architecture}.embedding_length`)
  const [rowLength, vocabulary] = requiredTensor(file, TOKEN_EMBEDDING).dims
  if (rowLength !== embedding || vocabulary === undefined) {
    throw new SeamError(
      ErrorCode.FILE,
      `${file.path}: ${TOKEN_EMBEDDING} has rows of ${rowLength}, ${architecture}.embedding_length is ${embedding}`,
    )
  }
  requiredTensor(file, OUTPUT_NORM)
  const layersSeen = new Set<number>()
  for (const name of file.tensors.keys()) {
    const layer = layerOf(name)
    if (layer !== undefined && layer < layerCount) layersSeen.add(layer)
    else if (name !== TOKEN_EMBEDDING && name !== OUTPUT && !rules.sharedTensors.includes(name)) {
      throw new SeamError(
        ErrorCode.UNSUPPORTED,
        `${file.path}: tensor ${name} has no known place in a ${architecture} model of ${layerCount} layers`,
      )
    }
  }
  if (layersSeen.size !== layerCount || layerCount === 0) {
    throw new SeamError(
      ErrorCode.FILE,
      `${file.path}: tensors of ${layersSeen.size} layers, ${architecture}.block_count is ${layerCount}`,
    )
  }
  const name = file.metadata.get('general.name')?.value
  return {
    modelName: typeof name === 'string' ? name.slice(0, MAX_NAME_LENGTH) : '',
    architecture,
    layerCount,
    embedding,
    vocabulary,
    contextLength: countValue(file, `${architecture}.context_length`),
  }
}

/** What goes into the file of one stage. */
export interface StagePlan {
  readonly entries: readonly Uint8Array[]
  readonly tensors: readonly TensorSource[]
}

const MAX_NAME_LENGTH = 200
const TOKEN_EMBEDDING = 'token_embd.weight'
const OUTPUT = 'output.weight'
const OUTPUT_NORM = 'output_norm.weight'

/**
 * Entries and tensors of the stage that holds `range`: a valid GGUF of its own for stock llama.cpp, layers renumbered from 0,
 * without a tokenizer. `read` gives a source tensor's bytes.
 *
 * The first stage keeps the token embedding, the last one the head; where both are apart, the head takes the
 * embedding's name in the last stage, and the first stage has no head: the loader then uses one tensor as both. A stage
 * in between gets a one-token embedding of zeros, and a vocabulary of that size, because the loader wants one.
 */
export function planStage(
  file: GgufFile,
  facts: ModelFacts,
  range: LayerRange,
  read: (tensor: GgufTensor) => AsyncIterable<Uint8Array>,
): StagePlan {
  const { architecture, layerCount, embedding } = facts
  const { layerFirst, layerEnd } = range
  const isFirst = layerFirst === 0
  const isLast = layerEnd === layerCount
  const headName = file.tensors.has(OUTPUT) ? OUTPUT : TOKEN_EMBEDDING

  const tensors: TensorSource[] = []
  const keep = (tensor: GgufTensor, name = tensor.name) => {
    tensors.push({ name, dims: tensor.dims, type: tensor.type, data: read(tensor) })
  }
  for (const tensor of file.tensors.values()) {
    const layer = layerOf(tensor.name)
    if (layer !== undefined) {
      if (layer >= layerFirst && layer < layerEnd)
        keep(tensor, `blk.${layer - layerFirst}${afterLayer(tensor.name)}`)
    } else if (tensor.name === TOKEN_EMBEDDING || tensor.name === OUTPUT) {
      if (isFirst && (isLast || tensor.name === TOKEN_EMBEDDING)) keep(tensor)
      else if (isLast && tensor.name === headName) keep(tensor, TOKEN_EMBEDDING)
    } else keep(tensor)
  }
  if (!isFirst && !isLast) {
    const stub = new Uint8Array(4 * embedding)
    tensors.push({ name: TOKEN_EMBEDDING, dims: [embedding, 1], type: tensorTypeNamed('F32'), data: [stub] })
  }
  return {
    entries: stageEntries(file, architecture, layerCount, range, isFirst || isLast ? facts.vocabulary : 1),
    tensors,
  }
}

function stageEntries(
  file: GgufFile,
  architecture: string,
  layerCount: number,
  { layerFirst, layerEnd }: LayerRange,
  vocabulary: number,
): Uint8Array[] {
  const replaced = new Map([
    [
      `${architecture}.block_count`,
      encodeEntry(`${architecture}.block_count`, 'uint32', layerEnd - layerFirst),
    ],
    [`${architecture}.vocab_size`, encodeEntry(`${architecture}.vocab_size`, 'uint32', vocabulary)],
  ])
  const layerArrays = rulesOf(architecture).layerArrays.map((key) => `${architecture}.${key}`)
  const entries: Uint8Array[] = []
  for (const entry of file.metadata.values()) {
    if (entry.key.startsWith('tokenizer.') || entry.key.startsWith('split.')) continue
    const replacement = replaced.get(entry.key)
    replaced.delete(entry.key)
    if (replacement !== undefined) entries.push(replacement)
    else if (entry.array !== undefined && layerArrays.includes(entry.key)) {
      entries.push(sliceArray(file, entry, layerCount, layerFirst, layerEnd))
    } else entries.push(entry.bytes)
  }
  return [...entries, ...replaced.values(), encodeEntry('tokenizer.ggml.model', 'string', 'none')]
}

function sliceArray(
  file: GgufFile,
  entry: GgufEntry,
  layerCount: number,
  from: number,
  to: number,
): Uint8Array {
  const { type, length } = entry.array!
  if (length !== layerCount || type === 'string') {
    throw new SeamError(
      ErrorCode.FILE,
      `${file.path}: ${entry.key} holds ${length} elements of type ${type}, the model has ${layerCount} layers`,
    )
  }
  const itemBytes = fixedTypes[type].bytes
  const empty = encodeArray(entry.key, type, [])
  const head = Buffer.from(empty)
  head.writeBigUInt64LE(BigInt(to - from), head.byteLength - 8)
  const items = entry.bytes.subarray(entry.valueOffset + from * itemBytes, entry.valueOffset + to * itemBytes)
  return Buffer.concat([head, items])
}

/** Layer that a tensor belongs to, undefined for one outside the layers. */
export function layerOf(tensorName: string): number | undefined {
  const match = /^blk\.(\d{1,6})\./.exec(tensorName)
  return match === null ? undefined : Number(match[1])
}

function afterLayer(tensorName: string): string {
  return tensorName.slice(tensorName.indexOf('.', 'blk.'.length))
}

/** Bytes of each layer's tensors, and of what the first and the last stage hold besides layers. */
export function stageWeights(file: GgufFile, layerCount: number) {
  const layerBytes = new Array<number>(layerCount).fill(0)
  for (const { name, byteLength } of file.tensors.values()) {
    const layer = layerOf(name)
    if (layer !== undefined) layerBytes[layer]! += byteLength
  }
  const embedding = requiredTensor(file, TOKEN_EMBEDDING)
  const head = file.tensors.get(OUTPUT) ?? embedding
  return { layerBytes, firstBytes: embedding.byteLength, lastBytes: head.byteLength }
}

function rulesOf(architecture: string): ArchitectureRules {
  const rules = Object.hasOwn(architectures, architecture) ? architectures[architecture] : undefined
  if (rules === undefined) {
    throw new SeamError(
      ErrorCode.UNSUPPORTED,
      `architecture "${architecture}" cannot be split; supported: ${Object.keys(architectures).join(', ')}`,
    )
  }
  return rules
}

function requiredTensor(file: GgufFile, name: string): GgufTensor {
  const tensor = file.tensors.get(name)
  if (tensor === undefined) throw new SeamError(ErrorCode.FILE, `${file.path}: tensor ${name} is missing`)
  return tensor
}
