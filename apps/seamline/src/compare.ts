import { asBytes, SeamError } from '@seamline/core'
import type { Pipeline, TokenEvent } from '@seamline/runtime'
import { GREEDY } from './options.ts'

/** How one sequence of the candidate compares with the reference. */
export interface Comparison {
  readonly promptTokens: number
  /** Prefill chunks that the prompt took. */
  readonly chunks: number
  /** Steps compared. */
  readonly steps: number
  readonly equalTokens: number
  readonly distinctTokens: number
  /** Largest absolute difference of a logit at any step; NaN where one side is not a number. */
  readonly maxAbsDiff: number
  /** True when every logit of every step has the same bits and every token is equal. */
  readonly identical: boolean
}

export interface CompareOptions {
  readonly reference: Pipeline
  readonly candidate: Pipeline
  /** Run one by one on the reference, all at once on the candidate. */
  readonly prompts: readonly (readonly number[])[]
  readonly tokens: number
  readonly signal: AbortSignal
  readonly onStep?: () => void
}

/** Generates greedily on both sides and compares the logits of every step and the tokens. */
export async function comparePipelines(options: CompareOptions): Promise<Comparison[]> {
  const { reference, candidate, prompts, tokens, signal, onStep } = options
  const events = async (pipeline: Pipeline, prompt: readonly number[]): Promise<TokenEvent[]> => {
    const request = { prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [], returnLogits: true, signal }
    const found: TokenEvent[] = []
    for await (const event of pipeline.generate(request)) {
      found.push(event)
      onStep?.()
    }
    return found
  }
  const expected: TokenEvent[][] = []
  for (const prompt of prompts) expected.push(await events(reference, prompt))
  const found = await Promise.all(prompts.map((prompt) => events(candidate, prompt)))
  return prompts.map((prompt, i) => ({
    promptTokens: prompt.length,
    chunks: Math.ceil(prompt.length / candidate.facts.chunkTokens),
    ...compareEvents(expected[i]!, found[i]!, tokens),
  }))
}

function compareEvents(
  expected: readonly TokenEvent[],
  found: readonly TokenEvent[],
  tokens: number,
): Omit<Comparison, 'promptTokens' | 'chunks'> {
  let equalTokens = 0
  let maxAbsDiff = 0
  let sameBits = expected.length === tokens && found.length === tokens
  for (const [i, { token, logits }] of expected.entries()) {
    const other = found[i]
    if (other === undefined) break
    if (other.token === token) equalTokens++
    if (logits === undefined || other.logits === undefined || logits.length !== other.logits.length) {
      throw new SeamError(
        'PROTOCOL',
        `step ${i} came with ${logits?.length} and ${other.logits?.length} logits`,
      )
    }
    maxAbsDiff = Math.max(maxAbsDiff, maxDifference(logits, other.logits))
    sameBits &&= Buffer.compare(asBytes(logits), asBytes(other.logits)) === 0
  }
  return {
    steps: Math.min(expected.length, found.length),
    equalTokens,
    distinctTokens: new Set(found.map(({ token }) => token)).size,
    maxAbsDiff,
    identical: sameBits && equalTokens === tokens && maxAbsDiff === 0,
  }
}

/** `Math.max` keeps a NaN, which `>` would lose. */
function maxDifference(a: Float32Array, b: Float32Array): number {
  let max = 0
  for (let i = 0; i < a.length; i++) max = Math.max(max, Math.abs(a[i]! - b[i]!))
  return max
}
