import { SeamError, SPAN_RECORD_LENGTH, SpanName, SpanPort } from '@seamline/core'
import type { ProcessTrace, RunTrace } from './trace.ts'

const names = new Map(Object.entries(SpanName).map(([name, value]) => [value as number, name]))
const ports = new Set<number>(Object.values(SpanPort))

/**
 * Refuses a trace that no recording makes, whatever its file said: spans of unknown names, that end before they begin or are no numbers,
 * stages or sequences that are there twice or missing, tokens before their request. Throws `FILE` naming the first.
 */
export function checkTrace({ settings, processes, sequences }: RunTrace): void {
  const stages = new Set<number>()
  for (const { name, role, stage, spans } of processes) {
    if (role === 'stage' && (stage < 0 || stage >= processes.length || stages.has(stage)))
      throw damaged(`${name} is stage ${stage} of ${processes.length} processes, or there are two of it`)
    if (role === 'stage') stages.add(stage)
    for (let at = 0; at < spans.length; at += SPAN_RECORD_LENGTH) checkSpan(name, role, spans, at)
  }
  const coordinators = processes.filter(({ role }) => role === 'coordinator').length
  if (coordinators !== 1) throw damaged(`there are ${coordinators} coordinators, not 1`)
  if (stages.size !== settings.stages)
    throw damaged(`there are ${stages.size} stages, and settings.stages is ${settings.stages}`)
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
  }
}

function checkSpan(process: string, role: ProcessTrace['role'], spans: Float64Array, at: number): void {
  const [name, startNs, endNs] = [spans[at]!, spans[at + 1]!, spans[at + 2]!]
  const [tag, bytes, port] = [spans[at + 3]!, spans[at + 4]!, spans[at + 5]!]
  const which = `span ${at / SPAN_RECORD_LENGTH} of ${process}`
  if (!names.has(name)) throw damaged(`${which} has the name ${name}, which means nothing`)
  for (let i = 1; i < SPAN_RECORD_LENGTH; i++) {
    if (!Number.isFinite(spans[at + i])) throw damaged(`${which} (${names.get(name)}) holds ${spans[at + i]}`)
  }
  if (startNs < 0 || endNs < startNs)
    throw damaged(`${which} (${names.get(name)}) goes from ${startNs} to ${endNs} ns`)
  // Of a probe they are a peer's stamps, and which peer it is.
  if (name === SpanName.probe) return
  if (!(tag >= 0 && Number.isSafeInteger(tag)))
    throw damaged(`${which} (${names.get(name)}) has the tag ${tag}`)
  if (bytes < 0) throw damaged(`${which} (${names.get(name)}) has ${bytes} bytes`)
  // A relay numbers the pairs it carries.
  if (role === 'relay' ? !(port >= 0 && Number.isSafeInteger(port)) : !ports.has(port))
    throw damaged(`${which} (${names.get(name)}) has the port ${port}, which means nothing`)
}

function damaged(what: string): SeamError {
  return new SeamError('FILE', `${what}; the record is damaged`)
}
