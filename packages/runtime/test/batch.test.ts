import { SeamError, type StageExecutor } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { connectPipeline, type Generation, recordedSteps, type TokenEvent } from '../src/index.ts'
import {
  GREEDY,
  prompt,
  read,
  readUntilError,
  SAMPLED,
  startWorkers,
  unsplit,
  withCluster,
} from './support.ts'

const request = (ids: readonly number[], maxTokens = 30, more = {}) => ({
  ...{ prompt: ids, maxTokens, sampler: GREEDY, stopTokens: [] },
  ...more,
})

async function events(generation: Generation): Promise<TokenEvent[]> {
  const all: TokenEvent[] = []
  for await (const event of generation) all.push(event)
  return all
}

const paced = { fake: { computeMs: () => 1, maxSequences: 8 } }

describe('several sequences in one step', () => {
  it('share decode calls and give each its own tokens', async () => {
    await withCluster({ ...paced, ends: [2, 4, 6], pipeline: { rowsPerStep: 4 } }, async ({ pipeline }) => {
      const ids = [0, 1, 2, 3, 4].map((i) => prompt(10 + 40 * i, i))
      const all = await Promise.all(ids.map((part) => events(pipeline.generate(request(part)))))
      for (const [i, part] of ids.entries()) {
        expect(all[i]!.map(({ token }) => token)).toEqual(await unsplit(part, 30))
      }
      const steps = recordedSteps(all)
      expect(Math.max(...steps.map((step) => step.length))).toBeGreaterThan(1)
      expect(Math.max(...steps.map((step) => step.length))).toBeLessThanOrEqual(4)
      expect(steps.flat().length).toBe(5 * 29)
    })
  })

  it('stand in a step in the order in which they were begun, whoever is ready first', async () => {
    const options = { ...paced, ends: [6], pipeline: { rowsPerStep: 4 } }
    await withCluster(options, async ({ pipeline, executors }) => {
      const opened: unknown[] = []
      const shapes: number[][] = []
      const executor = executors[0] as { -readonly [K in keyof StageExecutor]: StageExecutor[K] }
      const { openSession, step } = executor
      executor.openSession = (settings) => {
        const session = openSession(settings)
        opened.push(session)
        return session
      }
      executor.step = (call) => {
        shapes.push(call.rows.map(({ session }) => opened.indexOf(session)))
        return step(call)
      }
      // The first one's prompt is the longest: it joins last.
      await Promise.all(
        [300, 90, 5].map((length, i) => read(pipeline.generate(request(prompt(length, i), 40)))),
      )
      expect(shapes.some((shape) => shape.length === 3)).toBe(true)
      for (const shape of shapes) expect(shape).toEqual(shape.toSorted((a, b) => a - b))
    })
  })

  it('stay alone when one row a step is asked for', async () => {
    await withCluster({ ...paced, ends: [3, 6] }, async ({ pipeline }) => {
      const all = await Promise.all([0, 1, 2].map((i) => events(pipeline.generate(request(prompt(9, i))))))
      expect(recordedSteps(all).every((step) => step.length === 1)).toBe(true)
    })
  })

  it('do not mind when one of them ends, is cancelled or rolls back in the middle', async () => {
    await withCluster({ ...paced, ends: [2, 4, 6], pipeline: { rowsPerStep: 8 } }, async ({ pipeline }) => {
      const expected = await Promise.all([0, 1, 2, 3].map((i) => unsplit(prompt(12, i), 60, SAMPLED)))
      const [first, second, third, fourth] = [0, 1, 2, 3].map((i) =>
        pipeline.generate(request(prompt(12, i), i === 1 ? 7 : 60, { sampler: SAMPLED })),
      )
      const reading = [read(first!), read(second!), readUntilError(() => third!)] as const
      const tokens: number[] = []
      for await (const { token } of fourth!) {
        tokens.push(token)
        if (tokens.length === 10) await third!.cancel()
        if (tokens.length === 20 && !rolledBack) {
          rolledBack = true
          await fourth!.rollback(5)
          tokens.length = 5
        }
      }
      expect(tokens).toEqual(expected[3])
      expect(await reading[0]).toEqual(expected[0])
      expect(await reading[1]).toEqual(expected[1]!.slice(0, 7))
      const { tokens: cut, error } = await reading[2]
      expect(error?.code).toBe('ABORTED')
      expect(cut).toEqual(expected[2]!.slice(0, cut.length))
    })
  })
  let rolledBack = false

  it('serves the one that waited longest: a long prompt does not hold up the others', async () => {
    const fake = { computeMs: () => 2, contextLength: 4096, maxSequences: 3 }
    await withCluster({ fake, ends: [6] }, async ({ pipeline, executors }) => {
      const order: number[] = []
      const { step } = executors[0]!
      ;(executors[0] as { step: typeof step }).step = (call) => {
        order.push(Math.floor(call.tag / 2 ** 24))
        return step(call)
      }
      const short = pipeline.generate(request(prompt(5), 40))
      const iterator = short[Symbol.asyncIterator]()
      await iterator.next()
      const long = pipeline.generate(request(prompt(2000), 2))
      const reading = read(long)
      for (let i = 0; i < 39; i++) await iterator.next()
      await reading
      const from = order.indexOf(1)
      const shortServed = order.slice(from, from + 40).filter((sequence) => sequence === 0).length
      expect(shortServed).toBeGreaterThanOrEqual(12)
    })
  })
})

describe('replay', () => {
  it('computes sequences again in their recorded steps, samples the same, and goes on', async () => {
    const ids = [0, 1, 2].map((i) => prompt(20 + 60 * i, i))
    const options = { ...paced, ends: [3, 6], pipeline: { rowsPerStep: 4 } }
    const recorded = await withCluster(options, ({ pipeline }) =>
      Promise.all(ids.map((part) => events(pipeline.generate(request(part, 20, { sampler: SAMPLED }))))),
    )
    const parts = ids.map((part, i) => ({
      request: request(part, 40, { sampler: SAMPLED }),
      tokens: recorded[i]!.map(({ token }) => token),
    }))
    await withCluster({ ...paced, ends: [6], pipeline: { rowsPerStep: 4 } }, async ({ pipeline }) => {
      const steps = recordedSteps(recorded)
      // The last token of each was never fed: it goes in with the first step of its own.
      const last = parts.map(({ tokens }, part) => [{ part, index: tokens.length - 1 }])
      const generations = await pipeline.replay(parts, { steps: [...steps, ...last], sampleReplayed: true })
      for (const [i, generation] of generations.entries()) {
        expect(await read(generation)).toEqual(await unsplit(ids[i]!, 40, SAMPLED))
      }
    })
  })

  it('goes on from tokens alone, without sampling them again', async () => {
    const whole = await unsplit(prompt(90), 40, SAMPLED)
    await withCluster({ ends: [2, 6] }, async ({ pipeline }) => {
      const part = { request: request(prompt(90), 40, { sampler: SAMPLED }), tokens: whole.slice(0, 17) }
      const [generation] = await pipeline.replay([part])
      expect(await read(generation!)).toEqual(whole.slice(17))
    })
  })

  it('feeds known tokens in windows, and samples after the last one of each', async () => {
    const plain = { sampler: { ...GREEDY, penaltyLastN: 0 } }
    const ids = [0, 1].map((i) => prompt(20 + 60 * i, i))
    const whole = await Promise.all(ids.map((part) => unsplit(part, 40, plain.sampler)))
    await withCluster({ ...paced, ends: [2, 4, 6] }, async ({ pipeline }) => {
      const parts = ids.map((part, i) => ({
        request: request(part, 40, plain),
        tokens: whole[i]!.slice(0, 21),
      }))
      // Both at once in windows of four, then what is left in windows of its own.
      const together = [0, 4, 8, 12].map((index) => [0, 1].map((part) => ({ part, index, count: 4 })))
      const apart = [0, 1].map((part) => [{ part, index: 16, count: 5 }])
      const steps = [...together, ...apart]
      const generations = await pipeline.replay(parts, { steps, sampleReplayed: true })
      for (const [i, generation] of generations.entries()) {
        const found = (await events(generation)).map(({ position, token }) => [position, token])
        const sampled = [0, 4, 8, 12, 16, ...Array.from({ length: 19 }, (_, n) => 21 + n)]
        expect(found).toEqual(sampled.map((n) => [ids[i]!.length + n, whole[i]![n]]))
      }
    })
  })

  it('refuses windows of two lengths in a step, beyond the tokens, beyond the chunk, and with penalties', async () => {
    await withCluster({ ends: [6] }, async ({ pipeline }) => {
      const tokens = Array.from({ length: 100 }, (_, i) => i)
      const parts = [0, 1].map((i) => ({ request: request(prompt(5, i), 200), tokens }))
      const row = (part: number, count: number) => ({ part, index: 0, count })
      for (const step of [[row(0, 2), row(1, 3)], [row(0, 101)], [row(0, 65)], [row(0, 0)], [row(0, 0.5)]]) {
        await expect(pipeline.replay(parts, { steps: [step] })).rejects.toMatchObject({ code: 'USAGE' })
      }
      const sampled = pipeline.replay(parts, { steps: [[row(0, 2)]], sampleReplayed: true })
      await expect(sampled).rejects.toThrow(/penalties/)
    })
  })

  it('refuses steps that leave out, repeat or reorder a token', async () => {
    await withCluster({ ends: [6] }, async ({ pipeline }) => {
      const parts = [{ request: request(prompt(5)), tokens: [1, 2] }]
      const row = (index: number) => [{ part: 0, index }]
      for (const steps of [
        [row(0)],
        [row(1), row(0)],
        [row(0), row(0)],
        [row(0), row(1), row(2)],
        [[], row(0), row(1)],
      ]) {
        await expect(pipeline.replay(parts, { steps })).rejects.toMatchObject({ code: 'USAGE' })
      }
    })
  })
})

describe('before a sequence has computed what it began with', () => {
  const whole = () => unsplit(prompt(150), 30, SAMPLED)
  const sampled = request(prompt(150), 30, { sampler: SAMPLED })

  it('a rollback waits for it', async () => {
    await withCluster({ ...paced, ends: [3, 6] }, async ({ pipeline }) => {
      const generation = pipeline.generate(sampled)
      await generation.rollback(0)
      expect(await read(generation)).toEqual(await whole())
    })
  })

  it('a save waits for it, also in a replay', async () => {
    await withCluster({ ...paced, ends: [3, 6] }, async ({ pipeline }) => {
      const tokens = await whole()
      const first = pipeline.generate(sampled)
      const saved = await first.save()
      expect(saved.tokens).toEqual(tokens.slice(0, saved.tokens.length))
      expect(await read(first)).toEqual(tokens)
      const [again] = await pipeline.replay([{ request: sampled, tokens: tokens.slice(0, 20) }])
      const { tokens: known } = await again!.save()
      expect(known).toEqual(tokens.slice(0, known.length))
      expect(known.length).toBeGreaterThan(20)
      await again!.rollback(5)
      expect((await read(again!)).slice(-24)).toEqual(tokens.slice(-24))
    })
  })

  it('a rollback of one that ends meanwhile says so', async () => {
    await withCluster({ ...paced, ends: [3, 6] }, async ({ pipeline }) => {
      const generation = pipeline.generate(sampled)
      const rolling = generation.rollback(0)
      await generation.cancel()
      await expect(rolling).rejects.toMatchObject({ code: 'CLOSED' })
    })
  })
})

it('a stage that refuses a rollback ends the sequence', async () => {
  await withCluster({ ends: [3, 6] }, async ({ pipeline, executors }) => {
    const { openSession } = executors[1]!
    ;(executors[1] as { openSession: typeof openSession }).openSession = (settings) =>
      Object.assign(openSession(settings), {
        rollback() {
          throw new SeamError('EXECUTOR', 'the cache no longer holds it')
        },
      })
    const generation = pipeline.generate(request(prompt(9)))
    const reading = readUntilError(() => generation)
    await expect(generation.rollback(0)).rejects.toMatchObject({ code: 'EXECUTOR' })
    expect((await reading).error).toMatchObject({ code: 'EXECUTOR', worker: 'worker-1' })
  })
})

describe('state', () => {
  it('moves a running sequence to other processes of the same stages, and both go on', async () => {
    const whole = await unsplit(prompt(100), 40, SAMPLED)
    const source = await startWorkers({ ends: [2, 6], ...paced })
    const target = await startWorkers({ ends: [2, 6], ...paced })
    const from = await connectPipeline(source.options)
    const to = await connectPipeline(target.options)
    const generation = from.generate(request(prompt(100), 40, { sampler: SAMPLED }))
    const iterator = generation[Symbol.asyncIterator]()
    const tokens: number[] = []
    for (let i = 0; i < 8; i++) tokens.push((await iterator.next()).value!.token)
    const saved = await generation.save()
    expect(saved.tokens).toEqual(whole.slice(0, saved.tokens.length))
    const { maxTokens, sampler, stopTokens } = request([], 40, { sampler: SAMPLED })
    const moved = await read(to.restore(saved, { maxTokens, sampler, stopTokens }))
    expect([...saved.tokens, ...moved]).toEqual(whole)
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next())
      tokens.push(next.value.token)
    expect(tokens).toEqual(whole)
    await Promise.all([from.close(), to.close()])
    await Promise.all([source.close(), target.close()])
  })

  it('is refused when it is larger than a worker takes, and by another number of stages', async () => {
    const saved = { prompt: prompt(5), tokens: [1], position: 5, states: [new Uint8Array(8)] }
    await withCluster({ ends: [3, 6] }, async ({ pipeline }) => {
      expect(() => pipeline.restore(saved, request([]))).toThrow(
        expect.objectContaining({ code: 'MISMATCH' }),
      )
      const wrong = pipeline.restore(
        { ...saved, states: [new Uint8Array(8), new Uint8Array(8)] },
        request([]),
      )
      expect((await readUntilError(() => wrong)).error).toMatchObject({ code: 'EXECUTOR' })
    })
  })
})
