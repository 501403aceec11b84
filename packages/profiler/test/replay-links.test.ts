import { describe, expect, test } from 'vitest'
import { linkCosts } from '../src/replay-links.ts'
import type { Cost, Frame } from '../src/replay-types.ts'

const cost = (category: Cost['category'], ns: number): Cost => ({
  category,
  process: 1,
  port: 1,
  ns,
  bytes: 0,
})

function frame(firstNs: number, restNs: number): Frame {
  const rest = cost('wire.rest', restNs)
  return {
    ...{ from: 0, to: 1, outPort: 2, rest, hold: rest, header: cost('frame.decode', 0) },
    ...{ sending: [], receiving: [], queue: cost('send.queue', 0), early: cost('send.call', 0) },
    first: [cost('wire.first', firstNs), cost('relay.in', 5)],
  }
}

// A link of 1 ns a byte and 100 ns of delay that hands over pieces of 10 bytes: the first byte of a frame is seen 10 ns after the link
// began with it, so that from first to last byte 90 of 100 ns pass.
describe('linkCosts', () => {
  test('a frame behind another begins when the link is done with that one', () => {
    const alone = frame(105, 90)
    const behind = frame(205, 90)
    const costs = linkCosts([
      { frame: alone, sentNs: 0, firstNs: 110, lastNs: 200, bytes: 100 },
      { frame: behind, sentNs: 0, firstNs: 210, lastNs: 300, bytes: 100 },
    ])
    expect(costs.get(alone)!.hold.ns).toBe(100)
    expect(costs.get(behind)!.hold.ns).toBe(100)
    // Sent at 0, begun at 100, seen at 210: 110 ns, of which the relay stamped 5 itself.
    expect(costs.get(alone)!.first.map(({ ns }) => ns)).toEqual([105, 5])
    expect(costs.get(behind)!.first.map(({ ns }) => ns)).toEqual([105, 5])
  })

  test('frames with room between them tell nothing of the pace and stay as they are', () => {
    const one = frame(105, 90)
    const two = frame(105, 90)
    const costs = linkCosts([
      { frame: one, sentNs: 0, firstNs: 110, lastNs: 200, bytes: 100 },
      { frame: two, sentNs: 500, firstNs: 610, lastNs: 700, bytes: 100 },
    ])
    expect([one, two].map((each) => costs.get(each)!.hold.ns)).toEqual([90, 90])
    expect(costs.get(two)!.first).toBe(two.first)
  })

  test('links in other directions and over other ports are others', () => {
    const one = frame(105, 90)
    const other = { ...frame(105, 90), outPort: 3 }
    const costs = linkCosts([
      { frame: one, sentNs: 0, firstNs: 110, lastNs: 200, bytes: 100 },
      { frame: other, sentNs: 0, firstNs: 205, lastNs: 295, bytes: 100 },
    ])
    expect(costs.get(other)!.hold.ns).toBe(90)
  })
})
