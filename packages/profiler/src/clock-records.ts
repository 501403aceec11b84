import { SeamError, SPAN_RECORD_LENGTH, SpanName, SpanPort } from '@seamline/core'
import type { ProcessTrace, RunTrace } from './trace.ts'

/** Something left one process and reached another, each stamped by the clock of its own. Processes are indices in the trace. */
export interface Passage {
  readonly from: number
  readonly to: number
  readonly sentNs: number
  readonly receivedNs: number
}

/** There and back again: t1 and t4 on the prober's clock, t2 and t3 on the peer's. */
export interface Probe {
  readonly prober: number
  readonly peer: number
  readonly t1: number
  readonly t2: number
  readonly t3: number
  readonly t4: number
}

/** From the coordinator to stage s the port of a probe is this plus s. */
const STAGE_PROBES = 100

/** Every probe of the trace whose peer is another process of it. Throws `MISMATCH` for stamps that run backwards. */
export function probesOf(trace: RunTrace): Probe[] {
  const stages = stagesOf(trace)
  const probes: Probe[] = []
  for (const [prober, process] of trace.processes.entries()) {
    const { spans } = process
    if (spans.length % SPAN_RECORD_LENGTH !== 0) {
      throw new SeamError(
        'USAGE',
        `${process.name} has ${spans.length} numbers of spans, not a multiple of ${SPAN_RECORD_LENGTH}`,
      )
    }
    for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
      if (spans[i] !== SpanName.probe) continue
      const peer = stages[probedStage(process, spans[i + 5]!, stages.length)]
      if (peer === undefined || peer === prober) continue
      const [t1, t4, t2, t3] = [spans[i + 1]!, spans[i + 2]!, spans[i + 3]!, spans[i + 4]!]
      if (!(t1 <= t4)) throw backwards(process, t1, t4)
      if (!(t2 <= t3)) throw backwards(trace.processes[peer]!, t2, t3)
      probes.push({ prober, peer, t1, t2, t3, t4 })
    }
  }
  return probes
}

/**
 * Every message that both ends recorded: from the stamp with which it was handed to the transport to that of its first byte. Joined by
 * tag; a tag that one end has more often than the other is left out, since nothing tells which of them was lost.
 */
export function messagesOf(trace: RunTrace): Passage[] {
  const stages = stagesOf(trace)
  const coordinator = trace.processes.findIndex(({ role }) => role === 'coordinator')
  const last = stages.at(-1)
  const sent = trace.processes.map(({ spans }) => byPort(spans, SpanName.sendQueue))
  const received = trace.processes.map(({ spans }) => byPort(spans, SpanName.frameDecode))
  const messages: Passage[] = []

  function join(from: number | undefined, out: SpanPort, to: number | undefined, into: SpanPort): void {
    if (from === undefined || to === undefined || from < 0 || to < 0 || from === to) return
    const arrivals = received[to]!.get(into)
    for (const [tag, sends] of sent[from]!.get(out) ?? []) {
      const firsts = arrivals?.get(tag)
      if (firsts?.length !== sends.length) continue
      for (const [i, sentNs] of sends.entries()) messages.push({ from, to, sentNs, receivedNs: firsts[i]! })
    }
  }

  for (const [s, stage] of stages.entries()) join(stage, SpanPort.hiddenOut, stages[s + 1], SpanPort.hiddenIn)
  join(coordinator, SpanPort.promptOut, stages[0], SpanPort.promptIn)
  join(last, SpanPort.resultOut, coordinator, SpanPort.resultIn)
  join(last, SpanPort.tokensOut, stages[0], SpanPort.tokensIn)
  join(coordinator, SpanPort.tokensOut, stages[0], SpanPort.tokensIn)
  return messages
}

/** Indices of the stages in the order of the chain. */
export function stagesOf(trace: RunTrace): number[] {
  return [...trace.processes.keys()]
    .filter((i) => trace.processes[i]!.role === 'stage')
    .sort((a, b) => trace.processes[a]!.stage - trace.processes[b]!.stage)
}

/** First start and last end of a process's records on its own clock; undefined for one without any. */
export function extentOf({ spans }: ProcessTrace): { startNs: number; endNs: number } | undefined {
  if (spans.length === 0) return undefined
  let startNs = Infinity
  let endNs = -Infinity
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    startNs = Math.min(startNs, spans[i + 1]!)
    endNs = Math.max(endNs, spans[i + 2]!)
  }
  return { startNs, endNs }
}

function probedStage({ role, stage }: ProcessTrace, port: number, stages: number): number {
  if (role === 'coordinator') return port - STAGE_PROBES
  if (port === SpanPort.hiddenIn) return stage - 1
  return port === SpanPort.tokensIn ? stages - 1 : -1
}

function byPort(spans: Float64Array, name: SpanName): Map<number, Map<number, number[]>> {
  const ports = new Map<number, Map<number, number[]>>()
  for (let i = 0; i < spans.length; i += SPAN_RECORD_LENGTH) {
    if (spans[i] !== name) continue
    const port = spans[i + 5]!
    const tag = spans[i + 3]!
    const tags = ports.get(port) ?? new Map<number, number[]>()
    ports.set(port, tags)
    const starts = tags.get(tag)
    if (starts === undefined) tags.set(tag, [spans[i + 1]!])
    else starts.push(spans[i + 1]!)
  }
  return ports
}

function backwards({ name }: ProcessTrace, first: number, second: number): SeamError {
  return new SeamError(
    'MISMATCH',
    `the clock of ${name} ran backwards: a probe was stamped ${first} ns and then ${second} ns; record the run again`,
  )
}
