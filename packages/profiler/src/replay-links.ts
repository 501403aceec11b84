import type { Cost, Frame } from './replay-types.ts'

/** A frame that was recorded whole, with its times on the clock of the last stage. */
export interface RecordedFrame {
  readonly frame: Frame
  /** From when on the link could have had it. */
  readonly sentNs: number
  readonly firstNs: number
  readonly lastNs: number
  readonly bytes: number
}

/** Closer to the end of the one before than this part of its own length, and a frame came as fast as the link carries. */
const CLOSE = 0.25

/**
 * What frames cost on links that carry them one after another, by frame: how long each holds its link, which is more than from its first
 * byte to its last where bytes come in pieces, and what passes until its first byte once the link is free. Links are told apart by sender,
 * receiver and port.
 */
export function linkCosts(
  recorded: readonly RecordedFrame[],
): Map<Frame, { readonly hold: Cost; readonly first: readonly Cost[] }> {
  const links = new Map<string, RecordedFrame[]>()
  for (const each of recorded) {
    const { from, to, outPort } = each.frame
    const key = `${from} ${to} ${outPort}`
    const found = links.get(key)
    if (found === undefined) links.set(key, [each])
    else found.push(each)
  }
  const costs = new Map<Frame, { readonly hold: Cost; readonly first: readonly Cost[] }>()
  for (const frames of links.values()) {
    frames.sort((a, b) => a.firstNs - b.firstNs)
    const nsPerByte = pace(frames)
    let freeNs = -Infinity
    for (const { frame, sentNs, firstNs, bytes } of frames) {
      const { rest } = frame
      const hold = { ...rest, ns: Math.max(rest.ns, Math.round(bytes * nsPerByte)) }
      const beginNs = Math.max(sentNs, freeNs)
      const first = beginNs > sentNs ? atMost(frame.first, Math.max(0, firstNs - beginNs)) : frame.first
      freeNs = beginNs + hold.ns
      costs.set(frame, { hold, first })
    }
  }
  return costs
}

/** What a byte takes on a link that is kept busy: the median over frames that came directly behind another; 0 without any. */
function pace(frames: readonly RecordedFrame[]): number {
  const found: number[] = []
  for (const [i, { sentNs, firstNs, lastNs, bytes }] of frames.entries()) {
    const before = frames[i - 1]
    if (before === undefined || bytes === 0 || sentNs >= before.lastNs) continue
    if (firstNs - before.lastNs < CLOSE * (lastNs - firstNs)) found.push((lastNs - before.lastNs) / bytes)
  }
  found.sort((a, b) => a - b)
  return found[found.length >> 1] ?? 0
}

/** Takes what is too much from the wire, not from relays, which stamped their own. */
function atMost(costs: readonly Cost[], limitNs: number): readonly Cost[] {
  let excessNs = costs.reduce((sum, { ns }) => sum + ns, 0) - limitNs
  return costs.map((cost) => {
    if (cost.category !== 'wire.first' || excessNs <= 0) return cost
    const cutNs = Math.min(cost.ns, excessNs)
    excessNs -= cutNs
    return { ...cost, ns: cost.ns - cutNs }
  })
}
