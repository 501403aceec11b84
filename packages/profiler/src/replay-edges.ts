import { SpanName, SpanPort, spanTag, spanTagParts } from '@seamline/core'
import type { AlignedRun } from './aligned.ts'
import { placed } from './clock-map.ts'
import { granting } from './replay-credit.ts'
import type { Cost, Credit, Frame, RequestModel } from './replay-types.ts'
import type { Message, ProcessIndex, RunIndex } from './steps.ts'

/**
 * How many steps the link behind stage `s` lets be on their way, where that ever kept one from beginning. The receiver grants half of the
 * window at a time, so that the first steps of a record meet what was left of the grant before.
 */
export function credit(
  { run, alignment }: AlignedRun,
  s: number,
  leads: readonly (readonly { readonly tag: number; readonly startedNs: number }[])[],
): Credit {
  const at = run.stages[s]!
  const behind = run.stages[s + 1]
  const free = { window: Infinity, granted: Infinity, creditNs: 0 }
  if (behind === undefined) return free
  const placedAt = (where: ProcessIndex, ns: number) => placed(alignment.maps[where.process]!, ns)
  const next = sampledBy(run)
  const releases = leads[s + 1]!.map(({ tag }) => placedAt(behind, leftNs(behind, tag, next(tag))))
  releases.sort((a, b) => a - b)
  const starts = leads[s]!.map(({ tag, startedNs }) => ({
    atNs: placedAt(at, startedNs),
    isBlocked: at.find(SpanName.creditWait, tag) !== undefined,
  }))
  const granted = starts.findIndex(({ isBlocked }) => isBlocked)
  if (granted === -1) return free
  const wayNs = Math.max(
    0,
    Math.min(
      ...leads[s + 1]!.map(({ tag }) => {
        const { sentNs, firstNs } = run.hiddenMessage(s + 1, tag)
        return sentNs === undefined || firstNs === undefined
          ? Infinity
          : placedAt(behind, firstNs) - placedAt(at, sentNs)
      }),
    ),
  )
  // No step begins beyond the window, and credit comes no faster than hidden rows go.
  let window = Math.max(1, granted)
  let released = 0
  for (const [n, { atNs }] of starts.entries()) {
    while (released < releases.length && releases[released]! + wayNs <= atNs) released++
    window = Math.max(window, n + 1 - released)
  }
  const grants = granting(window, granted)
  const limits = releases.map((atNs) => ({ atNs, limit: grants.release() }))
  const delays = starts.flatMap(({ atNs, isBlocked }, n) => {
    const last = limits.find(({ limit }) => limit > n)
    return isBlocked && last !== undefined && last.atNs <= atNs ? [atNs - last.atNs] : []
  })
  // Some waited for more than credit; what that takes alone is seen where it was the last thing missing.
  return { window, granted, creditNs: delays.length === 0 ? 0 : Math.min(...delays) }
}

/** The tag of the token that a row brings about; undefined for the rows of a prompt before its last chunk. */
export function sampledBy({ trace, chunksOf, nextTag }: RunIndex): (row: number) => number | undefined {
  const prompts = new Map(
    trace.sequences.map((sequence) => [
      sequence.sequence,
      { tokens: sequence.promptTokens, last: chunksOf(sequence).at(-1) },
    ]),
  )
  return (row) => {
    const { sequence, position } = spanTagParts(row)
    const prompt = prompts.get(sequence)
    const samples = prompt !== undefined && (position >= prompt.tokens || position === prompt.last)
    return samples ? nextTag(row) : undefined
  }
}

/** When a stage was done with a step: its last frame is with the transport. `sampled`: see {@link sampledBy}. */
export function leftNs(at: ProcessIndex, tag: number, sampled: number | undefined): number {
  let doneNs = at.find(SpanName.resume, tag)?.endNs ?? at.find(SpanName.compute, tag)!.endNs
  const sent = [at.find(SpanName.send, tag, SpanPort.hiddenOut)]
  if (sampled !== undefined) {
    sent.push(at.find(SpanName.send, sampled, SpanPort.tokensOut))
    sent.push(at.find(SpanName.send, sampled, SpanPort.resultOut))
  }
  for (const span of sent) doneNs = Math.max(doneNs, span?.endNs ?? 0)
  return doneNs
}

export function requests(
  { run, alignment }: AlignedRun,
  stepOf: (row: number) => number | undefined,
  frameOf: (message: Message, before: readonly Cost[]) => Frame,
): RequestModel[] {
  const { coordinator, trace } = run
  const map = alignment.maps[coordinator.process]!
  const endNs = (emittedNs: readonly number[]) => emittedNs.at(-1) ?? Infinity
  const inOrder = trace.sequences.filter(({ emittedNs }) => emittedNs.length > 0)
  const used = new Set<number>()
  return [...inOrder]
    .sort((a, b) => a.acceptedNs - b.acceptedNs)
    .map((sequence, nth) => {
      const { sequence: id, promptTokens, emittedNs } = sequence
      const acceptedNs = Math.round(sequence.acceptedNs)
      // Closed loop: the request that ended last before this one, each once.
      const before = inOrder
        .filter((other) => endNs(other.emittedNs) <= acceptedNs && !used.has(other.sequence))
        .sort((a, b) => endNs(b.emittedNs) - endNs(a.emittedNs))[0]
      const after = nth < trace.settings.sequences ? undefined : before
      if (after !== undefined) used.add(after.sequence)
      let doneNs = acceptedNs
      const chunks = run.chunksOf(sequence).flatMap((position) => {
        const tag = spanTag(id, position)
        const step = stepOf(tag)
        if (step === undefined) return []
        const message = run.promptMessage(tag)
        const encode = coordinator.find(SpanName.frameEncode, tag, SpanPort.promptOut)
        const gapNs = Math.max(0, (encode?.startNs ?? doneNs) - doneNs)
        const opened = position === 0 ? coordinator.find(SpanName.open, tag) : undefined
        const openNs = opened === undefined ? 0 : Math.min(gapNs, opened.endNs - opened.startNs)
        const at = { process: coordinator.process, port: SpanPort.promptOut, bytes: 0 }
        const before: Cost[] = [
          { category: 'open', ns: openNs, ...at },
          { category: 'dispatch', ns: gapNs - openNs, ...at },
        ]
        doneNs = coordinator.find(SpanName.send, tag, SpanPort.promptOut)?.endNs ?? encode?.endNs ?? doneNs
        return [{ before, frame: frameOf(message, []), step }]
      })
      return {
        ...{ sequence: id, tokens: emittedNs.length, promptTokens, chunks },
        acceptedNs:
          after === undefined ? placed(map, acceptedNs) : acceptedNs - Math.round(after.emittedNs.at(-1)!),
        after: after?.sequence,
        emittedNs: emittedNs.map((atNs) => Math.round(atNs) - acceptedNs),
      }
    })
}

/** How long it takes stage 0 to learn from the coordinator that a sequence has ended: what the fastest prompt took. */
export function endDelay({ run, alignment }: AlignedRun): number {
  const delays = run.trace.sequences.flatMap((sequence) => {
    const { sentNs, firstNs, from, to } = run.promptMessage(spanTag(sequence.sequence, 0))
    if (sentNs === undefined || firstNs === undefined) return []
    return [placed(alignment.maps[to.process]!, firstNs) - placed(alignment.maps[from.process]!, sentNs)]
  })
  return delays.length === 0 ? 0 : Math.max(0, Math.min(...delays))
}

export function recordedMakespanNs({ run }: AlignedRun): number {
  let firstNs = Infinity
  let lastNs = -Infinity
  for (const { acceptedNs, emittedNs } of run.trace.sequences) {
    if (emittedNs.length === 0) continue
    firstNs = Math.min(firstNs, acceptedNs)
    lastNs = Math.max(lastNs, emittedNs.at(-1)!)
  }
  return lastNs - firstNs
}
