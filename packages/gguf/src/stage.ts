import { ErrorCode, SeamError } from '@seamline/core'
import { type ArchitectureRules, layerArrays, refusalOf, rulesOf } from './architectures.ts'
import { zeros } from './files.ts'
import { type FixedTypeName, fixedTypes, type TensorType, tensorBytes, tensorTypeNamed } from './format.ts'
import type { LayerRange } from './layers.ts'
import {
  arrayValues,
  countValue,
  type GgufEntry,
  type GgufFile,
  type GgufTensor,
  optionalCount,
  stringValue,
} from './read.ts'
import { shown } from './shown.ts'
import { encodeArray, encodeEntry, type TensorSource } from './write.ts'

/** LLAMA_MAX_LAYERS of llama.cpp, which ends the process that loads a model with more. */
export const MAX_LAYERS = 512

/** Facts about a model that a manifest states. */
export interface ModelFacts {
  /** `general.name`, cut to 200 characters; empty when the file has none. */
  readonly modelName: string
  readonly architecture: string
  /** Layers that are run: without those that only predict further tokens. */
  readonly layerCount: number
  /** Values in one hidden row (n_embd). */
  readonly embedding: number
  /** Tokens in the vocabulary. */
  readonly vocabulary: number
  /** Positions the model was trained for. */
  readonly contextLength: number
}

const MAX_NAME_LENGTH = 200
const TOKEN_EMBEDDING = 'token_embd.weight'
const OUTPUT = 'output.weight'
const OUTPUT_BIAS = 'output.bias'
const OUTPUT_NORM = 'output_norm.weight'
/** Tensors outside the layers that every stage holds. */
const SHARED_TENSORS = [
  OUTPUT_NORM,
  'output_norm.bias',
  'rope_freqs.weight',
  'rope_factors_long.weight',
  'rope_factors_short.weight',
]
/** Keys about rows that images put into layers; text alone runs without. */
const IMAGE_KEYS = ['n_deepstack_layers', 'deepstack_mapping']

/**
 * Facts about a model that can be split. Throws UNSUPPORTED with the reason and what would be needed for an architecture that is not on the
 * list, a model that its conditions exclude, one shard of a model or a tensor whose place is not known, and FILE for a
 * missing or contradictory key or tensor.
 */
export function modelFacts(file: GgufFile): ModelFacts {
  const architecture = stringValue(file, 'general.architecture')
  const refuse = (code: ErrorCode, why: string) => new SeamError(code, `${file.path}: ${why}`)
  const rules = requiredRules(architecture)
  const shards = optionalCount(file, 'split.count', 1)
  if (shards !== 1) throw refuse(ErrorCode.UNSUPPORTED, `one of ${shards} shards, opened alone`)
  const blockCount = countValue(file, `${architecture}.block_count`)
  const layerCount = blockCount - optionalCount(file, `${architecture}.nextn_predict_layers`, 0)
  if (blockCount > MAX_LAYERS) {
    throw refuse(ErrorCode.UNSUPPORTED, `${blockCount} layers; llama.cpp takes at most ${MAX_LAYERS}`)
  }
  if (layerCount < 1) throw refuse(ErrorCode.FILE, `${layerCount} layers of ${blockCount} to run`)
  const embedding = countValue(file, `${architecture}.embedding_length`)
  const [rowLength, vocabulary] = requiredTensor(file, TOKEN_EMBEDDING).dims
  if (rowLength !== embedding || vocabulary === undefined) {
    throw refuse(
      ErrorCode.FILE,
      `${TOKEN_EMBEDDING} has rows of ${rowLength}, ${architecture}.embedding_length is ${embedding}`,
    )
  }
  if (rules.outputNorm !== false) requiredTensor(file, OUTPUT_NORM)
  if (rules.ownHead) requiredTensor(file, OUTPUT)
  const layersSeen = new Set<number>()
  for (const name of file.tensors.keys()) {
    const layer = layerOf(name)
    if (layer !== undefined && layer < blockCount) {
      if (layer < layerCount) layersSeen.add(layer)
    } else if (![TOKEN_EMBEDDING, OUTPUT, OUTPUT_BIAS, ...SHARED_TENSORS].includes(name)) {
      throw refuse(
        ErrorCode.UNSUPPORTED,
        `tensor ${shown(name)} has no known place in a ${architecture} model of ${blockCount} layers`,
      )
    }
  }
  if (layersSeen.size !== layerCount) {
    throw refuse(
      ErrorCode.FILE,
      `tensors of ${layersSeen.size} layers, ${architecture}.block_count is ${blockCount}`,
    )
  }
  const { notLayers, notWhen } = rules
  if (notLayers?.counts.includes(layerCount)) {
    throw refuse(
      ErrorCode.UNSUPPORTED,
      `a ${architecture} model of ${layerCount} layers cannot be split: ${notLayers.because}`,
    )
  }
  if (notWhen !== undefined) {
    const value = file.metadata.get(`${architecture}.${notWhen.key}`)?.value
    if (value === notWhen.is) {
      throw refuse(
        ErrorCode.UNSUPPORTED,
        `${architecture}.${notWhen.key} is ${value ?? 'missing'}: ${notWhen.because}; needed: a file that says otherwise`,
      )
    }
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

/** Where a model may be cut. */
export interface CutRules {
  readonly layerCount: number
  /** Stages begin at multiples of this. */
  readonly alignment: number
  /** Why a stage cannot hold these layers; undefined when it can. */
  readonly refusal: (range: LayerRange) => string | undefined
}

export function cutRules(file: GgufFile, { architecture, layerCount }: ModelFacts): CutRules {
  const rules = requiredRules(architecture)
  const { align, notLayers } = rules
  // Of files that say how wide the window is: llama.cpp ends the process where no layer of such a file has one.
  const isWindowed = optionalCount(file, `${architecture}.attention.sliding_window`, 0) > 0
  const windows = isWindowed ? windowPattern(file, architecture, rules, layerCount) : undefined
  const step =
    align?.key === undefined ? 1 : Math.max(1, optionalCount(file, `${architecture}.${align.key}`, 1))
  const alignment = leastCommonMultiple(align?.layers ?? 1, step)
  return {
    layerCount,
    alignment,
    refusal({ layerFirst, layerEnd }) {
      if (layerFirst % alignment !== 0) {
        const below = layerFirst - (layerFirst % alignment)
        const allowed = [below, below + alignment].filter((cut) => cut > 0 && cut < layerCount)
        const are = allowed.length === 1 ? 'is' : 'are'
        const nearest = allowed.length === 0 ? 'there is none' : `the nearest ${are} ${allowed.join(' and ')}`
        return `a ${architecture} model is cut at multiples of ${alignment} layers, not at ${layerFirst}; ${nearest}`
      }
      if (windows?.includes(true) && !windows.slice(layerFirst, layerEnd).includes(true)) {
        return `a stage of a ${architecture} model cannot hold layers ${layerFirst}-${layerEnd} alone: none of them attends to a window, and llama.cpp wants one that does`
      }
      const held = layerEnd - layerFirst
      if (held === layerCount || !notLayers?.counts.includes(held)) return undefined
      return `a stage of a ${architecture} model cannot hold ${held} layers (${layerFirst}-${layerEnd}): ${notLayers.because}`
    },
  }
}

function leastCommonMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b]
  while (rest > 0) [divisor, rest] = [rest, divisor % rest]
  return (a / divisor) * b
}

/** What goes into the file of one stage. */
export interface StagePlan {
  readonly entries: readonly Uint8Array[]
  readonly tensors: readonly TensorSource[]
  /** Node of the graph that hidden rows must be put into, where feeding them is not enough. */
  readonly inject: string | undefined
}

/**
 * Entries and tensors of the stage that holds `range`: a valid GGUF of its own for stock llama.cpp, layers renumbered from 0,
 * without a tokenizer. `read` gives a source tensor's bytes.
 *
 * The first stage keeps the token embedding, the last one the head. Where one tensor may serve as both, the head takes the
 * embedding's name in the last stage; where the loader wants two, the one that a stage has no use for is a stub. A stage
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
  const rules = requiredRules(architecture)
  const isFirst = layerFirst === 0
  const isLast = layerEnd === layerCount
  const vocabulary = isFirst || isLast ? facts.vocabulary : 1
  const twoTensors = rules.ownHead === true || (isFirst && isLast && file.tensors.has(OUTPUT))
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
      if (isFirst && tensor.name === TOKEN_EMBEDDING) keep(tensor)
      else if (isLast && tensor.name === headName) keep(tensor, twoTensors ? OUTPUT : TOKEN_EMBEDDING)
    } else if (tensor.name !== OUTPUT_BIAS || isLast) keep(tensor)
  }
  const wanted = twoTensors ? [TOKEN_EMBEDDING, OUTPUT] : [TOKEN_EMBEDDING]
  for (const name of wanted) {
    if (!tensors.some((tensor) => tensor.name === name)) tensors.push(stub(name, [embedding, vocabulary]))
  }
  if (rules.ownHead && !isLast && file.tensors.has(OUTPUT_BIAS)) tensors.push(stub(OUTPUT_BIAS, [vocabulary]))
  return {
    entries: stageEntries(file, facts, rules, range, vocabulary),
    tensors,
    inject: isFirst ? undefined : rules.inject,
  }
}

/** Zeros that are never computed with: of the smallest type that llama.cpp leaves in the file and does not rearrange. */
function stub(name: string, dims: readonly [number, ...number[]]): TensorSource {
  const isMatrix = dims.length > 1 && dims[1] !== 1
  const type = isMatrix
    ? stubTypes.find(({ blockElements }) => dims[0] % blockElements === 0)!
    : stubTypes.at(-1)!
  return { name, dims, type, data: zeros(tensorBytes(type, dims)) }
}

const stubTypes: readonly TensorType[] = ['Q2_0', 'Q4_0', 'F32'].map(tensorTypeNamed)

function stageEntries(
  file: GgufFile,
  { architecture, layerCount }: ModelFacts,
  rules: ArchitectureRules,
  { layerFirst, layerEnd }: LayerRange,
  vocabulary: number,
): Uint8Array[] {
  const layers = layerEnd - layerFirst
  const full = (key: string) => `${architecture}.${key}`
  const replaced = new Map<string, Uint8Array>()
  const count = (key: string, value: number) =>
    replaced.set(full(key), encodeEntry(full(key), 'uint32', value))
  count('block_count', layers)
  count('vocab_size', vocabulary)
  if (file.metadata.has(full('nextn_predict_layers'))) count('nextn_predict_layers', 0)
  if (rules.leadingDense && file.metadata.has(full('leading_dense_block_count'))) {
    const lead = countValue(file, full('leading_dense_block_count'))
    count('leading_dense_block_count', Math.min(Math.max(lead - layerFirst, 0), layers))
  }
  if (rules.embeddingScale && layerFirst > 0) {
    replaced.set(full('embedding_scale'), encodeEntry(full('embedding_scale'), 'float32', 1))
  }
  const pattern = windowPattern(file, architecture, rules, layerCount)
  if (pattern !== undefined) {
    const key = full('attention.sliding_window_pattern')
    replaced.set(key, encodeArray(key, 'bool', pattern.slice(layerFirst, layerEnd)))
  }

  const sliced = layerArrays.map((key) => (key.startsWith('.') ? architecture + key : key))
  const dropped = IMAGE_KEYS.map(full)
  const entries: Uint8Array[] = []
  for (const entry of file.metadata.values()) {
    if (/^(tokenizer|split)\./.test(entry.key) || dropped.includes(entry.key)) continue
    const replacement = replaced.get(entry.key)
    replaced.delete(entry.key)
    if (replacement !== undefined) entries.push(replacement)
    else if (entry.array !== undefined && sliced.includes(entry.key)) {
      const type = checkLength(file, entry, architecture, layerCount)
      entries.push(sliceArray(entry, type, layerFirst, layerEnd))
    } else entries.push(entry.bytes)
  }
  return [...entries, ...replaced.values(), encodeEntry('tokenizer.ggml.model', 'string', 'none')]
}

/** Which layers of the whole model attend to a window, where the architecture derives that from a period. */
function windowPattern(
  file: GgufFile,
  architecture: string,
  { window }: ArchitectureRules,
  layerCount: number,
): boolean[] | undefined {
  if (window === undefined) return undefined
  const entry = file.metadata.get(`${architecture}.attention.sliding_window_pattern`)
  if (entry?.array !== undefined) {
    checkLength(file, entry, architecture, layerCount)
    return arrayValues(entry).map(Boolean)
  }
  const period = entry === undefined ? window.period : countValue(file, entry.key)
  const full = window.fullFirst ? 0 : period - 1
  return Array.from({ length: layerCount }, (_, layer) => period === 0 || layer % period !== full)
}

function sliceArray(entry: GgufEntry, type: FixedTypeName, from: number, to: number): Uint8Array {
  const itemBytes = fixedTypes[type].bytes
  const head = Buffer.from(encodeArray(entry.key, type, []))
  head.writeBigUInt64LE(BigInt(to - from), head.byteLength - 8)
  const items = entry.bytes.subarray(entry.valueOffset + from * itemBytes, entry.valueOffset + to * itemBytes)
  return Buffer.concat([head, items])
}

/** Element type of an array of one element a layer, which may go on over the layers that are left out. */
function checkLength(
  file: GgufFile,
  entry: GgufEntry,
  architecture: string,
  layerCount: number,
): FixedTypeName {
  const { type, length } = entry.array!
  const lengths = [layerCount, countValue(file, `${architecture}.block_count`)]
  if (!lengths.includes(length) || type === 'string') {
    throw new SeamError(
      ErrorCode.FILE,
      `${file.path}: ${entry.key} holds ${length} elements of type ${type}, the model has ${layerCount} layers`,
    )
  }
  return type
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
    if (layer !== undefined && layer < layerCount) layerBytes[layer]! += byteLength
  }
  const embedding = requiredTensor(file, TOKEN_EMBEDDING)
  const head = file.tensors.get(OUTPUT) ?? embedding
  return { layerBytes, firstBytes: embedding.byteLength, lastBytes: head.byteLength }
}

function requiredRules(architecture: string): ArchitectureRules {
  const rules = rulesOf(architecture)
  if (rules === undefined) throw new SeamError(ErrorCode.UNSUPPORTED, refusalOf(architecture))
  return rules
}

function requiredTensor(file: GgufFile, name: string): GgufTensor {
  const tensor = file.tensors.get(name)
  if (tensor === undefined) throw new SeamError(ErrorCode.FILE, `${file.path}: tensor ${name} is missing`)
  return tensor
}
