import { verifyFile } from '@seamline/gguf'
import type { Tokenizer } from '@seamline/llama/tokenizer'
import type { PreparedSplit } from './prepare.ts'

/** Loaded on demand: most commands need none, and it takes a moment. */
export async function withTokenizer<T>(
  split: PreparedSplit,
  use: (tokenizer: Tokenizer) => Promise<T>,
): Promise<T> {
  const { tokenizer: file } = split.manifest
  await verifyFile(split.tokenizerPath, file)
  const { openTokenizer } = await import('@seamline/llama/tokenizer')
  const tokenizer = await openTokenizer(split.tokenizerPath)
  try {
    return await use(tokenizer)
  } finally {
    await tokenizer.close()
  }
}
