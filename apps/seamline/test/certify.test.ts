import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type GgufTensor, hashFile, openGguf, splitModel } from '@seamline/gguf'
import { describe, expect, it } from 'vitest'
import { hasStories, STORIES, scratchFolder, seamline } from './support.ts'

const folder = scratchFolder()

async function certify(...args: string[]) {
  const { code, stdout, stderr } = await seamline(['certify', '--json', ...args])
  return { code, stderr, report: JSON.parse(stdout) }
}

describe.skipIf(!hasStories)('certify on a trained model', () => {
  it.each([2, 3, 5])('proves %i stages for short, long and chunked prompts', async (stages) => {
    const { code, report } = await certify('--model', STORIES, '--stages', String(stages))
    expect(report.stages).toHaveLength(stages)
    expect(report).toMatchObject({ certified: true, maxAbsDiff: 0, chunkTokens: 64 })
    const lengths = report.results.map(({ promptTokens, chunks }: Record<string, number>) => [
      promptTokens,
      chunks,
    ])
    expect(lengths).toEqual([
      [1, 1],
      [7, 1],
      [128, 2],
      [300, 5],
    ])
    for (const result of report.results) {
      expect(result).toMatchObject({ steps: 64, equalTokens: 64, maxAbsDiff: 0, identical: true })
    }
    expect(code).toBe(0)
  })

  it('proves four different sequences in flight', async () => {
    const { code, report } = await certify(
      '--model',
      STORIES,
      '--k',
      '4',
      '--prompts',
      '7,70',
      '--tokens',
      '24',
    )
    expect(report.results).toHaveLength(8)
    expect(report).toMatchObject({ certified: true, sequences: 4 })
    expect(code).toBe(0)
  })

  it('marks a run with few distinct tokens as weak', async () => {
    const { report } = await certify('--model', STORIES, '--prompts', '3', '--tokens', '8')
    expect(report.results[0].distinctTokens).toBeLessThanOrEqual(8)
    expect(report.results[0].weak).toBe(true)
  })

  it('compares lossy codecs with lossless links, one row each, and fails beyond the limits', async () => {
    const args = ['--model', STORIES, '--prompts', '7,70', '--tokens', '16', '--codec', 'f16,q8_0']
    const { code, report } = await certify(...args)
    const [f16, q8] = report.codecs
    expect([f16.codec, q8.codec]).toEqual(['f16', 'q8_0'])
    for (const row of report.codecs) {
      expect(row).toMatchObject({ positions: 32, within: true })
      expect(row.top1Agreement).toBeGreaterThanOrEqual(0.95)
      expect(row.meanKl).toBeGreaterThan(0)
      expect(row.maxKl).toBeGreaterThanOrEqual(row.meanKl)
    }
    expect(q8.meanKl).toBeGreaterThan(f16.meanKl)
    // One row of 64 values on one edge: 256, 128 and 2 * 34 bytes, and the same header.
    const header = f16.losslessBytesPerToken - 256
    expect(header).toBeLessThan(100)
    expect(f16.bytesPerToken).toBeCloseTo(128 + header, 0)
    expect(q8.bytesPerToken).toBeCloseTo(68 + header, 0)
    expect(report.certified).toBe(true)
    expect(code).toBe(0)

    const strict = await certify(...args, '--max-kl', '0')
    expect(strict.report).toMatchObject({ certified: false, limits: { maxKl: 0 } })
    expect(strict.code).toBe(1)
  })

  it('fails when two layers are swapped', async () => {
    const manifest = await tampered('swapped', (bytes, tensors) => {
      for (const [name, tensor] of tensors) {
        if (!name.startsWith('blk.1.')) continue
        const other = tensors.get(name.replace('blk.1.', 'blk.3.'))!
        const held = Buffer.from(at(bytes, tensor))
        at(bytes, other).copy(at(bytes, tensor))
        held.copy(at(bytes, other))
      }
    })
    const { code, report } = await certify(
      '--model',
      STORIES,
      '--manifest',
      manifest,
      '--prompts',
      '7',
      '--tokens',
      '16',
    )
    expect(report.certified).toBe(false)
    expect(code).toBe(1)
  })

  it('fails when a norm does nothing', async () => {
    const manifest = await tampered('norm', (bytes, tensors) => {
      const norm = tensors.get('blk.2.ffn_norm.weight')!
      Buffer.from(new Float32Array(norm.byteLength / 4).fill(1).buffer).copy(at(bytes, norm))
    })
    const { code, report } = await certify(
      '--model',
      STORIES,
      '--manifest',
      manifest,
      '--prompts',
      '7',
      '--tokens',
      '16',
    )
    expect(report.certified).toBe(false)
    expect(code).toBe(1)
  })

  it('refuses a stage file that was altered after the split', async () => {
    const outDir = join(folder, 'altered')
    const { stages } = await splitModel({ source: STORIES, outDir, stages: 2 })
    const stage = join(outDir, stages[1]!.file)
    const bytes = readFileSync(stage)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(stage, bytes)
    const { code, report } = await certify('--model', STORIES, '--manifest', join(outDir, 'manifest.json'))
    expect(report.error).toMatchObject({ code: 'FILE', worker: 'worker-1' })
    expect(report.error.message).toContain(stages[1]!.sha256)
    expect(code).toBe(4)
  })

  it('makes a kept split again when one of its files was damaged', async () => {
    const args = ['--model', STORIES, '--layers', '0-4,4-5', '--prompts', '3', '--tokens', '4']
    expect((await certify(...args)).report.certified).toBe(true)
    const kept = readdirSync(join(folder, 'splits')).find((name) => name.endsWith('0-4_4-5'))!
    const stage = join(folder, 'splits', kept, 'stage-0-of-2.gguf')
    const bytes = readFileSync(stage)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(stage, bytes)
    expect((await certify(...args)).report.certified).toBe(true)
  })

  it('refuses the split of another model, naming both hashes', async () => {
    const other = join(folder, 'other.gguf')
    await seamline(['synth', '--out', other, '--layers', '2'])
    const outDir = join(folder, 'foreign')
    const split = await splitModel({ source: other, outDir, stages: 2 })
    const { code, report } = await certify('--model', STORIES, '--manifest', join(outDir, 'manifest.json'))
    expect(report.error.code).toBe('MISMATCH')
    expect(report.error.message).toContain(split.source.sha256)
    expect(report.error.message).toContain((await hashFile(STORIES)).sha256)
    expect(code).toBe(3)
  })

  it('trims the tokens that nobody asked for to the context', async () => {
    const args = ['certify', '--model', STORIES, '--json', '--ctx', '64']
    const trimmed = JSON.parse((await seamline(args)).stdout)
    expect(trimmed).toMatchObject({ certified: true, tokens: 32 })
    expect(trimmed.results.map(({ promptTokens }: { promptTokens: number }) => promptTokens)).toEqual([
      1, 7, 32,
    ])
    const { tokens } = JSON.parse((await seamline([...args, '--prompts', '60'])).stdout)
    expect(tokens).toBe(4)
    const demo = await seamline(['demo', '--model', STORIES, '--stages', '2', '--ctx', '32', '--json'])
    const { tokens: generated, equal } = JSON.parse(demo.stdout)
    expect(generated).toBeLessThan(32)
    expect(equal).toBe(true)
  })

  it('refuses a prompt that does not fit, with the numbers', async () => {
    const { code, report } = await certify('--model', STORIES, '--prompts', '500', '--tokens', '64')
    expect(report.error.code).toBe('USAGE')
    expect(report.error.message).toMatch(/500 .* 64 .* 512 .*--tokens/)
    expect(code).toBe(2)
  })
})

describe('certify on synthetic models', () => {
  it.each(['F32', 'F16', 'Q8_0', 'Q4_0'])('proves %s', async (type) => {
    const model = join(folder, `${type}.gguf`)
    await seamline([
      'synth',
      '--out',
      model,
      '--type',
      type,
      '--width',
      '128',
      '--layers',
      '4',
      '--feed-forward',
      '256',
    ])
    const args = ['--model', model, '--layers', '0-1,1-4', '--prompts', '1,100', '--k', '2', '--tokens', '24']
    const { code, report } = await certify(...args)
    expect(report).toMatchObject({ certified: true, maxAbsDiff: 0, stages: ['0-1', '1-4'] })
    expect(report.results).toHaveLength(4)
    expect(code).toBe(0)
  })
})

function at(bytes: Buffer, { offset, byteLength }: GgufTensor): Buffer {
  return bytes.subarray(offset, offset + byteLength)
}

/** Splits an edited copy of the model and passes it off as a split of the model itself. */
async function tampered(
  name: string,
  edit: (bytes: Buffer, tensors: ReadonlyMap<string, GgufTensor>) => void,
): Promise<string> {
  const source = join(folder, `${name}.gguf`)
  const outDir = join(folder, name)
  copyFileSync(STORIES, source)
  const bytes = readFileSync(source)
  edit(bytes, openGguf(source).tensors)
  writeFileSync(source, bytes)
  await splitModel({ source, outDir, stages: 2 })
  const path = join(outDir, 'manifest.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8'))
  manifest.source.sha256 = (await hashFile(STORIES)).sha256
  writeFileSync(path, JSON.stringify(manifest))
  return path
}
