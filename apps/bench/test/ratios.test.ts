import { describe, expect, it } from 'vitest'
import { ratioOf } from '../src/ratios.ts'
import { median, quantile } from '../src/statistics/index.ts'

describe('quantiles, type 7', () => {
  it('are linear between neighbours', () => {
    // At share * (n - 1): 0.5 * 3 = 1.5 lies half way from 20 to 30; 0.99 * 3 = 2.97 lies 0.97 of the way from 30 to 100.
    expect(quantile([10, 20, 30, 100], 0.5)).toBe(25)
    expect(quantile([10, 20, 30, 100], 0.99)).toBeCloseTo(97.9, 10)
    expect(quantile([7], 0.99)).toBe(7)
    expect(quantile([], 0.5)).toBeNaN()
  })

  it('sort as numbers', () => expect(median([10, 9, 100])).toBe(10))
})

describe('ratios over rounds', () => {
  const side = (roundsNs: number[], bytes?: number) => ({ roundsNs, bytes })

  it('are the median of the ratios of each round, not the ratio of the medians', () => {
    // 2/1, 30/10, 8/2: 2, 3, 4. The medians, 8 and 2, would give 4.
    const ratio = ratioOf({ of: 'time' }, side([2, 30, 8]), side([1, 10, 2]))
    expect(ratio).toEqual({ value: 3, low: 2, high: 4, rounds: 3, pass: undefined })
  })

  it('do not change when whole rounds are slower', () => {
    const quiet = ratioOf({ of: 'time' }, side([3, 3, 3]), side([2, 2, 2]))
    const noisy = ratioOf({ of: 'time' }, side([3, 300, 30]), side([2, 200, 20]))
    expect(noisy).toEqual(quiet)
  })

  it('of speed count bytes: half the bytes in twice the time is a quarter', () => {
    const ratio = ratioOf({ of: 'speed' }, side([200, 400], 50), side([100, 200], 100))
    expect(ratio.value).toBe(0.25)
  })

  it('pass at the target itself and on its side only', () => {
    const target = (relation: '<=' | '>=', value: number) => ({ relation, value })
    const at = (of: 'time' | 'speed', relation: '<=' | '>=', value: number) =>
      ratioOf({ of, target: target(relation, value) }, side([3]), side([2])).pass
    expect(at('time', '<=', 1.5)).toBe(true)
    expect(at('time', '<=', 1.49)).toBe(false)
    expect(at('time', '>=', 1.5)).toBe(true)
    expect(at('time', '>=', 1.51)).toBe(false)
    expect(at('speed', '>=', 0.66)).toBe(true)
    expect(at('speed', '>=', 0.67)).toBe(false)
  })

  it('refuse sides with different rounds', () => {
    expect(() => ratioOf({ of: 'time' }, side([1, 2]), side([1]))).toThrow(RangeError)
    expect(() => ratioOf({ of: 'time' }, side([]), side([]))).toThrow(RangeError)
  })
})
