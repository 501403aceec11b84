import type { BenchCase } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { run } from '../src/commands/run.ts'
import { bar, spread, strip } from '../src/plot.ts'
import { duration, speed } from '../src/report.ts'
import { type Catalogue, entriesOf, select } from '../src/selection.ts'
import type { Ui } from '../src/ui.ts'

function plain(id: string, overrides: Partial<BenchCase> = {}): BenchCase {
  return { id, run: () => {}, validate: () => {}, ...overrides }
}

function catalogue(cases: BenchCase[], ratios: Catalogue['ratios'] = []): Catalogue {
  return { entries: entriesOf('group', cases, () => 'block'), ratios, dropped: [] }
}

function listening() {
  const notes: string[] = []
  const records: object[] = []
  const lines: string[] = []
  const ui: Ui = {
    json: true,
    print: (text = '') => void lines.push(text),
    record: (value) => void records.push(value),
    note: (text) => void notes.push(text),
    progress: () => {},
  }
  return { notes, records, lines, context: { ui, signal: new AbortController().signal } }
}

describe('a run', () => {
  it('with a case whose work is wrong ends with 1 and names it; the others are reported', async () => {
    const { notes, records, context } = listening()
    const validate = () => {
      throw new SeamError('MISMATCH', 'byte 3 is 4')
    }
    const cases = catalogue([plain('group/bad', { validate }), plain('group/good')])
    expect(await run(cases, { time: 10 }, context)).toBe(1)
    expect(records).toContainEqual({
      type: 'failure',
      id: 'group/bad',
      code: 'MISMATCH',
      message: 'byte 3 is 4',
    })
    expect(notes.join('\n')).toContain('group/bad: byte 3 is 4 [MISMATCH]')
    expect(records).toContainEqual(expect.objectContaining({ type: 'case', id: 'group/good' }))
  })

  it('counts one case as one', async () => {
    const { notes, context } = listening()
    await run(catalogue([plain('group/only')]), { smoke: true, time: 10 }, context)
    expect(notes).toEqual(['1 case, about 1 s'])
  })

  it('prints a missed target and ends with 0', async () => {
    const { records, lines, context } = listening()
    const wait = (rounds: number) => () => {
      let sum = 0
      for (let i = 0; i < rounds; i += 1) sum += Math.sqrt(i)
      if (sum < 0) throw new Error('never')
    }
    const cases = [plain('slow', { run: wait(200_000) }), plain('fast', { run: wait(2_000) })]
    const target = { relation: '<=' as const, value: 1 }
    const compared = catalogue(cases, [{ candidate: 'slow', control: 'fast', of: 'time', target }])
    expect(await run(compared, { time: 20 }, context)).toBe(0)
    expect(records.at(-1)).toMatchObject({ type: 'ratio', rounds: 10, pass: false, target })
    expect(lines.join('\n')).toMatch(/slow +fast +time .*<= 1 +miss/)
  })
})

describe('the selection', () => {
  const ratio = (candidate: string, control: string) => ({ candidate, control, of: 'time' as const })
  const cases = catalogue(
    [
      'codec/f16/encode/1',
      'codec/f16+z/encode/1',
      'codec/f16+z/encode/16',
      'control/copy',
      'control/base',
    ].map((id) => plain(id)),
    [
      ratio('codec/f16/encode/1', 'control/copy'),
      ratio('codec/f16+z/encode/1', 'codec/f16/encode/1'),
      ratio('control/copy', 'control/base'),
    ],
  )
  const ids = (filter?: string) => select(cases, filter).map((entry) => entry.case.id)

  it('takes everything, an exact id, a text or an expression, with the controls', () => {
    expect(ids()).toHaveLength(5)
    expect(ids('codec/f16/encode/1')).toEqual(['codec/f16/encode/1', 'control/copy', 'control/base'])
    // Exactly this one, though it begins another id; its control is a case with controls of its own, which stay out.
    expect(ids('codec/f16+z/encode/1')).toEqual(['codec/f16/encode/1', 'codec/f16+z/encode/1'])
    expect(ids('f16+z')).toEqual(['codec/f16/encode/1', 'codec/f16+z/encode/1', 'codec/f16+z/encode/16'])
    expect(ids('^control')).toEqual(['control/copy', 'control/base'])
  })

  it('refuses what matches nothing, with the groups, and what is no expression', () => {
    expect(() => ids('tensor')).toThrow(
      /no case matches "tensor"; ids begin with the groups group, or with control,/,
    )
    expect(() => ids('(')).toThrow(/--filter "\("/)
  })
})

describe('tables', () => {
  it('draw bars in eighths', () => {
    expect(bar(1, 4)).toBe('████')
    expect(bar(0.5, 4)).toBe('██')
    expect(bar(3 / 32, 4)).toBe('▍')
    expect(bar(0, 4)).toBe('▏')
  })

  it('draw a cell for each round between the least and the most, at least a tenth apart', () => {
    // Of 10 to 17 in seven steps; of 100 to 101 a hundredth is a tenth of the height: 0.7 of 7 steps.
    expect(strip([10, 11, 12, 13, 14, 15, 16, 17])).toBe('▁▂▃▄▅▆▇█')
    expect(strip([101, 100, 100.4, 105])).toBe('▂▁▁▅')
    expect(strip([5, 5])).toBe('▁▁')
    expect(strip([])).toBe('')
  })

  it('say how far rounds are apart', () => {
    expect([spread([100, 103, 101]), spread([2, 3])]).toEqual(['+3.0 %', '+50 %'])
  })

  it('state units', () => {
    expect([duration(12.34), duration(1234), duration(123_456_789)]).toEqual(['12.3 ns', '1.23 us', '123 ms'])
    expect([speed(8e6, 1e6), speed(1e6, 1e7)]).toEqual(['8.00 GB/s', '100 MB/s'])
  })
})
