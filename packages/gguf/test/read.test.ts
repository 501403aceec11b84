import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GGMLQuantizationType, gguf } from '@huggingface/gguf'
import { isSeamError } from '@seamline/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { tensorTypeNamed } from '../src/format.ts'
import { arrayValues, countValue, openGguf, stringValue } from '../src/read.ts'
import { encodeArray, encodeEntry, writeGguf } from '../src/write.ts'
import { expectCode, smallModel, temporaryFolder } from './support.ts'

const folder = temporaryFolder()

// Written by hand from the GGUF specification: a version 3 file with two entries and one 2 x 1 F32 tensor.
const GOLDEN = Buffer.from(
  [
    '47475546 03000000', // "GGUF", version 3
    '0100000000000000 0200000000000000', // one tensor, two entries
    '0300000000000000 612e62', // key "a.b"
    '04000000 2a000000', // uint32 42
    '0100000000000000 6c', // key "l"
    '09000000 08000000 0200000000000000', // array of 2 strings
    '0200000000000000 6869', // "hi"
    '0000000000000000', // ""
    '0100000000000000 74', // tensor "t"
    '02000000 0200000000000000 0100000000000000', // 2 dimensions: 2, 1
    '00000000 0000000000000000', // F32 at 0
    '00', // one byte up to 128, a multiple of 32
    '0000803f 000000c0', // 1, -2
  ]
    .join('')
    .replaceAll(' ', ''),
  'hex',
)

function goldenFile(name: string, change: (bytes: Buffer) => void = () => {}): string {
  const bytes = Buffer.from(GOLDEN)
  change(bytes)
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

describe('reading', () => {
  test('finds what stands in hand-written bytes, version 3 and 2', () => {
    for (const version of [3, 2]) {
      const file = openGguf(goldenFile('golden.gguf', (bytes) => bytes.writeUInt32LE(version, 4)))
      expect(file).toMatchObject({ version, byteLength: 136, alignment: 32, dataOffset: 128 })
      expect(countValue(file, 'a.b')).toBe(42)
      const list = file.metadata.get('l')
      expect(list).toMatchObject({ type: 'array', value: undefined, array: { type: 'string', length: 2 } })
      expect(arrayValues(list!)).toEqual(['hi', ''])
      expect(Buffer.from(list!.bytes).toString('hex')).toBe(GOLDEN.subarray(43, 86).toString('hex'))
      expect([...file.tensors.values()]).toEqual([
        {
          name: 't',
          dims: [2, 1],
          type: expect.objectContaining({ name: 'F32' }),
          path: file.path,
          offset: 128,
          byteLength: 8,
        },
      ])
    }
  })

  test('decodes every value type', async () => {
    const values = [
      ['uint8', 255],
      ['int8', -128],
      ['uint16', 65535],
      ['int16', -32768],
      ['uint32', 4294967295],
      ['int32', -2147483648],
      ['float32', 0.5],
      ['bool', true],
      ['string', 'Grüße ✓'],
      ['uint64', 2n ** 64n - 1n],
      ['int64', -(2n ** 63n)],
      ['float64', Math.PI],
    ] as const
    const path = join(folder, 'types.gguf')
    await writeGguf({
      path,
      entries: values.flatMap(([type, value]) => [
        encodeEntry(`one.${type}`, type, value),
        encodeArray(`many.${type}`, type, [value, value]),
      ]),
      tensors: [],
    })
    const file = openGguf(path)
    for (const [type, value] of values) {
      expect(file.metadata.get(`one.${type}`)).toMatchObject({ type, value })
      expect(arrayValues(file.metadata.get(`many.${type}`)!)).toEqual([value, value])
    }
    // The other reader returns 64-bit integers as bigints.
    const { metadata } = await gguf(path, { allowLocalFile: true })
    for (const [type, value] of values)
      expect((metadata as Record<string, unknown>)[`one.${type}`]).toEqual(value)
  })

  test.each(['F32', 'F16', 'Q8_0', 'Q4_0'] as const)(
    'agrees with @huggingface/gguf on a %s model',
    async (type) => {
      const file = await smallModel(join(folder, `${type}.gguf`), { type })
      const other = await gguf(file.path, { allowLocalFile: true })
      expect(file.dataOffset).toBe(Number(other.tensorDataOffset))
      expect(
        [...file.tensors.values()].map(({ name, dims, type, offset }) => [name, dims, type.name, offset]),
      ).toEqual(
        other.tensorInfos.map(({ name, shape, dtype, offset }) => [
          name,
          shape.map(Number),
          GGMLQuantizationType[dtype],
          Number(offset) + file.dataOffset,
        ]),
      )
      const { version, tensor_count, kv_count, ...metadata } = other.metadata as Record<string, unknown>
      expect([version, tensor_count, kv_count].map(Number)).toEqual([
        3,
        file.tensors.size,
        file.metadata.size,
      ])
      expect(
        Object.fromEntries(
          [...file.metadata.values()].map((entry) => [
            entry.key,
            entry.array ? arrayValues(entry) : entry.value,
          ]),
        ),
      ).toEqual(metadata)
      const last = [...file.tensors.values()].at(-1)!
      expect(file.byteLength - last.offset - last.byteLength).toBeLessThan(32)
    },
  )

  test('reads a header larger than one read step', async () => {
    const tokens = Array.from({ length: 200_000 }, (_, i) => `token ${i}`)
    const path = join(folder, 'large.gguf')
    await writeGguf({ path, entries: [encodeArray('tokens', 'string', tokens)], tensors: [] })
    expect(arrayValues(openGguf(path).metadata.get('tokens')!)).toEqual(tokens)
    await expectCode(
      () => openGguf(path, { maxHeaderBytes: 1 << 20 }),
      'FILE',
      /header limit of 1048576 B at offset \d+/,
    )
  })
})

describe('refusing', () => {
  test('a file that is cut anywhere in its header or data', async () => {
    const path = goldenFile('cut.gguf')
    for (let bytes = GOLDEN.length - 1; bytes >= 0; bytes--) {
      truncateSync(path, bytes)
      await expectCode(() => openGguf(path), 'FILE', /cut\.gguf: .* at offset \d+/)
    }
  })

  test.each<[string, string, RegExp, (bytes: Buffer) => void]>([
    ['another magic', 'FILE', /magic 0x46554721 is not GGUF at offset 0/, (b) => b.writeUInt8(0x21, 0)],
    ['version 1', 'UNSUPPORTED', /version 1 at offset 4/, (b) => b.writeUInt32LE(1, 4)],
    ['big-endian', 'UNSUPPORTED', /GGUF version 3 big-endian at offset 4/, (b) => b.writeUInt32BE(3, 4)],
    ['version 0', 'UNSUPPORTED', /GGUF version 0 at offset 4/, (b) => b.writeUInt32LE(0, 4)],
    ['version 65536', 'UNSUPPORTED', /GGUF version 65536 at offset 4/, (b) => b.writeUInt32LE(65536, 4)],
    [
      '2^63 tensors',
      'FILE',
      /tensor count 9223372036854775808 exceeds 65536 at offset 8/,
      (b) => b.writeUInt8(0x80, 15) && b.writeUInt8(0, 8),
    ],
    [
      '60000 entries',
      'FILE',
      /metadata count 60000 cannot fit into the 112 B that are left at offset 16/,
      (b) => b.writeUInt32LE(60000, 16),
    ],
    [
      'a key of 4 GB',
      'FILE',
      /key length 4294967043 exceeds 65535 at offset 24/,
      (b) => b.writeUInt32LE(0xffffff03, 24),
    ],
    [
      'a key past the end',
      'FILE',
      /key length 400 cannot fit into the 104 B that are left at offset 24/,
      (b) => b.writeUInt32LE(400, 24),
    ],
    [
      'an unknown value type',
      'FILE',
      /unknown value type 13 of a\.b at offset 35/,
      (b) => b.writeUInt32LE(13, 35),
    ],
    ['an array of arrays', 'FILE', /array of arrays in l/, (b) => b.writeUInt32LE(9, 56)],
    [
      'an array of 2^61 strings',
      'FILE',
      /array length of l 2305843009213693954 .* at offset 60/,
      (b) => b.writeUInt8(0x20, 67),
    ],
    [
      'five dimensions',
      'FILE',
      /tensor "t" with 5 dimensions .* at offset 86/,
      (b) => b.writeUInt32LE(5, 95),
    ],
    ['an empty dimension', 'FILE', /empty dimension \(0 x 1\) at offset 86/, (b) => b.writeUInt32LE(0, 99)],
    [
      '2^62 rows',
      'FILE',
      /dimension of t 4611686018427387905 exceeds 2\^53 - 1 at offset 107/,
      (b) => b.writeUInt8(0x40, 114),
    ],
    [
      'a tensor larger than the file',
      'FILE',
      /tensor "t" of 4096 B at 128 runs past the end of the file \(136 B\)/,
      (b) => b.writeUInt32LE(512, 107),
    ],
    [
      'an unknown tensor type',
      'UNSUPPORTED',
      /tensor "t" at offset 86 has unknown type 99/,
      (b) => b.writeUInt32LE(99, 115),
    ],
    ['half a block', 'FILE', /2 x 1 cannot hold Q8_0 blocks of 32/, (b) => b.writeUInt32LE(8, 115)],
    ['an unaligned tensor', 'FILE', /begins at 4, not a multiple of 32/, (b) => b.writeUInt32LE(4, 119)],
  ])('%s', async (name, code, message, change) => {
    await expectCode(() => openGguf(goldenFile(`${name}.gguf`, change)), code, message)
  })

  test('a repeated key, overlapping tensors, an odd alignment', async () => {
    const same = encodeEntry('same', 'bool', true)
    const path = join(folder, 'repeated.gguf')
    await writeGguf({ path, entries: [same, same], tensors: [] })
    await expectCode(() => openGguf(path), 'FILE', /repeated key "same" at offset 41/)
    const tensor = { dims: [8], type: tensorTypeNamed('F32'), data: [new Uint8Array(32)] }
    const tensors = ['first', 'second'].map((name) => ({ ...tensor, name }))
    await writeGguf({ path, entries: [], tensors })
    const bytes = readFileSync(path)
    bytes.writeBigUInt64LE(0n, bytes.indexOf('second') + 'second'.length + 4 + 8 + 4)
    writeFileSync(path, bytes)
    await expectCode(() => openGguf(path), 'FILE', /tensors "first" and "second" overlap at offset 128/)
    for (const alignment of [24, 0, 2 ** 20]) {
      await writeGguf({ path, entries: [encodeEntry('general.alignment', 'uint32', alignment)], tensors: [] })
      await expectCode(
        () => openGguf(path),
        'FILE',
        `general.alignment is uint32 ${alignment}, not a power of two up to 65536`,
      )
    }
  })

  test('what is not a regular file, or is absent', async () => {
    await expectCode(() => openGguf(folder), 'FILE', /not a regular file/)
    await expectCode(() => openGguf(join(folder, 'absent.gguf')), 'FILE', /ENOENT/)
  })

  test('a missing or mistyped key, by name', async () => {
    const file = openGguf(goldenFile('keys.gguf'))
    await expectCode(
      () => stringValue(file, 'general.architecture'),
      'FILE',
      /general\.architecture is missing/,
    )
    await expectCode(() => stringValue(file, 'a.b'), 'FILE', /a\.b is uint32 42, not a string/)
    await expectCode(() => stringValue(file, 'l'), 'FILE', /l is array of 2 string, not a string$/)
    await expectCode(() => countValue(file, 'l'), 'FILE', /l is array of 2 string, not a whole number/)
  })

  test('any damage to a header with a typed error, or reads it as another valid one', async () => {
    const { path, dataOffset } = await smallModel(join(folder, 'fuzz.gguf'), { layers: 1 })
    const whole = readFileSync(path)
    const damage = fc.array(fc.tuple(fc.nat(dataOffset - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
    // Most of the header is token texts; aim at its ends as well, where the counts and the tensors are.
    const aimed = fc.array(
      fc.tuple(
        fc.oneof(fc.nat(1500), fc.integer({ min: dataOffset - 900, max: dataOffset - 1 })),
        fc.nat(255),
      ),
      { minLength: 1, maxLength: 3 },
    )
    fc.assert(
      fc.property(fc.oneof(damage, aimed), (changes) => {
        const bytes = Buffer.from(whole)
        for (const [at, value] of changes) bytes[at] = value
        writeFileSync(path, bytes)
        try {
          const file = openGguf(path)
          for (const entry of file.metadata.values()) if (entry.array) arrayValues(entry)
          for (const { offset, byteLength } of file.tensors.values()) {
            expect(offset + byteLength).toBeLessThanOrEqual(bytes.length)
          }
        } catch (error) {
          if (!isSeamError(error) || error.cause !== undefined) throw error
        }
      }),
      { seed: 20, numRuns: 400 },
    )
  })
})
