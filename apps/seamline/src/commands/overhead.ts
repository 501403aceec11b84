import { SeamError } from '@seamline/core'
import type { LayerRange } from '@seamline/gguf'
import type { Pipeline } from '@seamline/runtime'
import { type Context, command, integer } from '../command.ts'
import { exactnessOf, noteExactness } from '../exactness.ts'
import { memoryTable, STATED_CONTEXT, type StageMemory, stageMemory } from '../memory.ts'
import { warnOfHome } from '../model-dir.ts'
import { addPipelineOptions, type EngineOptions, engineSettings, GREEDY } from '../options.ts'
import {
  type DecodeOverhead,
  decodeOverhead,
  type PrefillOverhead,
  prefillOverhead,
  type TracedRun,
} from '../overhead.ts'
import { warnOfThreads, withLocalPipeline } from '../pipelines.ts'
import { prepareSplit, rangeText, splitFacts, splitStages } from '../prepare.ts'
import { randomTokens } from '../random-tokens.ts'
import type { SeamSettings } from '../settings.ts'
import { median, milliseconds, table, type Ui } from '../ui.ts'
import { layersOption, stagesOption } from './split.ts'

interface OverheadOptions extends EngineOptions, SeamSettings {
  readonly model: string
  readonly stages?: number
  readonly layers?: readonly LayerRange[]
  readonly promptTokens?: number
  readonly tokens?: number
  readonly repeats: number
}

interface Round {
  readonly decode: DecodeOverhead
  readonly prefill: PrefillOverhead
  readonly unsplitPrefillNs: number
  readonly unsplitDecodeNs: number
}

const DEFAULTS = { promptTokens: 512, tokens: 64 }
/** Between two tokens lies the first decode step. */
const MINIMUM_TOKENS = 2

export function overheadCommand() {
  const made = command<OverheadOptions>(
    'overhead',
    "measure the wall time beyond the stages' own compute",
    run,
  )
    .requiredOption('-m, --model <file>', 'GGUF file of the whole model')
    .addOption(stagesOption())
    .addOption(layersOption())
    .option(
      '--prompt-tokens <n>',
      `tokens to prefill (default: ${DEFAULTS.promptTokens}, within the context)`,
      integer(1),
    )
    .option(
      '--tokens <n>',
      `tokens to generate after that (default: ${DEFAULTS.tokens}, within the context)`,
      integer(MINIMUM_TOKENS),
    )
    .option('--repeats <n>', 'rounds; each runs the whole model and then the split one', integer(1), 1)
    .addHelpText(
      'after',
      `
decode   median time between two tokens / median compute of all stages for a token
prefill  time to the first token / (compute of the slowest stage + the other stages' first chunk)
speed-up prefill of the whole model / prefill of the split one
Compute is stamped in the engine around decode and synchronise; sampling counts as wall. Nothing judges the
numbers: what else runs on the machine is in them.
Resident memory of each stage is printed beside its share of the model.`,
    )
  return addPipelineOptions(made)
}

async function run(context: Context, options: OverheadOptions): Promise<undefined> {
  const { ui } = context
  const { model, repeats } = options
  warnOfHome(ui, model)
  const split = await prepareSplit(context, model, options.layers ?? options.stages ?? 2)
  const { manifest } = split
  const engine = engineSettings(options, manifest.contextLength, 1)
  const { promptTokens, tokens } = lengthsFor(ui, options, engine.ctx)
  warnOfThreads(ui, manifest.stages.length, engine.threads)
  const prompt = randomTokens(promptTokens, manifest.vocabulary, 1)
  const whole = { seam: options, engine, stages: [{ model }], names: ['unsplit'], expected: {} }
  const parts = { seam: options, engine, stages: splitStages(split), expected: splitFacts(split) }
  let memory: readonly StageMemory[] = []
  const rounds = await withLocalPipeline(context, whole, (unsplit) =>
    withLocalPipeline(context, parts, async (pipeline) => {
      const found: Round[] = []
      for (let round = 1; round <= repeats; round++) {
        const what = repeats === 1 ? '' : `round ${round} of ${repeats}: `
        const reference = await traced(context, unsplit, prompt, tokens, `${what}the whole model`)
        const run = await traced(context, pipeline, prompt, tokens, `${what}${manifest.stages.length} stages`)
        memory = stageMemory(split, run.traces, engine.regime)
        found.push({
          decode: decodeOverhead(run),
          prefill: prefillOverhead(run),
          unsplitPrefillNs: prefillOverhead(reference).wallNs,
          unsplitDecodeNs: decodeOverhead(reference).medianWallNs,
        })
      }
      return found
    }),
  )
  const stages = manifest.stages.map(rangeText)
  report(ui, stages, rounds)
  ui.print()
  ui.print(memoryTable(memory))
  const { chunk, ctx, threads, regime } = engine
  ui.print(
    `limit: the file, or two copies of it where llama.cpp rearranges weights, + 80 MB; stated for a context of ` +
      `${STATED_CONTEXT} tokens, this is ${ctx}`,
  )
  const exactness = exactnessOf({ regime, rows: 1, codec: options.codec })
  noteExactness(ui, exactness)
  ui.result({
    ...{ model, ...exactness, stages, chunk, contextLength: ctx, threads, promptTokens, tokens },
    ...{ rounds, memory },
  })
  return undefined
}

/** Defaults shrink to the context, which is said; what was asked for does not. */
function lengthsFor(ui: Ui, asked: OverheadOptions, ctx: number): { promptTokens: number; tokens: number } {
  const promptRoom = asked.promptTokens ?? Math.max(1, ctx >> 1)
  const tokens = asked.tokens ?? Math.max(MINIMUM_TOKENS, Math.min(DEFAULTS.tokens, ctx - promptRoom))
  const promptTokens = asked.promptTokens ?? Math.max(1, Math.min(DEFAULTS.promptTokens, ctx - tokens))
  if (promptTokens + tokens > ctx) {
    throw new SeamError(
      'USAGE',
      `a prompt of ${promptTokens} and ${tokens} new tokens exceed the context of ${ctx} tokens; ` +
        'lower --prompt-tokens or --tokens, or raise --ctx',
    )
  }
  if (
    promptTokens < (asked.promptTokens ?? DEFAULTS.promptTokens) ||
    tokens < (asked.tokens ?? DEFAULTS.tokens)
  ) {
    ui.note(`a prompt of ${promptTokens} and ${tokens} new tokens, which the context of ${ctx} tokens allows`)
  }
  return { promptTokens, tokens }
}

/** Generates greedily with spans recorded everywhere. */
async function traced(
  { ui, signal }: Context,
  pipeline: Pipeline,
  prompt: readonly number[],
  tokens: number,
  what: string,
): Promise<TracedRun> {
  await pipeline.startTrace()
  const generation = pipeline.generate({ prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [], signal })
  const receivedNs: number[] = []
  ui.progress(`${what}: prefill of ${prompt.length} tokens`)
  for await (const event of generation) {
    receivedNs.push(event.receivedNs)
    ui.progress(`${what}: token ${receivedNs.length} of ${tokens}`)
  }
  const traces = await pipeline.fetchTraces()
  const lost = traces.find(({ dropped }) => dropped > 0)
  if (lost !== undefined) {
    throw new SeamError('LIMIT', `${lost.worker} lost ${lost.dropped} spans: ask for fewer tokens`)
  }
  return { promptTokens: prompt.length, startedNs: generation.startedNs, receivedNs, traces }
}

function report(ui: Ui, stages: readonly string[], rounds: readonly Round[]): void {
  const middle = (of: (round: Round) => number) => median(rounds.map(of))
  const row = (name: string, wall: (round: Round) => number, own: (round: Round) => number) => [
    ...[name, milliseconds(middle(wall)), milliseconds(middle(own))],
    middle((round) => wall(round) / own(round)).toFixed(3),
  ]
  const rows = [
    row(
      'decode, a token',
      (r) => r.decode.medianWallNs,
      (r) => r.decode.medianComputeNs,
    ),
    row(
      'prefill',
      (r) => r.prefill.wallNs,
      (r) => r.prefill.idealNs,
    ),
  ]
  ui.print(`stages: layers ${stages.join(', ')}; medians of ${rounds.length} round(s)`)
  ui.print(table(['', 'wall', 'compute', 'wall / compute'], rows, [1, 2, 3]))
  ui.print()
  const beside = [
    row(
      'prefill',
      (r) => r.unsplitPrefillNs,
      (r) => r.prefill.wallNs,
    ),
    row(
      'decode, a token',
      (r) => r.unsplitDecodeNs,
      (r) => r.decode.medianWallNs,
    ),
  ]
  ui.print(table(['', 'unsplit', 'split', 'speed-up'], beside, [1, 2, 3]))
}
