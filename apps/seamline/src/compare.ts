import { asBytes, SeamError } from '@seamline/core'
import {
  type GenerationRequest,
  type Pipeline,
  type ReplayStep,
  recordedSteps,
  type TokenEvent,
} from '@seamline/runtime'
import { GREEDY } from './options.ts'

/** How one sequence of the candidate compares with the reference. */
export interface Comparison {
  /** How the candidate computed it: `alone`, `4 at once`, `windows of 2`, … */
  readonly how: string
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
  readonly prompts: readonly (readonly number[])[]
  readonly tokens: number
  readonly signal: AbortSignal
  /** Called for every step of either side. */
  readonly onStep?: () => void
}

/** Generates greedily, one by one on the reference and all at once on the candidate. */
export async function comparePipelines(options: CompareOptions): Promise<Comparison[]> {
  const { candidate, prompts } = options
  const expected = await oneByOne(options)
  const found = await allAtOnce(options)
  return prompts.map((prompt, i) => comparison(candidate, atOnce(prompts), prompt, expected[i]!, found[i]!))
}

export interface Batched {
  readonly comparisons: Comparison[]
  /** Rows of the largest decode step on the candidate. */
  readonly largestStep: number
}

export interface Grouped extends Batched {
  /** Windows that were left out: longer than a step of the candidate may be, or than the known tokens. */
  readonly skippedWindows: readonly number[]
}

/**
 * Generates greedily, all at once on the candidate, and has the reference compute the same sequences in the decode steps that
 * they shared there.
 */
export async function compareComposition(options: CompareOptions): Promise<Batched> {
  const { reference, candidate, prompts } = options
  const found = await allAtOnce(options)
  const steps = recordedSteps(found)
  const replayed = await reference.replay(replayParts(options, found), { steps, sampleReplayed: true })
  const expected = await Promise.all(replayed.map((generation) => read(generation, options)))
  return {
    comparisons: prompts.map((prompt, i) =>
      comparison(candidate, atOnce(prompts), prompt, expected[i]!, found[i]!),
    ),
    largestStep: largestOf(steps),
  }
}

const largestOf = (steps: readonly ReplayStep[]) => Math.max(1, ...steps.map((step) => step.length))

/**
 * Generates greedily one token of one sequence at a time on the reference, and on the candidate in every other grouping: all
 * at once, known tokens in windows of each of `windows` that fits into a chunk, and half of them as part of a new prompt.
 */
export async function compareGroupings(
  options: CompareOptions & { readonly windows: readonly number[] },
): Promise<Grouped> {
  const { candidate, prompts, tokens, windows } = options
  const expected = await oneByOne(options)
  const batched = await allAtOnce(options)
  const largestStep = largestOf(recordedSteps(batched))
  const comparisons = prompts.map((prompt, i) =>
    comparison(candidate, atOnce(prompts), prompt, expected[i]!, batched[i]!),
  )
  const known = tokens - 1
  const longest = Math.min(known, candidate.facts.chunkTokens)
  const skippedWindows = windows.filter((count) => count > longest)
  for (const count of windows.filter((count) => count <= longest)) {
    const windowsOf = (part: number) =>
      Array.from({ length: Math.ceil(known / count) }, (_, i) => [
        { part, index: i * count, count: Math.min(count, known - i * count) },
      ])
    const generations = await candidate.replay(replayParts(options, expected), {
      steps: prompts.flatMap((_, part) => windowsOf(part)),
      sampleReplayed: true,
    })
    const found = await Promise.all(generations.map((generation) => read(generation, options)))
    for (const [i, prompt] of prompts.entries()) {
      const firstTokens = Array.from({ length: Math.ceil(known / count) }, (_, step) => step * count)
      const due = [...firstTokens, known].map((index) => expected[i]![index]!)
      comparisons.push(comparison(candidate, `windows of ${count}`, prompt, due, found[i]!))
    }
  }
  const half = known >> 1
  if (half === 0) return { comparisons, largestStep, skippedWindows }
  for (const [i, prompt] of prompts.entries()) {
    const longer = [...prompt, ...expected[i]!.slice(0, half).map(({ token }) => token)]
    const found = await read(
      candidate.generate({ ...request(options, longer), maxTokens: tokens - half }),
      options,
    )
    comparisons.push(
      comparison(candidate, `prefill of ${half} more`, longer, expected[i]!.slice(half), found),
    )
  }
  return { comparisons, largestStep, skippedWindows }
}

const atOnce = (prompts: readonly unknown[]) => (prompts.length === 1 ? 'alone' : `${prompts.length} at once`)

function request({ tokens, signal }: CompareOptions, prompt: readonly number[]): GenerationRequest {
  return { prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [], returnLogits: true, signal }
}

async function read(events: AsyncIterable<TokenEvent>, { onStep }: CompareOptions): Promise<TokenEvent[]> {
  const found: TokenEvent[] = []
  for await (const event of events) {
    found.push(event)
    onStep?.()
  }
  return found
}

async function oneByOne(options: CompareOptions): Promise<TokenEvent[][]> {
  const found: TokenEvent[][] = []
  for (const prompt of options.prompts) {
    found.push(await read(options.reference.generate(request(options, prompt)), options))
  }
  return found
}

function allAtOnce(options: CompareOptions): Promise<TokenEvent[][]> {
  const { candidate, prompts } = options
  return Promise.all(prompts.map((prompt) => read(candidate.generate(request(options, prompt)), options)))
}

/** All but the last token of each sequence, which was sampled and never fed. */
function replayParts(options: CompareOptions, events: readonly (readonly TokenEvent[])[]) {
  return options.prompts.map((prompt, i) => ({
    request: request(options, prompt),
    tokens: events[i]!.slice(0, -1).map(({ token }) => token),
  }))
}

function comparison(
  candidate: Pipeline,
  how: string,
  prompt: readonly number[],
  expected: readonly TokenEvent[],
  found: readonly TokenEvent[],
): Comparison {
  let equalTokens = 0
  let maxAbsDiff = 0
  let sameBits = expected.length === found.length
  for (const [i, { token, position, logits }] of expected.entries()) {
    const other = found[i]
    if (other === undefined) break
    if (other.position !== position) {
      throw new SeamError('PROTOCOL', `step ${i} is at position ${position} and at ${other.position}`)
    }
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
    how,
    promptTokens: prompt.length,
    chunks: Math.ceil(prompt.length / candidate.facts.chunkTokens),
    steps: expected.length,
    equalTokens,
    distinctTokens: new Set(found.map(({ token }) => token)).size,
    maxAbsDiff,
    identical: sameBits && equalTokens === expected.length && maxAbsDiff === 0,
  }
}

/** `Math.max` keeps a NaN, which `>` would lose. */
function maxDifference(a: Float32Array, b: Float32Array): number {
  let max = 0
  for (let i = 0; i < a.length; i++) max = Math.max(max, Math.abs(a[i]! - b[i]!))
  return max
}
