import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { modelFacts, openModel, splitModel, synthModel } from '@seamline/gguf'
import type { LlamaExecutorOptions } from '@seamline/llama'
import { afterAll } from 'vitest'
import { ROOT } from './process.ts'

const trained = process.env.SEAMLINE_TEST_MODEL ?? join(ROOT, '../../../shared/models/stories260K.gguf')
const SHAPE = { width: 256, layers: 3, feedForward: 512, heads: 4, kvHeads: 2, vocabulary: 384, context: 512 }

export type Stage = Pick<LlamaExecutorOptions, 'path' | 'facts' | 'inject' | 'contextLength' | 'threads'>

export interface SplitModel {
  readonly whole: Stage
  readonly stages: readonly Stage[]
}

/** The trained model, or where it is absent one of random weights; whole and in two stages, in a folder that goes afterwards. */
export async function splitTestModel(): Promise<SplitModel> {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-tracker-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  let source = trained
  if (!existsSync(trained)) {
    console.warn(`${trained} is absent: a model of random weights takes its place`)
    source = join(folder, 'synthetic.gguf')
    await synthModel({ ...SHAPE, path: source, seed: 1, type: 'F32' })
  }
  const manifest = await splitModel({ source, outDir: join(folder, 'split'), stages: 2 })
  const contextLength = Math.min(256, modelFacts(openModel(source)).contextLength)
  const common = { contextLength, threads: 1 }
  const { layerCount, embedding, vocabulary, manifestSha256 } = manifest
  const shared = { modelSha256: manifest.source.sha256, manifestSha256, layerCount, embedding, vocabulary }
  return {
    whole: { ...common, path: source },
    stages: manifest.stages.map(({ file, layerFirst, layerEnd, inject }) => ({
      ...common,
      path: join(folder, 'split', file),
      facts: { ...shared, layerFirst, layerEnd },
      inject: inject ?? null,
    })),
  }
}
