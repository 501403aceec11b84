import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StageExecutor } from '@seamline/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type ChainRow,
  closeAll,
  hasModel,
  modelPath,
  openChain,
  openStages,
  stepRows,
  warm,
  writeModel,
} from './model.ts'

const ROWS = 4
const PROMPT = 12

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
})
afterAll(() => rm(folder, { recursive: true }))

const prompt = (row: number) => Array.from({ length: PROMPT }, (_, i) => 3 + ((i * 37 + row * 71 + 11) % 350))

const models: [name: string, path: () => Promise<string>][] = (['F32', 'F16', 'Q8_0'] as const).map(
  (type) => [type, () => writeModel(folder, type)],
)
if (hasModel) models.push(['stories260K', async () => modelPath])

describe.each(models)('four rows a step, %s', (_name, pathOf) => {
  let whole: StageExecutor[]
  let split: StageExecutor[]
  let vocabulary: number
  const openAll = (stages: readonly StageExecutor[]) =>
    Array.from({ length: ROWS }, (_, i) => openChain(stages, { ...warm, seed: 7 + i }, prompt(i)))

  beforeAll(async () => {
    const path = await pathOf()
    whole = await openStages(1, { path, maxSequences: ROWS })
    split = await openStages(3, { path, maxSequences: ROWS + 1 })
    vocabulary = split.at(-1)!.spec.vocabulary
  })
  afterAll(() => closeAll([...whole, ...split]))

  /** Prompts in one step, then steps of the sampled tokens in changing orders, some of them not sampling. */
  async function run(stages: readonly StageExecutor[]) {
    const chains = openAll(stages)
    const next = chains.map((_, i) => prompt(i))
    const texts: number[][] = chains.map(() => [])
    const all: Float32Array[] = []
    for (let step = 0; step < 16; step++) {
      const order = [...chains.keys()].sort((a, b) => ((a + step) % ROWS) - ((b + step) % ROWS))
      const rows = order.map(
        (i): ChainRow => ({ chain: chains[i]!, tokens: next[i]!, sample: i !== step % 7 }),
      )
      const sampling = order.filter((i) => i !== step % 7)
      const logits = new Float32Array(sampling.length * vocabulary)
      const { tokens } = await stepRows(stages, rows, logits)
      expect(tokens).toHaveLength(sampling.length)
      all.push(logits)
      for (const i of order) next[i] = [5]
      for (const [at, i] of sampling.entries()) {
        next[i] = [tokens[at]!]
        texts[i]!.push(tokens[at]!)
      }
    }
    await Promise.all(chains.map((chain) => chain.close()))
    return { all, texts }
  }

  it('gives the logits and tokens of the unsplit model in the same composition, to the last bit', async () => {
    const expected = await run(whole)
    const actual = await run(split)
    expect(actual.texts).toEqual(expected.texts)
    expect(
      actual.all.every((logits, i) =>
        Buffer.from(logits.buffer).equals(Buffer.from(expected.all[i]!.buffer)),
      ),
    ).toBe(true)
    expect(new Set(expected.texts.map(String)).size).toBe(ROWS)
    expect(new Set(expected.texts.flat()).size).toBeGreaterThan(10)
  })

  it('leaves all rows as they were when one of them fails or the step is aborted', async () => {
    const stages = [split.at(-1)!]
    const { embedding } = stages[0]!.spec
    const sessions = Array.from({ length: ROWS }, () =>
      stages[0]!.openSession({ sampler: warm, promptTail: [] }),
    )
    const hidden = Float32Array.from({ length: 3 * ROWS * embedding }, (_, i) => Math.sin(i))
    const logits = new Float32Array(ROWS * vocabulary)
    const step = (input: Float32Array, change: { row: number; position: number } | null = null) =>
      stages[0]!.step({
        rows: sessions.map((session, i) => ({
          session,
          position: i === change?.row ? change.position : 0,
          tokenCount: 3,
          sample: true,
        })),
        input,
        output: null,
        logits,
        tag: 0,
      })
    await expect(step(hidden, { row: 2, position: 1 })).rejects.toMatchObject({ code: 'PROTOCOL' })
    const broken = hidden.slice()
    broken[7 * embedding] = Number.NaN
    await expect(step(broken)).rejects.toMatchObject({ code: 'EXECUTOR' })
    // Behind enough work that it cannot be over yet.
    const busy = stages[0]!.openSession({ sampler: warm, promptTail: [] })
    const fed = Array.from({ length: 6 }, (_, i) =>
      stages[0]!.step({
        rows: [{ session: busy, position: 64 * i, tokenCount: 64, sample: false }],
        input: new Float32Array(64 * embedding).fill(0.5),
        output: null,
        logits: null,
        tag: 0,
      }),
    )
    const settled = Promise.allSettled([...fed, step(hidden)])
    stages[0]!.abort()
    expect((await settled).at(-1)).toMatchObject({ status: 'rejected', reason: { code: 'ABORTED' } })
    await busy.close()
    for (const session of sessions) expect(session.position).toBe(0)
    const { tokens } = await step(hidden)
    const after = logits.slice()
    for (const session of sessions) session.rollback(0, [])
    expect((await step(hidden)).tokens).toEqual(tokens)
    expect(logits).toEqual(after)
    await Promise.all(sessions.map((session) => session.close()))
  })

  it('goes on with the others when the session of one row is closed in the middle of a step', async () => {
    const [leaving, ...staying] = openAll(split)
    const rows = [leaving!, ...staying].map(
      (chain, i): ChainRow => ({ chain, tokens: prompt(i), sample: true }),
    )
    const step = stepRows(split, rows)
    const settled = expect(step).rejects.toMatchObject({ code: 'ABORTED' })
    await leaving!.close()
    await settled
    for (const chain of staying) chain.rollback(0, [])
    const { tokens } = await stepRows(split, rows.slice(1))
    expect(tokens).toHaveLength(ROWS - 1)
    await Promise.all(staying.map((chain) => chain.close()))
    expect(split.map((stage) => stage.freeSessions)).toEqual(split.map(() => ROWS + 1))
  })
})
