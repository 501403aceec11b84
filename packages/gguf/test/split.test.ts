import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gguf } from '@huggingface/gguf'
import { describe, expect, test } from 'vitest'
import { verifyFile } from '../src/files.ts'
import { parseLayerRanges } from '../src/layers.ts'
import { type Manifest, readManifest } from '../src/manifest.ts'
import { arrayValues, type GgufFile, openGguf } from '../src/read.ts'
import { splitModel } from '../src/split.ts'
import { encodeArray, encodeEntry, writeGguf } from '../src/write.ts'
import { expectCode, sha256, smallModel, temporaryFolder, tensorData, trainedModel } from './support.ts'

const folder = temporaryFolder()
const trained = trainedModel()

/** Name of every tensor of a stage file with the source tensor that must have the same bytes, by the rules of the README. */
function expectedTensors(source: GgufFile, from: number, to: number, isLast: boolean): Map<string, string> {
  const expected = new Map<string, string>()
  for (let layer = from; layer < to; layer++) {
    for (const name of source.tensors.keys()) {
      const prefix = `blk.${layer}.`
      if (name.startsWith(prefix)) expected.set(`blk.${layer - from}.${name.slice(prefix.length)}`, name)
    }
  }
  for (const name of ['output_norm.weight', 'rope_freqs.weight'])
    if (source.tensors.has(name)) expected.set(name, name)
  const head = source.tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight'
  if (from === 0) {
    expected.set('token_embd.weight', 'token_embd.weight')
    if (isLast && head === 'output.weight') expected.set(head, head)
  } else if (isLast) expected.set('token_embd.weight', head)
  return expected
}

async function checkSplit(source: GgufFile, outDir: string, manifest: Manifest): Promise<void> {
  const layerCount = manifest.layerCount
  for (const [i, { layerFirst, layerEnd, file, ...hash }] of manifest.stages.entries()) {
    const path = join(outDir, file)
    await verifyFile(path, hash)
    const stage = openGguf(path)
    const isLast = layerEnd === layerCount
    const expected = expectedTensors(source, layerFirst, layerEnd, isLast)
    const isMiddle = layerFirst > 0 && !isLast
    if (isMiddle) {
      expect(stage.tensors.get('token_embd.weight')?.dims, file).toEqual([manifest.embedding, 1])
      expect(tensorData(stage, 'token_embd.weight').every((byte) => byte === 0)).toBe(true)
    }
    expect(
      [...stage.tensors.keys()].filter((name) => !isMiddle || name !== 'token_embd.weight').sort(),
    ).toEqual([...expected.keys()].sort())
    for (const [name, from] of expected) {
      expect(sha256(tensorData(stage, name)), `${file} ${name}`).toBe(sha256(tensorData(source, from)))
      expect(stage.tensors.get(name)).toMatchObject({
        dims: source.tensors.get(from)!.dims,
        type: source.tensors.get(from)!.type,
      })
    }
    const other = await gguf(path, { allowLocalFile: true })
    expect(other.metadata).toMatchObject({
      'llama.block_count': layerEnd - layerFirst,
      'llama.vocab_size': isMiddle ? 1 : manifest.vocabulary,
      'tokenizer.ggml.model': 'none',
    })
    const changed = ['llama.block_count', 'llama.vocab_size', 'tokenizer.ggml.model']
    for (const entry of source.metadata.values()) {
      const kept = stage.metadata.get(entry.key)
      if (changed.includes(entry.key)) continue
      if (entry.key.startsWith('tokenizer.')) expect(kept, entry.key).toBeUndefined()
      else expect(Buffer.from(kept!.bytes).equals(entry.bytes), `${i} ${entry.key}`).toBe(true)
    }
  }
  const tokenizer = openGguf(join(outDir, 'tokenizer.gguf'))
  expect(tokenizer.tensors.size).toBe(0)
  expect([...tokenizer.metadata.values()].map(({ bytes }) => Buffer.from(bytes).toString('hex'))).toEqual(
    [...source.metadata.values()].map(({ bytes }) => Buffer.from(bytes).toString('hex')),
  )
}

describe('splitting', () => {
  test.each([
    ['tied', 1],
    ['tied', 2],
    ['tied', 4],
    ['untied', 1],
    ['untied', 2],
    ['untied', 4],
  ])('puts every tensor of a %s model where it belongs, in %i stages', async (kind, stages) => {
    const source = await smallModel(join(folder, `${kind}.gguf`), { tied: kind === 'tied', type: 'Q4_0' })
    const outDir = join(folder, `${kind}-${stages}`)
    const progress: [number, number][] = []
    const manifest = await splitModel({
      source: source.path,
      outDir,
      stages,
      onProgress: (...now) => progress.push(now),
    })
    await checkSplit(source, outDir, manifest)
    expect(manifest).toMatchObject({
      architecture: 'llama',
      modelName: 'synthetic llama 64x4 Q4_0 seed 7',
      layerCount: 4,
      embedding: 64,
      vocabulary: 384,
      contextLength: 128,
      source: {
        file: `${kind}.gguf`,
        byteLength: source.byteLength,
        sha256: sha256(readFileSync(source.path)),
      },
    })
    expect(readdirSync(outDir).sort()).toEqual(
      ['manifest.json', 'tokenizer.gguf', ...manifest.stages.map(({ file }) => file)].sort(),
    )
    expect(progress.every(([done], i) => i === 0 || done >= progress[i - 1]![0])).toBe(true)
    expect(progress.at(-1)![0]).toBe(progress.at(-1)![1])
    expect(await readManifest(join(outDir, 'manifest.json'))).toEqual(manifest)
    // The stored bytes are the canonical ones.
    expect(manifest.manifestSha256).toBe(sha256(readFileSync(join(outDir, 'manifest.json'))))
  })

  test.skipIf(trained === undefined)('splits a trained model at the layers that are asked for', async () => {
    const outDir = join(folder, 'trained')
    const manifest = await splitModel({ source: trained!, outDir, stages: parseLayerRanges('0-1,1-4,4-5') })
    expect(manifest).toMatchObject({ layerCount: 5, embedding: 64, vocabulary: 512, contextLength: 512 })
    expect(manifest.stages.map(({ layerEnd }) => layerEnd)).toEqual([1, 4, 5])
    await checkSplit(openGguf(trained!), outDir, manifest)
  })

  test('slices arrays of one element a layer, gives shared tensors to every stage, drops the tokenizer', async () => {
    const whole = await smallModel(join(folder, 'arrays-from.gguf'))
    const path = join(folder, 'arrays.gguf')
    const heads = encodeArray('llama.attention.head_count_kv', 'int32', [2, 4, 8, 16])
    const tensors = [...whole.tensors.values()].map(({ name, dims, type }) => ({
      name,
      dims,
      type,
      data: [tensorData(whole, name)],
    }))
    const F32 = whole.tensors.get('output_norm.weight')!.type
    await writeGguf({
      path,
      entries: [
        ...[...whole.metadata.values()].flatMap(({ key, bytes }) =>
          key === 'llama.attention.head_count_kv' ? [heads] : [bytes],
        ),
        encodeArray('llama.rope.dimension_sections', 'int32', [9, 8, 7, 6]),
        encodeEntry('general.alignment', 'uint32', 64),
      ],
      tensors: [
        ...tensors,
        { name: 'rope_freqs.weight', dims: [8], type: F32, data: [new Uint8Array(32).fill(1)] },
      ],
      alignment: 64,
    })
    const outDir = join(folder, 'arrays')
    await splitModel({ source: path, outDir, stages: parseLayerRanges('0-1,1-3,3-4') })
    const found = [0, 1, 2].map((i) => {
      const stage = openGguf(join(outDir, `stage-${i}-of-3.gguf`))
      expect(stage).toMatchObject({ alignment: 64 })
      expect(sha256(tensorData(stage, 'rope_freqs.weight'))).toBe(sha256(new Uint8Array(32).fill(1)))
      const values = (key: string) => arrayValues(stage.metadata.get(key)!)
      expect(values('llama.rope.dimension_sections')).toEqual([9, 8, 7, 6])
      return values('llama.attention.head_count_kv')
    })
    expect(found).toEqual([[2], [4, 8], [16]])
  })

  test('keeps a split that is whole, by sizes or by hashes, and makes it anew otherwise', async () => {
    const { path } = await smallModel(join(folder, 'reused.gguf'))
    const outDir = join(folder, 'reused')
    const stage = join(outDir, 'stage-1-of-2.gguf')
    const split = (reuse?: 'sizes' | 'hashes' | 'never', stages = 2) =>
      splitModel({ source: path, outDir, stages, ...(reuse === undefined ? {} : { reuse }) })
    const past = new Date(1e12)
    const isKept = async (...args: Parameters<typeof split>) => {
      utimesSync(stage, past, past)
      expect(await split(...args)).toEqual(args[1] === undefined ? first : expect.anything())
      return statSync(stage).mtimeMs === past.getTime()
    }
    const first = await split()
    expect(await isKept()).toBe(true)
    expect(await isKept('hashes')).toBe(true)
    expect(await isKept('never')).toBe(false)
    const bytes = readFileSync(stage)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(stage, bytes)
    expect(await isKept('sizes')).toBe(true)
    expect(await isKept('hashes')).toBe(false)
    appendFileSync(stage, 'x')
    expect(await isKept()).toBe(false)
    await smallModel(path, { seed: 8 })
    const other = await split()
    expect(other.source.sha256).not.toBe(first.source.sha256)
    expect((await split(undefined, 3)).stages.length).toBe(3)
  })

  test('killed half-way leaves no manifest, and the next run makes the same as one that was not disturbed', async () => {
    const { path } = await smallModel(join(folder, 'killed.gguf'))
    const outDir = join(folder, 'killed')
    const calm = await splitModel({ source: path, outDir: join(folder, 'calm'), stages: 2 })
    await splitModel({ source: path, outDir, stages: 2 })
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL('child.mjs', import.meta.url)), path, outDir],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const left = readdirSync(outDir)
    expect(left).not.toContain('manifest.json')
    expect(left.filter((name) => name.endsWith('.partial'))).toHaveLength(1)
    expect(await splitModel({ source: path, outDir, stages: 2 })).toEqual(calm)
    expect(readdirSync(outDir).sort()).toEqual(readdirSync(join(folder, 'calm')).sort())
    for (const named of [calm.tokenizer, ...calm.stages]) await verifyFile(join(outDir, named.file), named)
  })

  test('stops at the caller’s request and leaves nothing half-written', async () => {
    const { path } = await smallModel(join(folder, 'stopped.gguf'))
    const outDir = join(folder, 'stopped')
    const controller = new AbortController()
    const onProgress = () => {
      if (existsSync(join(outDir, 'stage-0-of-2.gguf'))) controller.abort()
    }
    await splitModel({ source: path, outDir, stages: 1 })
    await expectCode(
      () => splitModel({ source: path, outDir, stages: 2, onProgress, signal: controller.signal }),
      'ABORTED',
    )
    expect(readdirSync(outDir).sort()).toEqual(['stage-0-of-1.gguf', 'stage-0-of-2.gguf', 'tokenizer.gguf'])
  })
})

describe('refusing to split', () => {
  test('when the disk is too small, before anything is written or an older split is touched', async () => {
    const { path, byteLength } = await smallModel(join(folder, 'room.gguf'))
    const outDir = join(folder, 'room')
    await expectCode(
      () => splitModel({ source: path, outDir, stages: 2, freeBytes: async () => byteLength }),
      'FILE',
      new RegExp(`\\d+ B are needed and ${byteLength} B are free`),
    )
    expect(readdirSync(outDir)).toEqual([])
    await splitModel({ source: path, outDir, stages: 2 })
    await expectCode(() => splitModel({ source: path, outDir, stages: 3, freeBytes: async () => 0 }), 'FILE')
    expect((await readManifest(join(outDir, 'manifest.json'))).stages.length).toBe(2)
  })

  test('stages that the model cannot make', async () => {
    const { path } = await smallModel(join(folder, 'stages.gguf'))
    const split = (stages: Parameters<typeof splitModel>[0]['stages']) => () =>
      splitModel({ source: path, outDir: join(folder, 'none'), stages })
    await expectCode(split(5), 'USAGE', /a model of 4 layers takes 1 to 4 stages/)
    await expectCode(split(parseLayerRanges('0-2,2-5')), 'USAGE', /end at 5, the model has 4 layers/)
    expect(existsSync(join(folder, 'none'))).toBe(false)
  })

  test('a source whose last bytes are missing, and one that is not there', async () => {
    const { path, byteLength } = await smallModel(join(folder, 'short.gguf'))
    writeFileSync(path, readFileSync(path).subarray(0, byteLength - 100))
    const split = (source: string) => () => splitModel({ source, outDir: join(folder, 'none'), stages: 2 })
    await expectCode(split(path), 'FILE', /runs past the end of the file/)
    await expectCode(split(join(folder, 'absent.gguf')), 'FILE', /ENOENT/)
  })

  test('what it does not know: an architecture, a shard, a tensor without a place, a missing layer', async () => {
    const whole = await smallModel(join(folder, 'known.gguf'))
    const path = join(folder, 'unknown.gguf')
    async function expectRefusal(
      code: string,
      message: RegExp,
      change: { add?: Uint8Array; key?: string; tensor?: string; rename?: string },
    ) {
      await writeGguf({
        path,
        entries: [
          ...[...whole.metadata.values()].filter(({ key }) => key !== change.key).map(({ bytes }) => bytes),
          ...(change.add === undefined ? [] : [change.add]),
        ],
        tensors: [...whole.tensors.values()]
          .filter(({ name }) => name !== change.tensor || change.rename !== undefined)
          .map(({ name, dims, type }) => ({
            name: name === change.tensor ? change.rename! : name,
            dims,
            type,
            data: [tensorData(whole, name)],
          })),
      })
      await expectCode(
        () => splitModel({ source: path, outDir: join(folder, 'none'), stages: 2 }),
        code,
        message,
      )
    }
    const architecture = 'general.architecture'
    await expectRefusal(
      'UNSUPPORTED',
      /architecture "mamba" cannot be split: its state is recurrent.*; needed: hand-over/,
      {
        key: architecture,
        add: encodeEntry(architecture, 'string', 'mamba'),
      },
    )
    await expectRefusal(
      'UNSUPPORTED',
      /architecture "constructor" cannot be split: nothing is known.*supported: llama, /,
      {
        key: architecture,
        add: encodeEntry(architecture, 'string', 'constructor'),
      },
    )
    await expectRefusal('FILE', /general\.architecture is missing/, { key: architecture })
    await expectRefusal('FILE', /split\.count is 3, and the name/, {
      add: encodeEntry('split.count', 'uint16', 3),
    })
    await expectRefusal('UNSUPPORTED', /tensor output\.scale has no known place/, {
      tensor: 'output.weight',
      rename: 'output.scale',
    })
    await expectRefusal('UNSUPPORTED', /tensor blk\.4\.attn_norm\.weight has no known place .* 4 layers/, {
      tensor: 'blk.3.attn_norm.weight',
      rename: 'blk.4.attn_norm.weight',
    })
    await expectRefusal('FILE', /tensor output_norm\.weight is missing/, { tensor: 'output_norm.weight' })
    await expectRefusal('FILE', /tensors of 4 layers, llama\.block_count is 5/, {
      key: 'llama.block_count',
      add: encodeEntry('llama.block_count', 'uint32', 5),
    })
    await expectRefusal('FILE', /has rows of 64, llama\.embedding_length is 65/, {
      key: 'llama.embedding_length',
      add: encodeEntry('llama.embedding_length', 'uint32', 65),
    })
    await expectRefusal('FILE', /head_count_kv holds 3 elements of type int32, the model has 4 layers/, {
      key: 'llama.attention.head_count_kv',
      add: encodeArray('llama.attention.head_count_kv', 'int32', [2, 2, 2]),
    })
    expect(existsSync(join(folder, 'none'))).toBe(false)
  })
})

describe('a manifest', () => {
  test('keeps its hash through other white space and key order', async () => {
    const { path } = await smallModel(join(folder, 'm.gguf'))
    const outDir = join(folder, 'm')
    const manifest = await splitModel({ source: path, outDir, stages: 2 })
    const stored = JSON.parse(readFileSync(join(outDir, 'manifest.json'), 'utf8')) as object
    const shuffled = Object.fromEntries(Object.entries(stored).reverse())
    writeFileSync(join(outDir, 'manifest.json'), JSON.stringify(shuffled))
    expect(await readManifest(join(outDir, 'manifest.json'))).toEqual(manifest)
  })

  test.each<
    [
      string,
      RegExp,
      (
        m: Record<string, unknown> & { stages: Record<string, unknown>[]; source: Record<string, unknown> },
      ) => void,
    ]
  >([
    ['another version', /format version 2, this release reads 1/, (m) => (m.formatVersion = 2)],
    ['a missing text', /architecture is missing, not a text/, (m) => delete m.architecture],
    ['a count as text', /layerCount is "4", not a whole number/, (m) => (m.layerCount = '4')],
    ['a fraction', /embedding is 1\.5, not a whole number/, (m) => (m.embedding = 1.5)],
    ['a short hash', /source\.sha256 is "ab", not 64 lower-case hex digits/, (m) => (m.source.sha256 = 'ab')],
    ['a path', /stages\[1\]\.file is "\.\.\/x", not a file name/, (m) => (m.stages[1]!.file = '../x')],
    [
      'a name that moves the cursor',
      /file is "\\u001b\[2J", not a file name/,
      (m) => (m.stages[1]!.file = '\x1b[2J'),
    ],
    ['a huge name', /sha256 is "z{80}…", not 64/, (m) => (m.source.sha256 = 'z'.repeat(500_000))],
    ['no stages', /stages is a list of 0, not a list of one stage/, (m) => (m.stages = [])],
    ['a gap', /layer range 3-4 must begin at 2/, (m) => (m.stages[1]!.layerFirst = 3)],
    ['too few layers', /end at 4, the model has 6 layers/, (m) => (m.layerCount = 6)],
    ['a stage that is a list', /stages\[0\] is not an object/, (m) => (m.stages[0] = [] as never)],
  ])('with %s is refused', async (name, message, change) => {
    const { path } = await smallModel(join(folder, 'm.gguf'))
    const outDir = join(folder, 'm')
    await splitModel({ source: path, outDir, stages: 2 })
    const stored = JSON.parse(readFileSync(join(outDir, 'manifest.json'), 'utf8'))
    change(stored)
    const changed = join(folder, 'changed.json')
    writeFileSync(changed, JSON.stringify(stored))
    await expectCode(
      () => readManifest(changed),
      name === 'another version' ? 'UNSUPPORTED' : 'FILE',
      message,
    )
  })

  test('that is absent, not JSON or far too long is refused', async () => {
    const path = join(folder, 'bad.json')
    await expectCode(() => readManifest(path), 'FILE', /ENOENT/)
    writeFileSync(path, '{"formatVersion": 1')
    await expectCode(() => readManifest(path), 'FILE', /not JSON/)
    writeFileSync(path, Buffer.alloc(2 ** 20 + 1))
    await expectCode(() => readManifest(path), 'FILE', /1048577 B, a manifest has at most 1048576 B/)
  })

  test('of one model lets nobody mistake a copied file for another', async () => {
    const { path } = await smallModel(join(folder, 'm.gguf'))
    const outDir = join(folder, 'm')
    const { stages } = await splitModel({ source: path, outDir, stages: 2, reuse: 'never' })
    copyFileSync(join(outDir, stages[0]!.file), join(outDir, stages[1]!.file))
    await expectCode(() => verifyFile(join(outDir, stages[1]!.file), stages[1]!), 'FILE', stages[1]!.sha256)
  })
})
