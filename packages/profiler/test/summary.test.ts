import { describe, expect, it } from 'vitest'
import { categoryGroups, groupOf } from '../src/categories.ts'
import { formatBytes, formatCount, formatNs, formatPct } from '../src/report/format.ts'
import { attributionTotals, quantile, rounded, runSummary, summaryJson } from '../src/summary.ts'
import { categories } from '../src/trace.ts'
import { sample, sampleLimits, sampleVerdict } from './sample.ts'

const made = sample()
const inputs = {
  ...made,
  verdict: sampleVerdict,
  commands: [made.trace.settings.command],
  limits: sampleLimits,
}

describe('runSummary', () => {
  it('charges every ns of the tokens', () => {
    const { decode, first } = runSummary(inputs).attribution!
    expect([decode.tokens, first.tokens]).toEqual([252, 4])
    for (const totals of [decode, first])
      expect(totals.rows.reduce((sum, row) => sum + row.totalNs, 0)).toBe(totals.wallNs)
    const wallNs = made.attribution.tokens
      .filter((token) => token.index > 0)
      .reduce((sum, token) => sum + token.endNs - token.startNs, 0)
    expect(decode.wallNs).toBe(wallNs)
    expect(
      decode.rows.filter((row) => row.category === 'UNATTRIBUTED').reduce((sum, row) => sum + row.totalNs, 0),
    ).toBe(decode.unattributedNs)
  })

  it('adds up a token by hand', () => {
    const segment = { process: 1, port: 0, bytes: 0, uncertainNs: 30 }
    const totals = attributionTotals([
      {
        sequence: 0,
        index: 1,
        position: 8,
        startNs: 100,
        endNs: 1100,
        deliveryNs: 5,
        hiddenNs: { copy: 40 },
        segments: [
          { ...segment, category: 'compute.device', startNs: 100, endNs: 850 },
          { ...segment, category: 'UNATTRIBUTED', startNs: 850, endNs: 900 },
          { ...segment, category: 'compute.device', startNs: 900, endNs: 1100 },
        ],
      },
    ])
    expect(totals).toEqual({
      tokens: 1,
      wallNs: 1000,
      rows: [
        {
          ...{ category: 'compute.device', process: 1, port: 0 },
          ...{ totalNs: 950, perTokenNs: 950, sharePct: 95, uncertainNs: 30 },
        },
        {
          ...{ category: 'UNATTRIBUTED', process: 1, port: 0 },
          ...{ totalNs: 50, perTokenNs: 50, sharePct: 5, uncertainNs: 30 },
        },
      ],
      unattributedNs: 50,
      unattributedPct: 5,
      unattributedMedianPct: 5,
      unattributedP95Pct: 5,
      hiddenNs: { copy: 40 },
    })
  })

  it('is the same text for the same run, keys sorted, numbers rounded', () => {
    const text = summaryJson(runSummary(inputs))
    expect(summaryJson(runSummary({ ...inputs, ...sample() }))).toBe(text)
    expect(text.endsWith('}\n')).toBe(true)
    const walk = (value: unknown): void => {
      if (typeof value === 'number' && !Number.isInteger(value))
        expect(value.toString().replace(/^-?0\.0*|e.*$|[.-]/g, '').length).toBeLessThanOrEqual(6)
      if (value === null || typeof value !== 'object') return
      if (!Array.isArray(value)) expect(Object.keys(value)).toEqual(Object.keys(value).sort())
      Object.values(value).forEach(walk)
    }
    walk(JSON.parse(text))
  })

  it.each([
    [1234567.891, 1234570],
    [0.000123456789, 0.000123457],
    [9007199254740991, 9007199254740991],
    [-0, 0],
    [Number.NaN, null],
    [Number.POSITIVE_INFINITY, null],
  ])('rounds %d to %d', (value, expected) => {
    expect(rounded(value)).toBe(expected)
  })

  it('marks what keeps a run from being evidence', () => {
    expect(runSummary(inputs).marks).toEqual([])
    const settings = {
      ...made.trace.settings,
      paced: true,
      injected: { place: 'wire', delayNs: 500 },
      busyThreads: 9,
    }
    const processes = made.trace.processes.map((process) => ({ ...process, dropped: 2 }))
    const { marks } = runSummary({
      ...inputs,
      trace: { ...made.trace, complete: false, settings, processes },
    })
    expect(marks.map((mark) => mark.split(/[ :]/, 2).join(' '))).toEqual([
      'Partial run',
      'Paced ',
      'A delay',
      '9 threads',
      '8 spans',
    ])
  })
})

it('quantile is type 7: the published example of R, quantile(c(1,2,3,4,10), c(.5,.95))', () => {
  expect(quantile([1, 2, 3, 4, 10], 0.5)).toBe(3)
  expect(quantile([1, 2, 3, 4, 10], 0.95)).toBeCloseTo(8.8, 12)
  expect(quantile([], 0.5)).toBeNull()
})

it('every category has a group, and only UNATTRIBUTED is unattributed', () => {
  expect(categories.filter((category) => groupOf(category) === 'unattributed')).toEqual(['UNATTRIBUTED'])
  expect(new Set(categories.map(groupOf))).toEqual(new Set(categoryGroups))
})

it('numbers as they are shown', () => {
  expect([0, 7, 999, 999.6, 1234, 39_439_000, 999_999, 2.66e9, -41_250_000].map(formatNs)).toEqual([
    '0 ns',
    '7 ns',
    '999 ns',
    '1.00 µs',
    '1.23 µs',
    '39.4 ms',
    '1.00 ms',
    '2.66 s',
    '−41.3 ms',
  ])
  expect([0, 9999, 16_384, 2 ** 31].map(formatBytes)).toEqual(['0 B', '9\u202f999 B', '16.0 KiB', '2.00 GiB'])
  expect([0, 0.126, 0.999, 32.49, 100].map(formatPct)).toEqual([
    '0.0 %',
    '0.13 %',
    '1.0 %',
    '32.5 %',
    '100.0 %',
  ])
  expect([412, 1_234_567, 0.5].map(formatCount)).toEqual(['412', '1\u202f234\u202f567', '0.5'])
})
