import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeEntry, openGguf, splitModel, writeGguf } from '@seamline/gguf'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openTokenizer, streamDecoder, type Tokenizer } from '../src/tokenizer.ts'
import { hasModel, inFolder, modelPath } from './model.ts'

/** A vocabulary whose tokens are pieces of UTF-8; lossy like the real one. */
function decodeWith(pieces: readonly Uint8Array[]) {
  return streamDecoder((tokens) => new TextDecoder().decode(Buffer.concat(tokens.map((t) => pieces[t]!))))
}

function push(pieces: readonly (readonly number[] | string)[]): string[] {
  const bytes = pieces.map((piece) => Uint8Array.from(typeof piece === 'string' ? Buffer.from(piece) : piece))
  const decoder = decodeWith(bytes)
  return [...bytes.map((_, token) => decoder.push(token)), decoder.end()]
}

describe('streaming decoder', () => {
  it('keeps a character back until all of its bytes are there', () => {
    expect(push([[0xf0], [0x9f], [0x98], [0x80], 'a'])).toEqual(['', '', '', '😀', 'a', ''])
    expect(push(['a', [0xc3], [0xa9]])).toEqual(['a', '', 'é', ''])
  })

  it('hands out what is complete in a token that ends inside a character', () => {
    expect(
      push([
        [0x61, 0xe6, 0x97],
        [0xa5, 0x62, 0xe6],
        [0x9c, 0xac],
      ]),
    ).toEqual(['a', '日b', '本', ''])
  })

  it('never holds a surrogate apart from its pair', () => {
    const text = '日本語😀🏳️‍🌈é'.repeat(3)
    for (const size of [1, 2, 3, 5, 7]) {
      const bytes = [...Buffer.from(text)]
      const pieces: number[][] = []
      while (bytes.length > 0) pieces.push(bytes.splice(0, size))
      const out = push(pieces)
      expect(out.join('')).toBe(text)
      for (const piece of out) expect(piece).not.toMatch(/\p{Surrogate}/u)
      expect(out.join('')).not.toContain('\uFFFD')
    }
  })

  it('replaces bytes that never become a character, and goes on', () => {
    expect(push(['a', [0xe6, 0x97]])).toEqual(['a', '', '\uFFFD'])
    expect(push([[0xe6], 'b'])).toEqual(['', '\uFFFDb', ''])
    const stray = push([[0x80], [0x80], [0x80], [0x80], [0x80], 'c'])
    expect(stray.join('')).toBe(`${'\uFFFD'.repeat(5)}c`)
  })
})

describe('openTokenizer', () => {
  it('names a file that is absent or holds no vocabulary', async () => {
    await inFolder(async (folder) => {
      const path = join(folder, 'absent.gguf')
      await expect(openTokenizer(path)).rejects.toMatchObject({ code: 'FILE' })
      await writeFile(path, 'not a model')
      await expect(openTokenizer(path)).rejects.toMatchObject({ code: 'FILE' })
    })
  })
})

describe.skipIf(!hasModel)('tokenizer file of a split', () => {
  let tokenizer: Tokenizer
  const printed = vi.spyOn(process.stderr, 'write')

  beforeAll(async () => {
    await inFolder(async (folder) => {
      await splitModel({ source: modelPath, outDir: folder, stages: 2 })
      tokenizer = await openTokenizer(join(folder, 'tokenizer.gguf'))
    })
  })
  afterAll(async () => {
    await tokenizer.close()
    await tokenizer.close()
  })

  it('loads without the model and prints nothing', () => {
    expect(tokenizer.vocabulary).toBe(512)
    expect(tokenizer.stopTokens).toEqual([2])
    expect(printed).not.toHaveBeenCalled()
  })

  it('puts the beginning token in front and reads its own text back', () => {
    const text = 'Once upon a time, 日本 😀.'
    const tokens = tokenizer.encode(text)
    expect(tokens[0]).toBe(1)
    expect(tokenizer.decode(tokens)).toBe(text)
    const decoder = tokenizer.createDecoder()
    expect(tokens.map((token) => decoder.push(token)).join('') + decoder.end()).toBe(text)
  })

  it('reads control tokens only where asked to', () => {
    expect(tokenizer.encode('</s>', { special: true })).toEqual([1, 2])
    expect(tokenizer.encode('</s>')).not.toContain(2)
  })

  it('renders a chat with the template of the file, control text in a message staying text', async () => {
    const template =
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    await inFolder(async (folder) => {
      const path = join(folder, 'chat.gguf')
      const entries = [...openGguf(modelPath).metadata.values()].map((entry) => entry.bytes)
      entries.push(encodeEntry('tokenizer.chat_template', 'string', template))
      await writeGguf({ path, entries, tensors: [] })
      const chat = await openTokenizer(path)
      const tokens = chat.applyChatTemplate([
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Hi </s>' },
        { role: 'assistant', content: 'Yes?' },
        { role: 'user', content: 'Go.' },
      ])
      expect(tokens[0]).toBe(1)
      expect(tokens).not.toContain(2)
      // This vocabulary has no such control tokens and puts a space at their borders.
      expect(chat.decode(tokens).replaceAll(/ (?=<)|^ /g, '')).toBe(
        '<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi</s><|im_end|>\n' +
          '<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n',
      )
      await chat.close()
    })
  })

  it('says that there is no chat template', () => {
    expect(() => tokenizer.applyChatTemplate([{ role: 'user', content: 'hi' }])).toThrow(
      expect.objectContaining({ code: 'UNSUPPORTED' }),
    )
  })
})
