import { SeamError, SpanName, SpanPort, spanTagParts } from '@seamline/core'
import type { Pipeline, TokenEvent } from '@seamline/runtime'
import { GREEDY } from './options.ts'

/** How the output over one codec relates to that over lossless links. */
export interface CodecComparison {
  readonly codec: string
  /** Sampled positions that were compared. */
  readonly positions: number
  /** Share of tokens, each sequence generated on its own, that are equal at the same place. */
  readonly tokenAgreement: number
  /** Share of positions, after the very same tokens, at which both choose the same token. */
  readonly top1Agreement: number
  /** Kullback-Leibler divergence D(lossless || codec) of the next-token distributions at those positions, in nats. */
  readonly meanKl: number
  readonly maxKl: number
  /** Bytes that all hidden rows of one decoded token take on their links, framed, over all edges. */
  readonly bytesPerToken: number
  /** The same over lossless links. */
  readonly losslessBytesPerToken: number
}

export interface LossyOptions {
  readonly lossless: Pipeline
  readonly lossy: Pipeline
  readonly codec: string
  readonly prompts: readonly (readonly number[])[]
  readonly tokens: number
  readonly signal: AbortSignal
  readonly onStep?: () => void
}

/**
 * Generates greedily on both, then has `lossy` compute the tokens of `lossless` again, so that distributions are compared after
 * equal tokens and one early difference does not count at every later position.
 */
export async function compareCodec(options: LossyOptions): Promise<CodecComparison> {
  const { lossless, lossy, codec, prompts, tokens, signal, onStep } = options
  let positions = 0
  let equal = 0
  let agreeing = 0
  let sumKl = 0
  let maxKl = 0
  const read = async (events: AsyncIterable<TokenEvent>) => {
    const found: TokenEvent[] = []
    for await (const event of events) {
      found.push(event)
      onStep?.()
    }
    return found
  }
  const traffic = { lossless: 0, lossy: 0 }
  for (const prompt of prompts) {
    const request = { prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [], returnLogits: true, signal }
    const generated = async (pipeline: Pipeline, key: 'lossless' | 'lossy') => {
      await pipeline.startTrace()
      const events = await read(pipeline.generate(request))
      traffic[key] += decodeBytes(await pipeline.fetchTraces(), prompt.length)
      return events
    }
    const expected = await generated(lossless, 'lossless')
    const free = await generated(lossy, 'lossy')
    const known = expected.slice(0, -1).map(({ token }) => token)
    const [replayed] = await lossy.replay([{ request, tokens: known }], { sampleReplayed: true })
    const forced = await read(replayed!)
    for (const [i, event] of expected.entries()) {
      const other = forced[i]
      if (event.logits === undefined || other?.logits === undefined || other.position !== event.position)
        throw new SeamError('PROTOCOL', `position ${event.position} came back as ${other?.position}`)
      positions++
      if (free[i]?.token === event.token) equal++
      if (other.token === event.token) agreeing++
      const kl = divergence(event.logits, other.logits)
      sumKl += kl
      maxKl = Math.max(maxKl, kl)
    }
  }
  const decoded = positions - prompts.length
  return {
    ...{ codec, positions, tokenAgreement: equal / positions, top1Agreement: agreeing / positions },
    ...{ meanKl: sumKl / positions, maxKl },
    bytesPerToken: traffic.lossy / decoded,
    losslessBytesPerToken: traffic.lossless / decoded,
  }
}

/** Framed bytes of hidden rows that stages handed to their links behind the prompt. */
function decodeBytes(traces: Awaited<ReturnType<Pipeline['fetchTraces']>>, promptTokens: number): number {
  let bytes = 0
  for (const { spans } of traces) {
    for (let at = 0; at < spans.length; at += 6) {
      if (spans[at] !== SpanName.sendQueue || spans[at + 5] !== SpanPort.hiddenOut) continue
      if (spanTagParts(spans[at + 3]!).position >= promptTokens) bytes += spans[at + 4]!
    }
  }
  return bytes
}

/** D(p || q) of the softmax distributions of two vectors of logits, in nats; 0 for equal ones, never below. */
export function divergence(p: Float32Array, q: Float32Array): number {
  const [logP, logQ] = [logSum(p), logSum(q)]
  let sum = 0
  for (let i = 0; i < p.length; i++) {
    const [a, b] = [p[i]! - logP, q[i]! - logQ]
    sum += Math.exp(a) * (a - b)
  }
  return Math.max(0, sum)
}

/** The logarithm of the sum of the exponentials. */
function logSum(logits: Float32Array): number {
  let largest = -Infinity
  for (const logit of logits) largest = Math.max(largest, logit)
  let sum = 0
  for (const logit of logits) sum += Math.exp(logit - largest)
  return largest + Math.log(sum)
}
