/** Token types of llama.cpp's `tokenizer.ggml.token_type`. */
const TokenKind = { normal: 1, unknown: 2, control: 3, byte: 6 } as const

export interface Vocabulary {
  readonly tokens: readonly string[]
  readonly scores: readonly number[]
  readonly kinds: readonly number[]
}

export const UNKNOWN_TOKEN = 0
export const BEGIN_TOKEN = 1
export const END_TOKEN = 2
/** The special and byte tokens, before the first piece of text. */
export const RESERVED_TOKENS = 3 + 256
/** Printable ASCII, the space written as `▁`. */
const CHARACTERS = Array.from({ length: 95 }, (_, i) => (i === 0 ? '▁' : String.fromCharCode(32 + i)))
/** Smallest vocabulary that spells every printable ASCII text in characters. */
export const MIN_VOCABULARY = RESERVED_TOKENS + CHARACTERS.length

/**
 * A SentencePiece-style vocabulary: `<unk> <s> </s>`, 256 byte tokens, characters, then made-up words of one, two, three … syllables,
 * each with and without a leading space. Every piece is the join of two shorter ones, so that merging pairs by score reaches it.
 */
export function vocabulary(size: number): Vocabulary {
  const tokens = ['<unk>', '<s>', '</s>']
  const kinds: number[] = [TokenKind.unknown, TokenKind.control, TokenKind.control]
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
    kinds.push(TokenKind.byte)
  }
  for (const piece of pieces()) {
    if (tokens.length === size) break
    tokens.push(piece)
    kinds.push(TokenKind.normal)
  }
  const scores = tokens.map((_, i) => (i < RESERVED_TOKENS ? 0 : RESERVED_TOKENS - i))
  return { tokens, scores, kinds }
}

function* pieces(): Generator<string> {
  yield* CHARACTERS
  const syllables = [...'bcdfghjklmnprstvwz'].flatMap((consonant) =>
    [...'aeiou'].map((vowel) => consonant + vowel),
  )
  let words = syllables
  for (;;) {
    yield* words
    yield* words.map((word) => `▁${word}`)
    words = words.flatMap((word) => syllables.map((syllable) => word + syllable))
  }
}
