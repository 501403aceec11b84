import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SamplerSettings, StageExecutor, StageSession, StepResult } from '@seamline/core'
import { type Manifest, splitModel } from '@seamline/gguf'
import { afterAll } from 'vitest'
import type { LlamaExecutorOptions } from '../src/index.ts'
import { llamaExecutor } from '../src/index.ts'

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

/** Runs `body` with a folder that is gone afterwards. */
export async function inFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
  try {
    return await body(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

const splits = new Map<number, Promise<{ folder: string; manifest: Manifest }>>()

afterAll(async () => {
  for (const split of splits.values()) await rm((await split).folder, { recursive: true })
})

async function split(stages: number) {
  const folder = await mkdtemp(join(tmpdir(), 'seamline-llama-'))
  return { folder, manifest: await splitModel({ source: modelPath, outDir: folder, stages }) }
}

/** The stages of a split of the model, or for 1 the whole file. */
export async function openStages(
  stages: number,
  options: Partial<LlamaExecutorOptions> = {},
): Promise<StageExecutor[]> {
  const common = { contextLength: 512, maxSequences: 4, ...options }
  if (stages === 1) return [await llamaExecutor({ path: modelPath, ...common })]
  if (!splits.has(stages)) splits.set(stages, split(stages))
  const { folder, manifest } = await splits.get(stages)!
  return Promise.all(
    manifest.stages.map((stage) =>
      llamaExecutor({
        path: join(folder, stage.file),
        facts: { ...manifest, ...stage, modelSha256: manifest.source.sha256 },
        ...common,
      }),
    ),
  )
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
  const { chunkTokens, embedding } = stages[0]!.spec
  const sessions = stages.map((stage) => stage.openSession({ sampler, promptTail }))
  async function chunk(tokens: readonly number[], sample: boolean, logits: Float32Array | null) {
    let input: Int32Array | Float32Array = Int32Array.from(tokens)
    let result: StepResult | undefined
    for (const [i, stage] of stages.entries()) {
      const last = i === stages.length - 1
      const session = sessions[i]!
      const output = last ? null : new Float32Array(tokens.length * embedding)
      result = await stage.step({
        rows: [{ session, position: session.position, tokenCount: tokens.length, sample: sample && last }],
        input,
        output,
        logits: last ? logits : null,
        tag: 0,
      })
      if (output !== null) input = output
    }
    return result!
  }
  return {
    sessions,
    async feed(tokens, logits) {
      const rest = [...tokens]
      while (rest.length > chunkTokens) await chunk(rest.splice(0, chunkTokens), false, null)
      return chunk(rest, true, logits ?? null)
    },
    rollback(position, tail) {
      for (const session of sessions) session.rollback(position, tail)
    },
    async close() {
      await Promise.all(sessions.map((session) => session.close()))
    },
  }
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
