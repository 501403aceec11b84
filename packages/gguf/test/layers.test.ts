import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { balanceByBytes, checkLayerRanges, parseLayerRanges } from '../src/layers.ts'
import { expectCode } from './support.ts'

describe('layer ranges', () => {
  test('are read from text', () => {
    expect(parseLayerRanges('0-8, 8-16')).toEqual([
      { layerFirst: 0, layerEnd: 8 },
      { layerFirst: 8, layerEnd: 16 },
    ])
  })

  test.each([
    ['', /layer range "" is not FIRST-END/],
    ['0-8,', /layer range "" is not/],
    ['0-8,9-16', /9-16 must begin at 8/],
    ['0-8,7-16', /7-16 must begin at 8/],
    ['1-8', /1-8 must begin at 0/],
    ['0-0', /0-0 holds no layer/],
    ['0-8,8-4', /8-4 holds no layer/],
    ['0..8', /"0..8" is not FIRST-END/],
  ])('"%s" is refused', async (text, message) => {
    await expectCode(() => parseLayerRanges(text), 'USAGE', message)
  })

  test('must end where the model does', async () => {
    await expectCode(
      () => checkLayerRanges(parseLayerRanges('0-8'), 9),
      'USAGE',
      /end at 8, the model has 9 layers/,
    )
    await expectCode(() => checkLayerRanges([], 9), 'USAGE', /end at 0/)
  })
})

describe('balancing by bytes', () => {
  test('finds the smallest possible largest stage', () => {
    const bytes = fc.integer({ min: 0, max: 50 })
    fc.assert(
      fc.property(
        fc.array(bytes, { minLength: 1, maxLength: 7 }),
        fc.nat(6),
        bytes,
        bytes,
        (layers, more, first, last) => {
          const stages = Math.min(1 + more, layers.length)
          const ranges = balanceByBytes(layers, stages, first, last)
          checkLayerRanges(ranges, layers.length)
          expect(ranges.length).toBe(stages)
          const sizes = ranges.map(({ layerFirst, layerEnd }) => sum(layers.slice(layerFirst, layerEnd)))
          sizes[0]! += first
          sizes[stages - 1]! += last
          expect(Math.max(...sizes)).toBe(bruteForce([...layers], stages, first, last))
        },
      ),
      { seed: 3, numRuns: 300 },
    )
  })

  test('needs a stage and a layer for each', async () => {
    for (const stages of [0, 4, 1.5, Number.NaN]) {
      await expectCode(
        () => balanceByBytes([1, 1, 1], stages),
        'USAGE',
        /a model of 3 layers takes 1 to 3 stages/,
      )
    }
  })
})

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)

function bruteForce(layers: number[], stages: number, first: number, last: number): number {
  if (stages === 1) return sum(layers) + first + last
  let best = Number.POSITIVE_INFINITY
  for (let cut = 1; cut <= layers.length - stages + 1; cut++) {
    const head = sum(layers.slice(0, cut)) + first
    best = Math.min(best, Math.max(head, bruteForce(layers.slice(cut), stages - 1, 0, last)))
  }
  return best
}
