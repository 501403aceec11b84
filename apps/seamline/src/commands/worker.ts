import { dirname, join } from 'node:path'
import {
  SeamError,
  type SpanSink,
  type StageExecutor,
  type Transport,
  type TransportAddress,
} from '@seamline/core'
import { modelFacts, openModel, readManifest, verifyFile } from '@seamline/gguf'
import type { LlamaExecutorOptions } from '@seamline/llama'
import { processInstruments, spanRing } from '@seamline/profiler'
import { createWorker } from '@seamline/runtime'
import { fakeExecutor } from '@seamline/runtime/fake'
import { Option } from 'commander'
import { advertised } from '../advertise.ts'
import { aborted, asChild } from '../child.ts'
import { codecs, named, type TransportSettings, transports } from '../cluster.ts'
import { type Context, command, integer } from '../command.ts'
import { identityDir, isLoopback, loadSecurity, secretFrom } from '../identity.ts'
import { type Injection, parseInjection, withInjection } from '../inject.ts'
import { decodeJoin, encodeJoin, type Join, parseAddress } from '../join.ts'
import { warnOfHome } from '../model-dir.ts'
import { addSecurityOptions, addWorkerOptions, type EngineOptions, engineSettings } from '../options.ts'
import { type PacedStage, parsePaced } from '../paced.ts'
import { allowedFramings } from '../pipelines.ts'
import type { LinkSettings } from '../settings.ts'
import { parseSkew, type Skew, skewedClock, skewedExecutor, skewedSink } from '../skew.ts'
import { byteProgress } from '../ui.ts'

interface WorkerCommandOptions extends EngineOptions, LinkSettings {
  readonly codec?: string
  readonly manifest?: string
  readonly stage?: number
  readonly model?: string
  readonly listen?: readonly string[]
  readonly join?: Join
  readonly advertise?: string
  readonly relayAccess?: string
  readonly paced?: PacedStage
  readonly inject?: Injection
  readonly skew?: Skew
  readonly name?: string
  readonly sequences: number
  readonly exitWithStdin?: boolean
}

/** What the command line says about the file to load. */
type Source = Pick<LlamaExecutorOptions, 'path' | 'facts' | 'inject'> & {
  readonly name: string
  /** Positions that the model was trained for. */
  readonly trainedContext: number
}

export function workerCommand() {
  const made = command<WorkerCommandOptions>('worker', 'serve one stage of a split model', run)
    .addOption(
      new Option('--manifest <file>', 'manifest.json of a split; the stage lies beside it').conflicts(
        'model',
      ),
    )
    .addOption(
      new Option('--stage <n>', 'which stage of the split, counted from 0')
        .argParser(integer(0))
        .conflicts('model'),
    )
    .option('-m, --model <file>', 'instead of a stage: a whole model, which is its own only stage')
    .option(
      '--listen <address>',
      'where to listen, as HOST:PORT or TRANSPORT=ADDRESS; give it again for several (default: 127.0.0.1:0)',
      repeated,
    )
    .option(
      '--advertise <host>',
      'name or address of this machine for others, where it listens on every interface (default: the first one on a network)',
    )
    .option(
      '--join <string>',
      'take the shared secret from what another worker printed, so that one run can use both',
      decodeJoin,
    )
    .option(
      '--relay-access <file>',
      "file with the secret of the relay's operator: `relay-access` beside the identity of the relay",
    )
    .option('--name <name>', 'name in errors (default: worker-<stage>)')
    .option('--sequences <n>', 'sequences that may be in flight', integer(1, 256), 1)
    .addOption(
      new Option('--paced <shape>', 'wait instead of computing, for experiments')
        .argParser(parsePaced)
        .conflicts(['model', 'manifest'])
        .hideHelp(),
    )
    .addOption(
      new Option('--inject <delay>', 'put a delay in, for experiments').argParser(parseInjection).hideHelp(),
    )
    .addOption(
      new Option('--skew <offset,drift>', 'show another time, for experiments')
        .argParser(parseSkew)
        .hideHelp(),
    )
    .addOption(new Option('--exit-with-stdin', 'end when standard input ends').hideHelp())
    .addHelpText(
      'after',
      `
Prints one line of JSON when it is ready. Ends in good order on SIGINT and SIGTERM.

Beyond loopback and with --secure it speaks TLS 1.3 and wants a shared secret; it then prints one join string
for \`run --join\` and \`worker --join\`. Whoever has the string can use the worker.`,
    )
  return addSecurityOptions(addWorkerOptions(made))
}

async function run(context: Context, options: WorkerCommandOptions): Promise<undefined> {
  if (options.exitWithStdin !== true) return serve(context, options, () => {})
  const { dieWithParent } = await import('@seamline/llama')
  dieWithParent()
  return asChild(context, options.liveness, (child, onReady) => serve(child, options, onReady))
}

/** @param onReady called right before the ready line is printed */
async function serve(
  { ui, signal }: Context,
  options: WorkerCommandOptions,
  onReady: () => void,
): Promise<undefined> {
  const { codec, stage = 0 } = options
  const isChild = options.exitWithStdin === true
  const recorder = spanRing({ recording: false, capacity: RECORDED_SPANS })
  const listen = (options.listen ?? ['127.0.0.1:0']).map((text) => parseAddress(text, options.transport))
  const secured = await transportSettings(options, listen)
  const settings = options.link === undefined ? secured : { ...secured, link: options.link }
  const clock = options.skew === undefined ? undefined : skewedClock(options.skew)
  const engineSink = clock === undefined ? recorder : skewedSink(recorder, clock)
  const sink = options.inject?.place === 'compute' ? null : engineSink
  const stageOf = options.paced
  const loaded =
    stageOf === undefined
      ? await loadedStage({ ui, signal }, options, sink)
      : pacedStage(stageOf, options, sink)
  const { name } = loaded
  const executor = clock === undefined ? loaded.executor : skewedExecutor(loaded.executor, clock)
  try {
    const offered = codec === undefined ? codecs : new Map([[codec, named('codec', codecs, codec)]])
    const worker = await createWorker({
      ...{ name: options.name ?? name, listen, livenessMs: options.liveness },
      ...withInjection(options.inject, recorder, {
        executor,
        transports: reachable(settings),
        framings: allowedFramings(options.framing),
        codecs: offered,
      }),
      ...{ recorder, instruments: processInstruments(recorder, clock) },
      ...(clock === undefined ? {} : { clock }),
      // Whoever started a local worker sees for itself when runs begin and end.
      ...(isChild ? {} : { onEvent: (text) => ui.log(text) }),
    })
    try {
      const { layerFirst, layerEnd, layerCount, contextLength, regime, engine, backend } = executor.spec
      const addresses = advertised(worker.addresses, options.advertise)
      const ready = {
        ...{ name: worker.name, address: addresses[0]?.address, addresses },
        ...{ pid: process.pid, stage },
        ...{ layerFirst, layerEnd, layerCount, contextLength, regime, engine, backend },
        announcement: { ...worker.announcement, addresses },
      }
      const { security, access } = settings
      const join =
        security === undefined
          ? undefined
          : encodeJoin({
              ...{ secret: security.secret, addresses },
              ...(access === undefined ? {} : { access }),
            })
      ui.clear()
      onReady()
      if (join !== undefined && !isChild) ui.note(`to use it: pnpm seamline run --join ${join} --manifest …`)
      process.stdout.write(`${JSON.stringify(join === undefined ? ready : { ...ready, join })}\n`)
      await aborted(signal)
    } finally {
      await worker.close()
    }
  } finally {
    executor.abort()
    await executor.close()
  }
  return undefined
}

interface ServedStage {
  readonly executor: StageExecutor
  readonly name: string
}

async function loadedStage(
  context: Context,
  options: WorkerCommandOptions,
  sink: SpanSink | null,
): Promise<ServedStage> {
  const source = await openSource(context, options)
  const engine = engineSettings(options, source.trainedContext, options.sequences)
  const { llamaExecutor } = await import('@seamline/llama')
  context.ui.progress(`loading ${source.path}`)
  const executor = await llamaExecutor({
    ...{ path: source.path, facts: source.facts ?? null, inject: source.inject ?? null },
    ...{ chunkTokens: engine.chunk, contextLength: engine.ctx, maxSequences: engine.sequences },
    ...{ threads: engine.threads, flashAttention: engine.flashAttn, regime: engine.regime },
    ...{ sink, signal: context.signal },
  })
  return { executor, name: source.name }
}

/** Takes as long for every token of a step as is asked for, and computes nothing that means anything. */
function pacedStage(
  { computeMs, ...shape }: PacedStage,
  options: WorkerCommandOptions,
  sink: SpanSink | null,
): ServedStage {
  const { chunk, ctx, sequences } = engineSettings(options, PACED_CONTEXT, options.sequences)
  const executor = fakeExecutor({
    ...shape,
    ...{ chunkTokens: chunk, contextLength: ctx, maxSequences: sequences, sink },
    computeMs: () => computeMs,
  })
  return { executor, name: 'paced' }
}

/** Spans held between two fetches: some thousand tokens. */
const RECORDED_SPANS = 1 << 17
const PACED_CONTEXT = 4096

/** Security where it was asked for, or where somebody else could reach the worker. */
async function transportSettings(
  { secure, identity, join, relayAccess }: WorkerCommandOptions,
  listen: readonly TransportAddress[],
): Promise<TransportSettings> {
  const access = relayAccess === undefined ? join?.access : await secretFrom(relayAccess)
  const beyond = listen.some(({ address }) => !isLoopback(address))
  if (secure !== true && join === undefined && !beyond) return {}
  const security = await loadSecurity(identity ?? identityDir(), join?.secret)
  return access === undefined ? { security } : { security, access }
}

/** Every transport there is: what neighbours use is not known beforehand. */
function reachable(settings: TransportSettings): ReadonlyMap<string, Transport> {
  return new Map([...transports].map(([id, make]) => [id, make(settings)]))
}

async function openSource({ ui, signal }: Context, options: WorkerCommandOptions): Promise<Source> {
  const { manifest: manifestPath, model, stage: index } = options
  if (model !== undefined) {
    warnOfHome(ui, model)
    const opened = openModel(model)
    const { contextLength } = modelFacts(opened)
    return { path: opened.paths[0] ?? model, name: 'worker', trainedContext: contextLength }
  }
  if (manifestPath === undefined || index === undefined) {
    throw new SeamError('USAGE', 'give --manifest FILE and --stage N, or --model FILE for a whole model')
  }
  const manifest = await readManifest(manifestPath)
  const stage = manifest.stages[index]
  if (stage === undefined) {
    throw new SeamError(
      'USAGE',
      `stage ${index}: ${manifestPath} has stages 0 to ${manifest.stages.length - 1}`,
    )
  }
  const path = join(dirname(manifestPath), stage.file)
  warnOfHome(ui, path)
  await verifyFile(path, stage, { signal, onProgress: byteProgress(ui, `checking ${path}`) })
  const { layerCount, embedding, vocabulary, manifestSha256, source, contextLength } = manifest
  const { layerFirst, layerEnd } = stage
  return {
    path,
    name: `worker-${index}`,
    trainedContext: contextLength,
    inject: stage.inject ?? null,
    facts: {
      modelSha256: source.sha256,
      manifestSha256,
      layerFirst,
      layerEnd,
      layerCount,
      embedding,
      vocabulary,
    },
  }
}

function repeated(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text]
}
