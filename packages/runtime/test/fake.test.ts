import { executorSuite } from '@seamline/conformance'
import { describe, expect, it } from 'vitest'
import { fakeExecutor } from '../src/fake.ts'

const cuts = (...ends: number[]) =>
  ends.map((layerEnd, i) => fakeExecutor({ layerFirst: ends[i - 1] ?? 0, layerEnd, layerCount: 6 }))

describe('fake executor, unsplit', () => {
  executorSuite({ describe, it, create: async () => cuts(6) })
})
describe('fake executor, two stages', () => {
  executorSuite({ describe, it, create: async () => cuts(2, 6) })
})
describe('fake executor, paced', () => {
  executorSuite({
    describe,
    it,
    create: async () => [fakeExecutor({ computeMs: (tokens) => 1 + tokens / 64 })],
  })
})

it('changes its output with every single byte of a hidden row', async () => {
  const embedding = 8
  const outputs = new Set<string>()
  for (let byte = -1; byte < embedding * 4; byte++) {
    const stage = fakeExecutor({ layerFirst: 1, layerEnd: 2, layerCount: 3, embedding })
    const session = stage.openSession({ sampler: GREEDY, promptTail: [] })
    const input = Float32Array.from({ length: embedding }, (_, i) => i + 1)
    if (byte >= 0) new Uint8Array(input.buffer)[byte]! ^= 1
    const output = new Float32Array(embedding)
    const rows = [{ session, position: 0, tokenCount: 1, sample: false }]
    await stage.step({ rows, input, output, logits: null, tag: 0 })
    outputs.add(output.join())
  }
  expect(outputs.size).toBe(embedding * 4 + 1)
})

const GREEDY = {
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, penaltyLastN: 0, repeatPenalty: 1 },
  ...{ frequencyPenalty: 0, presencePenalty: 0, seed: 1 },
}
