import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StageExecutor } from '@seamline/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LlamaExecutorOptions } from '../src/index.ts'
import {
  type Chain,
  closeAll,
  hasModel,
  modelPath,
  openChain,
  openStages,
  stepRows,
  type TestType,
  writeModel,
} from './model.ts'

/** Beyond 256 positions, where llama.cpp splits the attention of a lone row over its threads. */
const LENGTH = 290
const PROMPT = 270
const SEQUENCES = 4

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
})
afterAll(() => rm(folder, { recursive: true }))

const prompt = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => 3 + (((i + from) * 37 + 11) % 350))

/** Logits of the last tokens of sequences that are all fed the same number of tokens in one step. */
async function feed(stages: readonly StageExecutor[], rows: readonly [Chain, number[]][]) {
  const { vocabulary } = stages.at(-1)!.spec
  const logits = new Float32Array(rows.length * vocabulary)
  await stepRows(
    stages,
    rows.map(([chain, tokens]) => ({ chain, tokens, sample: true })),
    logits,
  )
  return rows.map((_, i) => logits.slice(i * vocabulary, (i + 1) * vocabulary))
}

/** To the last bit. Comparing thousands of rows value by value would take longer than computing them. */
function expectSame(actual: Float32Array | undefined, expected: Float32Array | undefined): void {
  const bytes = (values: Float32Array) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
  if (Buffer.compare(bytes(actual!), bytes(expected!)) !== 0) expect(actual).toEqual(expected)
}

const uniform = (stages: number, path: string, options: Partial<LlamaExecutorOptions> = {}) =>
  openStages(stages, { path, contextLength: 384, regime: 'uniform', ...options })

const types: TestType[] = ['F32', 'F16', 'Q8_0', 'Q5_K_M', 'Q4_K_M', 'Q3_K_M']
const models: [name: string, path: () => Promise<string>][] = types.map((type) => [
  type,
  () => writeModel(folder, type),
])
if (hasModel) models.push(['stories260K', async () => modelPath])

describe.each(models)('uniform regime, %s', (_name, pathOf) => {
  let stages: StageExecutor[]
  let split: StageExecutor[]
  const texts = Array.from({ length: SEQUENCES }, (_, i) => prompt(LENGTH, 50 * i))
  /** By sequence and position: one token after the other in a step of its own. */
  const expected: Float32Array[][] = []

  beforeAll(async () => {
    const path = await pathOf()
    stages = await uniform(1, path)
    split = await uniform(2, path)
    for (const text of texts) {
      const chain = openChain(stages)
      const logits: Float32Array[] = []
      for (let at = 0; at < (text === texts[0] ? LENGTH : 100); at++)
        logits.push(...(await feed(stages, [[chain, [text[at]!]]])))
      expected.push(logits)
      await chain.close()
    }
  })
  afterAll(() => closeAll([...stages, ...split]))

  it.each([1, 2, 4, 8])('gives windows of %i tokens the logits of single tokens', async (window) => {
    const chain = openChain(stages)
    for (let at = 0; at + window <= LENGTH; at += window) {
      const [logits] = await feed(stages, [[chain, texts[0]!.slice(at, at + window)]])
      expectSame(logits, expected[0]![at + window - 1])
    }
    await chain.close()
  })

  it('gives every chunking of a prompt the same logits, in one stage and in two', async () => {
    for (const chain of [openChain(stages), openChain(split)]) {
      const used = chain.sessions.length === 1 ? stages : split
      for (const chunk of [3, 7, 32, 61, 63, 64]) {
        for (let at = 0; at < PROMPT; at += chunk) {
          const end = Math.min(at + chunk, PROMPT)
          const [logits] = await feed(used, [[chain, texts[0]!.slice(at, end)]])
          expectSame(logits, expected[0]![end - 1])
        }
        chain.rollback(0, [])
      }
      await chain.close()
    }
  })

  it.each([1, 2, 8])('gives sequences of %i tokens a step the logits that each has alone', async (count) => {
    const chains = texts.map(() => openChain(split))
    for (const [i, chain] of chains.entries()) await feed(split, [[chain, texts[i]!.slice(0, 40 - i)]])
    // In ascending order, descending, and with gaps: llama.cpp batches these otherwise.
    const orders = [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [0, 2, 3],
      [1, 3],
    ]
    for (const order of orders) {
      const rows = order.map((i): [Chain, number[]] => {
        const at = chains[i]!.sessions[0]!.position
        return [chains[i]!, texts[i]!.slice(at, at + count)]
      })
      const logits = await feed(split, rows)
      for (const [row, i] of order.entries()) {
        expectSame(logits[row], expected[i]![chains[i]!.sessions[0]!.position - 1])
      }
    }
    await Promise.all(chains.map((chain) => chain.close()))
  })

  it('feeds decoded tokens again in chunks without a difference', async () => {
    const chain = openChain(split)
    await chain.feed(texts[0]!.slice(0, 200))
    for (let at = 200; at < LENGTH; at++) await feed(split, [[chain, [texts[0]![at]!]]])
    for (const from of [0, 200, 255, LENGTH - 1]) {
      chain.rollback(from, [])
      const logits = new Float32Array(split[0]!.spec.vocabulary)
      await chain.feed(texts[0]!.slice(from), logits)
      expectSame(logits, expected[0]!.at(-1))
    }
    await chain.close()
  })
})

describe('uniform regime', () => {
  it('fills the context to its last position with single tokens', async () => {
    const path = await writeModel(folder, 'F16')
    const [full, half] = [
      await uniform(1, path, { contextLength: 256, maxSequences: 2 }),
      await uniform(2, path),
    ]
    for (const stages of [full, half]) expect(stages[0]!.spec.regime).toBe('uniform')
    const text = prompt(256)
    const [chain, other, reference] = [openChain(full), openChain(full), openChain(half)]
    await chain.feed(text.slice(0, 255))
    await other.feed(text.slice(0, 255))
    await reference.feed(text.slice(0, 255))
    const [expected] = await feed(half, [[reference, text.slice(255)]])
    for (const used of [chain, other]) {
      expect(await feed(full, [[used, text.slice(255)]])).toEqual([expected])
      expect(used.sessions[0]!.position).toBe(256)
      await expect(feed(full, [[used, [5]]])).rejects.toMatchObject({ code: 'LIMIT' })
    }
    await closeAll([...full, ...half])
  })

  it('does not depend on the number of threads where a lone row alone would', async () => {
    const path = await writeModel(folder, 'Q8_0')
    const text = prompt(PROMPT + 2)
    const [one, two] = [await uniform(1, path), await uniform(1, path, { threads: 2 })]
    const logits: Float32Array[] = []
    for (const stages of [one, two]) {
      const chain = openChain(stages)
      await chain.feed(text.slice(0, PROMPT))
      for (const token of text.slice(PROMPT)) logits.push(...(await feed(stages, [[chain, [token]]])))
    }
    expect(logits.slice(2)).toEqual(logits.slice(0, 2))
    await closeAll([...one, ...two])
  })

  it('runs in chunks of one token and with more sequences than tokens in a chunk', async () => {
    const path = await writeModel(folder, 'F16')
    const [small, usual] = [await uniform(1, path, { chunkTokens: 1 }), await uniform(1, path)]
    const text = prompt(20)
    const logits = [new Float32Array(384), new Float32Array(384)] as const
    for (const [i, stages] of [small, usual].entries()) await openChain(stages).feed(text, logits[i]!)
    expect(logits[0]).toEqual(logits[1])
    await closeAll([...small, ...usual])
  })

  it('keeps states apart from those of the other regime', async () => {
    const path = await writeModel(folder, 'F16')
    const [one, other] = [await uniform(1, path), await openStages(1, { path, contextLength: 384 })]
    const chain = openChain(one)
    await chain.feed(prompt(9))
    const state = await chain.sessions[0]!.saveState()
    const session = openChain(other).sessions[0]!
    await expect(session.restoreState(state, 9)).rejects.toMatchObject({ code: 'MISMATCH' })
    await closeAll([...one, ...other])
  })

  it('refuses what it cannot do, with the reason', async () => {
    const open = (path: string, options: Partial<LlamaExecutorOptions>) => uniform(1, path, options)
    const path = await writeModel(folder, 'F16')
    await expect(open(path, { flashAttention: 'off' })).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/flash attention on/),
    })
    await expect(open(path, { repack: true })).rejects.toMatchObject({ code: 'USAGE' })
    await expect(open(await writeModel(folder, 'IQ4_XS'), {})).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/weight is iq4_xs/),
    })
  })
})
