/**
 * Text to tokens and back through node-llama-cpp, with the vocabulary only: a tokenizer GGUF (all metadata,
 * no tensors) is enough, and no weights are loaded.
 *
 * @packageDocumentation
 */
import { access } from 'node:fs/promises'
import { SeamError } from '@seamline/core'
import {
  type ChatHistoryItem,
  getLlama,
  LlamaLogLevel,
  type LlamaModel,
  LlamaVocabularyType,
  resolveChatWrapper,
  type Token,
} from 'node-llama-cpp'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/**
 * Turns a stream of tokens into text. The pieces together are what {@link Tokenizer.decode} gives for all
 * tokens.
 */
export interface StreamDecoder {
  /**
   * Text that is complete now; empty while a character is split over tokens, so no piece ever holds half of
   * one.
   */
  push(token: number): string
  /** What is left: replacement characters (U+FFFD) for bytes that never became a character. */
  end(): string
}

export interface Tokenizer {
  /** Tokens in the vocabulary. */
  readonly vocabulary: number
  /** Tokens that end a generation: end of sequence, end of turn and the like. */
  readonly stopTokens: readonly number[]
  /**
   * Tokens of a prompt, with the beginning-of-sequence token in front where the model wants one: what
   * node-llama-cpp's own completion feeds. `special` reads the text of control tokens (`<|im_end|>`) as the
   * tokens. @default special: false
   */
  encode(text: string, options?: { readonly special?: boolean }): number[]
  /** Text of a continuation; control tokens have none. */
  decode(tokens: readonly number[]): string
  createDecoder(): StreamDecoder
  /**
   * Tokens of a chat up to where the assistant's next answer begins, by the model's own chat template, with
   * the beginning-of-sequence token as in `encode`. Text of control tokens inside a message stays text.
   * Throws `UNSUPPORTED` when the model has no template.
   */
  applyChatTemplate(messages: readonly ChatMessage[]): number[]
  /** Frees the vocabulary. Idempotent. */
  close(): Promise<void>
}

/** Bytes of the longest character in UTF-8: a split one is whole after this many tokens. */
const MAX_CHARACTER_BYTES = 4
/** Tokens in front that decide about a space at a boundary; as many as node-llama-cpp looks at. */
const CONTEXT_TOKENS = 3
const REPLACEMENT = /\uFFFD+$/

/**
 * Loads the vocabulary of a GGUF file. Throws `FILE` when it cannot, `UNSUPPORTED` without libraries for this
 * platform.
 */
export async function openTokenizer(path: string): Promise<Tokenizer> {
  await access(path).catch((error: Error) => {
    throw new SeamError('FILE', `cannot open ${path}: ${error.message}`, { cause: error })
  })
  // Silent: it reports missing tensors as errors when it estimates the size of a file that has none on
  // purpose.
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    progressLogs: false,
    logLevel: LlamaLogLevel.disabled,
    logger: () => {},
  }).catch((error: Error) => {
    throw new SeamError('UNSUPPORTED', `node-llama-cpp does not run here: ${error.message}`, { cause: error })
  })
  const model = await llama.loadModel({ modelPath: path, vocabOnly: true }).catch(async (error: Error) => {
    await llama.dispose()
    throw new SeamError('FILE', `cannot load the vocabulary of ${path}: ${error.message}`, { cause: error })
  })
  const beginning = beginningToken(model)
  const all = [...model.iterateAllTokens()]
  let closed: Promise<void> | null = null

  return {
    vocabulary: all.length,
    stopTokens: all.filter((token) => model.isEogToken(token)),

    encode(text, { special = false } = {}) {
      if (beginning === null) return model.tokenize(text, special)
      return [beginning, ...model.tokenize(text, special, 'trimLeadingSpace')]
    },

    decode: (tokens) => model.detokenize(tokens as readonly Token[]),

    createDecoder: () => streamDecoder((tokens, before) => model.detokenize(tokens, false, before)),

    applyChatTemplate(messages) {
      if (model.fileInfo.metadata.tokenizer?.chat_template === undefined) {
        throw new SeamError('UNSUPPORTED', `${path} has no chat template; give a plain prompt instead`)
      }
      const chatHistory: ChatHistoryItem[] = messages.map(({ role, content }) =>
        role === 'assistant' ? { type: 'model', response: [content] } : { type: role, text: content },
      )
      chatHistory.push({ type: 'model', response: [] })
      const { contextText } = resolveChatWrapper(model).generateContextState({ chatHistory })
      const tokens: number[] = contextText.tokenize(model.tokenizer)
      return beginning === null || tokens[0] === beginning ? tokens : [beginning, ...tokens]
    },

    close() {
      closed ??= model.dispose().then(() => llama.dispose())
      return closed
    },
  }
}

/** As in llama_tokenize: which kinds of vocabulary take a beginning-of-sequence token. */
function beginningToken(model: LlamaModel): Token | null {
  const { bos, shouldPrependBosToken } = model.tokens
  switch (model.vocabularyType) {
    case LlamaVocabularyType.rwkv:
    case LlamaVocabularyType.ugm:
      return null
    case LlamaVocabularyType.wpm:
      return bos
    default:
      return shouldPrependBosToken ? bos : null
  }
}

/** `detokenize` gives the text of `tokens` as the continuation of `before`. */
export function streamDecoder(
  detokenize: (tokens: readonly Token[], before: readonly Token[]) => string,
): StreamDecoder {
  let before: Token[] = []
  /** Tokens from the last one on whose end was the end of a character. */
  let pending: Token[] = []
  /** Characters of the text of `pending` that were handed out. */
  let sent = 0
  /** Tokens since there was something to hand out. */
  let stalled = 0

  function take(text: string, complete: boolean): string {
    const piece = text.slice(sent)
    sent = text.length
    if (piece !== '') stalled = 0
    if (complete) {
      before = [...before, ...pending].slice(-CONTEXT_TOKENS)
      pending = []
      sent = 0
    }
    return piece
  }

  return {
    push(token) {
      pending.push(token as Token)
      stalled += 1
      const text = detokenize(pending, before)
      const whole = text.replace(REPLACEMENT, '')
      if (whole === text || stalled > MAX_CHARACTER_BYTES) return take(text, true)
      return take(whole.length > sent ? whole : text.slice(0, sent), false)
    },
    end: () => take(detokenize(pending, before), true),
  }
}
