import { SeamError } from '@seamline/core'
import type { LayerRange } from '@seamline/gguf'
import type { Context } from './command.ts'
import { warnOfHome } from './model-dir.ts'
import { type EngineOptions, engineSettings } from './options.ts'
import type { LocalOptions } from './pipelines.ts'
import { type PreparedSplit, prepareSplit, splitFacts, splitStages } from './prepare.ts'
import { randomTokens } from './random-tokens.ts'
import type { RecordOptions } from './record-run.ts'
import type { SeamSettings } from './settings.ts'

/** Stages on this machine that can be recorded: of a model, or paced. */
export interface ChainOptions extends EngineOptions, SeamSettings {
  readonly local?: number
  readonly layers?: readonly LayerRange[]
  readonly model?: string
  /** Instead of a model: stages that wait so many milliseconds for each step. */
  readonly paced?: readonly number[]
  /** Hidden size of paced stages. */
  readonly embedding: number
  /** Sequences in flight. */
  readonly k: number
}

export interface Chain {
  /** Of a model: the tokenizer lies beside it. */
  readonly split?: PreparedSplit
  readonly local: LocalOptions
  readonly vocabulary: number
  readonly settings: Pick<
    RecordOptions['settings'],
    'modelSha256' | 'manifestSha256' | 'paced' | 'severalHosts'
  >
}

/** Splits the model where that is needed. Throws `USAGE` when neither a model with a cut nor paced stages are given. */
export function chainOf(context: Context, options: ChainOptions): Promise<Chain> {
  return options.paced === undefined
    ? modelChain(context, options)
    : Promise.resolve(pacedChain(options.paced, options))
}

async function modelChain(context: Context, options: ChainOptions): Promise<Chain> {
  const { model, local, layers, k } = options
  const cut = layers ?? local
  if (model === undefined || cut === undefined)
    throw new SeamError('USAGE', 'give --model FILE and --local N (or --layers RANGES), or --paced MS,MS,…')
  warnOfHome(context.ui, model)
  const split = await prepareSplit(context, model, cut)
  const { vocabulary, contextLength, source, manifestSha256 } = split.manifest
  const engine = engineSettings(options, contextLength, k)
  return {
    local: { seam: options, engine, stages: splitStages(split), expected: splitFacts(split) },
    split,
    ...{ vocabulary, settings: { modelSha256: source.sha256, manifestSha256, paced: false } },
  }
}

function pacedChain(paced: readonly number[], options: ChainOptions): Chain {
  const { embedding, k } = options
  const engine = engineSettings(options, PACED_CONTEXT, k)
  const layerCount = paced.length
  const stages = paced.map((computeMs, stage) => ({
    paced: { computeMs, layerFirst: stage, layerEnd: stage + 1, layerCount, embedding },
  }))
  return {
    local: { seam: options, engine, stages, expected: {} },
    ...{ vocabulary: PACED_VOCABULARY, settings: { modelSha256: '', manifestSha256: '', paced: true } },
  }
}

const PACED_CONTEXT = 4096
const PACED_VOCABULARY = 256

/** Random tokens, the same ones for the same numbers. */
export function promptsOf(k: number, promptTokens: number, vocabulary: number): number[][] {
  return Array.from({ length: k }, (_, i) => randomTokens(promptTokens, vocabulary, 1000 * promptTokens + i))
}
