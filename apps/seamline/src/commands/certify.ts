import { SeamError } from '@seamline/core'
import { countValue, type LayerRange, openModel } from '@seamline/gguf'
import type { Pipeline } from '@seamline/runtime'
import { InvalidArgumentError, Option } from 'commander'
import { codecs, named } from '../cluster.ts'
import { type Context, command, integer, number } from '../command.ts'
import {
  type Batched,
  type Comparison,
  compareComposition,
  compareGroupings,
  comparePipelines,
} from '../compare.ts'
import { type Exactness, exactnessOf } from '../exactness.ts'
import { ExitCode } from '../exit-codes.ts'
import { type CodecComparison, compareCodec } from '../lossy.ts'
import { warnOfHome } from '../model-dir.ts'
import { addChainOptions, type EngineOptions, engineSettings, rowsOption } from '../options.ts'
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
import { comparePace, type Pace } from '../price.ts'
import { randomTokens } from '../random-tokens.ts'
import type { SeamSettings } from '../settings.ts'
import { milliseconds, percent, table, type Ui } from '../ui.ts'
import { layersOption, stagesOption } from './split.ts'

interface CertifyOptions extends EngineOptions, Omit<SeamSettings, 'codec'> {
  readonly codec?: readonly string[]
  readonly minTop1: number
  readonly maxKl: number
  readonly model: string
  readonly stages?: number
  readonly layers?: readonly LayerRange[]
  readonly manifest?: string
  readonly k?: number
  readonly rows?: number
  readonly prompts?: readonly number[]
  readonly tokens?: number
}

/** Tokens of a known sequence that are fed at once to show that the `uniform` regime does not mind. */
const WINDOWS = [2, 4, 8]
const PACE = { promptTokens: 128, tokens: 32, rounds: 5 }
const DEFAULT_TOKENS = 64
const DEFAULT_PROMPTS = [1, 7, 128, 300]
/** Fewer distinct tokens than this say little: a model that repeats itself hides differences. */
export const WEAK_BELOW = 16

export function certifyCommand() {
  const made = command<CertifyOptions>(
    'certify',
    'prove that a split model computes what the whole one does',
    run,
  )
    .requiredOption('-m, --model <file>', 'GGUF file of the whole model')
    .addOption(stagesOption())
    .addOption(layersOption())
    .addOption(
      new Option('--manifest <file>', 'certify this split instead of a fresh one').conflicts([
        'stages',
        'layers',
      ]),
    )
    .option('--k <n>', 'sequences in flight at once (default: 1; with --regime uniform: 4)', integer(1, 64))
    .addOption(rowsOption())
    .option(
      '--prompts <lengths>',
      `prompt lengths in tokens (default: ${DEFAULT_PROMPTS}, within the context)`,
      lengths,
    )
    .option(
      '--tokens <n>',
      `tokens to generate after each prompt (default: ${DEFAULT_TOKENS}, within the context)`,
      integer(1),
    )
    .option(
      '--codec <names>',
      `how hidden rows are encoded, one codec or several (default: lossless); one of ${[...codecs.keys()].join(', ')}`,
      codecNames,
    )
    .option('--min-top1 <share>', 'least agreement that a lossy codec must reach', number(0, 1), 0.95)
    .option('--max-kl <nats>', 'most mean divergence that a lossy codec may have', number(0, 100), 0.01)
    .addHelpText(
      'after',
      `
Runs the whole model in one worker process and its stages in others, with the same settings, and compares the
logits of every step bit for bit, and the tokens. Prompts are random tokens, always the same ones.

With --rows above 1 the whole model computes the sequences again in the very steps that they shared. With --regime
uniform it runs each alone, one token at a time, and the split model runs them batched, in windows of ${WINDOWS.join(', ')} known
tokens where they fit into a chunk, and with known tokens as part of the prompt. What uniform costs beside per-row is printed too.

With a lossy --codec the split model runs over lossless links and over that codec: equal tokens of free runs, the same choice
after the same tokens (top-1), the divergence of the distributions in nats, and bytes per token. Worse than --min-top1 or
--max-kl is a failed check.`,
    )
  return addChainOptions(made)
}

async function run(context: Context, options: CertifyOptions): Promise<ExitCode> {
  const { ui, signal } = context
  const { model, codec: names = [] } = options
  warnOfHome(ui, model)
  const split = await splitFor(context, options)
  if (names.some((name) => named('codec', codecs, name)().lossy)) return certifyLossy(context, options, split)
  const { codec: _, ...rest } = options
  const seam = names[0] === undefined ? rest : { ...rest, codec: names[0] }
  const { manifest } = split
  const isUniform = options.regime === 'uniform'
  const k = options.k ?? (isUniform ? 4 : 1)
  const rows = options.rows ?? (isUniform ? k : 1)
  const engine = engineSettings(options, manifest.contextLength, k)
  const tokens = options.tokens ?? tokensWithin(engine.ctx, options.prompts)
  if (tokens < (options.tokens ?? DEFAULT_TOKENS)) {
    ui.note(`${tokens} new tokens after each prompt, which the context of ${engine.ctx} tokens allows`)
  }
  const prompts = promptsFor({ ...options, k, tokens }, manifest.vocabulary, engine.ctx, model)
  const reference = { seam, engine, stages: [{ model }], names: ['unsplit'], expected: {} }
  const candidate = {
    ...{ seam, engine, rowsPerStep: rows },
    ...{ stages: splitStages(split), expected: splitFacts(split) },
  }
  const results: Comparison[] = []
  let largestStep = 1
  // The same for every prompt: chunk and tokens decide.
  let skippedWindows: readonly number[] = []
  let price: Price | undefined
  await withLocalPipeline(context, reference, (unsplit) =>
    withLocalPipeline(context, candidate, async (pipeline) => {
      let steps = 0
      for (const [i, group] of prompts.entries()) {
        const onStep = () =>
          ui.progress(`comparing: prompt ${i + 1} of ${prompts.length}, step ${++steps} in all`)
        const compared = { reference: unsplit, candidate: pipeline, prompts: group, tokens, signal, onStep }
        if (rows === 1 && !isUniform) {
          results.push(...(await comparePipelines(compared)))
          continue
        }
        let batched: Batched
        if (isUniform) {
          const grouped = await compareGroupings({ ...compared, windows: WINDOWS })
          skippedWindows = grouped.skippedWindows
          batched = grouped
        } else {
          batched = await compareComposition(compared)
        }
        results.push(...batched.comparisons)
        largestStep = Math.max(largestStep, batched.largestStep)
      }
      if (!isUniform) return
      const perRow = { ...candidate, engine: { ...engine, regime: 'per-row' as const } }
      price = await withLocalPipeline(context, perRow, (other) =>
        priceOf(context, other, pipeline, manifest.vocabulary),
      )
    }),
  )
  const exactness = exactnessOf({ regime: engine.regime, rows, codec: names[0] })
  return report(ui, split, model, {
    k,
    tokens,
    rows,
    chunkTokens: engine.chunk,
    largestStep,
    skippedWindows,
    exactness,
    price,
    results,
  })
}

/** Compares each lossy codec with lossless links, one sequence at a time. */
async function certifyLossy(
  context: Context,
  options: CertifyOptions,
  split: PreparedSplit,
): Promise<ExitCode> {
  const { ui, signal } = context
  const { model, codec: names = [], minTop1, maxKl, ...seam } = options
  if (options.regime === 'uniform' || (options.rows ?? 1) > 1 || (options.k ?? 1) > 1)
    throw new SeamError(
      'USAGE',
      'a lossy codec is certified one sequence at a time: leave --k, --rows and --regime',
    )
  const { manifest } = split
  const engine = engineSettings(options, manifest.contextLength, 1)
  const tokens = options.tokens ?? tokensWithin(engine.ctx, options.prompts)
  const prompts = promptsFor({ ...options, k: 1, tokens }, manifest.vocabulary, engine.ctx, model).flat()
  const stages = { engine, stages: splitStages(split), expected: splitFacts(split) }
  const results: (CodecComparison & { readonly within: boolean })[] = []
  await withLocalPipeline(context, { ...stages, seam }, async (lossless) => {
    for (const codec of names) {
      const over = { ...stages, seam: { ...seam, codec } }
      let steps = 0
      const onStep = () => ui.progress(`comparing ${codec} with lossless links: step ${++steps}`)
      const compared = await withLocalPipeline(context, over, (lossy) =>
        compareCodec({ lossless, lossy, codec, prompts, tokens, signal, onStep }),
      )
      results.push({ ...compared, within: compared.top1Agreement >= minTop1 && compared.meanKl <= maxKl })
    }
  })
  const certified = results.every(({ within }) => within)
  const ranges = manifest.stages.map(rangeText)
  ui.print(`${model}: layers ${ranges.join(', ')}; ${prompts.length} prompts, ${tokens} tokens each`)
  ui.print(
    table(
      ['codec', 'equal tokens', 'top-1', 'mean KL', 'largest KL', 'B/token', 'of lossless', ''],
      results.map((result) => [
        ...[result.codec, percent(result.tokenAgreement), percent(result.top1Agreement)],
        ...[result.meanKl.toExponential(2), result.maxKl.toExponential(2), result.bytesPerToken.toFixed(0)],
        ...[percent(result.bytesPerToken / result.losslessBytesPerToken), result.within ? 'within' : 'WORSE'],
      ]),
      [1, 2, 3, 4, 5, 6],
    ),
  )
  const limits = `top-1 at least ${percent(minTop1)}, mean KL at most ${maxKl} nats`
  ui.print(certified ? `Within the limits: ${limits}.` : `NOT within the limits: ${limits}.`)
  ui.result({ certified, limits: { minTop1, maxKl }, tokens, stages: ranges, codecs: results })
  return certified ? ExitCode.OK : ExitCode.CHECK_FAILED
}

interface Price {
  readonly promptTokens: number
  readonly perRow: Pace
  readonly uniform: Pace
}

async function priceOf(
  { ui, signal }: Context,
  perRow: Pipeline,
  uniform: Pipeline,
  vocabulary: number,
): Promise<Price> {
  ui.progress('measuring what uniform costs')
  const { contextLength } = uniform.facts
  const tokens = Math.max(1, Math.min(PACE.tokens, contextLength >> 1))
  const promptTokens = Math.min(PACE.promptTokens, contextLength - tokens)
  const prompt = randomTokens(promptTokens, vocabulary, 1)
  const paces = await comparePace([perRow, uniform], { prompt, tokens, rounds: PACE.rounds, signal })
  return { promptTokens, perRow: paces[0]!, uniform: paces[1]! }
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

/** The default, or less where the longest prompt, of half the context unless it was asked for, leaves less. */
function tokensWithin(ctx: number, prompts: readonly number[] | undefined): number {
  const room = ctx - (prompts === undefined ? ctx >> 1 : Math.max(...prompts))
  return Math.max(1, Math.min(DEFAULT_TOKENS, room))
}

/** For each length `k` different prompts, the first one beginning as the tokenizer begins a text. */
export function promptsFor(
  { k, tokens, prompts }: { k: number; tokens: number; prompts?: readonly number[] },
  vocabulary: number,
  ctx: number,
  model: string,
): number[][][] {
  const room = ctx - tokens
  if (room < 1)
    throw new SeamError(
      'USAGE',
      `--tokens ${tokens} leave no room for a prompt in ${ctx} positions: lower --tokens or raise --ctx`,
    )
  const tooLong = prompts?.find((length) => length > room)
  if (tooLong !== undefined) {
    throw new SeamError(
      'USAGE',
      `a prompt of ${tooLong} and ${tokens} new tokens exceed the context of ${ctx} tokens: shorten the prompt, lower --tokens or raise --ctx`,
    )
  }
  const fitting = prompts ?? [...new Set(DEFAULT_PROMPTS.map((length) => Math.min(length, room)))]
  const file = openModel(model)
  const begin = file.metadata.has(BEGIN_KEY) ? [countValue(file, BEGIN_KEY)] : []
  return fitting.map((length) =>
    Array.from({ length: k }, (_, i) =>
      [...(i === 0 ? begin : []), ...randomTokens(length, vocabulary, 1000 * length + i)].slice(0, length),
    ),
  )
}

const BEGIN_KEY = 'tokenizer.ggml.bos_token_id'

interface Certification {
  readonly k: number
  readonly tokens: number
  readonly rows: number
  readonly chunkTokens: number
  /** Rows of the largest decode step. */
  readonly largestStep: number
  readonly skippedWindows: readonly number[]
  readonly exactness: Exactness
  readonly price: Price | undefined
  readonly results: readonly Comparison[]
}

function report(
  ui: Ui,
  { manifest }: PreparedSplit,
  model: string,
  { k, tokens, rows, chunkTokens, largestStep, skippedWindows, exactness, price, results }: Certification,
): ExitCode {
  const certified = results.every(({ identical }) => identical)
  const judged = results.map((result) => ({ ...result, weak: isWeak(result, tokens) }))
  const weak = judged.filter((result) => result.weak).length
  const alike = new Map<string, typeof judged>()
  for (const result of judged) {
    const key = `${result.how} ${result.promptTokens}`
    alike.set(key, [...(alike.get(key) ?? []), result])
  }
  const lines = [...alike.values()].map((group) => {
    const { how, promptTokens, chunks } = group[0]!
    const sum = (of: (result: Comparison) => number) => group.reduce((total, result) => total + of(result), 0)
    const distinct = Math.min(...group.map(({ distinctTokens }) => distinctTokens))
    return [
      ...[how, String(group.length), String(promptTokens), String(chunks)],
      String(Math.max(...group.map(({ maxAbsDiff }) => maxAbsDiff))),
      `${sum(({ equalTokens }) => equalTokens)}/${sum(({ steps }) => steps)}`,
      `${distinct}${group.some(({ weak }) => weak) ? ' (weak)' : ''}`,
      group.every(({ identical }) => identical) ? 'identical' : 'DIFFERENT',
    ]
  })
  const stages = manifest.stages.map(rangeText)
  ui.print(`${model}: layers ${stages.join(', ')}; regime ${exactness.regime}; ${k} in flight`)
  const head = ['computed', 'runs', 'prompt', 'chunks', 'max |diff|', 'equal tokens', 'least distinct', '']
  ui.print(table(head, lines, [1, 2, 3, 4, 5]))
  if (weak > 0)
    ui.print(`weak: fewer than ${WEAK_BELOW} distinct tokens in ${weak} of ${results.length} runs`)
  if (rows > 1) ui.print(`Up to ${rows} rows may share a step; the largest had ${largestStep}.`)
  if (skippedWindows.length > 0) {
    ui.print(
      `left out: windows of ${skippedWindows.join(', ')}; --chunk ${chunkTokens} and --tokens ${tokens} allow at most ${Math.min(chunkTokens, tokens - 1)} known tokens in a step`,
    )
  }
  if (price !== undefined) {
    ui.print()
    ui.print(priceTable(price))
    ui.print('Medians of interleaved runs on the split model; what else runs on the machine is in them.')
  }
  if (!exactness.bitExact) ui.print(`not bit-exact: ${exactness.because}`)
  const same = exactness.regime !== 'uniform' && rows > 1 ? ' in the same steps' : ''
  ui.print(
    certified
      ? `The split model computes what the whole one does${same}.`
      : `The split model does NOT compute the same${same}.`,
  )
  ui.result({
    certified,
    ...exactness,
    maxAbsDiff: results.reduce((max, { maxAbsDiff }) => Math.max(max, maxAbsDiff), 0),
    ...{ tokens, stages, sequences: k, rows, largestStep, chunkTokens, skippedWindows },
    ...(price === undefined ? {} : { price }),
    results: judged,
  })
  return certified ? ExitCode.OK : ExitCode.CHECK_FAILED
}

/** Of a sequence that was generated from its first token to its last. */
export function isWeak({ steps, distinctTokens }: Comparison, tokens: number): boolean {
  return steps === tokens && distinctTokens < WEAK_BELOW
}

function priceTable({ promptTokens, perRow, uniform }: Price): string {
  const row = (name: string, of: (pace: Pace) => number) => [
    ...[name, milliseconds(of(perRow)), milliseconds(of(uniform))],
    (of(uniform) / of(perRow)).toFixed(2),
  ]
  const rows = [
    row('a lone token', ({ tokenNs }) => tokenNs),
    row(`prefill of ${promptTokens}`, ({ prefillNs }) => prefillNs),
  ]
  return table(['', 'per-row', 'uniform', 'uniform / per-row'], rows, [1, 2, 3])
}

function lengths(text: string): number[] {
  const found = text.split(',').map(Number)
  if (found.every((length) => Number.isSafeInteger(length) && length >= 1)) return found
  throw new InvalidArgumentError('Whole numbers from 1 are needed, for example 1,7,128.')
}

function codecNames(text: string): string[] {
  const found = text.split(',').map((name) => name.trim())
  const unknown = found.find((name) => !codecs.has(name))
  if (unknown === undefined) return found
  throw new InvalidArgumentError(`Allowed choices are ${[...codecs.keys()].join(', ')}.`)
}
