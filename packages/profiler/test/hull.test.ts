import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { feasibleLines, type Line, type Point } from '../src/hull.ts'
import { quantile, theilSen } from '../src/robust.ts'

/** Corners by definition: the crossings of every two constraints that break none. Exact in rationals over small integers. */
function cornersByPairs(lower: readonly Point[], upper: readonly Point[], maxSlope: number): Line[] {
  // A constraint is p * a + q * b = r with the allowed side p * a + q * b <= r.
  const constraints = [
    ...lower.map(({ x, y }) => [-1, -x, -y] as const),
    ...upper.map(({ x, y }) => [1, x, y] as const),
    [0, 1, maxSlope] as const,
    [0, -1, maxSlope] as const,
  ]
  const corners: Line[] = []
  for (const [p1, q1, r1] of constraints) {
    for (const [p2, q2, r2] of constraints) {
      const determinant = p1 * q2 - p2 * q1
      if (determinant === 0) continue
      const an = r1 * q2 - r2 * q1
      const bn = p1 * r2 - p2 * r1
      const sign = Math.sign(determinant)
      if (constraints.every(([p, q, r]) => sign * (p * an + q * bn - r * determinant) <= 0)) {
        corners.push({ a: an / determinant, b: bn / determinant })
      }
    }
  }
  return corners
}

const coordinate = fc.integer({ min: -40, max: 40 })
const point = fc.record({ x: coordinate, y: coordinate })
const someLower = fc.array(fc.record({ x: coordinate, y: fc.integer({ min: -40, max: 5 }) }), {
  minLength: 1,
  maxLength: 9,
})
const someUpper = fc.array(fc.record({ x: coordinate, y: fc.integer({ min: -5, max: 40 }) }), {
  minLength: 1,
  maxLength: 9,
})

describe('feasibleLines', () => {
  it('has the range that all crossings of two constraints have, and none where they have none', () => {
    let feasible = 0
    fc.assert(
      fc.property(
        someLower,
        someUpper,
        fc.integer({ min: 1, max: 3 }),
        coordinate,
        (lower, upper, slope, x) => {
          const expected = cornersByPairs(lower, upper, slope)
          const band = feasibleLines(lower, upper, slope)
          expect(band === undefined).toBe(expected.length === 0)
          if (band === undefined) return
          feasible++
          const values = expected.map(({ a, b }) => a + b * x)
          expect(band.range(x).low).toBeCloseTo(Math.min(...values), 9)
          expect(band.range(x).high).toBeCloseTo(Math.max(...values), 9)
        },
      ),
      { numRuns: 1500, seed: 5 },
    )
    expect(feasible).toBeGreaterThan(300)
  })

  it('clamps to a line that breaks no constraint, and leaves one that breaks none', () => {
    const eps = 1e-9
    fc.assert(
      fc.property(someLower, someUpper, point, (lower, upper, { x, y }) => {
        const band = feasibleLines(lower, upper, 2)
        if (band === undefined) return
        const line = { a: x, b: y / 10 }
        const { a, b } = band.clamp(line)
        expect(Math.abs(b)).toBeLessThanOrEqual(2 + eps)
        for (const below of lower) expect(a + b * below.x).toBeGreaterThanOrEqual(below.y - eps)
        for (const above of upper) expect(a + b * above.x).toBeLessThanOrEqual(above.y + eps)
        const isAllowed =
          Math.abs(line.b) <= 2 &&
          lower.every((p) => line.a + line.b * p.x >= p.y) &&
          upper.every((p) => line.a + line.b * p.x <= p.y)
        if (isAllowed) {
          expect(a).toBeCloseTo(line.a, 9)
          expect(b).toBeCloseTo(line.b, 9)
        }
      }),
      { numRuns: 1000, seed: 6 },
    )
  })

  it('of one point each is the difference of them, widened by the slope', () => {
    const band = feasibleLines([{ x: 0, y: 1 }], [{ x: 0, y: 3 }], 0.5)!
    expect(band.range(0)).toEqual({ low: 1, high: 3 })
    expect(band.range(10)).toEqual({ low: -4, high: 8 })
  })
})

describe('robust estimates', () => {
  it('are type 7 quantiles', () => {
    // quantile(c(1, 3, 4, 10), c(0, .25, .5, .9, 1), type = 7) in R
    const values = [10, 1, 4, 3]
    expect([0, 0.25, 0.5, 0.9, 1].map((q) => quantile(values, q))).toEqual([
      1,
      2.5,
      3.5,
      expect.closeTo(8.2, 12),
      10,
    ])
    expect(quantile([], 0.5)).toBeUndefined()
  })

  it('do not follow one outlier', () => {
    const points = [0, 1, 2, 3, 4, 5, 6].map((x) => ({ x, y: 7 + 2 * x }))
    points[3] = { x: 3, y: 1e6 }
    expect(theilSen(points)).toEqual({ a: 7, b: 2 })
    expect(theilSen([{ x: 4, y: 9 }])).toEqual({ a: 9, b: 0 })
  })
})
