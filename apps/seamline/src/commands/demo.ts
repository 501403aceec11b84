import { join } from 'node:path'
import { synthModel, synthPresets } from '@seamline/gguf'
import type { StageTrace } from '@seamline/runtime'
import { type Context, command, integer } from '../command.ts'
import { type Exactness, exactnessOf, noteExactness } from '../exactness.ts'
import { ExitCode } from '../exit-codes.ts'
import { type GeneratedText, generateText } from '../generate.ts'
import { modelDir, warnOfHome } from '../model-dir.ts'
import { addPipelineOptions, type EngineOptions, engineSettings, GREEDY } from '../options.ts'
import { warnOfThreads, withLocalPipeline } from '../pipelines.ts'
import { type PreparedSplit, prepareSplit, rangeText, splitFacts, splitStages } from '../prepare.ts'
import type { SeamSettings } from '../settings.ts'
import { sharesOf } from '../shares.ts'
import { withTokenizer } from '../tokenizer.ts'
import { byteProgress, bytes, colours, percent, table, type Ui } from '../ui.ts'

interface DemoOptions extends EngineOptions, SeamSettings {
  readonly model?: string
  readonly stages: number
  readonly prompt: string
  readonly tokens?: number
}

const SEED = 1
const DEFAULT_TOKENS = 64

export function demoCommand() {
  const made = command<DemoOptions>('demo', 'split a model, run it, and check it against the whole one', run)
    .option('-m, --model <file>', 'your own GGUF file (default: a small model of random weights)')
    .option('--stages <n>', 'worker processes', integer(1), 3)
    .option('-p, --prompt <text>', 'text to continue', 'Once upon a time')
    .option('--tokens <n>', `tokens to generate (default: ${DEFAULT_TOKENS}, within the context)`, integer(1))
  return addPipelineOptions(made)
}

async function run(context: Context, options: DemoOptions): Promise<ExitCode> {
  const { ui } = context
  const model = options.model ?? (await synthesise(context))
  warnOfHome(ui, model)
  const split = await prepareSplit(context, model, options.stages)
  const { manifest } = split
  ui.print(
    `${model}: ${bytes(manifest.source.byteLength)}, ${manifest.layerCount} layers, ${options.stages} stages`,
  )
  const engine = engineSettings(options, manifest.contextLength, 1)
  warnOfThreads(ui, options.stages, engine.threads)
  const shared = { seam: options, engine }

  return withTokenizer(split, async (tokenizer) => {
    const prompt = tokenizer.encode(options.prompt)
    const room = Math.max(1, engine.ctx - prompt.length)
    const maxTokens = options.tokens ?? Math.min(DEFAULT_TOKENS, room)
    if (options.tokens === undefined && maxTokens < DEFAULT_TOKENS) {
      ui.note(`${maxTokens} new tokens, which the context of ${engine.ctx} tokens allows`)
    }
    const request = { prompt, maxTokens, sampler: GREEDY, signal: context.signal }

    const candidate = { ...shared, stages: splitStages(split), expected: splitFacts(split) }
    const { generated, traces } = await withLocalPipeline(context, candidate, async (pipeline) => {
      for (const { name, address, facts } of pipeline.stages)
        ui.print(`${name}: layers ${rangeText(facts)} at ${address}`)
      await pipeline.startTrace()
      ui.write(`\n${colours.dim(options.prompt)}`)
      try {
        const generated = await generateText(pipeline, tokenizer, {
          ...request,
          onText: (text) => ui.write(text),
        })
        return { generated, traces: await pipeline.fetchTraces() }
      } finally {
        ui.endLine()
      }
    })
    if (options.model === undefined) {
      ui.print('\nThe weights are random, so the text is noise. What counts is that it is the same noise:')
    }
    ui.progress('running the whole model')
    const whole = { ...shared, stages: [{ model }], names: ['unsplit'], expected: {} }
    const expected = await withLocalPipeline(context, whole, (pipeline) =>
      generateText(pipeline, tokenizer, request),
    )
    const exactness = exactnessOf({ regime: engine.regime, rows: 1, codec: options.codec })
    return report(ui, split, exactness, generated, expected, traces)
  })
}

async function synthesise({ ui, signal }: Context): Promise<string> {
  const path = join(modelDir(), `demo-seed-${SEED}.gguf`)
  await synthModel({
    ...synthPresets.demo,
    path,
    seed: SEED,
    signal,
    onProgress: byteProgress(ui, 'making a model'),
  })
  return path
}

function report(
  ui: Ui,
  { manifest }: PreparedSplit,
  exactness: Exactness,
  generated: GeneratedText,
  expected: GeneratedText,
  traces: readonly StageTrace[],
): ExitCode {
  const { tokens, timings } = generated
  const equalTokens = tokens.filter((token, i) => token === expected.tokens[i]).length
  const equal = equalTokens === tokens.length && tokens.length === expected.tokens.length
  const wallNs = timings.wallMs * 1e6
  const stages = traces.map((trace, i) => ({
    worker: trace.worker,
    layers: rangeText(trace),
    fileBytes: manifest.stages[i]?.byteLength ?? 0,
    rssBytes: trace.rssBytes,
    ...sharesOf(trace, wallNs),
  }))
  ui.print(`${equalTokens} of ${expected.tokens.length} tokens equal those of the unsplit model.\n`)
  const rates = (timings: GeneratedText['timings']) => [
    `${timings.ttftMs.toFixed(1)} ms`,
    timings.prefillTokensPerSecond.toFixed(1),
    timings.decodeTokensPerSecond.toFixed(1),
  ]
  ui.print(
    table(
      ['', 'TTFT', 'prefill tok/s', 'decode tok/s'],
      [
        [`${stages.length} stages`, ...rates(timings)],
        ['unsplit', ...rates(expected.timings)],
      ],
      [1, 2, 3],
    ),
  )
  ui.print()
  ui.print(
    table(
      ['stage', 'layers', 'file', 'RSS', 'compute', 'seam'],
      stages.map(({ worker, layers, fileBytes, rssBytes, computeShare, seamShare }) => [
        ...[worker, layers, bytes(fileBytes), bytes(rssBytes), percent(computeShare), percent(seamShare)],
      ]),
      [2, 3, 4, 5],
    ),
  )
  ui.print(
    '\nShares are of the time from the request to the last token; for the rest it was idle: other stages had their turn, or a message or a core was awaited.',
  )
  ui.print(equal ? colours.green('Every token is equal.') : colours.red('The tokens are NOT equal.'))
  noteExactness(ui, exactness)
  ui.result({
    equal,
    ...exactness,
    equalTokens,
    tokens: tokens.length,
    text: generated.text,
    timings,
    unsplit: expected.timings,
    stages,
  })
  return equal ? ExitCode.OK : ExitCode.CHECK_FAILED
}
