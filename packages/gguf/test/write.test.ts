import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { replaceFile, verifyFile } from '../src/files.ts'
import { tensorTypeNamed } from '../src/format.ts'
import { openGguf } from '../src/read.ts'
import { encodeEntry, writeGguf } from '../src/write.ts'
import { expectCode, sha256, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
const F32 = tensorTypeNamed('F32')

describe('writing', () => {
  test('makes the bytes of the specification and hashes them', async () => {
    const path = join(folder, 'new', 'golden.gguf')
    const progress: [number, number][] = []
    const written = await writeGguf({
      path,
      entries: [encodeEntry('a.b', 'uint32', 42)],
      tensors: [
        {
          name: 't',
          dims: [2, 1],
          type: F32,
          data: [Buffer.from('0000803f', 'hex'), Buffer.from('000000c0', 'hex')],
        },
        { name: 'u', dims: [1], type: F32, data: [Buffer.from('00000040', 'hex')] },
      ],
      onProgress: (done, total) => progress.push([done, total]),
    })
    const expected = Buffer.alloc(192)
    const header =
      '47475546030000000200000000000000' + // "GGUF", version 3, two tensors
      '0100000000000000' + // one entry
      '0300000000000000612e62040000002a000000' + // "a.b": uint32 42
      '0100000000000000740200000002000000000000000100000000000000000000000000000000000000' + // "t": 2 x 1, F32, at 0
      '010000000000000075010000000100000000000000000000002000000000000000' // "u": 1, F32, at 32
    expected.set(Buffer.from(header, 'hex'))
    expected.set(Buffer.from('0000803f000000c0', 'hex'), 128)
    expected.set(Buffer.from('00000040', 'hex'), 160)
    expect(readFileSync(path).toString('hex')).toBe(expected.toString('hex'))
    expect(written).toEqual({ byteLength: 192, sha256: sha256(expected) })
    expect(progress.at(-1)).toEqual([192, 192])
    expect(openGguf(path).tensors.get('u')).toMatchObject({ offset: 160, byteLength: 4 })
  })

  test('refuses a disk that is too small, with both numbers, and writes nothing', async () => {
    const path = join(folder, 'full', 'x.gguf')
    const tensors = [{ name: 't', dims: [1024], type: F32, data: [new Uint8Array(4096)] }]
    const write = (free: number) => writeGguf({ path, entries: [], tensors, freeBytes: async () => free })
    await expectCode(() => write(4159), 'FILE', /4160 B are needed and 4159 B are free/)
    expect(readdirSync(join(folder, 'full'))).toEqual([])
    await write(4160)
    expect(readFileSync(path).byteLength).toBe(4160)
  })

  test('keeps the old file and removes its own when a tensor is too short or the caller stops', async () => {
    const path = join(folder, 'kept', 'x.gguf')
    await replaceFile(path, [Buffer.from('old')])
    const tensor = { name: 't', dims: [2, 2], type: F32 }
    await expectCode(
      () => writeGguf({ path, entries: [], tensors: [{ ...tensor, data: [new Uint8Array(12)] }] }),
      'USAGE',
      /tensor t got 12 B, its shape needs 16 B/,
    )
    const controller = new AbortController()
    function* stopping() {
      yield new Uint8Array(8)
      controller.abort()
      yield new Uint8Array(8)
    }
    const { signal } = controller
    await expectCode(
      () => writeGguf({ path, entries: [], tensors: [{ ...tensor, data: stopping() }], signal }),
      'ABORTED',
    )
    await expectCode(
      () =>
        writeGguf({
          path,
          entries: [],
          tensors: [{ ...tensor, dims: [3], type: tensorTypeNamed('Q4_0'), data: [] }],
        }),
      'USAGE',
      /whole 32-element blocks/,
    )
    expect(readdirSync(join(folder, 'kept'))).toEqual(['x.gguf'])
    expect(readFileSync(path, 'utf8')).toBe('old')
  })

  test('removes what killed processes left, not what a running one is writing', async () => {
    const left = join(folder, 'left')
    await replaceFile(join(left, 'x'), [])
    // Process ids end below 2^22 on Linux; process 1 always runs.
    const [dead, running] = ['y.4194305-00000000-0.partial', 'x.1-00000000-0.partial']
    for (const name of [dead, running, 'mine.partial']) writeFileSync(join(left, name), '')
    await replaceFile(join(left, 'x'), [])
    expect(readdirSync(left).sort()).toEqual(['mine.partial', running, 'x'].sort())
  })
})

describe('a target that is no regular file', () => {
  test('keeps its place', async () => {
    const link = join(folder, 'link')
    symlinkSync('/dev/null', link)
    for (const path of [link, '/dev/null', folder]) {
      await expectCode(() => replaceFile(path, [Buffer.from('x')]), 'FILE', path, 'no regular file')
    }
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true)
    expect(readdirSync(folder)).toContain('link')
  })

  test('is refused at once where no folder can be made', async () => {
    await expectCode(() => replaceFile('/proc/none/below/x', []), 'FILE', 'ENOENT')
  })
})

describe('verifying', () => {
  test('names both sizes or both hashes', async () => {
    const path = join(folder, 'verified')
    const good = await replaceFile(path, [Buffer.from('abc')])
    // FIPS 180 example.
    expect(good.sha256).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    await verifyFile(path, good)
    writeFileSync(path, 'abd')
    await expectCode(() => verifyFile(path, good), 'FILE', good.sha256, sha256(Buffer.from('abd')))
    writeFileSync(path, 'ab')
    await expectCode(() => verifyFile(path, good), 'FILE', /2 B, the manifest says 3 B/)
    rmSync(path)
    await expectCode(() => verifyFile(path, good), 'FILE', /ENOENT/)
    expect(existsSync(path)).toBe(false)
  })
})
