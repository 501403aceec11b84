import { SeamError } from '@seamline/core'
import type { LayerRange } from '@seamline/gguf'
import type { Tokenizer } from '@seamline/llama/tokenizer'
import type { Pipeline } from '@seamline/runtime'
import { Option } from 'commander'
import { type Context, command, integer } from '../command.ts'
import { exactnessOf, noteExactness } from '../exactness.ts'
import { type GeneratedText, generateText } from '../generate.ts'
import { warnOfHome } from '../model-dir.ts'
import {
  addPipelineOptions,
  addSamplerOptions,
  addSecurityOptions,
  type EngineOptions,
  engineSettings,
  expectedFacts,
  rowsOption,
  type SamplerOptions,
  samplerSettings,
} from '../options.ts'
import { warnOfThreads, withLocalPipeline, withRemotePipeline } from '../pipelines.ts'
import { prepareSplit, readSplit, splitFacts, splitStages } from '../prepare.ts'
import { addRemoteOptions, joinedSettings, namedWorkers, type RemoteOptions } from '../remote.ts'
import type { SeamSettings } from '../settings.ts'
import { withTokenizer } from '../tokenizer.ts'
import type { Ui } from '../ui.ts'
import { layersOption } from './split.ts'

interface RunOptions extends EngineOptions, SeamSettings, SamplerOptions, RemoteOptions {
  readonly manifest?: string
  readonly local?: number
  readonly layers?: readonly LayerRange[]
  readonly model?: string
  readonly prompt: readonly string[]
  readonly chat?: boolean
  readonly maxTokens?: number
  readonly sequences?: number
  readonly rows?: number
}

const DEFAULT_MAX_TOKENS = 256

export function runCommand() {
  const made = addRemoteOptions(command<RunOptions>('run', 'generate text with a split model', run))
    .option(
      '--manifest <file>',
      'manifest.json of the split that the workers serve; the tokenizer file lies beside it',
    )
    .addOption(
      new Option('--local <n>', 'split --model into n stages and start their workers on this machine')
        .argParser(integer(1))
        .conflicts('layers'),
    )
    .addOption(layersOption())
    .option('-m, --model <file>', 'GGUF file of the whole model, for --local or --layers')
    .requiredOption('-p, --prompt <text>', 'text to continue; give it again for several at once', repeated)
    .option('--chat', "take the prompt as a user's message in the model's own chat template")
    .option(
      '--max-tokens <n>',
      `tokens to generate at most (default: ${DEFAULT_MAX_TOKENS}, within the context)`,
      integer(1),
    )
    .addOption(
      new Option('--sequences <n>', 'sequences in flight with --local or --layers (default: one a prompt)')
        .argParser(integer(1, 256))
        .conflicts('workers'),
    )
    .addOption(rowsOption())
    .addHelpText(
      'after',
      `
The text goes to standard output as it is generated, statistics to standard error. Neither the model nor a stage
is needed to run against --workers, only the manifest and the tokenizer.`,
    )
  return addSecurityOptions(addPipelineOptions(addSamplerOptions(made)))
}

async function run(context: Context, options: RunOptions): Promise<undefined> {
  const { local, layers, model, manifest, rows = 1 } = options
  const cut = layers ?? local
  const workers = namedWorkers(options)
  if (workers !== undefined && manifest !== undefined && cut === undefined && model === undefined) {
    const split = await readSplit(manifest)
    const expected = { ...splitFacts(split), ...expectedFacts(options) }
    const transport = await joinedSettings(options)
    const settings = { seam: options, expected, rowsPerStep: rows }
    await withTokenizer(split, (tokenizer) =>
      withRemotePipeline(
        context,
        workers,
        transport === undefined ? settings : { ...settings, transport },
        (pipeline) => generateAll(context, options, pipeline, tokenizer),
      ),
    )
    return undefined
  }
  if (cut === undefined || model === undefined || workers !== undefined || manifest !== undefined) {
    throw new SeamError(
      'USAGE',
      'give --workers HOST:PORT,… (or --join STRING) and --manifest FILE, or --local N (or --layers RANGES) and --model FILE, and nothing of the other',
    )
  }
  warnOfHome(context.ui, model)
  const split = await prepareSplit(context, model, cut)
  const engine = engineSettings(
    options,
    split.manifest.contextLength,
    options.sequences ?? options.prompt.length,
  )
  warnOfThreads(context.ui, split.manifest.stages.length, engine.threads)
  const pipelineOptions = {
    ...{ seam: options, engine, rowsPerStep: rows },
    ...{ stages: splitStages(split), expected: splitFacts(split) },
  }
  await withTokenizer(split, (tokenizer) =>
    withLocalPipeline(context, pipelineOptions, (pipeline) =>
      generateAll(context, options, pipeline, tokenizer),
    ),
  )
  return undefined
}

/** One prompt streams; several run at once, as many as the workers have sequences, and are printed when all are done. */
async function generateAll(
  { ui, signal }: Context,
  options: RunOptions,
  pipeline: Pipeline,
  tokenizer: Tokenizer,
): Promise<void> {
  const { contextLength, maxSequences } = pipeline.facts
  const sampler = samplerSettings(options)
  const { codec, rows = 1 } = options
  const exactness = exactnessOf({ regime: pipeline.facts.regime, rows, codec })
  const streams = options.prompt.length === 1 && !ui.json
  let pieces = 0
  const onText = (text: string) => {
    if (streams) ui.write(text)
    else ui.progress(`generating: ${++pieces} tokens`)
  }
  const generate = (prompt: string): Promise<GeneratedText> => {
    const ids =
      options.chat === true
        ? tokenizer.applyChatTemplate([{ role: 'user', content: prompt }])
        : tokenizer.encode(prompt)
    const room = Math.max(1, contextLength - ids.length)
    const maxTokens = options.maxTokens ?? Math.min(DEFAULT_MAX_TOKENS, room)
    return generateText(pipeline, tokenizer, { prompt: ids, maxTokens, sampler, signal, onText })
  }
  let texts: readonly GeneratedText[]
  try {
    texts = await inParallel(options.prompt, maxSequences, generate)
  } finally {
    ui.endLine()
  }
  if (!streams) {
    for (const [i, { text }] of texts.entries())
      ui.print(`${i === 0 ? '' : '\n'}> ${options.prompt[i]}\n${text}`)
  }
  for (const text of texts) noteTimings(ui, text)
  noteExactness(ui, exactness)
  if (sampler.temperature > 0) ui.note(`seed ${sampler.seed}`)
  ui.result({
    stages: pipeline.stages.map(({ name, transport, address, facts: { layerFirst, layerEnd } }) => ({
      ...{ name, transport, address, layerFirst, layerEnd },
    })),
    links: pipeline.links,
    ...exactness,
    sampler,
    texts: texts.map((text, i) => ({ prompt: options.prompt[i], ...text })),
  })
}

function noteTimings(ui: Ui, { tokens, finish, timings }: GeneratedText): void {
  const { ttftMs, prefillTokensPerSecond, decodeTokensPerSecond } = timings
  ui.note(
    `TTFT ${ttftMs.toFixed(1)} ms, prefill ${prefillTokensPerSecond.toFixed(1)} tok/s, ` +
      `${tokens.length} tokens, decode ${decodeTokensPerSecond.toFixed(1)} tok/s, end: ${finish}`,
  )
}

/** Maps with at most `limit` calls in flight, in order; stops at the first failure. */
async function inParallel<T, R>(
  items: readonly T[],
  limit: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  const waiting = items.entries()
  const lanes = Array.from({ length: Math.min(limit, items.length) }, async () => {
    for (const [i, item] of waiting) results[i] = await map(item)
  })
  await Promise.all(lanes)
  return results
}

function repeated(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text]
}
