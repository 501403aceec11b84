import type { FixedTypeName } from './format.ts'

/** A size that follows from the shape of a model. */
export type Size =
  | 'width'
  /** All query heads. */
  | 'query'
  /** All key, or value, heads of the layer. */
  | 'keyValue'
  | 'queryKeyValue'
  | 'head'
  | 'heads'
  | 'feedForward'
  | 'twiceFeedForward'
  | 'experts'

/** A tensor of a layer, without `blk.<n>.`: of the model's type, or F32 for `router`, `norm` (around `gain`) and `bias` (around 0). */
export interface TensorRow {
  readonly name: string
  readonly kind: 'matrix' | 'router' | 'norm' | 'bias'
  /** Row length first. */
  readonly dims: readonly Size[]
  /** Times the deviation that keeps the length of a row; for a norm its mean. */
  readonly gain: number
}

/** How models of one architecture are made, as their loaders in llama.cpp v0.5.0 want them. */
export interface SynthModel {
  /** `general.architecture`, where it is not the name of the row. */
  readonly architecture?: string
  /** In `general.name`, where it is not the name of the row. */
  readonly label?: string
  readonly layer: readonly TensorRow[]
  /** Layers at the beginning that are made otherwise. */
  readonly lead?: { readonly layers: number; readonly layer: readonly TensorRow[] }
  /** `embedding`: never an output.weight; `own`: always one. Otherwise as the caller says. */
  readonly head?: 'embedding' | 'own'
  /** The graph multiplies token embeddings by the square root of their width, which are made as much smaller. */
  readonly scalesEmbedding?: true
  /** Every other layer has as many KV heads as heads. */
  readonly unevenKvHeads?: true
  /** Entries under the architecture. A text stands for that size. */
  readonly entries?: readonly (readonly [key: string, type: FixedTypeName, value: number | Size])[]
}

const row = (kind: TensorRow['kind'], name: string, dims: Size[], gain = 1): TensorRow => ({
  name,
  kind,
  dims,
  gain,
})
const matrix = (name: string, columns: Size, rows: Size, gain?: number) =>
  row('matrix', `${name}.weight`, [columns, rows], gain)
const norm = (name: string, size: Size = 'width', gain?: number) =>
  row('norm', `${name}.weight`, [size], gain)
const bias = (name: string, ...dims: Size[]) => row('bias', `${name}.bias`, dims)

// Sharp attention makes a layer depend on the whole context.
const SHARP = 2

const queryKeyValue = [
  matrix('attn_q', 'width', 'query', SHARP),
  matrix('attn_k', 'width', 'keyValue', SHARP),
  matrix('attn_v', 'width', 'keyValue'),
]
const queryKeyValueBias = [bias('attn_q', 'query'), bias('attn_k', 'keyValue'), bias('attn_v', 'keyValue')]
const headNorms = [norm('attn_q_norm', 'head', SHARP), norm('attn_k_norm', 'head', SHARP)]
const attention = [...queryKeyValue, matrix('attn_output', 'query', 'width')]
const feedForward = [
  matrix('ffn_gate', 'width', 'feedForward'),
  matrix('ffn_up', 'width', 'feedForward'),
  matrix('ffn_down', 'feedForward', 'width'),
]
const experts = [
  row('router', 'ffn_gate_inp.weight', ['width', 'experts']),
  row('matrix', 'ffn_gate_exps.weight', ['width', 'feedForward', 'experts']),
  row('matrix', 'ffn_up_exps.weight', ['width', 'feedForward', 'experts']),
  row('matrix', 'ffn_down_exps.weight', ['feedForward', 'width', 'experts']),
]
const sharedExpert = feedForward.map(({ name, ...rest }) => ({ ...rest, name: name.replace('.', '_shexp.') }))
const postNorms = [norm('post_attention_norm'), norm('post_ffw_norm')]
const llamaLayer = [norm('attn_norm'), ...attention, norm('ffn_norm'), ...feedForward]
const denseOrExperts = [norm('attn_norm'), ...attention, norm('ffn_norm'), ...experts]

const expertEntries = [
  ['expert_count', 'uint32', 'experts'],
  ['expert_used_count', 'uint32', 2],
] as const
const expertWidth = ['expert_feed_forward_length', 'uint32', 'feedForward'] as const
// Shorter than a test's prompt, so that a layer with a window differs from one without.
const window = ['attention.sliding_window', 'uint32', 16] as const

export const EXPERTS = 8

/** Every architecture that can be made. */
export const synthModels = {
  llama: { layer: llamaLayer },
  'llama-moe': { architecture: 'llama', layer: denseOrExperts, entries: expertEntries },
  qwen2: { layer: [...llamaLayer, ...queryKeyValueBias] },
  qwen3: { layer: [...llamaLayer, ...headNorms] },
  qwen3moe: { layer: [...denseOrExperts, ...headNorms], entries: [...expertEntries, expertWidth] },
  gemma: { layer: llamaLayer, head: 'embedding', scalesEmbedding: true },
  gemma2: {
    layer: [...llamaLayer, ...postNorms],
    head: 'embedding',
    scalesEmbedding: true,
    entries: [window],
  },
  gemma3: { layer: [...llamaLayer, ...headNorms, ...postNorms], scalesEmbedding: true, entries: [window] },
  granite: {
    layer: llamaLayer,
    entries: [
      ['embedding_scale', 'float32', 12],
      ['residual_scale', 'float32', 0.25],
      ['attention.scale', 'float32', 0.0625],
      ['logit_scale', 'float32', 8],
    ],
  },
  olmo2: {
    layer: [
      ...attention,
      norm('attn_q_norm', 'query', SHARP),
      norm('attn_k_norm', 'keyValue', SHARP),
      ...feedForward,
      ...postNorms,
    ],
    head: 'own',
    entries: [window],
  },
  cohere2: {
    layer: [norm('attn_norm'), ...attention, ...feedForward],
    head: 'embedding',
    entries: [window, ['logit_scale', 'float32', 0.25], ['attention.layer_norm_epsilon', 'float32', 1e-5]],
  },
  exaone4: { layer: [...attention, ...headNorms, ...feedForward, ...postNorms] },
  'gpt-oss': {
    layer: [
      norm('attn_norm'),
      ...attention,
      ...queryKeyValueBias,
      bias('attn_output', 'width'),
      row('bias', 'attn_sinks.weight', ['heads']),
      norm('post_attention_norm'),
      ...experts,
      bias('ffn_gate_inp', 'experts'),
      bias('ffn_gate_exps', 'feedForward', 'experts'),
      bias('ffn_up_exps', 'feedForward', 'experts'),
      bias('ffn_down_exps', 'width', 'experts'),
    ],
    head: 'own',
    entries: [...expertEntries, expertWidth, window],
  },
  deepseek: {
    lead: { layers: 1, layer: llamaLayer },
    layer: [...denseOrExperts, ...sharedExpert],
    entries: [
      ...expertEntries,
      expertWidth,
      ['expert_shared_count', 'uint32', 1],
      ['leading_dense_block_count', 'uint32', 1],
    ],
  },
  phi3: {
    // llama.cpp wants certain tokens of a model that has phi3 in its name.
    label: 'phi',
    layer: [
      norm('attn_norm'),
      matrix('attn_qkv', 'width', 'queryKeyValue', SHARP),
      matrix('attn_output', 'query', 'width'),
      norm('ffn_norm'),
      matrix('ffn_up', 'width', 'twiceFeedForward'),
      matrix('ffn_down', 'feedForward', 'width'),
    ],
  },
  smollm3: { layer: llamaLayer },
  deci: { layer: llamaLayer, unevenKvHeads: true },
} as const satisfies Record<string, SynthModel>

export type SynthArchitecture = keyof typeof synthModels
