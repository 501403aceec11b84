import { expect, it } from 'vitest'
import { type Attribution, type Segment, summarizeAttribution, type TokenAttribution } from '../src/index.ts'

function token(index: number, parts: readonly [Segment['category'], number, number][]): TokenAttribution {
  let cursorNs = 0
  const segments = parts.map(([category, process, ns]): Segment => {
    const startNs = cursorNs
    cursorNs += ns
    return { category, process, port: 0, startNs, endNs: cursorNs, bytes: 0, uncertainNs: 0 }
  })
  return {
    ...{ sequence: 0, index, position: index, startNs: 0, endNs: cursorNs, segments, deliveryNs: 0 },
    hiddenNs: { 'send.call': 10 * index },
  }
}

const attribution: Attribution = {
  tokens: [
    token(0, [['sample', 3, 1_000_000]]),
    token(1, [
      ['compute.device', 1, 60],
      ['compute.device', 2, 30],
      ['UNATTRIBUTED', 2, 10],
    ]),
    token(2, [
      ['compute.device', 1, 100],
      ['wire.first', 2, 100],
    ]),
    token(3, [
      ['compute.device', 1, 20],
      ['UNATTRIBUTED', 2, 20],
      ['wire.first', 2, 60],
    ]),
  ],
  ...{ lanes: [], causalityViolations: 0, omitted: [], recordingErrors: [] },
}

it('sums tokens behind the first up by category and process', () => {
  const { tokens, wallNs, rows, unattributed, hiddenMeanNs, incomplete } = summarizeAttribution(attribution)
  expect([tokens, wallNs]).toEqual([3, 400])
  const row = (category: string, process: number) =>
    rows.find((row) => row.category === category && row.process === process)
  expect(row('compute.device', -1)).toMatchObject({ totalNs: 210, meanNs: 70, medianNs: 90, sharePct: 52.5 })
  // 20, 60, 100: 0.9 of the way from 60 to 100.
  expect(row('compute.device', 1)).toMatchObject({ totalNs: 180, meanNs: 60, medianNs: 60, p95Ns: 96 })
  expect(row('compute.device', 2)).toMatchObject({ totalNs: 30, medianNs: 0 })
  expect(row('wire.first', -1)).toBeUndefined()
  expect(row('sample', 3)).toBeUndefined()
  expect(unattributed).toEqual({ medianNs: 10, p95Ns: 19, medianPct: 10, p95Pct: 19 })
  expect(hiddenMeanNs).toEqual({ 'send.call': 20 })
  expect(incomplete).toBe(true)
})

it('has nothing to say of no tokens', () => {
  const { tokens, rows, unattributed } = summarizeAttribution(attribution, () => false)
  expect([tokens, rows]).toEqual([0, []])
  expect(unattributed.medianPct).toBeNaN()
})
