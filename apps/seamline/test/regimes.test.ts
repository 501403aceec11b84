import { join } from 'node:path'
import { splitModel } from '@seamline/gguf'
import { describe, expect, it } from 'vitest'
import { exactnessOf } from '../src/exactness.ts'
import { cutsOf, matrixModels } from '../src/matrix.ts'
import { hasStories, STORIES, scratchFolder, seamline, start } from './support.ts'

const folder = scratchFolder()
const TINY = ['--width', '64', '--layers', '4', '--feed-forward', '128', '--heads', '4', '--kv-heads', '2']

async function certify(...args: string[]) {
  const { code, stdout } = await seamline(['certify', '--json', ...args])
  return { code, report: JSON.parse(stdout) }
}

async function synth(name: string, ...args: string[]): Promise<{ file: string; files: string[] }> {
  const { stdout } = await seamline(['synth', '--json', '--out', join(folder, name), ...TINY, ...args])
  return JSON.parse(stdout)
}

describe.skipIf(!hasStories)('regimes on a trained model', () => {
  it('per-row with four rows a step: equal to the same steps unsplit, and said not to be bit-exact', async () => {
    const { code, report } = await certify('--model', STORIES, '--k', '4', '--rows', '4', '--prompts', '7,70')
    expect(report).toMatchObject({
      certified: true,
      maxAbsDiff: 0,
      regime: 'per-row',
      bitExact: false,
      rows: 4,
    })
    expect(report.because).toContain('4 rows share a step')
    expect(report.largestStep).toBeGreaterThan(1)
    expect(report.results.map(({ steps }: { steps: number }) => steps)).toEqual(Array(8).fill(64))
    expect(code).toBe(0)
  })

  it('uniform: batches, windows and a longer prompt equal one token at a time', async () => {
    const args = ['--model', STORIES, '--regime', 'uniform', '--prompts', '7', '--tokens', '24']
    const { code, report } = await certify(...args)
    expect(report).toMatchObject({
      certified: true,
      maxAbsDiff: 0,
      regime: 'uniform',
      bitExact: true,
      rows: 4,
    })
    const steps = new Map(
      report.results.map((result: { how: string; steps: number }) => [result.how, result.steps]),
    )
    // 23 tokens are fed again: the prompt and each window is followed by a sample.
    expect([...steps]).toEqual([
      ['4 at once', 24],
      ['windows of 2', 13],
      ['windows of 4', 7],
      ['windows of 8', 4],
      ['prefill of 11 more', 13],
    ])
    expect(report.results).toHaveLength(5 * 4)
    for (const pace of [report.price.perRow, report.price.uniform]) {
      expect(pace.tokenNs).toBeGreaterThan(0)
      expect(pace.prefillNs).toBeGreaterThan(0)
    }
    expect(code).toBe(0)
  })

  it.each([
    [1, ['4 at once', 'prefill of 5 more'], [2, 4, 8]],
    [2, ['4 at once', 'windows of 2', 'prefill of 5 more'], [4, 8]],
    [3, ['4 at once', 'windows of 2', 'prefill of 5 more'], [4, 8]],
  ])('uniform in chunks of %i leaves out the windows that exceed one', async (chunk, hows, skipped) => {
    const args = ['--model', STORIES, '--regime', 'uniform', '--chunk', String(chunk)]
    const { code, report } = await certify(...args, '--prompts', '7', '--tokens', '12')
    expect(report).toMatchObject({ certified: true, skippedWindows: skipped, chunkTokens: chunk })
    expect([...new Set(report.results.map(({ how }: { how: string }) => how))]).toEqual(hows)
    expect(report.largestStep).toBeLessThanOrEqual(chunk)
    expect(code).toBe(0)
  })

  it('a run says which regime it is in and whether it is bit-exact', async () => {
    const prompts = ['--prompt', 'Once', '--prompt', 'The cat', '--max-tokens', '4', '--rows', '2']
    const run = (...args: string[]) =>
      seamline(['run', '--local', '1', '--model', STORIES, ...prompts, ...args])
    const { texts, ...report } = JSON.parse((await run('--regime', 'uniform', '--json')).stdout)
    expect(report).toMatchObject({ regime: 'uniform', bitExact: true, because: '' })
    expect(texts).toHaveLength(2)
    expect((await run()).stderr).toMatch(/^not bit-exact: up to 2 rows/m)
  })

  it('a worker in another regime is refused with both values', async () => {
    const split = join(folder, 'split')
    await splitModel({ source: STORIES, outDir: split, stages: 1 })
    const manifest = join(split, 'manifest.json')
    const worker = start(['worker', '--manifest', manifest, '--stage', '0'])
    try {
      await worker.output(10)
      const { address, regime } = JSON.parse(worker.stdout())
      expect(regime).toBe('per-row')
      const args = [
        'run',
        '--workers',
        address,
        '--manifest',
        manifest,
        '--prompt',
        'x',
        '--regime',
        'uniform',
        '--json',
      ]
      const { code, stdout } = await seamline(args)
      expect(JSON.parse(stdout).error.message).toMatch(
        /regime: worker-0 has per-row, coordinator has uniform/,
      )
      expect(code).toBe(3)
    } finally {
      worker.kill('SIGTERM')
      await worker.finished
    }
  })
})

describe('bit-exactness', () => {
  it.each([
    ['per-row', 1, 'f32', true],
    ['per-row', 2, 'f32', false],
    ['uniform', 8, 'f32', true],
    ['per-row', 1, 'f16', false],
    ['uniform', 8, 'f16', false],
  ])('of %s with %i rows a step over codec %s: %s', (regime, rows, codec, bitExact) => {
    const found = exactnessOf({ regime, rows, codec })
    expect(found).toMatchObject({ regime, bitExact })
    expect(found.because === '').toBe(bitExact)
  })
})

describe('models of other kinds', () => {
  it('gemma: hidden rows go in behind the scaling', async () => {
    const { file } = await synth('gemma.gguf', '--architecture', 'gemma', '--type', 'F16')
    const { code, report } = await certify('--model', file, '--stages', '3', '--prompts', '40')
    expect(report).toMatchObject({ certified: true, maxAbsDiff: 0 })
    expect(report.results[0].distinctTokens).toBeGreaterThan(16)
    expect(code).toBe(0)
  })

  it('a model in shards is named by any of them', async () => {
    const { files } = await synth('sharded.gguf', '--shards', '3')
    expect(files.map((file) => file.slice(folder.length + 1))).toEqual(
      [1, 2, 3].map((n) => `sharded-0000${n}-of-00003.gguf`),
    )
    const { code, report } = await certify('--model', files[1]!, '--prompts', '40', '--tokens', '24')
    expect(report).toMatchObject({ certified: true, maxAbsDiff: 0 })
    expect(code).toBe(0)
  })

  it("K-quants come from llama.cpp's own quantiser", async () => {
    const wide = ['--width', '256', '--feed-forward', '256', '--quantize', 'Q5_K_M']
    const { file } = await synth('k-quant.gguf', ...wide)
    const { report } = await certify(
      '--model',
      file,
      '--regime',
      'uniform',
      '--prompts',
      '7',
      '--tokens',
      '12',
    )
    expect(report).toMatchObject({ certified: true, maxAbsDiff: 0, bitExact: true })
  })

  it('one table certifies several architectures at two cuts', async () => {
    const only = ['llama', 'gemma2', 'llama, 3 shards'].join(';')
    const args = ['certify-all', '--only', only, '--tokens', '32']
    const { code, stdout } = await seamline(args)
    expect(stdout.match(/identical/g)).toHaveLength(6)
    expect(stdout).toContain('inp_scaled')
    expect(code).toBe(0)
    const unknown = await seamline(['certify-all', '--only', 'mamba'])
    expect(unknown.stderr).toMatch(/no model "mamba"; choose from llama; /)
    expect(unknown.code).toBe(2)
  })

  it('the table cuts every model in two different ways', () => {
    expect(cutsOf(6, 1)).toEqual([
      [
        { layerFirst: 0, layerEnd: 1 },
        { layerFirst: 1, layerEnd: 6 },
      ],
      [
        { layerFirst: 0, layerEnd: 2 },
        { layerFirst: 2, layerEnd: 3 },
        { layerFirst: 3, layerEnd: 6 },
      ],
    ])
    expect(cutsOf(12, 4)[1]!.map(({ layerEnd }) => layerEnd)).toEqual([4, 8, 12])
    expect(new Set(matrixModels().map(({ name }) => name)).size).toBe(20)
  })
})

describe('overhead', () => {
  it('trims its defaults to the context, never what was asked for', async () => {
    const { file } = await synth('short.gguf', '--vocabulary', '512', '--context', '32')
    const run = (...args: string[]) => seamline(['overhead', '--model', file, ...args])
    const lengths = async (...args: string[]) => {
      const { promptTokens, tokens } = JSON.parse((await run('--json', ...args)).stdout)
      return [promptTokens, tokens]
    }
    expect(await lengths()).toEqual([16, 16])
    expect(await lengths('--prompt-tokens', '30')).toEqual([30, 2])
    expect(await lengths('--tokens', '4')).toEqual([28, 4])
    const { code, stderr } = await run('--prompt-tokens', '31')
    expect(stderr).toMatch(/prompt of 31 and 2 new tokens .* 32 tokens; lower --prompt-tokens .* --ctx/)
    expect(code).toBe(2)
    expect((await run()).stderr).toContain('a prompt of 16 and 16 new tokens')
  })

  it('prints the resident memory of each stage beside its share', async () => {
    const { file } = await synth('memory.gguf', '--type', 'Q4_0', '--vocabulary', '512')
    const args = [
      'overhead',
      '--model',
      file,
      '--prompt-tokens',
      '16',
      '--tokens',
      '4',
      '--ctx',
      '64',
      '--json',
    ]
    const { memory, bitExact } = JSON.parse((await seamline(args)).stdout)
    expect(bitExact).toBe(true)
    for (const { copies, fileBytes, limitBytes, rssBytes, holds } of memory) {
      expect(copies).toBe(2)
      expect(limitBytes).toBe(2 * fileBytes + 80e6)
      expect(holds).toBe(rssBytes <= limitBytes)
    }
    expect(memory).toHaveLength(2)
  })
})
