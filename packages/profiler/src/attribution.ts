import { SpanName, spanTag } from '@seamline/core'
import { type AlignedRun, alignRun } from './aligned.ts'
import { placed, placedBand } from './clock-map.ts'
import { clockUncertaintyNs } from './clocks.ts'
import { attributeLanes, recordingErrors } from './lanes.ts'
import { categoryOf, loopNames, type Message, type RunIndex } from './steps.ts'
import type {
  Attribution,
  Category,
  ClockAlignment,
  RunTrace,
  Segment,
  SequenceTrace,
  TokenAttribution,
} from './trace.ts'
import { rowOf, sampledNs, type Visit, type Way, walkBack } from './walk.ts'

/**
 * Says where the time of each token went, and what each lane did.
 *
 * Each token's interval on the clock of the last stage is tiled with segments, in integer ns without gap or overlap: by a backward walk
 * from the end of its sample to that of the token before. Stays in a process have the length that its own clock says; the ways between
 * two processes have what is left, in total exactly, and split between them as the clocks are aligned. Only recorded edges
 * explain a wait; everything else is UNATTRIBUTED.
 *
 * Throws `USAGE` where a recorder lost spans, where processes are missing, and where `alignment` is not of this trace.
 */
export function attribute(trace: RunTrace, alignment: ClockAlignment): Attribution {
  return attributeRun(alignRun(trace, alignment))
}

export function attributeRun(aligned: AlignedRun): Attribution {
  const { run } = aligned
  const tokens: TokenAttribution[] = []
  const omitted: { sequence: number; index: number }[] = []
  const seen = new Map<string, Message>()
  for (const sequence of run.trace.sequences) {
    for (let index = 0; index < tokenCount(run, sequence); index++) {
      const way = walkBack(run, sequence, index)
      if (way === undefined) {
        omitted.push({ sequence: sequence.sequence, index })
        continue
      }
      for (const message of way.messages) {
        if (message !== undefined)
          seen.set(`${message.from.process} ${message.outPort} ${message.tag}`, message)
      }
      tokens.push(layOut(aligned, sequence, index, way))
    }
  }
  const messages = [...seen.values()]
  return {
    tokens,
    lanes: attributeLanes(aligned, messages),
    causalityViolations: messages.filter((message) => isBackward(aligned.alignment, message)).length,
    omitted,
    recordingErrors: recordingErrors(run),
  }
}

/** Tokens that were handed to the caller, and those sampled whose way there was cut. */
function tokenCount(run: RunIndex, sequence: SequenceTrace): number {
  let count = sequence.emittedNs.length
  while (sampledNs(run, rowOf(run, sequence, count)) !== undefined && count > 0) count++
  return count
}

/** Even the clocks that suit it best let this message come before it was sent. */
function isBackward({ maps }: ClockAlignment, { from, to, sentNs, firstNs }: Message): boolean {
  const sent = placedBand(maps[from.process]!, sentNs!)
  const first = placedBand(maps[to.process]!, firstNs!)
  return Math.ceil(first.highNs) < Math.floor(sent.lowNs)
}

/** Puts the stays of a token and the ways between them on the clock of the last stage. */
function layOut(aligned: AlignedRun, sequence: SequenceTrace, index: number, way: Way): TokenAttribution {
  const { run, alignment } = aligned
  const { maps } = alignment
  const { visits, messages } = way
  const place = ({ at, startNs }: Visit) => placed(maps[at.process]!, startNs)
  const first = visits[0]!
  const last = visits.at(-1)!
  const startNs = place(first)
  const endNs = Math.max(startNs, last.endNs)
  const lengths = fitted(visits, endNs - startNs)

  const segments: Segment[] = []
  let stayNs = lengths.reduce((sum, length) => sum + length, 0)
  let cursorNs = startNs
  for (const [i, visit] of visits.entries()) {
    if (i > 0) {
      // No way is shorter than nothing, and what is still to come must fit in.
      const latestNs = endNs - stayNs
      const aimNs = i === visits.length - 1 ? latestNs : place(visit)
      const arrivalNs = Math.min(latestNs, Math.max(cursorNs, aimNs))
      const from = visits[i - 1]!
      const uncertainNs = Math.ceil(
        clockUncertaintyNs(maps[from.at.process]!, from.endNs) +
          clockUncertaintyNs(maps[visit.at.process]!, visit.startNs),
      )
      segments.push(
        ...aligned.hops.split(messages[i - 1], visit.at, cursorNs, arrivalNs, uncertainNs, way.tags),
      )
      cursorNs = arrivalNs
    }
    const lengthNs = lengths[i]!
    segments.push(...shifted(visit, cursorNs, lengthNs))
    cursorNs += lengthNs
    stayNs -= lengthNs
  }
  const { sequence: id, promptTokens, emittedNs } = sequence
  const emitTag = spanTag(id, promptTokens + index)
  const emitted = emittedNs[index] ?? run.coordinator.find(SpanName.emit, emitTag)?.endNs
  const emittedAtNs =
    emitted === undefined ? undefined : placed(maps[run.coordinator.process]!, Math.round(emitted))
  return {
    ...{ sequence: id, index, position: promptTokens + index, startNs, endNs, segments },
    deliveryNs: emittedAtNs === undefined ? 0 : emittedAtNs - endNs,
    hiddenNs: hidden(aligned, way, segments),
  }
}

/** Lengths of the stays; where they are longer than the whole, which clocks that drift apart can do, the longest gives way. */
function fitted(visits: readonly Visit[], wholeNs: number): number[] {
  const lengths = visits.map(({ startNs, endNs }) => endNs - startNs)
  let excessNs = lengths.reduce((sum, length) => sum + length, 0) - wholeNs
  while (excessNs > 0) {
    const longest = lengths.indexOf(Math.max(...lengths))
    const cutNs = Math.min(excessNs, lengths[longest]!)
    lengths[longest]! -= cutNs
    excessNs -= cutNs
  }
  return lengths
}

function shifted({ at, startNs, tiles }: Visit, toNs: number, lengthNs: number): Segment[] {
  return tiles.flatMap((tile) => {
    const from = toNs + Math.min(lengthNs, tile.startNs - startNs)
    const to = toNs + Math.min(lengthNs, tile.endNs - startNs)
    if (from === to) return []
    return [{ ...tile.label, process: at.process, startNs: from, endNs: to, uncertainNs: 0 }]
  })
}

/** What was done for this token within its interval and is not in its segments. */
function hidden(
  { run, alignment }: AlignedRun,
  { tags }: Way,
  segments: readonly Segment[],
): Partial<Record<Category, number>> {
  const firstNs = segments[0]?.startNs ?? 0
  const lastNs = segments.at(-1)?.endNs ?? 0
  const done: Partial<Record<Category, number>> = {}
  for (const at of run.processes) {
    const map = alignment.maps[at.process]!
    for (const tag of tags) {
      for (const { name, startNs, endNs } of at.byTag.get(tag) ?? []) {
        const category = categoryOf(name)
        const isWork = loopNames.has(name) || name === SpanName.compute || name === SpanName.sample
        // A dispatch may hold others.
        if (category === undefined || !isWork || name === SpanName.dispatch) continue
        const from = Math.max(firstNs, placed(map, startNs))
        const to = Math.min(lastNs, placed(map, endNs))
        if (from < to) done[category] = (done[category] ?? 0) + to - from
      }
    }
  }
  for (const { category, startNs, endNs } of segments) {
    const charged = category === 'cpu.wait' ? 'compute.device' : category
    if (done[charged] !== undefined) done[charged] -= endNs - startNs
  }
  return Object.fromEntries(Object.entries(done).filter(([, ns]) => ns > 0))
}
