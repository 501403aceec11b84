import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordPipeline } from '../src/e2e/executors.ts'
import { rootDir } from '../src/root.ts'
import { type PipelineCell, parseCell } from '../src/session/cell.ts'
import { tokensSha256 } from '../src/session/guards.ts'
import { createUi } from '../src/ui.ts'

const model = process.env.SEAMLINE_TEST_MODEL ?? join(rootDir, '..', 'shared', 'models', 'stories260K.gguf')
const context = { ui: createUi(true), signal: new AbortController().signal }
const base = { k: 2, promptTokens: 20, tokens: 12, warmupTokens: 2, chunk: 8, ctx: 64 }

function cell(fields: object): PipelineCell {
  return parseCell({ ...base, ...fields }, 'cell') as PipelineCell
}

let models: string
beforeAll(async () => {
  models = await mkdtemp(join(tmpdir(), 'bench-models-'))
  process.env.SEAMLINE_MODEL_DIR = models
})
afterAll(() => rm(models, { recursive: true, force: true }))

describe.skipIf(!existsSync(model))('executors on the trained model', () => {
  it('give the same tokens without a seam, in one process and over tcp', async () => {
    const real = { executor: 'llama', model: 'stories260K' }
    const unsplit = await recordPipeline(context, cell({ ...real, executor: 'unsplit' }), model)
    const inMemory = await recordPipeline(context, cell({ ...real, transport: 'memory' }), model)
    const overTcp = await recordPipeline(context, cell(real), model)
    // The same numbers for every prompt would be no evidence of anything.
    expect(new Set(unsplit.sequences[0]!.tokens).size).toBeGreaterThan(3)
    expect(unsplit.sequences.map(({ tokens }) => tokens.length)).toEqual([12, 12])
    expect(tokensSha256(inMemory)).toBe(tokensSha256(unsplit))
    expect(tokensSha256(overTcp)).toBe(tokensSha256(unsplit))
  })
})
