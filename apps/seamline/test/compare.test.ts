import { join } from 'node:path'
import type { StageExecutor } from '@seamline/core'
import { protobuf } from '@seamline/framing'
import { splitModel } from '@seamline/gguf'
import { llamaExecutor } from '@seamline/llama'
import { connectPipeline, createWorker, type Pipeline } from '@seamline/runtime'
import { tcp } from '@seamline/transports/tcp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codecs } from '../src/cluster.ts'
import { comparePipelines } from '../src/compare.ts'
import { randomTokens } from '../src/random-tokens.ts'
import { hasStories, STORIES, scratchFolder } from './support.ts'

const folder = scratchFolder()
const STEPS = 12
/** Which value of which step of stage 0 is changed; -1 changes none. */
let changedStep = -1
const closing: (() => Promise<void>)[] = []

describe.skipIf(!hasStories)('comparing pipelines', () => {
  let reference: Pipeline
  let candidate: Pipeline

  beforeAll(async () => {
    reference = await pipelineOf([await load(STORIES)])
    const split = await splitModel({ source: STORIES, outDir: folder, stages: 2 })
    const { layerCount, embedding, vocabulary, manifestSha256, source } = split
    const stages = split.stages.map(({ file, layerFirst, layerEnd }) =>
      load(join(folder, file), {
        ...{ layerFirst, layerEnd, layerCount, embedding, vocabulary, manifestSha256 },
        modelSha256: source.sha256,
      }),
    )
    const [first, last] = await Promise.all(stages)
    candidate = await pipelineOf([nudged(first!), last!])
  })
  afterAll(async () => {
    for (const close of closing.reverse()) await close()
  })

  const compare = async () => {
    const prompts = [randomTokens(9, 512, 3)]
    const signal = new AbortController().signal
    const [result] = await comparePipelines({ reference, candidate, prompts, tokens: STEPS, signal })
    return result!
  }

  it('finds every bit equal where nothing was changed', async () => {
    changedStep = -1
    expect(await compare()).toMatchObject({
      identical: true,
      maxAbsDiff: 0,
      equalTokens: STEPS,
      steps: STEPS,
    })
  })

  it('finds one hidden value changed by one unit in the last place', async () => {
    changedStep = 5
    const { identical, maxAbsDiff } = await compare()
    expect(identical).toBe(false)
    expect(maxAbsDiff).toBeGreaterThan(0)
    expect(maxAbsDiff).toBeLessThan(0.1)
  })
})

function load(
  path: string,
  facts: Parameters<typeof llamaExecutor>[0]['facts'] = null,
): Promise<StageExecutor> {
  return llamaExecutor({ path, facts, contextLength: 64 })
}

async function pipelineOf(executors: readonly StageExecutor[]): Promise<Pipeline> {
  const shared = { transports: new Map([['tcp', tcp()]]), framings: [protobuf] }
  const listen = [{ transport: 'tcp', address: '127.0.0.1:0' }]
  const workers = await Promise.all(
    executors.map((executor, i) =>
      createWorker({ ...shared, codecs, executor, name: `worker-${i}`, listen }),
    ),
  )
  const pipeline = await connectPipeline({ ...shared, workers })
  closing.push(async () => {
    await pipeline.close()
    for (const worker of workers) await worker.close()
    for (const executor of executors) await executor.close()
  })
  return pipeline
}

/** Adds one unit in the last place to the largest hidden value of one step. */
function nudged(executor: StageExecutor): StageExecutor {
  let steps = 0
  return new Proxy(executor, {
    get(target, key) {
      if (key !== 'step') return Reflect.get(target, key)
      return async (...args: Parameters<StageExecutor['step']>) => {
        const result = await target.step(...args)
        const { output } = args[0]
        if (output !== null && steps++ % STEPS === changedStep) {
          new Int32Array(output.buffer, output.byteOffset, output.length)[largest(output)]! += 1
        }
        return result
      }
    },
  })
}

/** Where a unit in the last place weighs most: that of a small value drowns in the sums it goes into. */
function largest(values: Float32Array): number {
  return values.reduce((found, value, i) => (Math.abs(value) > Math.abs(values[found]!) ? i : found), 0)
}
