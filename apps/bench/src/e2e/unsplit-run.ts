import { availableParallelism } from 'node:os'
import { monotonicClock, SPAN_RECORD_LENGTH, SpanName, type StageExecutor, spanTag } from '@seamline/core'
import { hashModel } from '@seamline/gguf'
import { llamaExecutor } from '@seamline/llama'
import { processInstruments, type RunTrace, type SequenceTrace } from '@seamline/profiler'
import { GREEDY, promptsOf, recordingRing } from 'seamline/profile'
import type { Context } from '../command.ts'
import type { PipelineCell } from '../session/cell.ts'

/**
 * The whole model in this process on the engine that stages run on, in the steps that a chain makes: a chunk of a prompt or one token of
 * one sequence. No seam is in between, so a sequence goes from one step to the next as fast as the event loop does.
 */
export async function recordUnsplit(
  { signal }: Pick<Context, 'signal'>,
  cell: PipelineCell,
  model: string,
): Promise<RunTrace> {
  const { k, chunk, ctx, threads, level, tokens, warmupTokens, promptTokens } = cell
  const { sha256: modelSha256 } = await hashModel(model, { signal })
  const ring = recordingRing()
  const instruments = processInstruments(ring)
  const executor = await llamaExecutor({
    ...{ path: model, chunkTokens: chunk, contextLength: ctx, maxSequences: k, threads, signal },
    sink: ring,
  })
  try {
    const { spec } = executor
    const prompts = promptsOf(k, promptTokens, spec.vocabulary)
    if (warmupTokens > 0)
      await generate(executor, { sequence: 0, prompt: prompts[0]!, tokens: warmupTokens, signal })
    const startedAt = new Date().toISOString()
    ring.recording = level > 0
    if (level > 0) instruments.start(level)
    const sequences = await Promise.all(
      prompts.map((prompt, i) => generate(executor, { sequence: i + 1, prompt, tokens, signal })),
    )
    if (level > 0) instruments.read()
    instruments.stop()
    const { dropped } = ring
    const spans = ring.drain()
    const { layerFirst, layerEnd } = spec
    return {
      ...{ format: 'seamline-trace/1', complete: true, level, sequences },
      settings: {
        ...{
          startedAt,
          command: ['bench', 'record'],
          model: cell.model ?? '',
          modelSha256,
          manifestSha256: '',
        },
        ...{ engine: spec.engine, backend: spec.backend, stages: 1, threads, sequences: k, rowsPerStep: 1 },
        ...{ chunkTokens: chunk, embedding: spec.embedding, transport: 'none', framing: '', codec: '' },
        ...{ paced: false, busyThreads: threads, cores: availableParallelism() },
      },
      processes: [
        {
          ...{ name: 'unsplit', role: 'stage', stage: 0, layerFirst, layerEnd, spans, dropped },
          ...factsOf(spans),
        },
      ],
    }
  } finally {
    executor.abort()
    await executor.close()
  }
}

interface Request {
  readonly sequence: number
  readonly prompt: readonly number[]
  readonly tokens: number
  readonly signal: AbortSignal
}

async function generate(
  executor: StageExecutor,
  { sequence, prompt, tokens, signal }: Request,
): Promise<SequenceTrace> {
  const acceptedNs = monotonicClock.nowNs()
  const { chunkTokens } = executor.spec
  const session = executor.openSession({ sampler: GREEDY, promptTail: [] })
  const feed = async (ids: readonly number[], position: number, sample: boolean) => {
    signal.throwIfAborted()
    const step = await executor.step({
      rows: [{ session, position, tokenCount: ids.length, sample }],
      ...{ input: Int32Array.from(ids), output: null, logits: null, tag: spanTag(sequence, position) },
    })
    return step.tokens[0]
  }
  const emittedNs: number[] = []
  const ids: number[] = []
  const emit = (token: number) => {
    emittedNs.push(monotonicClock.nowNs())
    ids.push(token)
  }
  try {
    for (let at = 0; at < prompt.length; at += chunkTokens) {
      const end = Math.min(at + chunkTokens, prompt.length)
      const token = await feed(prompt.slice(at, end), at, end === prompt.length)
      if (token !== undefined) emit(token)
    }
    while (ids.length < tokens) emit((await feed([ids.at(-1)!], prompt.length + ids.length - 1, true))!)
  } finally {
    await session.close()
  }
  return { sequence, promptTokens: prompt.length, acceptedNs, emittedNs, tokens: ids }
}

function factsOf(spans: Float64Array): { readonly peakRssBytes: number; readonly spanCostNs: number } {
  let peakRssBytes = 0
  let spanCostNs = 0
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] === SpanName.memory) peakRssBytes = Math.max(peakRssBytes, spans[i + 4]!)
    if (spans[i] === SpanName.calibration) spanCostNs = spans[i + 2]! - spans[i + 1]!
  }
  return { peakRssBytes, spanCostNs }
}
