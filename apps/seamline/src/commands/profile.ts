import { existsSync } from 'node:fs'
import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type LinkFacts, SeamError } from '@seamline/core'
import type { LayerRange } from '@seamline/gguf'
import { checkTrace, type RunTrace, readTrace, traceWriter } from '@seamline/profiler'
import { InvalidArgumentError, Option } from 'commander'
import { type Analysis, analyse, printAnalysis, writeAnalysis } from '../analyse.ts'
import { type Chain, chainOf, promptsOf } from '../chain.ts'
import { type Context, command, integer } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { followProfile } from '../follow.ts'
import { modelDir } from '../model-dir.ts'
import {
  addPipelineOptions,
  addSecurityOptions,
  type EngineOptions,
  expectedFacts,
  rowsOption,
} from '../options.ts'
import { type NamedWorker, warnOfThreads, withRemotePipeline } from '../pipelines.ts'
import { type PreparedSplit, readSplit, splitFacts } from '../prepare.ts'
import { type RecordOptions, record, recordingRing, recordRun } from '../record-run.ts'
import { addRemoteOptions, joinedSettings, namedWorkers, type RemoteOptions } from '../remote.ts'
import type { SeamSettings } from '../settings.ts'
import { withTokenizer } from '../tokenizer.ts'
import { layersOption } from './split.ts'

interface ProfileOptions extends EngineOptions, SeamSettings, Omit<RemoteOptions, 'transport'> {
  readonly manifest?: string
  readonly local?: number
  readonly layers?: readonly LayerRange[]
  readonly model?: string
  readonly paced?: readonly number[]
  readonly embedding: number
  readonly k: number
  readonly rows?: number
  readonly promptTokens: number
  readonly prompt?: string
  readonly tokens: number
  readonly warmup: number
  readonly level: 0 | 1 | 2 | 3
  readonly out?: string
  readonly read?: string
  readonly follow?: boolean
}

export function profileCommand() {
  const made = command<ProfileOptions>(
    'profile',
    'where every microsecond of every token goes, and what removing a part of it would gain',
    run,
  )
    .addOption(
      new Option('--local <n>', 'split --model into n stages and start their workers on this machine')
        .argParser(integer(1))
        .conflicts('layers'),
    )
    .addOption(layersOption())
    .option('-m, --model <file>', 'GGUF file of the whole model')
    .option('--manifest <file>', 'manifest.json of the split that running workers serve')
    .addOption(
      new Option(
        '--paced <ms>',
        'instead of a model: stages that wait so long for each step, for example 8,14,9; the run is labelled',
      )
        .argParser(milliseconds)
        .conflicts(['model', 'local', 'layers']),
    )
    .option('--embedding <n>', 'hidden size of paced stages', integer(32, 65536), 2048)
    .option('--k <n>', 'sequences in flight', integer(1, 64), 1)
    .addOption(rowsOption())
    .option('--prompt-tokens <n>', 'tokens of each prompt', integer(1), 128)
    .addOption(
      new Option(
        '--prompt <text>',
        'instead of random tokens: a text, tokenized as part of each request',
      ).conflicts('paced'),
    )
    .option('--tokens <n>', 'new tokens of each sequence', integer(2), 128)
    .option('--warmup <n>', 'new tokens of a sequence before, which is not recorded', integer(0), 32)
    .addOption(
      new Option(
        '--level <n>',
        '0: stamps of tokens, bytes and memory; 1: spans of every process; 2: also CPU waits of event loops; 3: also a V8 CPU profile of every worker started here, for diagnosis, its times are not to be quoted',
      )
        .argParser(integer(0, 3))
        .default(1),
    )
    .option('-o, --out <dir>', 'where the record goes (default: a new folder below that of the models)')
    .addOption(
      new Option(
        '--read <dir>',
        'analyse again what lies there, also of a run that was cut, and run nothing',
      ),
    )
    .option('--follow', 'show the breakdown in the terminal while it runs')
    .addHelpText(
      'after',
      `
Starts fresh workers, or takes running ones (--join or --workers, with --manifest) of one host or several, runs K sequences of random tokens, always the same ones, and writes into the folder: trace.json and one
file of raw spans a process, summary.json, report.html (opens from disk), trace.perfetto.json (ui.perfetto.dev),
trace.speedscope.json (speedscope.app) and trace.otlp.json.`,
    )
  const whole = addSecurityOptions(addPipelineOptions(addRemoteOptions(made)))
  const names = whole.options.map((option) => option.attributeName())
  whole.options
    .find((option) => option.attributeName() === 'read')
    ?.conflicts(names.filter((name) => !BESIDE_READ.has(name)))
  return whole
}

/** All that analysing a record takes; other options would run something. */
const BESIDE_READ = new Set(['read', 'json', 'progress'])

async function run(context: Context, options: ProfileOptions): Promise<ExitCode> {
  const { ui } = context
  const { k, rows = 1, promptTokens, tokens, warmup, level, paced, model } = options
  if (options.read !== undefined) {
    const trace = await readTrace(options.read)
    checkTrace(trace)
    for (const loss of trace.losses) ui.warn(loss)
    return finish(context, options.read, trace, true)
  }
  if (k * tokens > MOST_TOKENS)
    throw new SeamError(
      'LIMIT',
      `${k} sequences of ${tokens} tokens are more than ${MOST_TOKENS}: analysing them would take minutes; lower --k or --tokens`,
    )
  const remote = namedWorkers(options)
  const chain = remote === undefined ? await chainOf(context, options) : await remoteChain(options)
  const { vocabulary, settings } = chain
  const ctx = 'local' in chain ? chain.local.engine.ctx : chain.contextLength
  if (options.prompt === undefined && promptTokens + tokens > ctx) {
    throw new SeamError(
      'USAGE',
      `${promptTokens} prompt tokens and ${tokens} new ones exceed the context of ${ctx}: lower one or raise --ctx`,
    )
  }
  if ('local' in chain && paced === undefined)
    warnOfThreads(ui, chain.local.stages.length, chain.local.engine.threads)
  const out = options.out ?? join(modelDir(), 'profiles', new Date().toISOString().replaceAll(':', '-'))
  if (options.prompt !== undefined && chain.split !== undefined) {
    return withTokenizer(chain.split, (tokenizer) => {
      const promptIds = tokenizer.encode(options.prompt!)
      if (promptIds.length + tokens > ctx)
        throw new SeamError(
          'USAGE',
          `${promptIds.length} prompt tokens and ${tokens} new ones exceed the context of ${ctx}: shorten one or raise --ctx`,
        )
      return measure(
        { prompt: options.prompt!, tokenizer },
        Array.from({ length: k }, () => promptIds),
      )
    })
  }
  return measure(undefined, promptsOf(k, promptTokens, vocabulary))

  async function measure(text: RecordOptions['text'], prompts: RecordOptions['prompts']): Promise<ExitCode> {
    const isNew = !existsSync(out)
    const writer = await traceWriter(out)
    const live = options.follow === true ? followProfile(ui) : undefined
    const recording: Omit<RecordOptions, 'local'> = {
      ...{ tokens, warmupTokens: warmup, level },
      prompts,
      ...(text === undefined ? {} : { text }),
      settings: { ...settings, command: ['seamline', ...process.argv.slice(2)], model: model ?? 'paced' },
      onPart(part) {
        void writer.part(part).catch(() => {}) // the first failure comes out of finish()
        live?.show(part)
      },
      ...(live === undefined ? {} : { flushMs: 500 }),
    }
    const trace = await ('local' in chain
      ? recordRun(context, {
          ...recording,
          local: { ...chain.local, rowsPerStep: rows, ...(level === 3 ? { cpuProfileDir: out } : {}) },
        })
      : recordRemote(context, options, remote!, chain, recording)
    ).catch(async (error) => {
      live?.end()
      const kept = await writer.flushed()
      if (kept) ui.warn(`partial record in ${out}: seamline profile --read ${out}`)
      else if (isNew) await rmdir(out).catch(() => {}) // not empty: what is in it stays
      throw error
    })
    live?.end()
    await writer.finish(trace)
    return finish(context, out, trace, false)
  }
}

async function finish(
  { ui, signal }: Context,
  out: string,
  trace: RunTrace,
  isRead: boolean,
): Promise<ExitCode> {
  ui.progress('analysing')
  signal.throwIfAborted()
  let analysis: Analysis
  try {
    analysis = endedBySignals(() => analyse(trace))
  } catch (error) {
    // A file that was read may say anything; one that was just recorded is at no fault.
    if (!isRead) throw error
    const why = `the record in ${out} cannot be analysed: ${(error as Error).message}`
    throw new SeamError('FILE', why, { cause: error })
  }
  await writeAnalysis(out, trace, analysis, signal)
  ui.clear()
  printAnalysis(ui, analysis, out)
  ui.result({ out, ...analysis.summary })
  return ExitCode.OK
}

/** Work that keeps the event loop: handlers of signals would never be called, so that without any a signal ends the process. */
function endedBySignals<T>(work: () => T): T {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const handlers = signals.map((signal) => process.rawListeners(signal) as NodeJS.SignalsListener[])
  for (const signal of signals) process.removeAllListeners(signal)
  try {
    return work()
  } finally {
    for (const [i, signal] of signals.entries())
      for (const handler of handlers[i]!) process.on(signal, handler)
  }
}

/** What is known of workers that run already. */
interface RemoteChain {
  readonly expected: Partial<LinkFacts>
  readonly contextLength: number
  readonly vocabulary: number
  readonly settings: Chain['settings']
  readonly split: PreparedSplit
}

async function remoteChain({ manifest }: ProfileOptions): Promise<RemoteChain> {
  if (manifest === undefined) throw new SeamError('USAGE', 'give --manifest FILE with --workers or --join')
  const split = await readSplit(manifest)
  const { vocabulary, contextLength, source, manifestSha256 } = split.manifest
  const settings = { modelSha256: source.sha256, manifestSha256, paced: false, severalHosts: true } as const
  return { split, expected: splitFacts(split), contextLength, vocabulary, settings }
}

async function recordRemote(
  context: Context,
  options: ProfileOptions,
  workers: readonly NamedWorker[],
  { expected }: RemoteChain,
  recording: Omit<RecordOptions, 'local'>,
): Promise<RunTrace> {
  const ring = recordingRing()
  const transport = await joinedSettings(options)
  const { rows = 1 } = options
  const connecting = {
    ...{ seam: options, expected: { ...expected, ...expectedFacts(options) }, rowsPerStep: rows, sink: ring },
    ...(transport === undefined ? {} : { transport }),
  }
  return withRemotePipeline(context, workers, connecting, (pipeline) =>
    record(context, { ...recording, local: { seam: options, rowsPerStep: rows } }, pipeline, undefined, ring),
  )
}

/** Tokens of all sequences; so many are analysed within half a minute on two cores, and a signal ends that at any time. */
const MOST_TOKENS = 4096

function milliseconds(text: string): number[] {
  const found = text.split(',').map(Number)
  if (found.every((ms) => ms >= 0 && ms <= 10_000)) return found
  throw new InvalidArgumentError('Milliseconds for each stage are needed, for example 8,14,9.')
}
