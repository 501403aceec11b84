import type { FinishReason, SamplerSettings } from '@seamline/core'
import type { Tokenizer } from '@seamline/llama/tokenizer'
import type { Pipeline } from '@seamline/runtime'

export interface TextRequest {
  readonly prompt: readonly number[]
  readonly maxTokens: number
  readonly sampler: SamplerSettings
  readonly signal: AbortSignal
  /** Receives the text as it becomes complete, never half a character. */
  readonly onText?: (text: string) => void
}

export interface GeneratedText {
  readonly text: string
  /** Including the one that ended the text. */
  readonly tokens: readonly number[]
  readonly finish: FinishReason
  readonly timings: Timings
}

export interface Timings {
  /** Time to first token, from the request on. */
  readonly ttftMs: number
  /** Prompt tokens over the time to first token. */
  readonly prefillTokensPerSecond: number
  /** Tokens after the first one over the time they took; 0 where there is none. */
  readonly decodeTokensPerSecond: number
  /** From the request to the last token. */
  readonly wallMs: number
}

/** Generates one text. `onText` hears nothing after a fault. */
export async function generateText(
  pipeline: Pipeline,
  tokenizer: Tokenizer,
  { prompt, maxTokens, sampler, signal, onText }: TextRequest,
): Promise<GeneratedText> {
  const { stopTokens } = tokenizer
  const generation = pipeline.generate({ prompt, maxTokens, sampler, stopTokens, signal })
  const decoder = tokenizer.createDecoder()
  const tokens: number[] = []
  const receivedNs: number[] = []
  let text = ''
  let finish: FinishReason = 'none'
  const add = (piece: string) => {
    text += piece
    onText?.(piece)
  }
  for await (const event of generation) {
    tokens.push(event.token)
    receivedNs.push(event.receivedNs)
    finish = event.finish
    if (finish !== 'stop') add(decoder.push(event.token))
  }
  add(decoder.end())
  return { text, tokens, finish, timings: timingsOf(prompt.length, generation.startedNs, receivedNs) }
}

export function timingsOf(promptTokens: number, startedNs: number, receivedNs: readonly number[]): Timings {
  const firstNs = receivedNs[0] ?? Number.NaN
  const lastNs = receivedNs.at(-1) ?? Number.NaN
  const decodeNs = lastNs - firstNs
  return {
    ttftMs: (firstNs - startedNs) / 1e6,
    prefillTokensPerSecond: promptTokens / ((firstNs - startedNs) / 1e9),
    decodeTokensPerSecond: decodeNs > 0 ? (receivedNs.length - 1) / (decodeNs / 1e9) : 0,
    wallMs: (lastNs - startedNs) / 1e6,
  }
}
