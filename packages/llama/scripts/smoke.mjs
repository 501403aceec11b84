// One pass over the addon's whole interface inside Node, for the sanitizers: they report what is wrong and end the
// process. Run by build-native.mjs --sanitize.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { splitModel, synthModel } from '@seamline/gguf'
import { llamaExecutor } from '../dist/index.js'
import { quantizeModel } from '../dist/quantize.js'

const sampler = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  penaltyLastN: 16,
  repeatPenalty: 1.1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 7,
}
const shape = { width: 256, layers: 2, feedForward: 256, heads: 4, kvHeads: 2, vocabulary: 384, context: 256 }

async function openStages(folder, source, regime) {
  const outDir = join(folder, regime)
  const manifest = await splitModel({ source, outDir, stages: 2 })
  return Promise.all(
    manifest.stages.map((stage) =>
      llamaExecutor({
        path: join(outDir, stage.file),
        facts: { ...manifest, ...stage, modelSha256: manifest.source.sha256 },
        contextLength: 128,
        chunkTokens: 100,
        maxSequences: 3,
        regime,
      }),
    ),
  )
}

async function exercise([first, last]) {
  const { embedding, vocabulary } = first.spec
  const open = (stage) => [0, 1, 2].map(() => stage.openSession({ sampler, promptTail: [3, 4] }))
  const [firsts, lasts] = [open(first), open(last)]
  const step = async (sequences, tokenCount) => {
    const count = sequences.length * tokenCount
    const output = new Float32Array(count * embedding)
    const row = (session, sample) => ({ session, position: session.position, tokenCount, sample })
    await first.step({
      rows: sequences.map((i) => row(firsts[i], false)),
      input: Int32Array.from({ length: count }, (_, i) => 3 + ((i * 37) % 300)),
      output,
      logits: null,
      tag: 0,
    })
    return last.step({
      rows: sequences.map((i) => row(lasts[i], i !== 1)),
      input: output,
      output: null,
      logits: new Float32Array(sequences.filter((i) => i !== 1).length * vocabulary),
      tag: 0,
    })
  }
  await step([0], 100)
  await step([1, 2], 20)
  await step([2], 1)
  const state = await lasts[0].saveState()
  for (const session of [firsts[0], lasts[0]]) session.rollback(60, [5])
  await step([0], 1)
  await lasts[2].restoreState(state, 100)
  await assert.rejects(lasts[2].restoreState(state.subarray(0, -5), 100), { code: 'PROTOCOL' })
  const steps = Promise.allSettled([step([0], 30), step([1], 30)])
  first.abort()
  await steps
  await lasts[1].close()
  await Promise.all([first.close(), last.close()])
}

const folder = await mkdtemp(join(tmpdir(), 'seamline-smoke-'))
try {
  const source = join(folder, 'source.gguf')
  await synthModel({ ...shape, path: source, seed: 1, type: 'F32' })
  const quantized = join(folder, 'quantized.gguf')
  await quantizeModel({ path: source, out: quantized, type: 'Q4_K_M' })
  await assert.rejects(quantizeModel({ path: folder, out: quantized, type: 'Q6_K' }))
  for (const regime of ['per-row', 'uniform']) await exercise(await openStages(folder, quantized, regime))
  await assert.rejects(llamaExecutor({ path: join(folder, 'absent.gguf'), contextLength: 16 }), {
    code: 'FILE',
  })
} finally {
  await rm(folder, { recursive: true })
}
console.log('smoke: the addon ran in Node')
