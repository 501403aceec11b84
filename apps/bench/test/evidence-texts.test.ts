import { describe, expect, it } from 'vitest'
import { classFaults, missingLimitations, typedNumbers } from '../src/evidence/lint.ts'
import { formatted, markdownTable, render, rootsOf, valueAt } from '../src/evidence/macros.ts'
import { machinePathIn, neutral } from '../src/evidence/paths.ts'
import { parseSpec } from '../src/evidence/spec.ts'
import { rootDir } from '../src/root.ts'
import { limitations, spec } from './evidence-fixture.ts'

describe('macros', () => {
  const facts = {
    runs: [
      { cell: 'tcp', metric: 'tpot', value: 12_345_678 },
      { cell: 'ws', metric: 'tpot', value: null },
    ],
    cells: { 'a level 2': { 'x.y': -1.5 } },
    at: '2026-02-03T23:59:00.000Z',
  }
  const plain = (text: string) => render(text, facts, (name, session) => `<${name} ${session}>`)

  it.each([
    ['{{runs[0].value | ms}}', '12.35 ms'],
    ['{{runs.0.value|us}}', '12345.68 µs'],
    ['{{runs[cell=tcp,metric=tpot].value | MB}}', '12.35 MB'],
    ['{{runs[cell=ws].value | ms}}', 'not measured'],
    ['{{cells["a level 2"]["x.y"] | pct}}', '-1.50 %'],
    ['{{at | date}}', '2026-02-03'],
    ['{{runs.length | int}} runs', '2 runs'],
    ['{{table:runs}} {{table:runs main}}', '<runs null> <runs main>'],
  ])('%s is %s', (text, expected) => expect(plain(text)).toBe(expected))

  it.each([
    ['{{runs.0.value}}', 'a format is needed'],
    ['{{runs.0.value | parsecs}}', 'a format is needed'],
    ['{{runs.0.valeu | ms}}', 'there is no .valeu; there is cell, metric, value'],
    ['{{runs[metric=tpot].value | ms}}', 'there is no [metric=tpot]'], // two items have it
    ['{{at | ms}}', 'needs a number'],
    ['{{runs | text}}', 'a text is needed'],
    ['{{cells.constructor | text}}', 'there is no .constructor'],
  ])('%s is refused: %s', (text, message) => expect(() => plain(text)).toThrow(message))

  it('signs, rounds and names units', () => {
    expect(formatted(0.004, 'signed')).toBe('+0.00 %')
    expect(formatted(-3, 'signed')).toBe('-3.00 %')
    expect(formatted(27.25, 'tok/s')).toBe('27.3 tok/s')
    expect(formatted(314.4, 'int')).toBe('314')
  })

  it('names what a text draws on, and keeps cells of a table apart', () => {
    expect(rootsOf('{{whatIf.rows.0 | pct}} and {{ runs[0] | ms }}')).toEqual(['whatIf', 'runs'])
    expect(markdownTable(['A', 'B'], [['x|y', 'two\nlines']])).toBe(
      '| A | B |\n| --- | --- |\n| x\\|y | two lines |',
    )
    expect(valueAt({ a: [{ b: 0 }] }, 'a[0].b')).toBe(0)
  })
})

describe('typedNumbers', () => {
  it.each([
    ['It is 12 % faster.', ['line 1: 12']],
    ['One line\nand 3.5 ms on another, 4 times', ['line 2: 3.5', 'line 2: 4']],
    ['A fifth: ⅕, or ٣', ['line 1: ⅕,', 'line 1: ٣']],
    ['`12 %`, `1.5`, `+3 tok/s`', ['line 1: `12', 'line 1: `1.5`,', 'line 1: `+3']],
    ['10ms/token', ['line 1: 10ms/token']],
    ['half of 1.1b-q4_0x', ['line 1: 1.1b-q4_0x']],
  ])('%s', (text, expected) =>
    expect(typedNumbers(text, [{ text: '1.1b-q4_0', reason: 'a model' }])).toEqual(expected),
  )

  it.each([
    '{{runs[0].value | ms}} and {{table:runs}}',
    '```sh\npnpm bench --time 500\n```',
    'the codec `q8_0`, see [there](sessions/main/runs/0001/run.json)',
    '$REPO/packages/x2.ts and derived/runs2.json',
    '1. first\n2. second',
    'the model 1.1b-q4_0.',
  ])('nothing in: %s', (text) =>
    expect(typedNumbers(text, [{ text: '1.1b-q4_0', reason: 'a model' }])).toEqual([]),
  )
})

describe('missingLimitations', () => {
  it('wants each heading with something below it', () => {
    expect(missingLimitations(limitations)).toEqual([])
    expect(missingLimitations(limitations.replace('## Conditions', '## Others'))).toEqual([
      'there is no heading Conditions',
    ])
    expect(missingLimitations(`${limitations}\n## More\n`)).toEqual(['nothing stands below More'])
  })
})

describe('classFaults', () => {
  const table = (head: string, row: string) =>
    `| ${head} |\n| ${head.replaceAll(/\w+/g, '---')} |\n| ${row} |\n`
  it('a verdict rests on what was measured', () => {
    const of = (row: string) => classFaults('', table('Metric | Verdict | Class', row))
    expect(of('TPOT | IMPROVED | measured')).toEqual([])
    expect(of('TPOT | IMPROVED | predicted')).toEqual(['TPOT: a verdict rests on what was predicted'])
    expect(of('TPOT | IMPROVED | sure')).toHaveLength(1)
    expect(classFaults('', table('Metric | Verdict', 'TPOT | IMPROVED'))).toEqual([
      'a table with verdicts has no column Class',
    ])
  })
  it('a table that claims something by hand has classes', () => {
    expect(classFaults(table('What | How', 'decode | {{a | ms}}'), '')).toHaveLength(1)
    expect(classFaults(table('What | How', 'decode | fast'), '')).toEqual([])
  })
})

describe('paths', () => {
  it.each(['/home/me/x', 'in /tmp/a', '"/var/tmp/seamline/x"', 'file:///Users/me/y', 'C:\\models'])(
    '%s is of one machine',
    (text) => expect(machinePathIn(text)).toBeDefined(),
  )
  it.each([
    '/proc/self/maps',
    '$REPO/home/x',
    'https://host/home/x',
    'a/tmp/b',
    '../data/x',
    '/usr/bin/env node',
  ])('%s is not', (text) => expect(machinePathIn(text)).toBeUndefined())
  it('become neutral', () => {
    expect(neutral(`at ${rootDir}packages/x and ${rootDir}`)).toBe('at $REPO/packages/x and $REPO/')
  })
})

describe('parseSpec', () => {
  it('fills in what may be left out', () => {
    expect(parseSpec(spec)).toMatchObject({ plan: null, lossy: [], commands: [{ take: null, exit: 0 }] })
  })
  it.each([
    [{ sessions: [] }, 'spec.sessions'],
    [{ sessions: [{ name: '../x', path: 'a', purpose: 'b' }] }, 'spec.sessions[0].name'],
    [{ base: 'main' }, 'spec.base'],
    [{ head: null }, 'spec.base and spec.head'],
    [{ claims: [{ text: 'a', class: 'sure' }] }, 'spec.claims[0].class'],
    [{ trace: { session: 'other', run: 1 } }, 'spec.trace.session'],
    [{ extra: 1 }, 'spec.extra'],
  ])('%j is refused, naming %s', (change, where) =>
    expect(() => parseSpec({ ...spec, ...change })).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(where) }),
    ),
  )
})
