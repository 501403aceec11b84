import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SamplerSettings, StageExecutor, StageSession, StepResult } from '@seamline/core'
import { type Manifest, splitModel, synthModel } from '@seamline/gguf'
import { afterAll } from 'vitest'
import type { LlamaExecutorOptions } from '../src/index.ts'
import { llamaExecutor } from '../src/index.ts'
import { type QuantizeType, quantizeModel } from '../src/quantize.ts'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')

/** A small trained model, described in the README beside it. */
export const modelPath =
  process.env.SEAMLINE_TEST_MODEL || join(root, '..', 'shared', 'models', 'stories260K.gguf')
export const hasModel = existsSync(modelPath)
if (!hasModel) console.warn(`skipped: needs ${modelPath}; name another copy by SEAMLINE_TEST_MODEL`)

export const greedy: SamplerSettings = {
  temperature: 0,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  penaltyLastN: 0,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 1,
}
export const warm: SamplerSettings = {
  ...greedy,
  temperature: 0.8,
  penaltyLastN: 32,
  repeatPenalty: 1.1,
  seed: 7,
}

const SHAPE = { width: 256, layers: 3, feedForward: 512, heads: 4, kvHeads: 2, vocabulary: 384, context: 512 }

/** Types of synthetic models; those that gguf does not write go through llama.cpp's quantiser. */
export type TestType = 'F32' | 'F16' | QuantizeType

/** Writes a synthetic model and gives its path. */
export async function writeModel(folder: string, type: TestType, seed = 1): Promise<string> {
  const path = join(folder, `${type}.gguf`)
  if (type === 'F32' || type === 'F16' || type === 'Q8_0') {
    await synthModel({ ...SHAPE, path, seed, type })
  } else {
    await quantizeModel({ path: await writeModel(folder, 'F32', seed), out: path, type })
  }
  return path
}

/** Runs `body` with a folder that is gone afterwards. */
export async function inFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
  try {
    return await body(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

const splits = new Map<string, Promise<{ folder: string; manifest: Manifest }>>()

afterAll(async () => {
  for (const split of splits.values()) await rm((await split).folder, { recursive: true })
})

async function split(source: string, stages: number) {
  const folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
  return { folder, manifest: await splitModel({ source, outDir: folder, stages }) }
}

/** The stages of a split of a model, or for 1 the whole file. */
export async function openStages(
  stages: number,
  options: Partial<LlamaExecutorOptions> = {},
): Promise<StageExecutor[]> {
  const { path: source, ...common } = { path: modelPath, contextLength: 512, maxSequences: 4, ...options }
  if (stages === 1) return [await llamaExecutor({ path: source, ...common })]
  const key = `${stages} ${source}`
  if (!splits.has(key)) splits.set(key, split(source, stages))
  const { folder, manifest } = await splits.get(key)!
  return Promise.all(
    manifest.stages.map((stage) =>
      llamaExecutor({
        path: join(folder, stage.file),
        facts: { ...manifest, ...stage, modelSha256: manifest.source.sha256 },
        inject: stage.inject ?? null,
        ...common,
      }),
    ),
  )
}

/** Consecutive tokens of one sequence. */
export interface ChainRow {
  readonly chain: Chain
  readonly tokens: readonly number[]
  readonly sample: boolean
}

/** One step through all stages. */
export async function stepRows(
  stages: readonly StageExecutor[],
  rows: readonly ChainRow[],
  logits: Float32Array | null = null,
): Promise<StepResult> {
  const tokens = rows.flatMap((row) => row.tokens)
  let input: Int32Array | Float32Array = Int32Array.from(tokens)
  let result: StepResult | undefined
  for (const [i, stage] of stages.entries()) {
    const last = i === stages.length - 1
    const output = last ? null : new Float32Array(tokens.length * stage.spec.embedding)
    result = await stage.step({
      rows: rows.map((row) => {
        const session = row.chain.sessions[i]!
        return {
          session,
          position: session.position,
          tokenCount: row.tokens.length,
          sample: row.sample && last,
        }
      }),
      input,
      output,
      logits: last ? logits : null,
      tag: 0,
    })
    if (output !== null) input = output
  }
  return result!
}

/** One sequence through a chain of stages. */
export interface Chain {
  readonly sessions: readonly StageSession[]
  /** Feeds tokens in chunks and resolves with the last stage's result for the last of them. */
  feed(tokens: readonly number[], logits?: Float32Array): Promise<StepResult>
  rollback(position: number, tail: readonly number[]): void
  close(): Promise<void>
}

export function openChain(
  stages: readonly StageExecutor[],
  sampler = greedy,
  promptTail: readonly number[] = [],
): Chain {
  const { chunkTokens } = stages[0]!.spec
  const sessions = stages.map((stage) => stage.openSession({ sampler, promptTail }))
  const chain: Chain = {
    sessions,
    async feed(tokens, logits) {
      const rest = [...tokens]
      while (rest.length > chunkTokens) {
        await stepRows(stages, [{ chain, tokens: rest.splice(0, chunkTokens), sample: false }])
      }
      return stepRows(stages, [{ chain, tokens: rest, sample: true }], logits)
    },
    rollback(position, tail) {
      for (const session of sessions) session.rollback(position, tail)
    },
    async close() {
      await Promise.all(sessions.map((session) => session.close()))
    },
  }
  return chain
}

/** Feeds a prompt and goes on with what is sampled, `count` tokens in all. */
export async function generate(chain: Chain, prompt: readonly number[], count: number): Promise<number[]> {
  const tokens: number[] = []
  let next = prompt
  while (tokens.length < count) {
    next = (await chain.feed(next)).tokens
    tokens.push(next[0]!)
  }
  return tokens
}

export async function closeAll(stages: readonly StageExecutor[]): Promise<void> {
  await Promise.all(stages.map((stage) => stage.close()))
}
