import { SeamError, SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import type { RunTrace } from './trace.ts'

const names = new Map(Object.entries(SpanName).map(([name, value]) => [value as number, name]))

/**
 * Refuses a trace that no recording makes, whatever its file said: spans of unknown names, that end before they begin or are no numbers,
 * stages or sequences that are there twice, tokens before their request. Throws `FILE` naming the first.
 */
export function checkTrace({ processes, sequences }: RunTrace): void {
  const stages = new Set<number>()
  for (const { name, role, stage, spans } of processes) {
    if (role === 'stage' && (stage < 0 || stage >= processes.length || stages.has(stage)))
      throw damaged(`${name} is stage ${stage} of ${processes.length} processes, or there are two of it`)
    if (role === 'stage') stages.add(stage)
    for (let at = 0; at < spans.length; at += SPAN_RECORD_LENGTH) checkSpan(name, spans, at)
  }
  const seen = new Set<number>()
  for (const { sequence, acceptedNs, emittedNs, tokens } of sequences) {
    if (seen.has(sequence)) throw damaged(`sequence ${sequence} is there twice`)
    seen.add(sequence)
    if (emittedNs.length !== tokens.length)
      throw damaged(`sequence ${sequence} has ${tokens.length} tokens and ${emittedNs.length} stamps of them`)
    let beforeNs = acceptedNs
    for (const atNs of emittedNs) {
      if (atNs < beforeNs)
        throw damaged(`sequence ${sequence} has a stamp of ${atNs} ns after ${beforeNs} ns`)
      beforeNs = atNs
    }
    if (acceptedNs < 0) throw damaged(`sequence ${sequence} was accepted at ${acceptedNs} ns`)
  }
}

function checkSpan(process: string, spans: Float64Array, at: number): void {
  const [name, startNs, endNs] = [spans[at]!, spans[at + 1]!, spans[at + 2]!]
  const which = `span ${at / SPAN_RECORD_LENGTH} of ${process}`
  if (!names.has(name)) throw damaged(`${which} has the name ${name}, which means nothing`)
  for (let i = 1; i < SPAN_RECORD_LENGTH; i++) {
    if (!Number.isFinite(spans[at + i])) throw damaged(`${which} (${names.get(name)}) holds ${spans[at + i]}`)
  }
  if (startNs < 0 || endNs < startNs)
    throw damaged(`${which} (${names.get(name)}) goes from ${startNs} to ${endNs} ns`)
}

function damaged(what: string): SeamError {
  return new SeamError('FILE', `${what}; the record is damaged`)
}
