import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { tensorTypeNamed } from '../src/format.ts'
import { openGguf } from '../src/read.ts'
import { encodeArray, encodeEntry, writeGguf } from '../src/write.ts'
import { fuzzHeaders } from './fuzz.ts'
import { expectCode, temporaryFolder } from './support.ts'

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

test('two tensors of one name are refused, with name and offset', async () => {
  await expectCode(() => open({ names: ['one', 'one'] }), 'FILE', /repeated tensor "one" at offset 59/)
})

test('an alignment of another type than llama.cpp takes is refused', async () => {
  await expectCode(
    () => open({ entries: [encodeEntry('general.alignment', 'uint64', 32)] }),
    'FILE',
    /general\.alignment 32 is not a power of two up to 65536 of type uint32/,
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
