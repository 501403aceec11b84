import type { BenchCase } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { measureBlock, orderOfRound } from '../src/measure.ts'

const quick = { timeMs: 20, rounds: 4, smoke: false, signal: new AbortController().signal }

/** Writes down what is called. */
function recorded(id: string, calls: string[], overrides: Partial<BenchCase> = {}): BenchCase {
  return {
    id,
    setup: () => void calls.push(`${id} setup`),
    run: async () => void calls.push(`${id} run`),
    validate: () => void calls.push(`${id} validate`),
    teardown: () => void calls.push(`${id} teardown`),
    ...overrides,
  }
}

describe('a block of cases', () => {
  it('is set up and validated, run in rounds, validated again and torn down', async () => {
    const calls: string[] = []
    const outcomes = await measureBlock([recorded('a', calls), recorded('b', calls)], quick)
    const turns = calls.filter((call, i) => call !== calls[i - 1])
    expect(turns.slice(0, 4)).toEqual(['a setup', 'a validate', 'b setup', 'b validate'])
    expect(turns.slice(-4)).toEqual(['a validate', 'b validate', 'a teardown', 'b teardown'])
    // ab to warm up, then the rounds ab ba ba ab, where neighbours that are the same are one turn here.
    expect(turns.slice(4, -4)).toEqual([...'abababab'].map((id) => `${id} run`))
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ measurement: { runsPerSample: 1 } })
      if ('measurement' in outcome) expect(outcome.measurement?.roundsNs).toHaveLength(4)
    }
  })

  it('takes every order in turn', () => {
    const orders = [0, 1, 2, 3, 4, 5].map((round) => orderOfRound(['a', 'b', 'c'], round).join(''))
    expect(orders).toEqual(['abc', 'cba', 'bca', 'acb', 'cab', 'bac'])
  })

  it('runs each case once for --smoke', async () => {
    const calls: string[] = []
    const [outcome] = await measureBlock([recorded('a', calls)], { ...quick, smoke: true })
    expect(calls).toEqual(['a setup', 'a validate', 'a run', 'a validate', 'a teardown'])
    expect(outcome).toMatchObject({ measurement: undefined })
  })

  it.each(['setup', 'run', 'validate', 'teardown'] as const)(
    'goes on without a case whose %s throws, and tears it down',
    async (where) => {
      const calls: string[] = []
      const broken = recorded('a', calls, {
        [where]: () => {
          calls.push(`a ${where}`)
          throw new SeamError('MISMATCH', 'wrong bytes')
        },
      })
      const [first, second] = await measureBlock([broken, recorded('b', calls)], quick)
      expect(first).toMatchObject({ failure: { code: 'MISMATCH', message: 'wrong bytes' } })
      expect(second).toMatchObject({ measurement: { runsPerSample: 1 } })
      expect(calls.filter((call) => call === 'a teardown')).toHaveLength(1)
    },
  )

  it('fails a case that goes wrong only while it is timed', async () => {
    let validations = 0
    const validate = () => {
      validations += 1
      if (validations === 2) throw new SeamError('MISMATCH', 'wrong afterwards')
    }
    const [outcome] = await measureBlock([recorded('a', [], { validate })], quick)
    expect(outcome).toMatchObject({ failure: { message: 'wrong afterwards' } })
  })

  it('times work of nanoseconds in batches', async () => {
    let sum = 0
    const run = () => {
      sum += 1
    }
    const [outcome] = await measureBlock([recorded('a', [], { run })], quick)
    expect(outcome).toMatchObject({ measurement: { runsPerSample: 64 } })
    expect(sum).toBeGreaterThan(64)
  })

  it('ends with the reason of the signal in the middle of a run, torn down', async () => {
    const controller = new AbortController()
    const calls: string[] = []
    const stuck = recorded('a', calls, {
      run: () => {
        controller.abort(new SeamError('ABORTED', 'interrupted'))
        return new Promise(() => {})
      },
    })
    const measured = measureBlock([stuck], { ...quick, signal: controller.signal })
    await expect(measured).rejects.toMatchObject({ code: 'ABORTED' })
    expect(calls.at(-1)).toBe('a teardown')
  })
})
