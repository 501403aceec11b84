import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseLayerRanges } from '../src/layers.ts'
import { readManifest } from '../src/manifest.ts'
import { arrayValues, type GgufFile, openGguf } from '../src/read.ts'
import { splitModel } from '../src/split.ts'
import { synthArchitectures } from '../src/synth.ts'
import { encodeArray, encodeEntry, type TensorSource, writeGguf } from '../src/write.ts'
import { expectCode, smallModel, smallShape, temporaryFolder, tensorData } from './support.ts'

const folder = temporaryFolder()

async function split(source: string, ranges: string) {
  const outDir = `${source}-${ranges}`
  const manifest = await splitModel({ source, outDir, stages: parseLayerRanges(ranges) })
  return { manifest, outDir, stages: manifest.stages.map(({ file }) => openGguf(join(outDir, file))) }
}

const models = new Map<string, Promise<GgufFile>>()

/** Each model is made once. */
function model(architecture: (typeof synthArchitectures)[number], changes: object = {}): Promise<GgufFile> {
  const name = `${architecture}-${Object.values(changes).join('-')}.gguf`
  const made =
    models.get(name) ??
    smallModel(join(folder, name), { architecture, layers: 8, feedForward: 32, ...changes })
  models.set(name, made)
  return made
}

/** Copies a model with other entries or tensors. */
async function changed(
  whole: GgufFile,
  name: string,
  entries: Record<string, Uint8Array | undefined>,
  more: TensorSource[] = [],
): Promise<string> {
  const path = join(folder, name)
  await writeGguf({
    path,
    entries: [
      ...[...whole.metadata.values()].filter(({ key }) => !(key in entries)).map(({ bytes }) => bytes),
      ...Object.values(entries).filter((entry) => entry !== undefined),
    ],
    tensors: [
      ...[...whole.tensors.values()].map(({ name, dims, type }) => ({
        name,
        dims,
        type,
        data: [tensorData(whole, name)],
      })),
      ...more,
    ],
  })
  return path
}

describe('stages of each architecture', () => {
  test.each(synthArchitectures)('%s: hold every layer once, with its bytes', async (architecture) => {
    const whole = await model(architecture)
    const { stages, manifest } = await split(whole.path, '0-4,4-8')
    for (const [i, stage] of stages.entries()) {
      const own = [...whole.tensors.keys()].filter((name) => Math.floor(Number(name.split('.')[1]) / 4) === i)
      const renumbered = own.map((name) => name.replace(/\d+/, (layer) => String(Number(layer) % 4)))
      expect([...stage.tensors.keys()].filter((name) => name.startsWith('blk.'))).toEqual(renumbered)
      for (const [j, name] of own.entries()) {
        expect(tensorData(stage, renumbered[j]!).equals(tensorData(whole, name)), name).toBe(true)
      }
    }
    expect(manifest.architecture).toBe(architecture === 'llama-moe' ? 'llama' : architecture)
    expect(await readManifest(join(`${whole.path}-0-4,4-8`, 'manifest.json'))).toEqual(manifest)
  })

  // Which layers attend to a window, of eight: x does. By the periods in llama.cpp's model sources.
  test.each([
    ['gemma2', 'x.x|.x.|x.'],
    ['gpt-oss', 'x.x|.x.|x.'],
    ['cohere2', 'xxx|.xx|x.'],
    ['olmo2', 'xxx|.xx|x.'],
    ['gemma3', 'xxx|xx.|xx'],
  ] as const)('%s: say which layers attend to a window: %s', async (architecture, layers) => {
    const { stages } = await split((await model(architecture)).path, '0-3,3-6,6-8')
    const key = `${architecture}.attention.sliding_window_pattern`
    const patterns = stages.map((stage) => arrayValues(stage.metadata.get(key)!))
    expect(patterns.map((pattern) => pattern.map((isOn) => (isOn ? 'x' : '.')).join('')).join('|')).toBe(
      layers,
    )
  })

  test('take the window pattern from the file: a period or an array', async () => {
    const key = 'gemma3.attention.sliding_window_pattern'
    const whole = await model('gemma3')
    for (const [name, entry, expected] of [
      ['period', encodeEntry(key, 'uint32', 3), [true, true, false, true]],
      ['array', encodeArray(key, 'bool', [0, 1, 0, 0, 1, 1, 1, 1].map(Boolean)), [false, true, true, true]],
    ] as const) {
      const { stages } = await split(await changed(whole, `${name}.gguf`, { [key]: entry }), '0-3,3-7,7-8')
      expect(arrayValues(stages[1]!.metadata.get(key)!)).toEqual(expected)
    }
  })

  test('deepseek: count their own layers without experts', async () => {
    const key = 'deepseek.leading_dense_block_count'
    const whole = await model('deepseek')
    const path = await changed(whole, 'dense.gguf', { [key]: encodeEntry(key, 'uint32', 4) })
    const { stages } = await split(path, '0-3,3-6,6-8')
    expect(stages.map((stage) => stage.metadata.get(key)?.value)).toEqual([3, 1, 0])
  })

  test('granite: scale token embeddings, not hidden rows', async () => {
    const { stages } = await split((await model('granite')).path, '0-3,3-6,6-8')
    expect(stages.map((stage) => stage.metadata.get('granite.embedding_scale')?.value)).toEqual([12, 1, 1])
  })

  test('deci: are told the KV heads of their layers', async () => {
    const { stages } = await split((await model('deci')).path, '0-3,3-6,6-8')
    const values = stages.map((stage) =>
      arrayValues(stage.metadata.get('deci.attention.head_count_kv')!).join(),
    )
    expect(values).toEqual(['2,4,2', '4,2,4', '2,4'])
  })

  test.each(['gpt-oss', 'olmo2'] as const)(
    '%s: have a head and an embedding each, as stubs',
    async (name) => {
      const { stages } = await split((await model(name)).path, '0-3,3-6,6-8')
      const found = stages.map((stage) =>
        ['token_embd.weight', 'output.weight'].map((name) => {
          const { dims, type } = stage.tensors.get(name)!
          const isStub = tensorData(stage, name).every((byte) => byte === 0)
          return `${isStub ? 'stub' : 'real'} ${dims.join('x')} ${type.name}`
        }),
      )
      expect(found).toEqual([
        ['real 64x384 Q8_0', 'stub 64x384 Q2_0'],
        ['stub 64x1 F32', 'stub 64x1 F32'],
        ['stub 64x384 Q2_0', 'real 64x384 Q8_0'],
      ])
    },
  )

  test('gemma and gemma2: name the node for hidden rows', async () => {
    for (const name of ['gemma', 'gemma2', 'gemma3'] as const) {
      const { manifest } = await split((await model(name)).path, '0-3,3-6,6-8')
      const node = name === 'gemma3' ? undefined : 'inp_scaled'
      expect(manifest.stages.map(({ inject }) => inject)).toEqual([undefined, node, node])
    }
  })

  test('leave out prediction layers, and metadata about images', async () => {
    const whole = await model('exaone4', { layers: 9 })
    const path = await changed(
      whole,
      'nextn.gguf',
      {
        predict: encodeEntry('exaone4.nextn_predict_layers', 'uint32', 1),
        images: encodeEntry('exaone4.n_deepstack_layers', 'uint32', 3),
        heads: encodeArray('exaone4.feed_forward_length', 'uint32', [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        'exaone4.feed_forward_length': undefined,
      },
      [
        {
          name: 'blk.8.nextn.enorm.weight',
          dims: [64],
          type: whole.tensors.get('output_norm.weight')!.type,
          data: [new Uint8Array(256)],
        },
      ],
    )
    const { stages, manifest } = await split(path, '0-5,5-8')
    expect(manifest.layerCount).toBe(8)
    for (const [i, stage] of stages.entries()) {
      expect(stage.metadata.get('exaone4.nextn_predict_layers')?.value).toBe(0)
      expect(stage.metadata.has('exaone4.n_deepstack_layers')).toBe(false)
      expect(arrayValues(stage.metadata.get('exaone4.feed_forward_length')!)).toEqual(
        [
          [1, 2, 3, 4, 5],
          [6, 7, 8],
        ][i],
      )
      expect([...stage.tensors.keys()].filter((name) => /^blk\.[3-8]\..*nextn|^blk\.8/.test(name))).toEqual(
        [],
      )
    }
    await expectCode(
      () => splitModel({ source: path, outDir: join(folder, 'no'), stages: 9 }),
      'USAGE',
      /8 layers/,
    )
  })
})

describe('cuts that an architecture does not allow', () => {
  test('are refused with the nearest allowed ones', async () => {
    const { path } = await model('smollm3', { layers: 12 })
    const cut = (stages: string | number) => () =>
      splitModel({
        source: path,
        outDir: join(folder, 'none'),
        stages: typeof stages === 'number' ? stages : parseLayerRanges(stages),
      })
    await expectCode(cut('0-6,6-12'), 'USAGE', /multiples of 4 layers, not at 6; the nearest are 4 and 8/)
    await expectCode(cut('0-2,2-12'), 'USAGE', /not at 2; the nearest is 4$/)
    await expectCode(cut('0-8,8-11,11-12'), 'USAGE', /not at 11; the nearest is 8$/)
    await expectCode(cut(4), 'USAGE', /of 12 layers takes 1 to 3 stages, which begin at multiples of 4/)
    expect(existsSync(join(folder, 'none'))).toBe(false)
    const balanced = await splitModel({ source: path, outDir: join(folder, 'aligned'), stages: 2 })
    expect([4, 8]).toContain(balanced.stages[1]!.layerFirst)
  })

  test('are those that leave a stage without a layer that attends to a window', async () => {
    const { path } = await model('gemma2')
    await expectCode(() => split(path, '0-7,7-8'), 'USAGE', /gemma2 .* 7-8 alone: none of them .* window/)
    const { stages } = await split(path, '0-1,1-8')
    expect(arrayValues(stages[0]!.metadata.get('gemma2.attention.sliding_window_pattern')!)).toEqual([true])
    const balanced = await splitModel({ source: path, outDir: join(folder, 'windows'), stages: 4 })
    for (const { layerFirst, layerEnd } of balanced.stages) {
      expect(layerFirst % 2 === 0 || layerEnd - layerFirst > 1).toBe(true)
    }
    await expectCode(
      () => splitModel({ source: path, outDir: join(folder, 'none'), stages: 5 }),
      'USAGE',
      /cannot be cut into 5 stages/,
    )
  })

  test('are counted from the file where it says how far apart they are', async () => {
    const whole = await model('llama')
    const renamed = (architecture: string, more: Record<string, Uint8Array>) =>
      changed(whole, `${architecture}.gguf`, {
        'general.architecture': encodeEntry('general.architecture', 'string', architecture),
        ...Object.fromEntries(
          ['block_count', 'embedding_length', 'context_length'].map((key) => [
            `llama.${key}`,
            encodeEntry(`${architecture}.${key}`, 'uint32', whole.metadata.get(`llama.${key}`)!.value!),
          ]),
        ),
        ...more,
      })
    const step = 'llama4.interleave_moe_layer_step'
    const llama4 = await renamed('llama4', { [step]: encodeEntry(step, 'uint32', 6) })
    await expectCode(
      () => split(llama4, '0-4,4-8'),
      'USAGE',
      /multiples of 12 layers, not at 4; there is none/,
    )
    const smallthinker = await renamed('smallthinker', {})
    await expectCode(() => split(smallthinker, '0-4,4-8'), 'USAGE', /cannot hold 4 layers \(0-4\): .* rope/)
    await expectCode(
      () => splitModel({ source: smallthinker, outDir: join(folder, 'none'), stages: 2 }),
      'USAGE',
      /cannot be cut into 2 stages/,
    )
    const minicpm = await renamed('minicpm', {})
    await expectCode(
      () => split(minicpm, '0-4,4-8'),
      'UNSUPPORTED',
      /minicpm\.residual_scale is missing: .*needed/,
    )
  })

  test.each([
    ['gemma2', 46, /attention scale/],
    ['gemma3', 62, /attention scale/],
    ['exaone4', 64, /sliding windows/],
  ] as const)('%s of %i layers is refused with the reason', async (architecture, layers, why) => {
    const { path } = await model(architecture, { layers, width: 32, heads: 2, kvHeads: 1, feedForward: 32 })
    await expectCode(() => split(path, `0-4,4-${layers}`), 'UNSUPPORTED', why)
  })

  test('a stage that would pass for another model is refused as well', async () => {
    const { path } = await model('gemma2', { layers: 48, width: 32, heads: 2, kvHeads: 1, feedForward: 32 })
    await expectCode(() => split(path, '0-46,46-48'), 'USAGE', /cannot hold 46 layers \(0-46\)/)
  })
})

describe('architectures that cannot be split', () => {
  test.each([
    ['mamba', /recurrent.*needed: hand-over of recurrent state/],
    ['rwkv7', /recurrent/],
    ['gemma3n', /per-layer embeddings.*needed: token ids/],
    ['bert', /does not write one token after another/],
    ['gpt2', /again on their way in.*needed: a named node/],
    ['deepseek4', /more than one stream/],
    ['something', /nothing is known of it; needed: rules .*supported: llama, /],
  ])('%s: with the reason and what would be needed', async (architecture, why) => {
    const whole = await model('llama')
    const path = await changed(whole, `${architecture}.gguf`, {
      'general.architecture': encodeEntry('general.architecture', 'string', architecture),
    })
    await expectCode(() => split(path, '0-4,4-8'), 'UNSUPPORTED', why)
  })
})

test('models of each architecture have the shape that is asked for', async () => {
  for (const architecture of synthArchitectures) {
    const file = await model(architecture)
    const own = String(file.metadata.get('general.architecture')?.value)
    expect(file.metadata.get(`${own}.embedding_length`)?.value).toBe(smallShape.width)
    expect(file.tensors.get('blk.7.attn_output.weight')?.dims).toEqual([64, 64])
    const experts = file.metadata.get(`${own}.expert_count`)?.value
    expect(file.tensors.get('blk.7.ffn_up_exps.weight')?.dims).toEqual(
      experts === undefined ? undefined : [64, 32, 8],
    )
  }
})
