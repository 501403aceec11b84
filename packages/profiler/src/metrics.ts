import { SeamError, SPAN_RECORD_LENGTH, SpanName, SpanPort, spanTagParts } from '@seamline/core'
import { stagesOf } from './clock-records.ts'
import { clockUncertaintyNs, onLastStage } from './clocks.ts'
import { quantile } from './robust.ts'
import type { ClockAlignment, ProcessTrace, RunTrace, SequenceTrace } from './trace.ts'

/** Nanoseconds are of the coordinator's clock, where nothing else is said. */
export interface SequenceMetrics {
  readonly sequence: number
  readonly promptTokens: number
  /** Tokens handed to the caller, counted by their ids. */
  readonly tokens: number
  /** Accepted until the first token was handed over; undefined without a token. TTFT of vLLM, AIPerf and MLPerf. */
  readonly ttftNs?: number
  /** `(last - first) / (n - 1)`, from two tokens on. TPOT of vLLM and MLPerf; what AIPerf calls ITL. */
  readonly tpotNs?: number
  /** `1 / tpot`. */
  readonly decodeTokensPerSecond?: number
  /** Between successive tokens, n - 1 of them. ITL of vLLM with one token a chunk; what AIPerf calls ICL. */
  readonly itlNs: readonly number[]
  /** Accepted until the last token was handed over: {@link ttftNs} and {@link itlNs} add up to it exactly. */
  readonly e2eNs?: number
  /**
   * From the start of the first prompt chunk on stage 0 until the logits of the last prompt row are ready on the last stage: without
   * queues before, tokenizing and sampling, nearest to llama-server's `prompt_ms`. Needs spans of both, and clocks that are aligned.
   */
  readonly prefillNs?: number
  /** Half of the width of what the clocks allow for {@link prefillNs}. */
  readonly prefillUncertainNs?: number
  /** Prompt tokens over {@link prefillNs}; all of them were computed. Not prompt tokens over TTFT, as AIPerf has it. */
  readonly prefillTokensPerSecond?: number
}

export interface Quantiles {
  readonly count: number
  readonly p50?: number
  /** From 72 values on. */
  readonly p95?: number
  /** From 368 values on. */
  readonly p99?: number
  readonly max?: number
}

export interface Throughput {
  readonly tokens: number
  readonly windowNs: number
  readonly tokensPerSecond: number
}

/** Bytes that one decoded token costs on the edge from a stage to the next one. */
export interface EdgeBytes {
  /** The stage that sends. */
  readonly stage: number
  /** One row of hidden values as float32. */
  readonly logical?: number
  /** What the codec makes of it. */
  readonly payload?: number
  /** With the frame around it. */
  readonly framed?: number
  /** What the link put on the wire for it, with all that the link adds. */
  readonly wire?: number
}

export interface RunMetrics {
  /** False where the record was cut: rates are of what there is. */
  readonly complete: boolean
  readonly sequences: readonly SequenceMetrics[]
  readonly ttftNs: Quantiles
  /** Of all sequences together. */
  readonly itlNs: Quantiles
  /** All decode time over all decoded tokens, never a mean of means. */
  readonly tpotNs?: number
  readonly decodeTokensPerSecond?: number
  /** All prompt tokens over all prefill time, of the sequences where that is known. */
  readonly prefillTokensPerSecond?: number
  /**
   * With K sequences in flight: from the first to the last instant at which K of them were between their first and last token. Fill
   * and drain are cut by that; a gap between two requests is not. Tokens count that were handed over after its begin and not after
   * its end. Undefined where K were never in flight.
   */
  readonly steady?: Throughput
  /** From the first request to the last token. */
  readonly uncut?: Throughput
  /** Sequences with a token over the uncut window. */
  readonly requestsPerSecond?: number
  /** By process, in the order of the trace. 0 where nothing was read. */
  readonly peakRssBytes: readonly { readonly process: string; readonly bytes: number }[]
  readonly bytesPerToken: readonly EdgeBytes[]
}

const MIN_FOR_P95 = 72
const MIN_FOR_P99 = 368
const FLOAT_BYTES = 4

/**
 * The figures of one run, by the definitions at each field; quantiles are of type 7 over raw values. What was not recorded is undefined,
 * never zero. Needs stamps of tokens only; spans add prefill and bytes, and prefill on several processes also needs `clocks`.
 *
 * Throws `MISMATCH` for a sequence whose stamps are not whole nanoseconds in order, or as many as its tokens.
 */
export function metrics(trace: RunTrace, clocks?: ClockAlignment): RunMetrics {
  const prefills = prefillsOf(trace, clocks)
  const sequences = trace.sequences.map((sequence) => ({
    ...sequenceMetrics(sequence),
    ...prefills.get(sequence.sequence),
  }))
  const ttfts = sequences.flatMap(({ ttftNs }) => ttftNs ?? [])
  const itls = sequences.flatMap(({ itlNs }) => itlNs)
  const decodeNs = itls.reduce((sum, ns) => sum + ns, 0)
  const prefilled = sequences.filter(({ prefillNs }) => prefillNs !== undefined)
  const prefillNs = prefilled.reduce((sum, one) => sum + one.prefillNs!, 0)
  const prompts = prefilled.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
  const served = trace.sequences.filter(({ emittedNs }) => emittedNs.length > 0)
  const uncut = throughput(
    served,
    served.reduce((least, { acceptedNs }) => Math.min(least, acceptedNs), Infinity),
    served.reduce((most, { emittedNs }) => Math.max(most, emittedNs.at(-1)!), -Infinity),
  )
  return {
    complete: trace.complete,
    sequences,
    ttftNs: quantiles(ttfts),
    itlNs: quantiles(itls),
    ...(decodeNs > 0 && {
      tpotNs: decodeNs / itls.length,
      decodeTokensPerSecond: (itls.length * 1e9) / decodeNs,
    }),
    ...(prefillNs > 0 && { prefillTokensPerSecond: (prompts * 1e9) / prefillNs }),
    ...optional('steady', steadyThroughput(served, trace.settings.sequences)),
    ...optional('uncut', uncut),
    ...optional('requestsPerSecond', uncut && (served.length * 1e9) / uncut.windowNs),
    peakRssBytes: trace.processes.map(({ name, peakRssBytes }) => ({ process: name, bytes: peakRssBytes })),
    bytesPerToken: edgesOf(trace),
  }
}

function sequenceMetrics({
  sequence,
  promptTokens,
  acceptedNs,
  emittedNs,
  tokens,
}: SequenceTrace): SequenceMetrics {
  if (emittedNs.length !== tokens.length) {
    throw new SeamError(
      'MISMATCH',
      `sequence ${sequence} has ${tokens.length} tokens and ${emittedNs.length} stamps of them`,
    )
  }
  let beforeNs = acceptedNs
  const gapsNs = emittedNs.map((atNs) => {
    if (!Number.isSafeInteger(atNs) || !Number.isSafeInteger(beforeNs) || atNs < beforeNs) {
      throw new SeamError('MISMATCH', `sequence ${sequence} has a stamp of ${atNs} ns after ${beforeNs} ns`)
    }
    const gapNs = atNs - beforeNs
    beforeNs = atNs
    return gapNs
  })
  const [ttftNs, ...itlNs] = gapsNs
  const base = { sequence, promptTokens, tokens: tokens.length, itlNs }
  if (ttftNs === undefined) return base
  const decodeNs = itlNs.reduce((sum, ns) => sum + ns, 0)
  const e2eNs = emittedNs.at(-1)! - acceptedNs
  if (ttftNs + decodeNs !== e2eNs) {
    throw new SeamError(
      'MISMATCH',
      `sequence ${sequence} took ${e2eNs} ns, its parts ${ttftNs + decodeNs} ns`,
    )
  }
  return {
    ...base,
    ...{ ttftNs, e2eNs },
    ...(itlNs.length > 0 && { tpotNs: decodeNs / itlNs.length }),
    ...(decodeNs > 0 && { decodeTokensPerSecond: (itlNs.length * 1e9) / decodeNs }),
  }
}

function quantiles(values: readonly number[]): Quantiles {
  const count = values.length
  if (count === 0) return { count }
  return {
    ...{ count, p50: quantile(values, 0.5)!, max: quantile(values, 1)! },
    ...(count >= MIN_FOR_P95 && { p95: quantile(values, 0.95)! }),
    ...(count >= MIN_FOR_P99 && { p99: quantile(values, 0.99)! }),
  }
}

function steadyThroughput(sequences: readonly SequenceTrace[], inFlight: number): Throughput | undefined {
  const changes = sequences
    .flatMap(({ emittedNs }) => [
      { atNs: emittedNs[0]!, by: 1 },
      { atNs: emittedNs.at(-1)!, by: -1 },
    ])
    // At one instant what begins does so before what ends.
    .sort((p, q) => p.atNs - q.atNs || q.by - p.by)
  let count = 0
  let startNs: number | undefined
  let endNs = 0
  for (const { atNs, by } of changes) {
    if (count >= inFlight) endNs = atNs
    count += by
    if (count >= inFlight) startNs ??= atNs
  }
  return startNs === undefined ? undefined : throughput(sequences, startNs, endNs)
}

function throughput(
  sequences: readonly SequenceTrace[],
  startNs: number,
  endNs: number,
): Throughput | undefined {
  if (!(endNs > startNs)) return undefined
  const isInside = (ns: number) => ns > startNs && ns <= endNs
  const tokens = sequences.reduce((sum, { emittedNs }) => sum + emittedNs.filter(isInside).length, 0)
  return { tokens, windowNs: endNs - startNs, tokensPerSecond: (tokens * 1e9) / (endNs - startNs) }
}

type Prefill = Pick<SequenceMetrics, 'prefillNs' | 'prefillUncertainNs' | 'prefillTokensPerSecond'>

function prefillsOf(trace: RunTrace, clocks: ClockAlignment | undefined): Map<number, Prefill> {
  const prefills = new Map<number, Prefill>()
  const stages = stagesOf(trace)
  const [first, last] = [stages[0], stages.at(-1)]
  if (first === undefined || last === undefined) return prefills
  const begun = promptSteps(trace, first)
  const ended = first === last ? begun : promptSteps(trace, last)
  const map = first === last ? undefined : clocks?.maps[first]
  if (first !== last && (map === undefined || map.band.length === 0)) return prefills
  for (const { sequence, promptTokens } of trace.sequences) {
    const startNs = begun.get(sequence)?.startNs
    const endNs = ended.get(sequence)?.endNs
    if (startNs === undefined || endNs === undefined) continue
    const prefillNs = endNs - (map === undefined ? startNs : onLastStage(map, startNs))
    if (prefillNs <= 0) continue
    prefills.set(sequence, {
      prefillNs,
      prefillUncertainNs: map === undefined ? 0 : clockUncertaintyNs(map, startNs),
      prefillTokensPerSecond: (promptTokens * 1e9) / prefillNs,
    })
  }
  return prefills
}

/** When a stage began the first prompt chunk of each sequence and ended the last one: that of the highest position. */
function promptSteps(trace: RunTrace, process: number): Map<number, { startNs: number; endNs: number }> {
  const { spans } = trace.processes[process]!
  const members = membersOf(spans)
  const prompts = new Map(trace.sequences.map(({ sequence, promptTokens }) => [sequence, promptTokens]))
  const steps = new Map<number, { startNs: number; endNs: number; position: number }>()
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] !== SpanName.compute) continue
    const [startNs, endNs, tag] = [spans[i + 1]!, spans[i + 2]!, spans[i + 3]!]
    for (const row of [tag, ...(members.get(tag) ?? [])]) {
      const { sequence, position } = spanTagParts(row)
      if (position >= (prompts.get(sequence) ?? 0)) continue
      const known = steps.get(sequence)
      if (known === undefined) steps.set(sequence, { startNs, endNs, position })
      else if (position > known.position) steps.set(sequence, { startNs: known.startNs, endNs, position })
    }
  }
  return steps
}

/** The further rows of each step, by the tag of its first. */
function membersOf(spans: Float64Array): Map<number, number[]> {
  const members = new Map<number, number[]>()
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] !== SpanName.member) continue
    const rows = members.get(spans[i + 3]!)
    if (rows === undefined) members.set(spans[i + 3]!, [spans[i + 4]!])
    else if (!rows.includes(spans[i + 4]!)) rows.push(spans[i + 4]!)
  }
  return members
}

function edgesOf(trace: RunTrace): EdgeBytes[] {
  const stages = stagesOf(trace).map((i) => trace.processes[i]!)
  const { embedding } = trace.settings
  const prompts = new Map(trace.sequences.map(({ sequence, promptTokens }) => [sequence, promptTokens]))
  const isDecode = (tag: number) => {
    const { sequence, position } = spanTagParts(tag)
    return position >= (prompts.get(sequence) ?? Infinity)
  }
  return stages.slice(0, -1).map((sender, stage) => {
    const framed = bytesPerRow(sender, SpanName.frameEncode, SpanPort.hiddenOut, isDecode)
    const wire =
      framed === undefined ? undefined : wireOf(sender, framed, trace.wireBytes?.[stage] ?? undefined)
    return {
      stage,
      ...(embedding > 0 && { logical: embedding * FLOAT_BYTES }),
      ...optional('payload', bytesPerRow(stages[stage + 1]!, SpanName.receive, SpanPort.hiddenIn, isDecode)),
      ...optional('framed', framed),
      ...optional('wire', wire),
    }
  })
}

function bytesPerRow(
  { spans }: ProcessTrace,
  name: SpanName,
  port: SpanPort,
  isDecode: (tag: number) => boolean,
): number | undefined {
  const members = membersOf(spans)
  let bytes = 0
  let rows = 0
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] !== name || spans[i + 5] !== port || !isDecode(spans[i + 3]!)) continue
    bytes += spans[i + 4]!
    rows += 1 + (members.get(spans[i + 3]!)?.length ?? 0)
  }
  return rows === 0 ? undefined : bytes / rows
}

/**
 * What a frame of `framed` bytes is on the wire. The kernel counts all that a link sent: what that is beyond the frames is of headers, one set
 * of them a frame on one host, where segments are longer than frames. A relay's counts are of its stream and go by bytes.
 */
function wireOf(sender: ProcessTrace, framed: number, counted: number | undefined): number | undefined {
  if (counted === undefined) {
    const ratio = wirePerFramed(sender)
    return ratio === undefined ? undefined : framed * ratio
  }
  let bytes = 0
  let frames = 0
  for (let i = 0; i < sender.spans.length; i += SPAN_RECORD_LENGTH) {
    const isHidden = sender.spans[i + 5] === SpanPort.hiddenOut
    if (!isHidden || sender.spans[i] !== SpanName.frameEncode) continue
    bytes += sender.spans[i + 4]!
    frames++
  }
  return frames === 0 || counted < bytes ? undefined : framed + (counted - bytes) / frames
}

/**
 * Counters tell of all that went over a link between two of them, so that what they count is set against the frames of hidden rows
 * that went between: the rest, such as signs of life, is what those cost too.
 */
function wirePerFramed({ spans }: ProcessTrace): number | undefined {
  const counts: { atNs: number; bytes: number }[] = []
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] === SpanName.wireBytes && spans[i + 5] === SpanPort.hiddenOut)
      counts.push({ atNs: spans[i + 1]!, bytes: spans[i + 4]! })
  }
  counts.sort((p, q) => p.atNs - q.atNs)
  const [first, last] = [counts[0], counts.at(-1)]
  if (first === undefined || last === undefined || first.atNs === last.atNs) return undefined
  let framed = 0
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    // A counter is read as its frame is handed over, and does not contain it yet.
    const isSent = spans[i] === SpanName.sendQueue && spans[i + 5] === SpanPort.hiddenOut
    if (isSent && spans[i + 1]! >= first.atNs && spans[i + 1]! < last.atNs) framed += spans[i + 4]!
  }
  return framed === 0 ? undefined : (last.bytes - first.bytes) / framed
}

function optional<K extends string, V>(key: K, value: V | undefined): { readonly [key in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [key in K]?: V }
}
