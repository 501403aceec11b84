import { truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { executorSuite } from '@seamline/conformance'
import type { SamplerSettings, StageExecutor, Step } from '@seamline/core'
import { SpanName } from '@seamline/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findLibraries, llamaExecutor } from '../src/index.ts'
import {
  closeAll,
  generate,
  greedy,
  hasModel,
  inFolder,
  modelPath,
  openChain,
  openStages,
  warm,
} from './model.ts'

const code = (code: string, message: RegExp | string = '') =>
  expect.objectContaining({ code, message: expect.stringMatching(message) })
const prompt = (count: number) => Array.from({ length: count }, (_, i) => 3 + ((i * 37 + 11) % 500))

describe.skipIf(!hasModel)('conformance', () => {
  for (const count of [1, 2, 3]) {
    describe(`${count} stage(s)`, () => {
      executorSuite({
        describe,
        it,
        create: () => openStages(count, { contextLength: 96, chunkTokens: 16, maxSequences: 3 }),
      })
    })
  }
})

describe.skipIf(!hasModel)('split against whole', () => {
  for (const flashAttention of ['on', 'off'] as const) {
    for (const count of [2, 3, 5]) {
      it(`gives the same logits to the last bit in ${count} stages, flash attention ${flashAttention}`, async () => {
        const whole = await openStages(1, { flashAttention })
        const split = await openStages(count, { flashAttention })
        for (const length of [1, 7, 128, 300]) {
          const chains = [openChain(whole), openChain(split)] as const
          let next = prompt(length)
          for (let i = 0; i < 8; i++) {
            const logits = chains.map(() => new Float32Array(512)) as [Float32Array, Float32Array]
            const { tokens } = await chains[0].feed(next, logits[0])
            expect((await chains[1].feed(next, logits[1])).tokens).toEqual(tokens)
            expect(logits[0].some((value) => value !== 0)).toBe(true)
            expect(logits[1]).toEqual(logits[0])
            next = [...tokens]
          }
          await Promise.all(chains.map((chain) => chain.close()))
        }
        await closeAll([...whole, ...split])
      })
    }
  }

  it('samples the same text in 1, 2 and 3 stages, beside other sequences, and after a rollback', async () => {
    const tail = prompt(20)
    const texts: number[][] = []
    for (const count of [1, 2, 3]) {
      const stages = await openStages(count)
      texts.push(await generate(openChain(stages, warm, tail), tail, 40))
      texts.push(...(await Promise.all([1, 2].map(() => generate(openChain(stages, warm, tail), tail, 40)))))
      const chain = openChain(stages, warm, tail)
      const first = await generate(chain, tail, 30)
      chain.rollback(30, [...tail, ...first.slice(0, 11)])
      texts.push([...first.slice(0, 11), ...(await generate(chain, first.slice(10, 11), 29))])
      await closeAll(stages)
    }
    expect(new Set(texts[0]).size).toBeGreaterThan(10)
    for (const text of texts) expect(text).toEqual(texts[0])
    const stages = await openStages(1)
    const other = await generate(openChain(stages, { ...warm, seed: 8 }, tail), tail, 40)
    await closeAll(stages)
    expect(other).not.toEqual(texts[0])
  })
})

describe.skipIf(!hasModel)('one stage', () => {
  let stage: StageExecutor
  beforeAll(async () => {
    stage = (await openStages(1))[0]!
  })
  afterAll(() => stage.close())

  it('states what it runs on', () => {
    expect(stage.spec).toMatchObject({
      layerFirst: 0,
      layerEnd: 5,
      layerCount: 5,
      embedding: 64,
      vocabulary: 512,
      contextLength: 512,
      chunkTokens: 64,
      maxSequences: 4,
      kvType: 'f16',
      flashAttention: 'on',
      regime: 'per-row',
      threads: 1,
      engine: 'llama.cpp v0.5.0',
      backend: expect.stringMatching(/^cpu/),
    })
  })

  it('takes several sequences of one length in a step, in any order, and samples where asked', async () => {
    const prompts = [prompt(5), prompt(5).reverse(), prompt(5).map((token) => token + 1)]
    const alone: number[] = []
    for (const tokens of prompts) {
      const chain = openChain([stage])
      alone.push((await chain.feed(tokens)).tokens[0]!)
      await chain.close()
    }
    const chains = prompts.map(() => openChain([stage]))
    for (const order of [
      [0, 1, 2],
      [2, 0, 1],
    ]) {
      const rows = order.map((i) => ({
        session: chains[i]!.sessions[0]!,
        position: 0,
        tokenCount: 5,
        sample: i !== 1,
      }))
      const input = Int32Array.from(order.flatMap((i) => prompts[i]!))
      const logits = new Float32Array(2 * 512)
      const { tokens } = await stage.step({ rows, input, output: null, logits, tag: 0 })
      const sampled = order.filter((i) => i !== 1)
      expect(tokens).toEqual(sampled.map((i) => alone[i]))
      expect(tokens[0]).toBe(argmax(logits.subarray(0, 512)))
      for (const chain of chains) chain.rollback(0, [])
    }
    await Promise.all(chains.map((chain) => chain.close()))
  })

  it('refuses steps that do not fit, naming both sides, and goes on', async () => {
    const session = stage.openSession({ sampler: greedy, promptTail: [] })
    const step = (change: Partial<Step>, row = {}) =>
      stage.step({
        rows: [{ session, position: 0, tokenCount: 2, sample: true, ...row }],
        input: Int32Array.of(1, 2),
        output: null,
        logits: null,
        tag: 0,
        ...change,
      })
    await expect(step({ rows: [] })).rejects.toEqual(code('USAGE', /0 rows/))
    await expect(step({ input: Int32Array.of(1) })).rejects.toEqual(code('USAGE', /1 values.*need 2/))
    await expect(step({ input: Int32Array.of(1, 512) })).rejects.toEqual(code('USAGE', /token 512.*has 512/))
    await expect(step({ input: Int32Array.of(-1, 2) })).rejects.toEqual(code('USAGE', /token -1/))
    await expect(step({ input: new Float32Array(128) })).rejects.toEqual(code('USAGE', /token ids/))
    await expect(step({ output: new Float32Array(128) })).rejects.toEqual(code('USAGE', /no output/))
    await expect(step({ logits: new Float32Array(511) })).rejects.toEqual(code('USAGE', /511.*512/))
    await expect(step({}, { position: 1 })).rejects.toEqual(code('PROTOCOL', /position 1.*is 0/))
    await expect(step({}, { tokenCount: 0 })).rejects.toEqual(code('USAGE', /0 tokens/))
    const row = { session, position: 0, tokenCount: 1, sample: false }
    await expect(step({ rows: [row, row] })).rejects.toEqual(code('USAGE', /two rows/))
    expect(session.position).toBe(0)
    expect((await step({})).tokens).toHaveLength(1)
    expect(session.position).toBe(2)
    await session.close()
  })

  it('ends steps in flight with ABORTED when their session is closed, and no others', async () => {
    const [closing, staying] = [openChain([stage]), openChain([stage])]
    const feeds = [closing.feed(prompt(64)), staying.feed(prompt(64)), closing.feed([5])]
    const settled = Promise.allSettled(feeds)
    await closing.close()
    const [first, second, third] = await settled
    expect(first).toMatchObject({ status: 'rejected', reason: { code: 'ABORTED' } })
    expect(second).toMatchObject({ status: 'fulfilled' })
    expect(third).toMatchObject({ status: 'rejected', reason: { code: 'ABORTED' } })
    await expect(closing.feed([5])).rejects.toEqual(code('ABORTED'))
    await staying.close()
    expect(stage.freeSessions).toBe(4)
  })

  it('refuses a rollback while a step is in flight', async () => {
    const chain = openChain([stage])
    const feed = chain.feed(prompt(3))
    expect(() => chain.rollback(0, [])).toThrow(code('USAGE', /in flight/))
    await feed
    expect(() => chain.rollback(4, [])).toThrow(code('USAGE', /position 4.*is 3/))
    expect(() => chain.rollback(0, [512])).toThrow(code('USAGE', /tail\[0\] is token 512/))
    expect(chain.sessions[0]!.position).toBe(3)
    await chain.close()
  })

  it('refuses a state that is not its own and is empty afterwards', async () => {
    const session = openChain([stage]).sessions[0]!
    const chain = openChain([stage])
    await chain.feed(prompt(9))
    const state = await chain.sessions[0]!.saveState()
    await expect(session.restoreState(state, 8)).rejects.toEqual(code('MISMATCH', /9 positions, not 8/))
    await expect(session.restoreState(state.subarray(1), 9)).rejects.toEqual(code('PROTOCOL'))
    await expect(session.restoreState(state.subarray(0, -9), 9)).rejects.toEqual(code('PROTOCOL'))
    for (let at = 0; at < state.length; at += 499) {
      const damaged = state.slice()
      damaged[at]! ^= 0x5a
      await expect(session.restoreState(damaged, 9)).rejects.toEqual(code('PROTOCOL', /was altered/))
    }
    const stages = await openStages(2)
    const foreign = openChain(stages).sessions[1]!
    await expect(foreign.restoreState(state, 9)).rejects.toEqual(code('MISMATCH', /whole model.*layers 2-5/))
    await closeAll(stages)
    expect(session.position).toBe(0)
    await session.restoreState(state, 9)
    expect(session.position).toBe(9)
    await Promise.all([session.close(), chain.close()])
  })

  it('refuses sampler settings out of range', () => {
    const bad: Partial<SamplerSettings>[] = [
      { temperature: -1 },
      { temperature: Number.NaN },
      { topK: 1.5 },
      { topP: 0 },
      { minP: 1.1 },
      { penaltyLastN: -1 },
      { repeatPenalty: 0 },
      { frequencyPenalty: Number.POSITIVE_INFINITY },
      { seed: 2 ** 32 },
      { seed: -1 },
    ]
    for (const change of bad) {
      const [name, value] = Object.entries(change)[0]!
      expect(() => stage.openSession({ sampler: { ...greedy, ...change }, promptTail: [] })).toThrow(
        code('USAGE', new RegExp(`${name} is ${value}`)),
      )
    }
    expect(stage.freeSessions).toBe(4)
  })

  it('records a compute and a sample span with the stamps of the step', async () => {
    const spans: number[][] = []
    const [recorded] = await openStages(1, {
      sink: { span: (...span) => spans.push(span.slice(0, 5) as number[]) },
    })
    const session = recorded!.openSession({ sampler: greedy, promptTail: [] })
    const rows = [{ session, position: 0, tokenCount: 1, sample: true }]
    const before = process.hrtime.bigint()
    const result = await recorded!.step({
      rows,
      input: Int32Array.of(1),
      output: null,
      logits: null,
      tag: 99,
    })
    const after = process.hrtime.bigint()
    const waits = spans.filter(([name]) => name === SpanName.cpuWait)
    const { computeEndNs, cpuWaitNs } = result
    expect(waits).toEqual(
      cpuWaitNs > 0 ? [[SpanName.cpuWait, computeEndNs - cpuWaitNs, computeEndNs, 99, 0]] : [],
    )
    expect(spans.filter(([name]) => name !== SpanName.cpuWait)).toEqual([
      [SpanName.compute, result.computeStartNs, result.computeEndNs, 99, 0],
      [SpanName.sample, result.computeEndNs, result.sampleEndNs, 99, 0],
    ])
    expect(BigInt(result.computeStartNs)).toBeGreaterThanOrEqual(before)
    expect(BigInt(result.sampleEndNs)).toBeLessThanOrEqual(after)
    await recorded!.close()
  })

  it('closes after the step in flight and refuses what is queued', async () => {
    const [closing] = await openStages(1)
    const chain = openChain([closing!])
    const settled = Promise.allSettled([chain.feed(prompt(64)), chain.feed([1]), chain.feed([2])])
    await new Promise((resolve) => setTimeout(resolve, 1))
    await Promise.all([closing!.close(), closing!.close(), chain.close()])
    for (const result of await settled) {
      if (result.status === 'rejected') expect(result.reason).toEqual(code('CLOSED'))
    }
    expect((await settled)[2]).toMatchObject({ status: 'rejected' })
    expect(() => closing!.openSession({ sampler: greedy, promptTail: [] })).toThrow(code('CLOSED'))
  })
})

describe('loading', () => {
  const load = (path: string, options = {}) => llamaExecutor({ path, contextLength: 64, ...options })

  it('names a file that is absent or no model', async () => {
    await inFolder(async (folder) => {
      await expect(load(join(folder, 'absent.gguf'))).rejects.toEqual(code('FILE', /absent\.gguf: No such/))
      const path = join(folder, 'bad.gguf')
      await writeFile(path, 'GGUFnothing of the kind')
      await expect(load(path)).rejects.toEqual(code('FILE', /bad\.gguf: .+/))
      await truncate(path, 0)
      await expect(load(path)).rejects.toEqual(code('FILE'))
    })
  })

  it('refuses options out of range', async () => {
    await expect(load('x', { contextLength: 0 })).rejects.toEqual(code('USAGE', /contextLength is 0/))
    await expect(load('x', { threads: 1.5 })).rejects.toEqual(code('USAGE', /threads is 1.5/))
    await expect(load('x', { contextLength: 2 ** 30, maxSequences: 4 })).rejects.toEqual(code('LIMIT'))
    await expect(load('x', { signal: AbortSignal.abort() })).rejects.toEqual(code('ABORTED'))
  })

  it('names a folder without libraries', async () => {
    await inFolder(async (folder) => {
      process.env.SEAMLINE_LLAMA_LIBS = folder
      expect(findLibraries()).toBe(folder)
      delete process.env.SEAMLINE_LLAMA_LIBS
      // In a process that has loaded them already the folder is refused for that reason.
      await expect(load('x', { libraries: folder })).rejects.toEqual(
        expect.objectContaining({ message: expect.stringContaining(folder) }),
      )
    })
  })

  it.skipIf(!hasModel)('refuses a file that is not what the manifest says, naming both', async () => {
    const facts = {
      modelSha256: 'm',
      manifestSha256: 's',
      layerFirst: 0,
      layerEnd: 5,
      layerCount: 5,
      embedding: 64,
      vocabulary: 512,
    }
    const refused = (change: Partial<typeof facts>) => load(modelPath, { facts: { ...facts, ...change } })
    await expect(refused({ layerEnd: 4 })).rejects.toEqual(code('MISMATCH', /5 layers.*says 4/))
    await expect(refused({ embedding: 128 })).rejects.toEqual(code('MISMATCH', /64 values.*says 128/))
    await expect(refused({ vocabulary: 513 })).rejects.toEqual(code('MISMATCH', /512 tokens.*says 513/))
    await (await refused({})).close()
  })

  it.skipIf(!hasModel)('refuses a context beyond what the model was trained for', async () => {
    await expect(load(modelPath, { contextLength: 513 })).rejects.toEqual(code('LIMIT', /513.*512/))
  })
})

function argmax(values: Float32Array): number {
  return values.indexOf(Math.max(...values))
}
