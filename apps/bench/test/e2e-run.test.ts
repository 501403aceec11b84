import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { rootDir } from '../src/root.ts'
import { readSession } from '../src/session/store.ts'

const model = process.env.SEAMLINE_TEST_MODEL ?? join(rootDir, '..', 'shared', 'models', 'stories260K.gguf')
const hasModel = existsSync(model)
if (!hasModel) console.warn(`skipped: needs ${model}; name another copy by SEAMLINE_TEST_MODEL`)

it.skipIf(!hasModel)(
  'bench e2e runs a scenario beside its controls, all with the tokens of the unsplit model, and reads it again',
  async () => {
    const models = await mkdtemp(join(tmpdir(), 'bench-models-'))
    onTestFinished(() => rm(models, { recursive: true, force: true }))
    await copyFile(model, join(models, 'stories260K.gguf'))
    const dir = join(models, 'session')
    const { code, records, stderr } = await bench(models, 'e2e', 'smoke', '--runs', '1', '--out', dir)
    expect(code, stderr).toBe(0)
    expect(records.filter(({ type }) => type === 'left-out')).toEqual([
      expect.objectContaining({ control: 'llama-rpc', cells: ['tcp'] }),
    ])
    const cells = records.filter(({ type }) => type === 'e2e')
    expect(cells.map(({ name, role, done }) => [name, role, done])).toEqual([
      ['tcp', 'split', 1],
      ['unsplit', 'unsplit', 1],
      ['llama memory', 'one process', 1],
      ['fake tcp', 'transport alone', 1],
      ['fake memory', 'seam alone', 1],
    ])
    // A row of 64 f32 and what the frame adds, the same without a model.
    const bytes = cells.map(({ figures }) => figures.bytes_per_token?.median ?? null)
    expect(bytes[0]).toBeGreaterThan(256)
    expect(bytes).toEqual([bytes[0], null, bytes[0], bytes[0], bytes[0]])
    for (const { figures } of cells) {
      for (const metric of ['ttft', 'prefill', 'tpot', 'throughput', 'peak_rss'])
        expect(figures[metric].median).toBeGreaterThan(0)
    }

    const { records: stored } = await readSession(dir)
    const tokens = new Map<string, (readonly (readonly number[])[])[]>()
    for (const { cell, trace } of stored.values()) {
      const executor = cell.kind === 'pipeline' ? cell.executor : ''
      const ids = trace!.sequences.toSorted((a, b) => a.sequence - b.sequence).map((each) => each.tokens)
      tokens.set(executor, [...(tokens.get(executor) ?? []), ids])
    }
    const [unsplit] = tokens.get('unsplit')!
    expect(unsplit!.map((ids) => ids.length)).toEqual([12, 12])
    // The same token over and over would be equal by itself.
    expect(new Set(unsplit!.flat()).size).toBeGreaterThan(6)
    expect(tokens.get('llama')).toEqual([unsplit, unsplit])
    const [first, second] = tokens.get('fake')!
    expect(second).toEqual(first)

    const derived = await readFile(join(dir, 'e2e.json'), 'utf8')
    await writeFile(join(dir, 'e2e.json'), '')
    const again = (await bench(models, 'e2e', '--read', dir)).records
    expect(again.filter(({ type }) => type === 'e2e')).toEqual(cells)
    expect(await readFile(join(dir, 'e2e.json'), 'utf8')).toBe(derived)
  },
)

async function bench(models: string, ...args: string[]) {
  const bin = join(rootDir, 'apps', 'bench', 'dist', 'bin.js')
  const env = { ...process.env, SEAMLINE_MODEL_DIR: models, SEAMLINE_LLAMA_RPC: '' }
  const child = spawn(process.execPath, [bin, ...args, '--json'], { env, timeout: 100_000 })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  const records = stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
  return { code, records, stderr }
}
