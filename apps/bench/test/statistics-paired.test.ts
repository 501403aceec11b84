import { describe, expect, it } from 'vitest'
import { pairedEstimate } from '../src/statistics/index.ts'

describe('the paired estimate', () => {
  it('is that of the textbook', () => {
    // Hamilton depression scale of nine patients before and after treatment (Hollander and Wolfe, table 3.1).
    const before = [1.83, 0.5, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.3]
    const after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    const found = pairedEstimate(
      before.map((x, i) => x - after[i]!),
      0.96,
    )
    // As published: estimate 0.46, interval of 96.1 % from 0.01 to 0.786.
    expect(found.center).toBeCloseTo(0.46, 3)
    expect(found.low).toBeCloseTo(0.01, 3)
    expect(found.high).toBeCloseTo(0.786, 3)
    expect(found.confidence).toBeCloseTo(0.961, 3)
  })

  it('inverts the exact test: at 6 pairs the interval is that of all averages, with 1 - 2/64', () => {
    const found = pairedEstimate([1, 2, 3, 4, 5, 6])
    expect(found).toMatchObject({ low: 1, high: 6, center: 3.5 })
    expect(found.confidence).toBeCloseTo(1 - 2 / 64, 12)
  })

  it('agrees with counting all signs', () => {
    // P(W <= w) by brute force over 2^10 signs.
    const n = 10
    const counts = new Map<number, number>()
    for (let signs = 0; signs < 1 << n; signs++) {
      let sum = 0
      for (let rank = 1; rank <= n; rank++) if (signs & (1 << (rank - 1))) sum += rank
      counts.set(sum, (counts.get(sum) ?? 0) + 1)
    }
    let below = 0
    let rank = 0
    while (2 * (below + counts.get(rank)!) <= 0.05 * 2 ** n) below += counts.get(rank++)!
    const values = Array.from({ length: n }, (_, i) => Math.sin(7 * i + 1))
    const averages = values.flatMap((a, i) => values.slice(i).map((b) => (a + b) / 2)).sort((a, b) => a - b)
    const found = pairedEstimate(values)
    expect(found.low).toBe(averages[rank - 1])
    expect(found.high).toBe(averages[averages.length - rank])
    expect(found.confidence).toBeCloseTo(1 - (2 * below) / 2 ** n, 12)
  })

  it.each([[[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5, Number.NaN]]])('refuses %j', (values) => {
    expect(() => pairedEstimate(values)).toThrow(expect.objectContaining({ code: 'USAGE' }))
  })
})
