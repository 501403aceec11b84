import { getLlama, LlamaCompletion, LlamaLogLevel } from 'node-llama-cpp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTokenizer, type Tokenizer } from '../src/tokenizer.ts'
import { closeAll, generate, hasModel, modelPath, openChain, openStages } from './model.ts'

const PROMPT = 'Once upon a time'
/** From the README beside the model. */
const PUBLISHED =
  ', there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball.'
const COUNT = 64

describe.skipIf(!hasModel)('against node-llama-cpp', () => {
  let tokenizer: Tokenizer
  let expectedText = ''
  const expectedTokens: number[] = []

  beforeAll(async () => {
    tokenizer = await openTokenizer(modelPath)
    const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled })
    const model = await llama.loadModel({ modelPath })
    const context = await model.createContext({ contextSize: 512, threads: 1, flashAttention: true })
    const completion = new LlamaCompletion({ contextSequence: context.getSequence() })
    expectedText = await completion.generateCompletion(PROMPT, {
      temperature: 0,
      repeatPenalty: false,
      maxTokens: COUNT,
      onToken: (tokens) => expectedTokens.push(...tokens),
    })
    await llama.dispose()
  })
  afterAll(() => tokenizer.close())

  for (const count of [1, 2, 3, 5]) {
    it(`goes on as the unsplit model does there, greedily, in ${count} stage(s)`, async () => {
      expect(expectedTokens).toHaveLength(COUNT)
      expect(expectedText.startsWith(PUBLISHED)).toBe(true)
      const stages = await openStages(count)
      const tokens = await generate(openChain(stages), tokenizer.encode(PROMPT), COUNT)
      await closeAll(stages)
      expect(tokens).toEqual(expectedTokens)
      expect(tokenizer.decode(tokens)).toBe(expectedText)
      const decoder = tokenizer.createDecoder()
      expect(tokens.map((token) => decoder.push(token)).join('') + decoder.end()).toBe(expectedText)
    })
  }
})
