import { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'
import { modelFacts, openModel, readManifest, verifyFile } from '@seamline/gguf'
import type { LlamaExecutorOptions } from '@seamline/llama'
import { spanRing } from '@seamline/profiler'
import { createWorker } from '@seamline/runtime'
import { Option } from 'commander'
import { codecs, framings, named, transports } from '../cluster.ts'
import { type Context, command, integer } from '../command.ts'
import { STARTING_BEATS, STARTING_LINE } from '../local-workers.ts'
import { warnOfHome } from '../model-dir.ts'
import { addWorkerOptions, type EngineOptions, engineSettings } from '../options.ts'
import type { LinkSettings } from '../settings.ts'
import { byteProgress } from '../ui.ts'

interface WorkerCommandOptions extends EngineOptions, LinkSettings {
  readonly codec?: string
  readonly manifest?: string
  readonly stage?: number
  readonly model?: string
  readonly listen: string
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
    .option('--listen <address>', 'where to listen', '127.0.0.1:0')
    .option('--name <name>', 'name in errors (default: worker-<stage>)')
    .option('--sequences <n>', 'sequences that may be in flight', integer(1, 256), 1)
    .addOption(new Option('--exit-with-stdin', 'end when standard input ends').hideHelp())
    .addHelpText(
      'after',
      '\nPrints one line of JSON when it is ready. Ends in good order on SIGINT and SIGTERM.',
    )
  return addWorkerOptions(made)
}

async function run(context: Context, options: WorkerCommandOptions): Promise<undefined> {
  if (options.exitWithStdin !== true) return serve(context, options, () => {})
  const { dieWithParent } = await import('@seamline/llama')
  dieWithParent()
  const beat = () => process.stdout.write(`${STARTING_LINE}\n`)
  beat()
  const beats = setInterval(beat, options.liveness / STARTING_BEATS)
  const signal = withEndOfStdin(context.signal)
  try {
    return await serve({ ...context, signal }, options, () => clearInterval(beats))
  } finally {
    clearInterval(beats)
  }
}

/** @param onReady called right before the ready line is printed */
async function serve(
  { ui, signal }: Context,
  options: WorkerCommandOptions,
  onReady: () => void,
): Promise<undefined> {
  const { codec, sequences, stage = 0 } = options
  const isChild = options.exitWithStdin === true
  const source = await openSource({ ui, signal }, options)
  const { chunk, ctx, threads, flashAttn, regime } = engineSettings(options, source.trainedContext, sequences)
  const { llamaExecutor } = await import('@seamline/llama')
  ui.progress(`loading ${source.path}`)
  const recorder = spanRing({ recording: false })
  const executor = await llamaExecutor({
    ...{ path: source.path, facts: source.facts ?? null, inject: source.inject ?? null },
    ...{
      chunkTokens: chunk,
      contextLength: ctx,
      maxSequences: sequences,
      threads,
      flashAttention: flashAttn,
      regime,
    },
    ...{ sink: recorder, signal },
  })
  try {
    const worker = await createWorker({
      name: options.name ?? source.name,
      executor,
      transport: named('transport', transports, options.transport)(),
      framings: [named('framing', framings, options.framing)()],
      codecs: codec === undefined ? codecs : new Map([[codec, named('codec', codecs, codec)]]),
      address: options.listen,
      livenessMs: options.liveness,
      recorder,
      // Whoever started a local worker sees for itself when runs begin and end.
      ...(isChild ? {} : { onEvent: (text) => ui.log(text) }),
    })
    const { layerFirst, layerEnd, layerCount, contextLength, regime, engine, backend } = executor.spec
    const ready = {
      ...{ name: worker.name, address: worker.address, pid: process.pid, stage },
      ...{ layerFirst, layerEnd, layerCount, contextLength, regime, engine, backend },
    }
    ui.clear()
    onReady()
    process.stdout.write(`${JSON.stringify(ready)}\n`)
    await aborted(signal)
    await worker.close()
  } finally {
    executor.abort()
    await executor.close()
  }
  return undefined
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

/** How long a worker without a parent may take to end. */
const ORPHAN_MS = 3000

/** Aborts also when standard input ends: the parent holds its other end, and the kernel closes it whatever kills the parent. */
function withEndOfStdin(signal: AbortSignal): AbortSignal {
  const controller = new AbortController()
  const { stdin } = process
  if (stdin instanceof Socket) stdin.unref() // it must not keep alive a worker that has failed
  stdin.resume().once('close', () => {
    controller.abort(new SeamError('ABORTED', 'the parent process is gone'))
    setTimeout(() => process.exit(), ORPHAN_MS).unref()
  })
  return AbortSignal.any([signal, controller.signal])
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
