import { copyFileSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openGguf } from '../src/read.ts'
import { hashModel, openModel, shardModel } from '../src/shards.ts'
import { splitModel } from '../src/split.ts'
import { modelFacts } from '../src/stage.ts'
import { encodeArray, encodeEntry, writeGguf } from '../src/write.ts'
import { expectCode, sha256, smallModel, temporaryFolder, tensorData } from './support.ts'

const folder = temporaryFolder()

async function sharded(name: string, shards = 3) {
  const whole = await smallModel(join(folder, `${name}.gguf`))
  return { whole, paths: await shardModel({ source: whole.path, prefix: join(folder, name), shards }) }
}

describe('a model in shards', () => {
  test('is the same model, opened by any shard', async () => {
    const { whole, paths } = await sharded('same')
    expect(paths.map((path) => path.slice(-24))).toEqual([
      'same-00001-of-00003.gguf',
      'same-00002-of-00003.gguf',
      'same-00003-of-00003.gguf',
    ])
    for (const path of paths) {
      const model = openModel(path)
      expect(model.paths).toEqual(paths)
      expect([...model.metadata.keys()]).toEqual([...whole.metadata.keys()])
      expect([...model.tensors.keys()]).toEqual([...whole.tensors.keys()])
      for (const { name, path } of model.tensors.values()) {
        expect(tensorData(openGguf(path), name).equals(tensorData(whole, name))).toBe(true)
      }
    }
    expect(openModel(whole.path)).toEqual({ ...whole, paths: [whole.path] })
    await expectCode(() => modelFacts(openGguf(paths[0]!)), 'UNSUPPORTED', /one of 3 shards, opened alone/)
  })

  test('is split into the same stages; its hash is that of the joined shards', async () => {
    const { whole, paths } = await sharded('split')
    const options = { stages: 2 } as const
    const expected = await splitModel({ ...options, source: whole.path, outDir: join(folder, 'of-whole') })
    const found = await splitModel({ ...options, source: paths[1]!, outDir: join(folder, 'of-shards') })
    expect(found.stages).toEqual(expected.stages)
    expect(found.tokenizer).toEqual(expected.tokenizer)
    const joined = Buffer.concat(paths.map((path) => readFileSync(path)))
    expect(found.source).toEqual({
      file: 'split-00001-of-00003.gguf',
      byteLength: joined.length,
      sha256: sha256(joined),
    })
    expect(await hashModel(paths[2]!)).toEqual({ byteLength: joined.length, sha256: sha256(joined) })
  })

  test('lacks one', async () => {
    const { paths } = await sharded('lacks')
    rmSync(paths[1]!)
    await expectCode(() => openModel(paths[2]!), 'FILE', /lacks-00002-of-00003\.gguf/, /ENOENT/)
  })

  test('names one shard twice, itself, or one of another model', async () => {
    const { paths } = await sharded('twice')
    copyFileSync(paths[0]!, paths[1]!)
    await expectCode(() => openModel(paths[0]!), 'FILE', /twice-00002.*split\.no is 0, its name says 1/)
    rmSync(paths[1]!)
    symlinkSync(paths[1]!, paths[1]!)
    await expectCode(() => openModel(paths[0]!), 'FILE', /twice-00002/, /ELOOP/)
    rmSync(paths[1]!)
    symlinkSync(paths[2]!, paths[1]!)
    await expectCode(() => openModel(paths[0]!), 'FILE', /twice-00002.*split\.no is 2, its name says 1/)
    const other = await sharded('other', 2)
    rmSync(paths[1]!)
    copyFileSync(other.paths[1]!, paths[1]!)
    await expectCode(() => openModel(paths[0]!), 'FILE', /twice-00002.*split\.count is 2, its name says 3/)
  })

  test('has another name than its place, or an absurd number of shards', async () => {
    const { paths } = await sharded('named')
    const renamed = join(folder, 'renamed.gguf')
    copyFileSync(paths[0]!, renamed)
    await expectCode(() => openModel(renamed), 'FILE', /split\.count is 3, and the name does not end/)
    for (const [name, count] of [
      ['zero-00000-of-00000.gguf', 0],
      ['zero-00000-of-00003.gguf', 3],
      ['many-00001-of-99999.gguf', 99999],
      ['more-00001-of-00003.gguf', 65535],
    ] as const) {
      await writeGguf({
        path: join(folder, name),
        entries: [encodeEntry('split.no', 'uint32', 0), encodeEntry('split.count', 'uint32', count)],
        tensors: [],
      })
      await expectCode(() => openModel(join(folder, name)), 'FILE', name.slice(0, 4))
    }
  })

  test('states its place in another type', async () => {
    const path = join(folder, 'type-00001-of-00002.gguf')
    const number = encodeEntry('split.no', 'uint16', 0)
    for (const [entries, message] of [
      [[encodeEntry('split.count', 'string', '2')], 'split.count is string "2", not a whole number'],
      [[encodeArray('split.count', 'uint16', [2])], 'split.count is array of 1 uint16, not a whole number'],
      [[encodeEntry('split.count', 'uint16', 2)], 'split.no is missing'],
      [
        [encodeEntry('split.count', 'uint16', 2), encodeEntry('split.no', 'string', '0')],
        'split.no is string "0", not',
      ],
      [[encodeEntry('split.count', 'bool', true), number], 'split.count is bool true, not a whole number'],
    ] as const) {
      await writeGguf({ path, entries, tensors: [] })
      await expectCode(() => openModel(path), 'FILE', message)
    }
  })

  test('repeats a tensor or lacks some', async () => {
    const write = (name: string, no: number, total: number) =>
      writeGguf({
        path: join(folder, `pair-0000${no + 1}-of-00002.gguf`),
        entries: [
          encodeEntry('split.no', 'uint16', no),
          encodeEntry('split.count', 'uint16', 2),
          encodeEntry('split.tensors.count', 'int32', total),
        ],
        tensors: [{ name, dims: [1], type: F32, data: [new Uint8Array(4)] }],
      })
    const F32 = (await sharded('types')).whole.tensors.get('output_norm.weight')!.type
    await write('a', 0, 2)
    await write('a', 1, 2)
    const path = join(folder, 'pair-00001-of-00002.gguf')
    await expectCode(
      () => openModel(path),
      'FILE',
      /pair-00002.*tensor "a" at offset \d+ is in pair-00001-of-00002\.gguf too/,
    )
    await write('b', 1, 2)
    expect([...openModel(path).tensors.keys()]).toEqual(['a', 'b'])
    await write('a', 0, 3)
    await expectCode(() => openModel(path), 'FILE', /split\.tensors\.count is 3, its 2 shards hold 2/)
  })

  test('cannot be made of more shards than tensors', async () => {
    const { path } = await smallModel(join(folder, 'few.gguf'))
    for (const shards of [0, 1.5, 1000]) {
      await expectCode(
        () => shardModel({ source: path, prefix: join(folder, 'few'), shards }),
        'USAGE',
        `${shards} shards of 39 tensors`,
      )
    }
  })
})
