import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicClock, SPAN_RECORD_LENGTH, SpanName, spanTag } from '@seamline/core'
import type { Tokenizer } from '@seamline/llama/tokenizer'
import {
  type ProcessTrace,
  processInstruments,
  type RunSettings,
  type RunTrace,
  type SequenceTrace,
  type SpanRing,
  spanRing,
} from '@seamline/profiler'
import type { Pipeline, StageTrace } from '@seamline/runtime'
import type { Context } from './command.ts'
import { injector } from './inject.ts'
import { GREEDY } from './options.ts'
import { type LocalOptions, withLocalPipeline } from './pipelines.ts'
import { socketCounts, wireBytes } from './socket-counters.ts'

const SETTLE_MS = 100

export interface RecordOptions {
  /** How the stages are started and connected; its `sink` is taken by the recording. */
  readonly local: LocalOptions
  readonly prompts: readonly (readonly number[])[]
  /** Instead of them, as many times: tokenized with each request, and the tokens made text again. */
  readonly text?: { readonly prompt: string; readonly tokenizer: Tokenizer }
  /** New tokens of each sequence. */
  readonly tokens: number
  /** New tokens of a sequence that runs before and is not recorded. */
  readonly warmupTokens: number
  readonly level: 0 | 1 | 2 | 3
  readonly settings: Pick<
    RunSettings,
    'command' | 'model' | 'modelSha256' | 'manifestSha256' | 'paced' | 'severalHosts'
  >
  /** Takes what has been recorded so far, every {@link flushMs}: for a record that outlives this process, or a live view. */
  readonly onPart?: (part: RunTrace) => void
  /** @default 2000 */
  readonly flushMs?: number
}

/** Runs sequences on fresh worker processes and returns everything that was recorded of them. */
export async function recordRun(context: Context, options: RecordOptions): Promise<RunTrace> {
  const ring = recordingRing()
  const { inject } = options.local
  const emit =
    inject?.injection.place === 'emit' ? { beforeEmit: injector(inject.injection.delayMs, ring).busy } : {}
  const open =
    inject?.injection.place === 'open' ? { beforeOpen: waiting(inject.injection.delayMs, ring) } : {}
  return withLocalPipeline(context, { ...options.local, ...emit, ...open, sink: ring }, (pipeline, relay) =>
    record(context, options, pipeline, relay?.metricsAddress, ring),
  )
}

function waiting(delayMs: number, ring: SpanRing): () => Promise<void> {
  const delay = injector(delayMs, ring)
  return () => new Promise((resolve) => delay.later(resolve))
}

/** For the spans of this process: some thousand tokens. */
export function recordingRing(): SpanRing {
  return spanRing({ recording: false, capacity: 1 << 17 })
}

/** What {@link recordRun} needs beside a pipeline that runs. */
export interface RecordingOptions extends Omit<RecordOptions, 'local'> {
  readonly local: Pick<LocalOptions, 'seam' | 'rowsPerStep' | 'inject'>
}

/** Records sequences on a pipeline whose coordinator records into `ring`. */
export async function record(
  { ui, signal }: Context,
  options: RecordingOptions,
  pipeline: Pipeline,
  relayAddress: string | undefined,
  ring: SpanRing,
): Promise<RunTrace> {
  const { local, prompts, text, tokens, warmupTokens, level, flushMs = 2000 } = options
  const { seam, rowsPerStep = 1 } = local
  const stages = pipeline.stages.length
  const request = { maxTokens: tokens, sampler: GREEDY, stopTokens: [], signal }
  const { facts, links } = pipeline
  /** The kernel of this host counts for all processes. */
  const isLocal = level > 0 && options.settings.severalHosts !== true
  const hidden = links.find(({ carries }) => carries === 'hidden rows')
  const settings: RunSettings = {
    ...options.settings,
    startedAt: new Date().toISOString(),
    ...{ engine: facts.engine, backend: facts.backend, stages, threads: facts.threads },
    ...{ sequences: prompts.length, rowsPerStep, chunkTokens: facts.chunkTokens, embedding: facts.embedding },
    ...{ transport: seam.transport, framing: hidden?.framing ?? '', codec: hidden?.codec ?? '' },
    ...(seam.link === undefined ? {} : { link: seam.link }),
    ...(local.inject === undefined ? {} : { injected: injected(local.inject) }),
    busyThreads:
      options.settings.paced || options.settings.severalHosts === true
        ? 1
        : Math.min(prompts.length, stages) * facts.threads,
    cores: availableParallelism(),
  }
  const instruments = processInstruments(ring)
  const sequences: SequenceTrace[] = []
  const parts: Part[] = []
  let wire: readonly (number | null)[] | undefined

  /** Drained already, while workers are still asked for what they recorded beside it. */
  const held: Part[] = []

  function drained(): Part {
    instruments.read()
    const { dropped } = ring
    return { dropped, own: ring.drain(), stages: [], relay: undefined }
  }

  async function take(): Promise<RunTrace> {
    held.push(drained())
    const stages = level === 0 ? [] : await pipeline.fetchTraces()
    const relay = level === 0 || relayAddress === undefined ? undefined : await fetchSpans(relayAddress)
    const taken = held.splice(0)
    taken.push({ own: new Float64Array(0), dropped: 0, stages, relay })
    parts.push(...taken)
    return assemble(false, taken)
  }

  function assemble(complete: boolean, from: readonly Part[]): RunTrace {
    const here = {
      name: 'coordinator',
      role: 'coordinator',
      stage: -1,
      layerFirst: -1,
      layerEnd: -1,
    } as const
    const coordinator = processOf(
      here,
      from.map(({ own, dropped }) => ({ spans: own, dropped })),
    )
    const workers = pipeline.stages.map(({ name, facts: { layerFirst, layerEnd } }, stage) =>
      processOf(
        { name, role: 'stage', stage, layerFirst, layerEnd },
        from.flatMap(({ stages }) => stages[stage] ?? []),
      ),
    )
    const parts = from.flatMap(({ relay }) => relay ?? [])
    const relays =
      level === 0 || relayAddress === undefined
        ? []
        : [processOf({ name: 'relay', role: 'relay', stage: -1, layerFirst: -1, layerEnd: -1 }, parts)]
    return {
      ...{ format: 'seamline-trace/1', complete, level, settings },
      processes: [coordinator, ...workers, ...relays],
      sequences: sequences.map((sequence) => ({ ...sequence })),
      ...(wire === undefined ? {} : { wireBytes: wire }),
    }
  }

  // So that the record is there from the beginning, whatever ends it.
  options.onPart?.(assemble(false, []))
  if (warmupTokens > 0) {
    ui.progress('warming up')
    const warmup = pipeline.generate({ ...request, prompt: prompts[0]!, maxTokens: warmupTokens })
    for await (const _ of warmup) ui.progress('warming up')
  }

  ring.recording = level > 0
  if (level > 0) {
    instruments.start(level)
    if (relayAddress !== undefined) await fetchSpans(relayAddress)
    await pipeline.startTrace(level)
    // Clocks are probed in a burst and recorders calibrated: none of that is part of the first request.
    await sleep(SETTLE_MS, undefined, { signal })
  }
  let taking = Promise.resolve()
  let hasFailed = false
  const flush = async () => {
    const part = await take()
    if (!hasFailed) options.onPart?.(part)
  }
  const flushing = setInterval(() => {
    taking = taking.then(flush).catch(() => {}) // a fault of the run itself ends it elsewhere
  }, flushMs)
  if (options.onPart === undefined) clearInterval(flushing)
  let done = 0
  try {
    const before = isLocal ? await socketCounts() : undefined
    await Promise.all(
      prompts.map(async (prompt) => {
        const decoder = text?.tokenizer.createDecoder()
        const acceptedNs = monotonicClock.nowNs()
        const promptIds = text === undefined ? prompt : text.tokenizer.encode(text.prompt)
        const tokenizedNs = monotonicClock.nowNs()
        const generation = pipeline.generate({ ...request, prompt: promptIds, acceptedNs })
        const { sequence } = generation
        if (text !== undefined) ring.span(SpanName.tokenize, acceptedNs, tokenizedNs, spanTag(sequence, 0), 0)
        const emittedNs: number[] = []
        const ids: number[] = []
        sequences.push({ sequence, promptTokens: promptIds.length, acceptedNs, emittedNs, tokens: ids })
        for await (const { token, position } of generation) {
          if (decoder !== undefined) {
            const startNs = monotonicClock.nowNs()
            decoder.push(token)
            ring.span(SpanName.detokenize, startNs, monotonicClock.nowNs(), spanTag(sequence, position), 0)
          }
          emittedNs.push(monotonicClock.nowNs())
          ids.push(token)
          ui.progress(`recording: ${++done} of ${prompts.length * tokens} tokens`)
        }
      }),
    )
    const after = before === undefined ? undefined : await socketCounts()
    if (before !== undefined && after !== undefined) wire = wireBytes(links, before, after)
    clearInterval(flushing)
    await taking
    await flush()
    if (level > 0) await pipeline.startTrace(0)
  } catch (error) {
    // Workers may be gone, and are neither asked any more nor waited for.
    hasFailed = true
    options.onPart?.(assemble(false, [...held, drained()]))
    throw error
  } finally {
    clearInterval(flushing)
    instruments.stop()
  }
  return assemble(true, parts)
}

function injected({ stage, injection: { place, delayMs } }: NonNullable<LocalOptions['inject']>) {
  return { place: `${place}@${stage}`, delayNs: delayMs * 1e6 }
}

/** What was taken out of all recorders at one time. */
interface Part {
  readonly own: Float64Array
  readonly dropped: number
  readonly stages: readonly StageTrace[]
  readonly relay: Recorded | undefined
}

interface Recorded {
  readonly spans: Float64Array
  readonly dropped: number
}

/** Empties the recorder of a relay. */
async function fetchSpans(address: string): Promise<Recorded> {
  const response = await fetch(`http://${address}/spans`, { signal: AbortSignal.timeout(5000) })
  return {
    spans: new Float64Array(await response.arrayBuffer()),
    dropped: Number(response.headers.get('x-dropped-spans')),
  }
}

function processOf(
  who: Pick<ProcessTrace, 'name' | 'role' | 'stage' | 'layerFirst' | 'layerEnd'>,
  parts: readonly Recorded[],
): ProcessTrace {
  const spans = new Float64Array(parts.reduce((sum, part) => sum + part.spans.length, 0))
  let at = 0
  for (const part of parts) {
    spans.set(part.spans, at)
    at += part.spans.length
  }
  let peakRssBytes = 0
  let spanCostNs = 0
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] === SpanName.memory) peakRssBytes = Math.max(peakRssBytes, spans[i + 4]!)
    if (spans[i] === SpanName.calibration) spanCostNs = spans[i + 2]! - spans[i + 1]!
  }
  return {
    ...{ ...who, spans, dropped: parts.reduce((sum, part) => sum + part.dropped, 0) },
    ...{ peakRssBytes, spanCostNs },
  }
}
