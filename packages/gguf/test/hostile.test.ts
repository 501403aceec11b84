import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isSeamError } from '@seamline/core'
import { describe, expect, test } from 'vitest'
import { fileChunks } from '../src/files.ts'
import { tensorTypeNamed } from '../src/format.ts'
import { parseLayerRanges } from '../src/layers.ts'
import { arrayValues, countValue, openGguf, readHeader } from '../src/read.ts'
import { shown } from '../src/shown.ts'
import { cutRules, modelFacts, planStage } from '../src/stage.ts'
import { synthArchitectures } from '../src/synth.ts'
import { encodeArray, encodeEntry, ggufBytes, writeGguf } from '../src/write.ts'
import { fuzzHeaders, randomSource } from './fuzz.ts'
import { expectCode, smallModel, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
const F32 = tensorTypeNamed('F32')
const tensor = (name: string) => ({ name, dims: [8], type: F32, data: [new Uint8Array(32)] })

/** Writes a file of these parts, with `from` replaced by as many other bytes. */
async function open(parts: { entries?: Uint8Array[]; names?: string[] }, from?: string, to?: Buffer) {
  const path = join(folder, 'hostile.gguf')
  await writeGguf({ path, entries: parts.entries ?? [], tensors: (parts.names ?? []).map(tensor) })
  if (from !== undefined && to !== undefined) {
    const bytes = readFileSync(path)
    expect(to.length).toBe(from.length)
    to.copy(bytes, bytes.indexOf(from))
    writeFileSync(path, bytes)
  }
  return openGguf(path)
}

describe('texts that are not UTF-8', () => {
  test('are refused in keys, values and names of tensors, with offset and bytes', async () => {
    const bad = Buffer.from('61ff62', 'hex')
    const refused = (what: string, offset: number) =>
      [`${what} is not UTF-8 text without zeros (61ff62) at offset ${offset}`] as const
    await expectCode(
      () => open({ entries: [encodeEntry('key', 'uint8', 1)] }, 'key', bad),
      'FILE',
      ...refused('key', 32),
    )
    await expectCode(
      () => open({ entries: [encodeEntry('key', 'string', 'val')] }, 'val', bad),
      'FILE',
      ...refused('value of key', 47),
    )
    await expectCode(() => open({ names: ['one'] }, 'one', bad), 'FILE', ...refused('tensor name', 32))
  })

  test('and a zero, at which llama.cpp would end, as well', async () => {
    await expectCode(
      () => open({ names: ['one', 'on2'] }, 'on2', Buffer.from('on\0')),
      'FILE',
      /tensor name is not UTF-8 text without zeros \(6f6e00\)/,
    )
  })

  test('pass as tokens, whose bytes stay as they are', async () => {
    const file = await open(
      { entries: [encodeArray('tokens', 'string', ['abc'])] },
      'abc',
      Buffer.from('61ff62', 'hex'),
    )
    expect(Buffer.from(file.metadata.get('tokens')!.bytes).toString('hex')).toContain('61ff62')
  })
})

describe('texts in error messages', () => {
  const ESC = '\x1b[31m'

  test('are cut to 80 characters, never inside one, and escaped as in JSON', () => {
    expect(shown('blk.0.größe-✓')).toBe('blk.0.größe-✓')
    expect(shown('x'.repeat(80))).toBe('x'.repeat(80))
    expect(shown('x'.repeat(81))).toBe(`${'x'.repeat(80)}…`)
    expect(shown(`${'x'.repeat(79)}😀`)).toBe(`${'x'.repeat(79)}…`)
    const json = 'a"b\\c\n\r\t\b\x1b\x01'
    expect(shown(json)).toBe(JSON.stringify(json).slice(1, -1))
    // Control characters of eight bits, the end of a line and of the direction of writing, a tag beyond 16 bits.
    expect(shown('\x7f\x9b\u2028\u202e\u{e0041}')).toBe('\\u007f\\u009b\\u2028\\u202e\\udb40\\udc41')
  })

  test('of every place in a header come so', async () => {
    const long = ESC + 'k'.repeat(60_000)
    const path = join(folder, 'hostile.gguf')
    const architecture = (value: Uint8Array) => async () => modelFacts(await open({ entries: [value] }))
    const key = 'general.architecture'
    const name = `${ESC}a"b`
    const cases: (() => unknown)[] = [
      architecture(encodeEntry(key, 'string', ESC + 'a'.repeat(3_000_000))),
      () => open({ entries: [encodeEntry(long, 'bool', true), encodeEntry(long, 'bool', true)] }),
      () =>
        open(
          { entries: [encodeArray(long, 'uint8', [1])] },
          '\x09\0\0\0\0\0\0\0',
          Buffer.from([9, 0, 0, 0, 9, 0, 0, 0]),
        ),
      () => open({ entries: [encodeEntry(long, 'uint8', 1)] }, 'k\0\0\0\0', Buffer.from([0x6b, 99, 0, 0, 0])),
      () => open({ entries: [encodeEntry('general.alignment', 'string', long)] }),
      () => open({ names: [name, name] }),
      async () =>
        arrayValues((await open({ entries: [encodeEntry(long, 'bool', true)] })).metadata.get(long)!),
      async () => countValue(await open({ entries: [encodeEntry('n', 'string', long)] }), 'n'),
      () => writeGguf({ path, entries: [], tensors: [{ ...tensor(name), data: [] }] }),
    ]
    for (const run of cases) {
      const error = await Promise.resolve()
        .then(run)
        .then(
          () => undefined,
          (thrown: unknown) => thrown,
        )
      if (!isSeamError(error)) throw new Error(`${run} gave ${error}`)
      expect(error.message).not.toMatch(/\p{Cc}/u)
      expect(error.message).toContain('\\u001b[31m')
      expect(error.message.length).toBeLessThan(3_000)
    }
    await expectCode(
      architecture(encodeArray(key, 'uint32', [1, 2])),
      'FILE',
      /general\.architecture is array of 2 uint32, not a string$/,
    )
  })
})

test('two tensors of one name are refused, with name and offset', async () => {
  await expectCode(() => open({ names: ['one', 'one'] }), 'FILE', /repeated tensor "one" at offset 59/)
})

test('an alignment of another type than llama.cpp takes is refused', async () => {
  await expectCode(
    () => open({ entries: [encodeEntry('general.alignment', 'uint64', 32)] }),
    'FILE',
    /general\.alignment is uint64 32, not a power of two up to 65536 of type uint32/,
  )
})

describe('damaged headers', () => {
  test('are read as the reference reads them, or refused with offset and value', () => {
    const { inputs, accepted, refused } = fuzzHeaders(8_000, 1)
    expect(inputs).toBe(accepted + refused)
    expect(accepted).toBeGreaterThan(1_000)
    expect(refused).toBeGreaterThan(1_000)
  })
})

test('a model whose header is damaged is planned or refused with a typed error', async () => {
  const random = randomSource(5)
  let planned = 0
  let refused = 0
  for (const architecture of synthArchitectures) {
    const { path, dataOffset, byteLength } = await smallModel(join(folder, `${architecture}.gguf`), {
      architecture,
    })
    const whole = readFileSync(path).subarray(0, dataOffset)
    const tokens = whole.indexOf('tokenizer.ggml.model')
    for (let i = 0; i < 60; i++) {
      const bytes = Buffer.from(whole)
      for (let n = 1 + random(2); n > 0; n--) bytes[200 + random(tokens - 200)] = random(2) * random(256)
      const read = (into: Buffer, at: number) => bytes.copy(into, at, at) || into.length - at
      try {
        const file = readHeader(path, { byteLength, read }, dataOffset)
        const facts = modelFacts(file)
        const { refusal } = cutRules(file, facts)
        for (const range of parseLayerRanges('0-2,2-4')) {
          refusal(range)
          expect(ggufBytes(planStage(file, facts, range, () => fileChunks(path, 0, 0)))).toBeLessThan(
            3 * byteLength,
          )
        }
        planned++
      } catch (error) {
        if (!isSeamError(error) || error.cause !== undefined) throw error
        refused++
      }
    }
  }
  expect(planned).toBeGreaterThan(100)
  expect(refused).toBeGreaterThan(100)
})
