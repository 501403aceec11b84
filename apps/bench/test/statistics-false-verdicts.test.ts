import { describe, expect, it } from 'vitest'
import { falseVerdicts, random } from '../src/statistics/index.ts'

/** Times around 10 ms: each run off by `runNoise`, on a drift that wanders and once steps up by 6 %, with a slow run now and then. */
function noise(seed: number, runs: number, runNoise: number): number[] {
  const next = random(seed)
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
  let drift = 0
  return Array.from({ length: runs }, (_, run) => {
    drift = 0.9 * drift + 0.017 * normal()
    const slow = next() < 0.03 ? 0.3 : 0
    return 10 * Math.exp(drift + runNoise * normal() + slow + (run > runs / 2 ? 0.06 : 0))
  })
}

const recorded = [1, 2, 3, 4, 5].map((seed) => noise(seed, 48, 0.02))

describe('comparisons of a build with itself', () => {
  it.each([6, 12, 20])('at %i pairs find something in at most 5 of 100, in either direction', (pairs) => {
    const { improved, regressed, total } = falseVerdicts(99, recorded, 2000, pairs)
    expect(total).toBe(2000)
    expect((improved + regressed) / total).toBeLessThanOrEqual(0.05)
    expect(improved).toBeGreaterThan(0)
    expect(regressed).toBeGreaterThan(0)
  })

  it('find less with a least effect, and nothing where nothing varies', () => {
    const all = falseVerdicts(7, recorded, 1000, 12)
    const some = falseVerdicts(7, recorded, 1000, 12, 0.03)
    expect(some.improved + some.regressed).toBeLessThan(all.improved + all.regressed)
    expect(falseVerdicts(7, [new Array(8).fill(3)], 100, 12)).toEqual({
      improved: 0,
      regressed: 0,
      total: 100,
    })
  })

  it('are the same for the same seed', () => {
    expect(falseVerdicts(1, recorded, 200, 12)).toEqual(falseVerdicts(1, recorded, 200, 12))
  })

  it('keep drift within a block, where A B B A cancels it', () => {
    const drifting = Array.from({ length: 40 }, (_, run) => 10 * 1.1 ** run)
    expect(falseVerdicts(3, [drifting], 400, 12)).toEqual({ improved: 0, regressed: 0, total: 400 })
  })

  it('call a block A B B A or B A A B by a coin', () => {
    // The middle two are slower. Six pairs are a verdict when the three blocks fall alike: 1 in 8 each way, so 200 of 1600 +- 13.
    const { improved, regressed } = falseVerdicts(3, [[10, 11, 11, 10]], 1600, 6)
    expect(Math.abs(improved - 200)).toBeLessThan(50)
    expect(Math.abs(regressed - 200)).toBeLessThan(50)
    // From 11 to 10 are 9.1 % less, from 10 to 11 are 10 % more.
    expect(falseVerdicts(3, [[10, 11, 11, 10]], 1600, 6, 0.09)).toEqual({ improved, regressed, total: 1600 })
    expect(falseVerdicts(3, [[10, 11, 11, 10]], 1600, 6, 0.095)).toEqual({
      improved: 0,
      regressed,
      total: 1600,
    })
    expect(falseVerdicts(3, [[10, 11, 11, 10]], 1600, 6, 0.101)).toMatchObject({ improved: 0, regressed: 0 })
  })

  it.each([
    [[], 12],
    [[[1, 2, 3]], 12],
    [[[1, 2, 3, 0]], 12],
    [[[1, 2, 3, 4]], 5],
  ])('refuse noise %j with %i pairs', (series, pairs) =>
    expect(() => falseVerdicts(1, series, 10, pairs)).toThrow(expect.objectContaining({ code: 'USAGE' })),
  )
})
