import { SeamError } from '@seamline/core'
import { spanRing } from '@seamline/profiler'
import { tcp } from '@seamline/transports/tcp'
import { describe, expect, it } from 'vitest'
import { connectPipeline, createWorker } from '../src/index.ts'
import {
  CODECS,
  GREEDY,
  LAYERS,
  mapOf,
  prompt,
  read,
  readUntilError,
  SAMPLED,
  startCluster,
  startWorkers,
  unsplit,
  withCluster,
} from './support.ts'

const request = (ids: readonly number[], maxTokens = 40, more = {}) => ({
  ...{ prompt: ids, maxTokens, sampler: GREEDY, stopTokens: [] },
  ...more,
})

describe('a chain of stages gives the tokens of the unsplit model', () => {
  for (const ends of [[6], [2, 6], [1, 3, 6], [1, 2, 3, 4, 5, 6]]) {
    for (const [name, transport, listen] of [
      ['memory', undefined, undefined],
      ['tcp', tcp(), () => '127.0.0.1:0'],
    ] as const) {
      it(`${ends.length} stages over ${name}`, async () => {
        const options = { ends, ...(transport === undefined ? {} : { transport, listen }) }
        await withCluster(options, async ({ pipeline }) => {
          for (const length of [1, 7, 64, 65, 200]) {
            expect(await read(pipeline.generate(request(prompt(length))))).toEqual(
              await unsplit(prompt(length), 40),
            )
          }
        })
      })
    }
  }

  it('with four sequences in flight, greedy and sampled', async () => {
    await withCluster({ ends: [2, 4, 6], fake: { computeMs: () => 1 } }, async ({ pipeline }) => {
      const runs = [0, 1, 2, 3].map(async (i) => {
        const sampler = i % 2 === 0 ? GREEDY : SAMPLED
        const ids = prompt(30 + 50 * i, i)
        return [
          await read(pipeline.generate(request(ids, 30, { sampler }))),
          await unsplit(ids, 30, sampler),
        ] as const
      })
      for (const [split, whole] of await Promise.all(runs)) expect(split).toEqual(whole)
    })
  })

  it('after every rollback, also to before the first token', async () => {
    await withCluster({ ends: [3, 6] }, async ({ pipeline }) => {
      const ids = prompt(150)
      const expected = await unsplit(ids, 30, SAMPLED)
      for (const [readFirst, keep] of [
        [10, 10],
        [10, 4],
        [10, 1],
        [10, 0],
        [1, 0],
      ] as const) {
        const generation = pipeline.generate(request(ids, 30, { sampler: SAMPLED }))
        const iterator = generation[Symbol.asyncIterator]()
        const tokens: number[] = []
        for (let i = 0; i < readFirst; i++) tokens.push((await iterator.next()).value!.token)
        expect(tokens).toEqual(expected.slice(0, readFirst))
        await generation.rollback(keep)
        tokens.length = keep
        for (let next = await iterator.next(); next.done !== true; next = await iterator.next())
          tokens.push(next.value.token)
        expect(tokens).toEqual(expected)
      }
    })
  })

  it('when the last stage cannot be dialled from stage 0: tokens return through the coordinator', async () => {
    const real = tcp()
    const walled = {
      ...real,
      dial: () => Promise.reject(new SeamError('RESET', 'no route')),
    }
    const options = {
      ends: [2, 4, 6],
      transport: real,
      listen: () => '127.0.0.1:0',
      stageTransport: [walled],
    }
    await withCluster(options, async ({ pipeline }) => {
      expect(pipeline.returnsThroughCoordinator).toBe(true)
      expect(await read(pipeline.generate(request(prompt(70))))).toEqual(await unsplit(prompt(70), 40))
    })
  })

  it('whatever the order in which the workers are named', async () => {
    const cluster = await startWorkers({ ends: [1, 3, 6] })
    const pipeline = await connectPipeline({
      ...cluster.options,
      workers: cluster.options.workers.toReversed(),
    })
    expect(pipeline.stages.map(({ name }) => name)).toEqual(['worker-0', 'worker-1', 'worker-2'])
    expect(await read(pipeline.generate(request(prompt(9))))).toEqual(await unsplit(prompt(9), 40))
    await pipeline.close()
    await cluster.close()
  })
})

describe('a generation', () => {
  it('ends with the stop token, which it reports', async () => {
    const expected = await unsplit(prompt(20), 40)
    const stop = expected[11]!
    const upTo = expected.indexOf(stop) + 1
    await withCluster({ ends: [3, 6] }, async ({ pipeline }) => {
      const events = []
      for await (const event of pipeline.generate(request(prompt(20), 40, { stopTokens: [stop] })))
        events.push(event)
      expect(events.map(({ token }) => token)).toEqual(expected.slice(0, upTo))
      expect(events.map(({ finish }) => finish)).toEqual([...Array(upTo - 1).fill('none'), 'stop'])
      expect(events.map(({ position }) => position)).toEqual(events.map((_, i) => 20 + i))
    })
  })

  it('brings logits of the vocabulary when asked, whose maximum is the greedy token', async () => {
    await withCluster({ ends: [3, 6] }, async ({ pipeline }) => {
      const sampler = { ...GREEDY, penaltyLastN: 0 }
      for await (const { logits, token } of pipeline.generate(
        request(prompt(5), 8, { sampler, returnLogits: true }),
      )) {
        expect(logits!.length).toBe(256)
        expect(logits!.indexOf(Math.max(...logits!))).toBe(token)
      }
    })
  })

  it('works no further ahead of its reader than the token window', async () => {
    await withCluster({ ends: [3, 6] }, async ({ pipeline, executors }) => {
      await pipeline.startTrace().catch(() => {})
      let fed = 0
      const { step } = executors[0]!
      ;(executors[0] as { step: typeof step }).step = (call) => {
        fed++
        return step(call)
      }
      const generation = pipeline.generate(request(prompt(5), 300))
      const iterator = generation[Symbol.asyncIterator]()
      await iterator.next()
      await new Promise((resolve) => setTimeout(resolve, 300))
      expect(fed).toBeLessThanOrEqual(1 + 33)
      for (let i = 0; i < 100; i++) await iterator.next()
      expect(fed).toBeGreaterThan(100)
      await generation.cancel()
    })
  })

  it('frees its cells on every stage when cancelled, aborted or left early', async () => {
    await withCluster({ ends: [2, 4, 6], fake: { maxSequences: 1 } }, async ({ pipeline, executors }) => {
      const free = () => executors.map(({ freeSessions }) => freeSessions)
      const cancelled = pipeline.generate(request(prompt(200), 100))
      const reading = readUntilError(() => cancelled)
      await cancelled.cancel()
      expect((await reading).error?.code).toBe('ABORTED')
      expect(free()).toEqual([1, 1, 1])

      for await (const { position } of pipeline.generate(request(prompt(10), 100))) if (position === 15) break
      expect(free()).toEqual([1, 1, 1])

      const controller = new AbortController()
      const aborted = readUntilError(() =>
        pipeline.generate(request(prompt(200), 100, { signal: controller.signal })),
      )
      controller.abort()
      expect((await aborted).error?.code).toBe('ABORTED')
      await expect.poll(free).toEqual([1, 1, 1])
      expect(await read(pipeline.generate(request(prompt(10))))).toEqual(await unsplit(prompt(10), 40))
    })
  })

  it('ends at once when its pipeline closes, and so does every stage', async () => {
    const cluster = await startCluster({ ends: [3, 6], fake: { computeMs: () => 3 } })
    const reading = readUntilError(() => cluster.pipeline.generate(request(prompt(200), 300)))
    await new Promise((resolve) => setTimeout(resolve, 30))
    await cluster.pipeline.close()
    expect((await reading).error?.code).toBe('ABORTED')
    expect(cluster.executors.map(({ freeSessions, spec }) => spec.maxSequences - freeSessions)).toEqual([
      0, 0,
    ])
    await cluster.close()
  })

  it.each([
    [{ prompt: [] }, 'USAGE', /no token/],
    [{ prompt: [256] }, 'USAGE', /256.*256/],
    [{ prompt: [-1] }, 'USAGE', /-1/],
    [{ maxTokens: 0 }, 'USAGE', /0/],
    [{ prompt: prompt(500), maxTokens: 13 }, 'LIMIT', /500.*13.*512/],
  ])('refuses %j', async (change, code, message) => {
    await withCluster({ ends: [6] }, async ({ pipeline }) => {
      expect(() => pipeline.generate({ ...request(prompt(3)), ...change })).toThrow(
        expect.objectContaining({ code, message: expect.stringMatching(message) }),
      )
    })
  })

  it('says BUSY when no sequence is free on a stage, and frees the ones it took', async () => {
    const options = { ends: [3, 6], stageFake: [{}, { maxSequences: 1 }], fake: { maxSequences: 1 } }
    await withCluster(options, async ({ pipeline, executors }) => {
      const first = pipeline.generate(request(prompt(5), 100))
      const iterator = first[Symbol.asyncIterator]()
      await iterator.next()
      const { error } = await readUntilError(() => pipeline.generate(request(prompt(5))))
      expect(error).toMatchObject({ code: 'BUSY', message: expect.stringMatching(/1 .*0 free/) })
      await first.cancel()
      expect(executors.map(({ freeSessions }) => freeSessions)).toEqual([1, 1])
    })
  })
})

describe('a handshake', () => {
  const refusal = async (stageFake: object[], pipeline = {}) => {
    const error = await startCluster({ ends: [3, 6], stageFake, pipeline }).then(
      () => undefined,
      (reason) => reason,
    )
    return error as SeamError
  }

  it.each([
    ['another model', { model: 2 }, /model SHA-256/],
    [
      'another chunk size',
      { chunkTokens: 32 },
      /chunk size in tokens: worker-\d has (64|32), worker-\d has (32|64)/,
    ],
    ['another context', { contextLength: 256 }, /context length.*(512|256).*(256|512)/],
    ['another hidden size', { embedding: 32 }, /hidden size.*(64|32).*(32|64)/],
  ])('refuses a worker with %s and names both values', async (_, fake, message) => {
    expect(await refusal([{}, fake])).toMatchObject({
      code: 'MISMATCH',
      message: expect.stringMatching(message),
      worker: expect.stringMatching(/worker-\d/),
    })
  })

  it('refuses a gap, an overlap and a missing end in the layers', async () => {
    expect((await refusal([{}, { layerFirst: 4 }])).message).toMatch(
      /worker-1 starts at layer 4 where layer 3 is due/,
    )
    expect((await refusal([{}, { layerFirst: 2 }])).message).toMatch(
      /worker-1 starts at layer 2 where layer 3 is due/,
    )
    expect((await refusal([{}, { layerEnd: 5 }])).message).toMatch(/ends at layer 5 of 6/)
  })

  it('refuses a worker whose model is not the expected one', async () => {
    const error = await refusal([], { expected: { modelSha256: 'ab'.repeat(32) } })
    expect(error).toMatchObject({ code: 'MISMATCH', message: expect.stringMatching(/model SHA-256.*abab/) })
  })

  it('refuses a codec that nobody has', async () => {
    expect(await refusal([], { codecs: ['q2'] })).toMatchObject({
      code: 'MISMATCH',
      message: expect.stringMatching(/q2.*f32/),
    })
  })

  it('turns a second coordinator away while the first is served, then takes it', async () => {
    await withCluster({ ends: [3, 6] }, async ({ pipeline, options }) => {
      const generation = pipeline.generate(request(prompt(5)))
      await expect(connectPipeline(options)).rejects.toMatchObject({
        code: 'BUSY',
        message: expect.stringMatching(/worker-\d.*serves run [0-9a-f]{16}/),
      })
      expect(await read(generation)).toEqual(await unsplit(prompt(5), 40))
      await pipeline.close()
      const next = await connectPipeline(options)
      expect(await read(next.generate(request(prompt(5))))).toEqual(await unsplit(prompt(5), 40))
      await next.close()
    })
  })

  it('names the address where nobody listens', async () => {
    const { options, close } = await startWorkers({ ends: [6] })
    const workers = [
      ...options.workers,
      { name: 'ghost', addresses: [{ transport: 'memory', address: 'nowhere' }] },
    ]
    await expect(connectPipeline({ ...options, workers })).rejects.toMatchObject({
      code: 'RESET',
      message: expect.stringMatching(/ghost at nowhere/),
    })
    await close()
  })

  it('refuses an address that is taken', async () => {
    const { workers, executors, options, close } = await startWorkers({ ends: [6] })
    const { transports, framings } = options
    const again = {
      ...{ name: 'second', executor: executors[0]!, transports, framings },
      ...{ codecs: CODECS, listen: workers[0]!.addresses },
    }
    await expect(createWorker(again)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/worker-0/),
    })
    await close()
  })
})

it('traces compute of every step with tags that join the stages', async () => {
  const started = await startWorkers({ ends: [6] })
  await started.close()
  const transports = mapOf(tcp())
  const { framings } = started.options
  const { fakeExecutor } = await import('../src/fake.ts')
  const workers = await Promise.all(
    [0, 1].map((i) => {
      const recorder = spanRing({ recording: false })
      const executor = fakeExecutor({
        layerFirst: 3 * i,
        layerEnd: 3 * i + 3,
        layerCount: LAYERS,
        sink: recorder,
      })
      return createWorker({
        ...{ name: `w${i}`, executor, transports, framings, recorder },
        codecs: CODECS,
        listen: [{ transport: 'tcp', address: '127.0.0.1:0' }],
      })
    }),
  )
  const pipeline = await connectPipeline({ workers, transports, framings })
  await pipeline.startTrace()
  await read(pipeline.generate(request(prompt(100), 10)))
  const traces = await pipeline.fetchTraces()
  const positions = traces.map(({ spans }) =>
    Array.from({ length: spans.length / 6 }, (_, i) => spans.slice(i * 6, i * 6 + 6))
      .filter(([name]) => name === 2)
      .map(([, , , tag]) => tag),
  )
  const expected = [0, 64, ...Array.from({ length: 9 }, (_, i) => 100 + i)]
  expect(positions).toEqual([expected, expected])
  expect(traces[0]!.rssBytes).toBeGreaterThan(2 ** 20)
  expect(traces.map(({ dropped }) => dropped)).toEqual([0, 0])
  await pipeline.close()
  await Promise.all(workers.map((worker) => worker.close()))
})
