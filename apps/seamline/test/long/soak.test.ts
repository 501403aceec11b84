import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { synthModel, synthPresets } from '@seamline/gguf'
import { connectPipeline, type Pipeline } from '@seamline/runtime'
import { framings, type LocalWorkers, named, startLocalWorkers, transports } from 'seamline/cluster'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GREEDY } from '../../src/options.ts'
import { prepareSplit, splitFacts, splitStages } from '../../src/prepare.ts'
import { randomTokens } from '../../src/random-tokens.ts'
import { createUi } from '../../src/ui.ts'
import { scratchFolder } from '../support.ts'

const folder = scratchFolder()
const SEQUENCES = 4
const VOCABULARY = 512
/** Until then V8 and malloc take what they come to use: resident memory grows and then stays. */
const WARM_UP = 6000
const CYCLES = 1000
const ABORTS = 200
/** Pages that a worker may gain in the second half of a soak: what a garbage-collected heap comes and goes by. */
const MOST_GROWTH_BYTES = 8e6

let local: LocalWorkers
let pipeline: Pipeline

beforeAll(async () => {
  const path = join(folder, 'soak.gguf')
  await synthModel({
    ...synthPresets.demo,
    ...{
      path,
      seed: 1,
      width: 64,
      layers: 4,
      feedForward: 128,
      heads: 4,
      kvHeads: 2,
      vocabulary: VOCABULARY,
    },
  })
  const context = { ui: createUi({ json: true, progress: false }), signal: new AbortController().signal }
  const split = await prepareSplit(context, path, 2)
  const engine = {
    chunk: 32,
    ctx: 256,
    sequences: SEQUENCES,
    threads: 1,
    flashAttn: 'on',
    regime: 'per-row',
  } as const
  local = await startLocalWorkers({ stages: splitStages(split), engine })
  pipeline = await connectPipeline({
    ...{ workers: local.workers, expected: splitFacts(split), rowsPerStep: 2 },
    transports: new Map([['tcp', named('transport', transports, 'tcp')()]]),
    framings: [...framings.values()],
  })
})
afterAll(async () => {
  await pipeline?.close()
  await local?.close()
})

const request = (length: number, salt: number, maxTokens: number, signal?: AbortSignal) => ({
  prompt: randomTokens(length, VOCABULARY, salt),
  ...{ maxTokens, sampler: GREEDY, stopTokens: [] },
  ...(signal === undefined ? {} : { signal }),
})

async function read(length: number, salt: number, maxTokens: number): Promise<number[]> {
  const tokens: number[] = []
  for await (const { token } of pipeline.generate(request(length, salt, maxTokens))) tokens.push(token)
  return tokens
}

/** Every sequence that the workers have room for, of different lengths, at once: none may be in use by anything else. */
async function expectAllFreeAndApart(): Promise<void> {
  const shapes = [5, 40, 90, 130].map((length, salt) => [length, salt, 24 + 8 * salt] as const)
  const together = await Promise.all(shapes.map((shape) => read(...shape)))
  for (const [i, shape] of shapes.entries()) expect(together[i]).toEqual(await read(...shape))
}

function rssBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024
}

/** Repeats `action` and reports how resident memory went; throws when it grew in the second half. */
async function soak(what: string, times: number, action: (i: number) => Promise<void>): Promise<void> {
  const every = times / 10
  const samples = local.workers.map(() => [] as number[])
  for (let i = 0; i < times; i++) {
    await action(i)
    if ((i + 1) % every === 0)
      for (const [w, { pid }] of local.workers.entries()) samples[w]!.push(rssBytes(pid))
  }
  for (const [w, { name }] of local.workers.entries()) {
    const found = samples[w]!
    const halves = found.slice(found.length / 2)
    const growth = halves.at(-1)! - halves[0]!
    const per100 = (slope(found) * 100) / every
    console.log(
      `${what}, ${name}: RSS ${found.map((rss) => (rss / 1e6).toFixed(1)).join(' ')} MB, ` +
        `${(per100 / 1e3).toFixed(1)} kB per 100; second half ${(growth / 1e6).toFixed(2)} MB, at most ${MOST_GROWTH_BYTES / 1e6} MB`,
    )
    expect(growth).toBeLessThan(MOST_GROWTH_BYTES)
  }
}

/** Least squares, per sample. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const over = values.reduce((sum, value, i) => sum + (i - middle) * (value - mean), 0)
  return over / values.reduce((sum, _, i) => sum + (i - middle) ** 2, 0)
}

describe.skipIf(process.platform !== 'linux')('a pipeline of two worker processes', () => {
  it('keeps four sequences of different lengths apart', expectAllFreeAndApart)

  it(`stays flat over ${CYCLES} sequences that are opened and cancelled`, async () => {
    const openAndCancel = async (i: number) => {
      const generation = pipeline.generate(request(1 + ((i * 7) % 60), i, 100))
      const iterator = generation[Symbol.asyncIterator]()
      for (let token = 0; token < i % 3; token++) await iterator.next()
      await generation.cancel()
    }
    for (let i = 0; i < WARM_UP; i++) await openAndCancel(i)
    await soak('open and cancel', CYCLES, openAndCancel)
    await expectAllFreeAndApart()
  })

  it(`stays flat over ${ABORTS} aborts at random points`, async () => {
    const moments = randomTokens(ABORTS, 60, 7)
    await soak('abort', ABORTS, async (i) => {
      const controller = new AbortController()
      const timer = setTimeout(() => controller.abort(), moments[i]! / 2)
      const generations = [0, 1, 2].map((part) =>
        pipeline.generate(request(10 + 50 * part, i, 100, controller.signal)),
      )
      const ends = await Promise.allSettled(
        generations.map(async (generation) => {
          for await (const _ of generation);
        }),
      )
      clearTimeout(timer)
      for (const end of ends) {
        if (end.status === 'rejected') expect(end.reason).toMatchObject({ code: 'ABORTED' })
      }
    })
    await expectAllFreeAndApart()
  })
})
