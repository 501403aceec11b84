import { SpanName, SpanPort, spanTag } from '@seamline/core'
import { type Charge, charge, type Stay, spansAt, stayOf } from './charge.ts'
import type { Tile } from './paint.ts'
import type { Message, ProcessIndex, RunIndex } from './steps.ts'
import type { SequenceTrace } from './trace.ts'

/** A token's stay in one process, on that process's clock, tiled without a gap. */
export interface Visit {
  readonly at: ProcessIndex
  readonly startNs: number
  readonly endNs: number
  readonly tiles: readonly Tile<Charge>[]
}

/**
 * The way of a token, oldest first: `messages[i]` leads from `visits[i]` to `visits[i + 1]`. A message is undefined where the trace
 * does not say when it was sent and when it came.
 */
export interface Way {
  readonly visits: readonly Visit[]
  readonly messages: readonly (Message | undefined)[]
  /** Every tag that this token's spans may have. */
  readonly tags: ReadonlySet<number>
}

/** When the row `tag` was sampled, on the clock of the last stage; without a `sample` span, when its step was computed. */
export function sampledNs({ stages }: RunIndex, tag: number): number | undefined {
  const last = stages.at(-1)!
  const lead = last.leadOf(tag)
  const span =
    last.find(SpanName.sample, lead) ?? last.find(SpanName.compute, lead) ?? last.find(SpanName.cpuWait, lead)
  return span?.endNs ?? last.find(SpanName.resume, lead)?.startNs
}

/** The row whose step samples token `index` of `sequence`. */
export function rowOf(run: RunIndex, sequence: SequenceTrace, index: number): number {
  const { sequence: id, promptTokens } = sequence
  return spanTag(id, index === 0 ? (run.chunksOf(sequence).at(-1) ?? 0) : promptTokens + index - 1)
}

/**
 * Walks backward from the sample of token `index`, from each activity to the one whose completion let it begin: program order within
 * a process, a message between two, and between chunks of one prompt the engine that was still busy with the chunk before. Ends at
 * the sample of the token before, or where the request was accepted. Undefined when either end is not in the trace.
 */
export function walkBack(run: RunIndex, sequence: SequenceTrace, index: number): Way | undefined {
  const row = rowOf(run, sequence, index)
  const endNs = sampledNs(run, row)
  if (endNs === undefined) return undefined
  if (index === 0) return walkPrompt(run, sequence, endNs)
  const before = rowOf(run, sequence, index - 1)
  const startNs = sampledNs(run, before)
  if (startNs === undefined) return undefined
  return run.stages.length === 1
    ? walkAlone(run, row, before, startNs, endNs)
    : walkRing(run, row, before, startNs, endNs)
}

/** Collects a way from its end to its start. */
function backward() {
  const visits: Visit[] = []
  const messages: (Message | undefined)[] = []
  const tags = new Set<number>()
  /** Set while the walk is past a process of which nothing is recorded. */
  let isLost = false
  return {
    own(...mine: readonly number[]): ReadonlySet<number> {
      for (const tag of mine) tags.add(tag)
      return new Set(mine)
    },
    visit(at: ProcessIndex, startNs: number, endNs: number, tiles: readonly Tile<Charge>[]): void {
      // Without a stamp of when the token left, two ways and the stay between them are one way of which nothing is known.
      isLost = endNs === -Infinity
      if (isLost) messages.pop()
      else visits.push({ at, startNs, endNs, tiles })
    },
    came(message: Message): void {
      const { sentNs, firstNs } = message
      messages.push(isLost || sentNs === undefined || firstNs === undefined ? undefined : message)
    },
    way: (): Way => ({ visits: visits.reverse(), messages: messages.reverse(), tags }),
  }
}

function rowsWith(at: ProcessIndex, tag: number): readonly number[] {
  return at.rowsOf(at.leadOf(tag))
}

/** Tags of what the last stage does for the step that sampled after the row `before`. */
function sampling(run: RunIndex, before: number): readonly number[] {
  const rows = rowsWith(run.stages.at(-1)!, before)
  return [...rows, ...rows.map(run.nextTag)]
}

/** On the only stage a token goes nowhere. */
function walkAlone(run: RunIndex, row: number, before: number, startNs: number, endNs: number): Way {
  const only = run.stages[0]!
  const back = backward()
  const mine = back.own(...sampling(run, before), ...rowsWith(only, row))
  back.visit(only, startNs, endNs, charge(only, startNs, endNs, mine, stayOf(run, only, row)))
  return back.way()
}

/** Through all stages back to where the token before was sampled. */
function walkRing(run: RunIndex, row: number, before: number, startNs: number, endNs: number): Way {
  const { stages, coordinator } = run
  const last = stages.at(-1)!
  const back = backward()
  let leaveNs = endNs
  /** Tags under which the token leaves the process that is next on the way back. */
  let leaving: readonly number[] = []

  function stage(at: ProcessIndex, message: Message): void {
    const mine = back.own(...rowsWith(at, row), message.tag)
    stay(at, message, mine, stayOf(run, at, row))
  }
  function stay(at: ProcessIndex, message: Message, mine: ReadonlySet<number>, waits: Stay | undefined) {
    const enterNs = entered(at, message, mine, leaveNs)
    back.visit(at, enterNs, leaveNs, charge(at, enterNs, leaveNs, mine, waits))
    const { from, tag } = message
    if (from === coordinator) leaving = [tag]
    else leaving = from === last ? sampling(run, before) : [tag, ...rowsWith(from, row)]
    leaveNs = left(message, back.own(...leaving))
    back.came(message)
  }

  for (let s = stages.length - 1; s > 0; s--) stage(stages[s]!, run.hiddenMessage(s, stages[s]!.leadOf(row)))
  const [direct, onward] = run.tokenMessages(before)
  stage(stages[0]!, onward ?? direct!)
  if (onward !== undefined) stay(coordinator, direct!, back.own(onward.tag, direct!.tag), undefined)
  const leftNs = Math.max(startNs, leaveNs)
  back.visit(last, startNs, leftNs, charge(last, startNs, leftNs, back.own(...leaving), undefined))
  return back.way()
}

/** Through all stages, and from chunk to chunk where the engine held one back, to where the request was accepted. */
function walkPrompt(run: RunIndex, sequence: SequenceTrace, endNs: number): Way {
  const { stages, coordinator } = run
  const chunks = run.chunksOf(sequence).map((position) => spanTag(sequence.sequence, position))
  const back = backward()
  let nth = chunks.length - 1
  let leaveNs = endNs
  for (let s = stages.length - 1; s >= 0; s--) {
    const at = stages[s]!
    const parts: Tile<Charge>[][] = []
    let cursorNs = leaveNs
    for (; nth > 0; nth--) {
      const readyNs = at.find(SpanName.stageQueue, chunks[nth]!)?.startNs
      const freedNs = at.find(SpanName.resume, chunks[nth - 1]!)?.endNs
      if (readyNs === undefined || freedNs === undefined || freedNs <= readyNs || freedNs > cursorNs) break
      const mine = back.own(chunks[nth]!, chunks[nth - 1]!)
      parts.unshift(charge(at, freedNs, cursorNs, mine, stayOf(run, at, chunks[nth]!)))
      cursorNs = freedNs
    }
    const chunk = chunks[nth]!
    const message = s > 0 ? run.hiddenMessage(s, chunk) : run.promptMessage(chunk)
    const mine = back.own(chunk)
    const enterNs = entered(at, message, mine, cursorNs)
    parts.unshift(charge(at, enterNs, cursorNs, mine, stayOf(run, at, chunk)))
    back.visit(at, enterNs, leaveNs, parts.flat())
    back.came(message)
    leaveNs = left(message, mine)
  }
  const begin = spanTag(sequence.sequence, 0)
  const startNs = coordinator.find(SpanName.request, begin)?.startNs ?? Math.round(sequence.acceptedNs)
  const leftNs = Math.max(startNs, leaveNs)
  const mine = back.own(begin, ...chunks)
  back.visit(coordinator, startNs, leftNs, charge(coordinator, startNs, leftNs, mine, undefined))
  return back.way()
}

/** When the token came into `at`: with the first byte of its message, else with the first that is recorded of it. */
function entered(at: ProcessIndex, message: Message, mine: ReadonlySet<number>, leaveNs: number): number {
  if (message.firstNs !== undefined && message.firstNs <= leaveNs) return message.firstNs
  let firstNs = leaveNs
  for (const { name, startNs, port } of spansAt(at, mine)) {
    const isOut = port === message.outPort || port === SpanPort.hiddenOut || name === SpanName.request
    if (!isOut && startNs < firstNs) firstNs = startNs
  }
  return firstNs
}

/** When the token left the sender of `message`: with its send stamp, else with the last that is recorded of it. */
function left({ from, sentNs, outPort }: Message, mine: ReadonlySet<number>): number {
  if (sentNs !== undefined) return sentNs
  let lastNs = -Infinity
  for (const { name, endNs, port } of spansAt(from, mine)) {
    const isProgram = name !== SpanName.sendQueue && (port === outPort || port === SpanPort.none)
    if (isProgram && endNs > lastNs) lastNs = endNs
  }
  return lastNs
}
