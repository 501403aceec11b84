import { dirname, join } from 'node:path'
import type { StageExecutor } from '@seamline/core'
import { readManifest } from '@seamline/gguf'
import { llamaExecutor } from '@seamline/llama'
import { processInstruments, type RunTrace, type SpanRing } from '@seamline/profiler'
import { connectPipeline, createWorker, type Instruments } from '@seamline/runtime'
import { fakeExecutor } from '@seamline/runtime/fake'
import { emulated } from '@seamline/transports/emulated'
import { memory } from '@seamline/transports/memory'
import { codecs, framings, type LocalStage, named } from 'seamline/cluster'
import type { Context } from 'seamline/profile'
import { type LocalOptions, type RecordOptions, record, recordingRing } from 'seamline/profile'

/**
 * What `recordRun` does, with every stage in this process and transport `memory` in between: each has spans and an event loop's work of
 * its own in the trace, but they share one loop and one memory. Peak RSS is that of the whole and stands at the coordinator.
 */
export async function recordInMemory(context: Context, options: RecordOptions): Promise<RunTrace> {
  const { stages, engine, seam, expected } = options.local
  const network = seam.link === undefined ? memory() : emulated(memory(), seam.link)
  const transports = new Map([['memory', network]])
  const framing = named('framing', framings, seam.framing ?? 'protobuf')
  /** What ends what was made, to be called in reverse. */
  const ends: (() => Promise<void>)[] = []
  try {
    const workers: { name: string; addresses: { transport: string; address: string }[] }[] = []
    for (const [i, stage] of stages.entries()) {
      const recorder = recordingRing()
      const executor = await executorOf(stage, engine, recorder, context.signal)
      ends.push(() => {
        executor.abort()
        return executor.close()
      })
      const worker = await createWorker({
        ...{ name: `worker-${i}`, executor, transports, codecs, framings: [framing], recorder },
        listen: [{ transport: 'memory', address: `stage-${i}` }],
        instruments: instrumentsBeside(recorder),
        livenessMs: seam.liveness,
      })
      ends.push(() => worker.close())
      workers.push({ name: worker.name, addresses: [...worker.addresses] })
    }
    const ring = recordingRing()
    const pipeline = await connectPipeline({
      ...{ workers, transports, expected, framings: [framing], sink: ring, signal: context.signal },
      ...(seam.codec === undefined ? {} : { codecs: [seam.codec] }),
      ...{ livenessMs: seam.liveness, progressMs: seam.progressDeadline },
    })
    ends.push(() => pipeline.close())
    return await record(context, options, pipeline, undefined, ring)
  } finally {
    for (const end of ends.toReversed()) await end()
  }
}

/** Garbage collections stop every stage, so that each records them; memory is read once, at the coordinator. */
function instrumentsBeside(recorder: SpanRing): Instruments {
  return { ...processInstruments(recorder), read() {} }
}

async function executorOf(
  stage: LocalStage,
  engine: LocalOptions['engine'],
  sink: SpanRing,
  signal: AbortSignal,
): Promise<StageExecutor> {
  const { chunk: chunkTokens, ctx: contextLength, sequences: maxSequences } = engine
  const sizes = { chunkTokens, contextLength, maxSequences, sink }
  if ('paced' in stage) {
    const { computeMs, ...shape } = stage.paced
    return fakeExecutor({ ...shape, ...sizes, computeMs: () => computeMs })
  }
  const { threads, flashAttn: flashAttention, regime } = engine
  const settings = { ...sizes, threads, flashAttention, regime, signal }
  if ('model' in stage) return llamaExecutor({ ...settings, path: stage.model })
  const manifest = await readManifest(stage.manifest)
  const { file, layerFirst, layerEnd, inject = null } = manifest.stages[stage.stage]!
  const { layerCount, embedding, vocabulary, manifestSha256, source } = manifest
  const shape = { layerFirst, layerEnd, layerCount, embedding, vocabulary }
  return llamaExecutor({
    ...{ ...settings, path: join(dirname(stage.manifest), file), inject },
    facts: { ...shape, modelSha256: source.sha256, manifestSha256 },
  })
}
