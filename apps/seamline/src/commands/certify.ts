import { SeamError } from '@seamline/core'
import { countValue, type LayerRange, openGguf } from '@seamline/gguf'
import { InvalidArgumentError } from 'commander'
import { type Context, command, integer } from '../command.ts'
import { type Comparison, comparePipelines } from '../compare.ts'
import { ExitCode } from '../exit-codes.ts'
import { warnOfHome } from '../model-dir.ts'
import { addPipelineOptions, type EngineOptions, engineSettings } from '../options.ts'
import { withLocalPipeline } from '../pipelines.ts'
import {
  checkSplitOf,
  type PreparedSplit,
  prepareSplit,
  rangeText,
  readSplit,
  splitFacts,
  splitStages,
} from '../prepare.ts'
import { randomTokens } from '../random-tokens.ts'
import type { SeamSettings } from '../settings.ts'
import { table, type Ui } from '../ui.ts'
import { layersOption, stagesOption } from './split.ts'

interface CertifyOptions extends EngineOptions, SeamSettings {
  readonly model: string
  readonly stages?: number
  readonly layers?: readonly LayerRange[]
  readonly manifest?: string
  readonly k: number
  readonly prompts?: readonly number[]
  readonly tokens: number
}

const DEFAULT_PROMPTS = [1, 7, 128, 300]
/** Fewer distinct tokens than this say little: a model that repeats itself hides differences. */
const WEAK_BELOW = 16

export function certifyCommand() {
  const made = command<CertifyOptions>(
    'certify',
    'prove that a split model computes what the whole one does',
    run,
  )
    .requiredOption('-m, --model <file>', 'GGUF file of the whole model')
    .addOption(stagesOption())
    .addOption(layersOption())
    .option('--manifest <file>', 'certify this split instead of a fresh one')
    .option('--k <n>', 'sequences in flight at once, each against a run of its own', integer(1, 64), 1)
    .option(
      '--prompts <lengths>',
      `prompt lengths in tokens (default: ${DEFAULT_PROMPTS}, within the context)`,
      lengths,
    )
    .option('--tokens <n>', 'tokens to generate after each prompt', integer(1), 64)
    .addHelpText(
      'after',
      `
Runs the whole model in one worker process and its stages in others, with the same settings, and compares the
logits of every step bit for bit, and the tokens. Prompts are random tokens, always the same ones.`,
    )
  return addPipelineOptions(made)
}

async function run(context: Context, options: CertifyOptions): Promise<ExitCode> {
  const { ui, signal } = context
  const { model, k, tokens } = options
  warnOfHome(ui, model)
  const split = await splitFor(context, options)
  const { manifest } = split
  const engine = engineSettings(options, manifest.contextLength, 1)
  const prompts = promptsFor(options, manifest.vocabulary, engine.ctx, model)
  const total = 2 * k * prompts.length * tokens
  let steps = 0
  const reference = { seam: options, engine, stages: [{ model }], names: ['unsplit'], expected: {} }
  const candidate = {
    ...{ seam: options, engine: { ...engine, sequences: k } },
    ...{ stages: splitStages(split), expected: splitFacts(split) },
  }
  const results = await withLocalPipeline(context, reference, (unsplit) =>
    withLocalPipeline(context, candidate, async (pipeline) => {
      const found: Comparison[][] = []
      for (const group of prompts) {
        const onStep = () => ui.progress(`comparing: step ${++steps} of ${total}`)
        found.push(
          await comparePipelines({
            reference: unsplit,
            candidate: pipeline,
            prompts: group,
            tokens,
            signal,
            onStep,
          }),
        )
      }
      return found.flat()
    }),
  )
  return report(ui, split, options, engine.chunk, results)
}

async function splitFor(
  context: Context,
  { model, manifest, layers, stages }: CertifyOptions,
): Promise<PreparedSplit> {
  if (manifest === undefined) return prepareSplit(context, model, layers ?? stages ?? 2)
  const split = await readSplit(manifest)
  await checkSplitOf(context, split, model)
  return split
}

/** For each length `k` different prompts, the first one beginning as the tokenizer begins a text. */
function promptsFor({ k, tokens, prompts }: CertifyOptions, vocabulary: number, ctx: number, model: string) {
  const room = ctx - tokens
  if (room < 1)
    throw new SeamError('USAGE', `--tokens ${tokens} leave no room for a prompt in ${ctx} positions`)
  const tooLong = prompts?.find((length) => length > room)
  if (tooLong !== undefined) {
    throw new SeamError(
      'USAGE',
      `a prompt of ${tooLong} and ${tokens} new tokens exceed the context of ${ctx} tokens`,
    )
  }
  const fitting = prompts ?? [...new Set(DEFAULT_PROMPTS.map((length) => Math.min(length, room)))]
  const file = openGguf(model)
  const begin = file.metadata.has(BEGIN_KEY) ? [countValue(file, BEGIN_KEY)] : []
  return fitting.map((length) =>
    Array.from({ length: k }, (_, i) =>
      [...(i === 0 ? begin : []), ...randomTokens(length, vocabulary, 1000 * length + i)].slice(0, length),
    ),
  )
}

const BEGIN_KEY = 'tokenizer.ggml.bos_token_id'

function report(
  ui: Ui,
  { manifest }: PreparedSplit,
  options: CertifyOptions,
  chunkTokens: number,
  results: readonly Comparison[],
): ExitCode {
  const certified = results.every(({ identical }) => identical)
  const weak = results.filter(({ distinctTokens }) => distinctTokens < WEAK_BELOW).length
  const rows = results.map((result) => [
    String(result.promptTokens),
    String(result.chunks),
    String(result.maxAbsDiff),
    `${result.equalTokens}/${options.tokens}`,
    `${result.distinctTokens}${result.distinctTokens < WEAK_BELOW ? ' (weak)' : ''}`,
    result.identical ? 'identical' : 'DIFFERENT',
  ])
  ui.print(`${options.model}: layers ${manifest.stages.map(rangeText).join(', ')}; ${options.k} in flight`)
  ui.print(table(['prompt', 'chunks', 'max |diff|', 'equal tokens', 'distinct', ''], rows, [0, 1, 2, 3]))
  if (weak > 0)
    ui.print(`weak: fewer than ${WEAK_BELOW} distinct tokens in ${weak} of ${results.length} runs`)
  ui.print(
    certified
      ? 'The split model computes what the whole one does.'
      : 'The split model does NOT compute the same.',
  )
  ui.result({
    certified,
    maxAbsDiff: results.reduce((max, { maxAbsDiff }) => Math.max(max, maxAbsDiff), 0),
    tokens: options.tokens,
    stages: manifest.stages.map(rangeText),
    sequences: options.k,
    chunkTokens,
    results: results.map((result) => ({ ...result, weak: result.distinctTokens < WEAK_BELOW })),
  })
  return certified ? ExitCode.OK : ExitCode.CHECK_FAILED
}

function lengths(text: string): number[] {
  const found = text.split(',').map(Number)
  if (found.every((length) => Number.isSafeInteger(length) && length >= 1)) return found
  throw new InvalidArgumentError('Whole numbers from 1 are needed, for example 1,7,128.')
}
