import { shown } from './shown.ts'

/**
 * How the layers of an architecture are cut, as read in the model sources of llama.cpp v0.5.0. What no row says holds for all: layers
 * are renumbered from 0, arrays of one element a layer are cut with them, prediction layers after the trunk are left out.
 */
export interface ArchitectureRules {
  /** The loader wants `output.weight` in every file; otherwise `token_embd.weight` serves as head where there is none. */
  readonly ownHead?: true
  /** `false`: the final norm has no weights, and so no tensor. */
  readonly outputNorm?: false
  /** Layers that attend to a window: all but the last (`fullFirst`: but the first) of each `period`. Written out layer by layer. */
  readonly window?: { readonly period: number; readonly fullFirst?: true }
  /** The first `leading_dense_block_count` layers have no experts; each stage is told how many it has of them. */
  readonly leadingDense?: true
  /** `embedding_scale` is applied to whatever comes in; stages that take hidden rows are told 1. */
  readonly embeddingScale?: true
  /** The graph changes hidden rows on their way in: the engine overwrites this node with the rows instead. */
  readonly inject?: string
  /** The graph counts layers: stages begin at multiples of `layers`, and of the number under `key` where the file has it. */
  readonly align?: { readonly layers: number; readonly key?: string }
  /** The loader takes these numbers of layers for one certain model: neither a model nor a stage may have one. */
  readonly notLayers?: { readonly counts: readonly number[]; readonly because: string }
  /** A file in which `key` has this value, or is absent (`undefined`), is refused. */
  readonly notWhen?: { readonly key: string; readonly is: number | undefined; readonly because: string }
}

const alternate = { window: { period: 2 } } as const
const everyFourth = { window: { period: 4 } } as const
const denseLead = { leadingDense: true } as const
const ownHead = { ownHead: true } as const
const scaled = { embeddingScale: true } as const
const hybrid = {
  align: { layers: 4, key: 'full_attention_interval' },
  notLayers: { counts: [1, 2, 3], because: 'a stage must hold recurrent and attention layers' },
} as const

/** The architectures that run exactly when cut into stages, by their name in the file. */
export const architectures: Readonly<Record<string, ArchitectureRules>> = {
  llama: {},
  arcee: {},
  arctic: {},
  bitnet: {},
  chatglm: {},
  deci: {},
  exaone: {},
  falcon: {},
  grovemoe: {},
  'hunyuan-moe': {},
  jais2: {},
  maincoder: {},
  mistral3: {},
  olmo: { outputNorm: false },
  openelm: {},
  'pangu-embedded': {},
  phi3: {},
  plm: {},
  qwen2: {},
  qwen3: {},
  qwen3moe: {},
  refact: {},
  seed_oss: {},
  starcoder2: {},
  codeshell: ownHead,
  dbrx: ownHead,
  gptneox: ownHead,
  internlm2: ownHead,
  jais: ownHead,
  'minimax-m2': ownHead,
  nemotron: ownHead,
  olmoe: ownHead,
  orion: ownHead,
  phi2: ownHead,
  phimoe: ownHead,
  plamo: ownHead,
  qwen: ownHead,
  qwen2moe: ownHead,
  stablelm: ownHead,
  xverse: ownHead,

  // Four rope positions a token, which the engine sees; nothing in the file changes.
  ernie4_5: {},
  glm4: {},
  'hunyuan-dense': {},
  hunyuan_vl: {},
  paddleocr: {},
  qwen2vl: {},
  qwen3vl: {},
  qwen3vlmoe: {},

  cohere2: everyFourth,
  'exaone-moe': { ...everyFourth, ...ownHead, ...denseLead },
  gemma3: {
    window: { period: 6 },
    notLayers: { counts: [62], because: 'llama.cpp chooses the attention scale of the 27B by its 62 layers' },
  },
  'gpt-oss': { ...alternate, ...ownHead },
  mellum: { ...everyFourth, ...ownHead },
  olmo2: { ...everyFourth, ...ownHead },
  plamo3: { window: { period: 8 } },
  // Their files say which layers attend to a window.
  maple: ownHead,
  mimo2: ownHead,
  spark2_5: {},
  step35: {},

  bailingmoe: { ...denseLead, ...ownHead },
  bailingmoe2: { ...denseLead, ...ownHead },
  cohere2moe: { ...denseLead, window: { period: 4, fullFirst: true } },
  deepseek: denseLead,
  deepseek2: {
    ...denseLead,
    notLayers: { counts: [26, 27, 47, 48], because: 'llama.cpp takes it for a Lite model by its layers' },
    notWhen: {
      key: 'expert_gating_func',
      is: undefined,
      because: 'llama.cpp then chooses the gating by the number of layers',
    },
  },
  dots1: { ...denseLead, ...ownHead },
  glm4moe: denseLead,
  hy_v3: {},
  laguna: { ...denseLead, window: { period: 4, fullFirst: true } },

  granite: scaled,
  granitemoe: scaled,
  granite_swa: scaled,
  grok: scaled,
  minicpm: {
    ...scaled,
    notWhen: {
      key: 'residual_scale',
      is: undefined,
      because: 'llama.cpp then computes it from the number of layers',
    },
  },
  apertus: ownHead,
  exaone4: {
    notLayers: { counts: [64], because: 'llama.cpp turns on sliding windows for the 32B by its 64 layers' },
  },

  afmoe: { ...denseLead, align: { layers: 4 }, inject: 'inp_embd_scaled' },
  gemma: { inject: 'inp_scaled' },
  gemma2: {
    ...alternate,
    inject: 'inp_scaled',
    notLayers: { counts: [46], because: 'llama.cpp chooses the attention scale of the 27B by its 46 layers' },
  },

  'ernie4_5-moe': { ...denseLead, align: { layers: 1, key: 'interleave_moe_layer_step' } },
  llama4: {
    align: { layers: 4, key: 'interleave_moe_layer_step' },
    notWhen: { key: 'attention.sliding_window', is: 0, because: 'its last layer is one without rope' },
  },
  smallthinker: {
    align: { layers: 4 },
    notLayers: { counts: [4], because: 'llama.cpp then gives rope to every layer' },
  },
  smollm3: { align: { layers: 4 } },
  qwen35: hybrid,
  qwen35moe: hybrid,
  qwen3next: hybrid,
}

/** Why other architectures are refused, and what splitting them would need. */
const refusals: readonly { names: string; because: string; needs: string }[] = [
  {
    names: 'mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7',
    because: 'its state is recurrent, and some of it is made from the tokens themselves',
    needs: 'hand-over of recurrent state and rollback by replay',
  },
  {
    names:
      'jamba falcon-h1 granitehybrid lfm2 lfm2moe nemotron_h nemotron_h_moe plamo2 kimi-linear bailingmoe3 minimax-01',
    because: 'it mixes recurrent and attention layers, and stages of it were never compared with the whole',
    needs: 'stages that hold both kinds, and a comparison',
  },
  {
    names: 'deepseek4 hy_v4 qwen4exp kimi-k3',
    because: 'more than one stream of hidden rows passes from layer to layer',
    needs: 'a wire that carries several tensors a token',
  },
  {
    names: 'deepseek32 minimax-m3 glm-dsa dots3note',
    because: 'an index over past tokens is shared between layers',
    needs: 'its transport between stages',
  },
  {
    names: 'gemma3n gemma4',
    because: 'layers take per-layer embeddings of the tokens or share the KV cache of earlier layers',
    needs: 'token ids in every stage and cuts that respect the sharing',
  },
  {
    names: 'graniteswitch talkie muse-glimmer gpt2 gptj starcoder mpt bloom cogvlm chameleon',
    because: 'the tokens or positions go into the rows again on their way in, or into all layers',
    needs: 'a named node behind that step, for the engine to overwrite',
  },
  {
    names: 'nanbeige hrm_text',
    because: 'it runs the same layers more than once',
    needs: 'a pipeline with a loop',
  },
  {
    names: 'minicpm3 baichuan command-r mistral4',
    because: 'its graph or its loading depends on the number of layers',
    needs: 'a llama.cpp that reads this from the file',
  },
  {
    names:
      't5 t5encoder bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding llama-embed dream llada llada-moe rnd1',
    because: 'it does not write one token after another',
    needs: 'another kind of pipeline',
  },
  {
    names: 'clip dflash eagle3 gemma4-assistant qwen3tts pockettts wavtokenizer-dec deepseek2-ocr',
    because: 'it is not a language model of its own',
    needs: 'the model that it belongs to',
  },
]

/** Why an architecture without rules is refused: a sentence. */
export function refusalOf(architecture: string): string {
  const known = refusals.find(({ names }) => names.split(' ').includes(architecture))
  if (known === undefined) {
    return `architecture "${shown(architecture)}" cannot be split: nothing is known of it; needed: rules for its layers and a comparison with the whole; supported: ${Object.keys(architectures).join(', ')}`
  }
  return `architecture "${shown(architecture)}" cannot be split: ${known.because}; needed: ${known.needs}`
}

/** The rules of an architecture; undefined for one that is refused. */
export function rulesOf(architecture: string): ArchitectureRules | undefined {
  return Object.hasOwn(architectures, architecture) ? architectures[architecture] : undefined
}

/** Keys that hold one element a layer where they hold an array; those that begin with a dot stand under the architecture. */
export const layerArrays: readonly string[] = [
  '.attention.head_count',
  '.attention.head_count_kv',
  '.attention.recurrent_layers',
  '.attention.rope_pattern',
  '.attention.sliding_window_pattern',
  '.expert_feed_forward_length',
  '.expert_used_count',
  '.feed_forward_length',
  '.swiglu_clamp_exp',
  '.swiglu_clamp_shexp',
  'xielu.alpha_n',
  'xielu.alpha_p',
  'xielu.beta',
  'xielu.eps',
]
