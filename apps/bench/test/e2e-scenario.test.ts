import { isSeamError } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { e2ePlan, withControls } from '../src/e2e/controls.ts'
import { linkName } from '../src/e2e/links.ts'
import { parseScenario, readScenario, scenarioNames } from '../src/e2e/scenario.ts'

const file = {
  schema: 'seamline-scenario/1',
  name: 'some',
  description: 'Two transports, two links, one and two in flight.',
  runs: 3,
  base: { executor: 'llama', model: 'm', codec: 'f16', stages: 3 },
  vary: { transport: ['tcp', 'ws'], link: ['loopback', '10mbit-40ms'], k: [1, 2] },
}
const surroundings = { embeddings: new Map([['m', 4096]]), withoutLlamaRpc: undefined }

describe('a scenario', () => {
  it('has a cell for every combination, named by what varies', () => {
    const { cells } = parseScenario(file)
    expect(Object.keys(cells)).toEqual([
      ...['tcp loopback K=1', 'tcp loopback K=2', 'tcp 10mbit-40ms K=1', 'tcp 10mbit-40ms K=2'],
      ...['ws loopback K=1', 'ws loopback K=2', 'ws 10mbit-40ms K=1', 'ws 10mbit-40ms K=2'],
    ])
    const link = { delayMs: 40, bitsPerSecond: 10_000_000 }
    const expected = { transport: 'ws', link, k: 2, executor: 'llama', model: 'm', codec: 'f16', stages: 3 }
    expect(cells['ws 10mbit-40ms K=2']).toMatchObject(expected)
    expect(cells['tcp loopback K=1']!.link).toBeNull()
  })

  it.each([
    ['scenario.speed', { speed: 1 }],
    ['scenario.schema', { schema: 'seamline-scenario/2' }],
    ['scenario.vary.kind', { vary: { kind: ['micro'] } }],
    ['scenario.vary.k', { vary: { k: [] } }],
    ['K=1 is there twice', { vary: { k: [1, 1] } }],
    ['no link 5g', { vary: { link: ['5g'] } }],
    ['scenario.base.k', { vary: { k: [0] } }],
    ['a chain of stages is needed', { base: { executor: 'unsplit', model: 'm' } }],
    ['without an injection', { base: { ...file.base, level: 0 } }],
    ['at most 200', { vary: { k: Array.from({ length: 64 }, (_, i) => i + 1), stages: [1, 2, 3, 4] } }],
  ])('is refused: %s', (message, change) => {
    const parse = () => parseScenario({ ...file, ...change })
    expect(parse).toThrow(message)
    expect(parse).toThrow(expect.toSatisfy(isSeamError))
  })

  it('that lies in the repository can be read, and one that does not is refused by name', async () => {
    const names = await scenarioNames()
    expect(names).toEqual(expect.arrayContaining(['first', 'smoke']))
    for (const name of names) expect((await readScenario(name)).name).toBe(name)
    await expect(readScenario('none')).rejects.toThrow(/no scenario none; there are .*first/)
    const { cells } = await readScenario('first')
    expect(Object.keys(cells)).toEqual(['tcp K=1', 'tcp K=2', 'ws K=1', 'ws K=2', 'relay K=1', 'relay K=2'])
  })
})

describe('the controls of a scenario', () => {
  it('are the five of every cell, each once where cells share it', () => {
    const { cells, leftOut } = withControls(parseScenario(file), surroundings)
    const names = Object.keys(cells).slice(8).sort()
    const links = ['loopback', '10mbit-40ms']
    expect(names).toEqual(
      [
        ...['unsplit K=1', 'unsplit K=2', 'llama memory K=1', 'llama memory K=2'],
        ...['fake memory K=1', 'fake memory K=2'],
        ...['tcp', 'ws'].flatMap((on) =>
          links.flatMap((l) => [`fake ${on} ${l} K=1`, `fake ${on} ${l} K=2`]),
        ),
      ].sort(),
    )
    const { embedding, codec, stages, transport, link, model } = cells['fake memory K=2']!
    expect({ embedding, codec, stages, transport, link, model }).toEqual({
      ...{ embedding: 4096, codec: 'f16', stages: 3, transport: 'memory', link: null, model: null },
    })
    expect(cells['unsplit K=2']).toMatchObject({ executor: 'unsplit', transport: 'none', link: null, k: 2 })
    // f16 is not what llama.cpp sends; everything else would do for the bare loopback and one sequence.
    expect(leftOut.map(({ control, cells }) => [control, cells.length])).toEqual([
      ['llama-rpc', 2],
      ['llama-rpc', 2],
      ['llama-rpc', 4],
    ])
  })

  it('hold llama.cpp as well where it is at hand, for one sequence on loopback', () => {
    const scenario = parseScenario({ ...file, base: { ...file.base, codec: 'f32' } })
    const found = withControls(scenario, surroundings)
    expect(found.cells['llama-rpc K=1']).toMatchObject({
      executor: 'llama-rpc',
      model: 'm',
      k: 1,
      link: null,
    })
    expect(Object.keys(found.cells)).toHaveLength(8 + 6 + 8 + 1)
    const without = withControls(scenario, { ...surroundings, withoutLlamaRpc: 'not here' })
    expect(without.cells['llama-rpc K=1']).toBeUndefined()
    expect(without.leftOut).toEqual([
      { control: 'llama-rpc', reason: 'not here', cells: Object.keys(scenario.cells) },
    ])
  })

  it('are fewer for stages without a model, and say so', () => {
    const base = { executor: 'paced', pacedMs: [4, 6], embedding: 64 }
    const { cells, leftOut } = withControls(parseScenario({ ...file, base, vary: {} }), surroundings)
    expect(Object.keys(cells)).toEqual(['tcp', 'fake memory', 'fake tcp', 'paced memory'])
    expect(leftOut.map(({ control }) => control)).toEqual(['unsplit', 'llama-rpc'])
  })
})

describe('the runs of a scenario', () => {
  const scenario = parseScenario(file)
  const expanded = withControls(scenario, surroundings)

  it('have every cell once in each round, in another order', () => {
    const { runs } = e2ePlan(scenario, expanded)
    const all = Object.keys(expanded.cells)
    expect(runs.map(({ number }) => number)).toEqual(Array.from({ length: 3 * all.length }, (_, i) => i + 1))
    const rounds = [0, 1, 2].map((pair) => runs.filter((run) => run.pair === pair).map(({ cell }) => cell))
    for (const round of rounds) expect(round.toSorted()).toEqual(all.toSorted())
    expect(rounds[0]).not.toEqual(rounds[1])
    expect(rounds.flat()).toEqual(runs.map(({ cell }) => cell))
  })

  it('follow from the seed alone', () => {
    expect(e2ePlan(scenario, expanded)).toEqual(e2ePlan(scenario, expanded))
    expect(e2ePlan({ ...scenario, seed: 2 }, expanded).runs).not.toEqual(e2ePlan(scenario, expanded).runs)
    expect(e2ePlan(scenario, expanded, 1).runs).toHaveLength(Object.keys(expanded.cells).length)
  })
})

it('a link has the name of its numbers', () => {
  expect(linkName(null)).toBe('loopback')
  expect(linkName({ delayMs: 20, bitsPerSecond: 1e8 })).toBe('100mbit-20ms')
  expect(linkName({ delayMs: 0.05, bitsPerSecond: 1e9 })).toBe('1gbit')
  expect(linkName({ delayMs: 7, bitsPerSecond: 2e6 })).toBe('2mbit-7ms')
  expect(linkName({ delayMs: 7, bitsPerSecond: null })).toBe('7ms')
})
