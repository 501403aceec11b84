import {
  type ArchitectureRules,
  architectures,
  type LayerRange,
  type SynthArchitecture,
  synthArchitectures,
} from '@seamline/gguf'
import type { SynthesiseOptions } from './synthesise.ts'

/** One model to certify. */
export interface MatrixModel {
  /** Its architecture, or what else is special about it. */
  readonly name: string
  /** How its layers are cut, in words. */
  readonly splitting: string
  readonly make: Omit<SynthesiseOptions, 'path'>
  /** Two different ones. */
  readonly cuts: readonly (readonly LayerRange[])[]
}

type Shape = Omit<SynthesiseOptions, 'path' | 'seed'>

const SMALL: Shape = {
  ...{ width: 64, layers: 6, feedForward: 128, heads: 4, kvHeads: 2, vocabulary: 512, context: 256 },
  type: 'F16',
}
const SEED = 1
/** A block of a K-quant has 256 values. */
const FOR_K_QUANTS: Shape = { ...SMALL, width: 256, feedForward: 512 }

/** A small model of every architecture that can be synthesised, one of each K-quant, one in shards. */
export function matrixModels(): MatrixModel[] {
  return [
    ...synthArchitectures.map((architecture) =>
      matrixModel(architecture, { ...SMALL, architecture, layers: layersOf(architecture) }),
    ),
    ...(['Q4_K_M', 'Q6_K'] as const).map((quantize) =>
      matrixModel(`llama, ${quantize}`, { ...FOR_K_QUANTS, quantize }),
    ),
    matrixModel('llama, 3 shards', { ...SMALL, shards: 3 }),
  ]
}

function matrixModel(name: string, shape: Shape): MatrixModel {
  const rules = rulesOf(shape.architecture ?? 'llama')
  return {
    ...{ name, splitting: splittingOf(rules), make: { ...shape, seed: SEED } },
    cuts: cutsOf(shape.layers, rules.align?.layers ?? 1),
  }
}

/** Three times the alignment, so that there are two cuts. */
function layersOf(architecture: SynthArchitecture): number {
  return Math.max(SMALL.layers, 3 * (rulesOf(architecture).align?.layers ?? 1))
}

/** In two parts after the first possible layer, and in three of different sizes. */
export function cutsOf(layers: number, alignment: number): LayerRange[][] {
  const units = layers / alignment
  return [[1], [Math.ceil(units / 3), Math.ceil(units / 2)]].map((between) => {
    const edges = [0, ...between, units].map((unit) => unit * alignment)
    return edges.slice(1).map((layerEnd, i) => ({ layerFirst: edges[i]!, layerEnd }))
  })
}

/** The name in a file is that of the architecture without what makes the synthetic one special. */
function rulesOf(architecture: SynthArchitecture): ArchitectureRules {
  return architectures[architecture] ?? architectures[architecture.split('-')[0]!] ?? {}
}

function splittingOf({
  window,
  ownHead,
  leadingDense,
  embeddingScale,
  inject,
  align,
}: ArchitectureRules): string {
  const parts = [
    window === undefined ? '' : 'windows layer by layer',
    leadingDense === undefined ? '' : 'dense layers counted',
    embeddingScale === undefined ? '' : 'embedding_scale 1 behind stage 0',
    inject === undefined ? '' : `rows put in at ${inject}`,
    align === undefined ? '' : `cuts at multiples of ${align.layers}`,
    ownHead === undefined ? '' : 'a head in every stage',
  ].filter((part) => part !== '')
  return parts.length === 0 ? 'renumbered' : parts.join(', ')
}
