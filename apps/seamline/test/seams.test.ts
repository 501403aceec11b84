import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { splitModel, synthModel, synthPresets } from '@seamline/gguf'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hasStories, type Running, STORIES, scratchFolder, seamline, start } from './support.ts'

const folder = scratchFolder()
const running: Running[] = []
afterEach(async () => {
  for (const process of running) process.kill('SIGTERM')
  await Promise.all(running.splice(0).map(({ finished }) => finished))
})

/** Starts a command that serves and returns the line it prints when it is ready. */
async function serve(...args: string[]): Promise<{ address: string; join?: string; addresses?: unknown }> {
  const process = start(args)
  running.push(process)
  await process.output(10)
  return JSON.parse(process.stdout())
}

describe('over every seam', () => {
  it.skipIf(!hasStories)('a trained model computes what the whole one does', async () => {
    const args = ['--model', STORIES, '--prompt-tokens', '9', '--tokens', '8', '--json']
    const { code, stdout } = await seamline(['certify-seams', ...args])
    const { certified, results } = JSON.parse(stdout)
    expect(results).toHaveLength(24)
    for (const row of results) expect(row).toMatchObject({ identical: true, maxAbsDiff: 0, equalTokens: 8 })
    expect(certified).toBe(true)
    expect(code).toBe(0)
  })
})

describe('workers that share a secret', () => {
  let manifest = ''
  const prompt = ['--prompt', 'x', '--temp', '0', '--max-tokens', '12', '--json']

  beforeAll(async () => {
    const model = join(folder, 'model.gguf')
    await synthModel({ ...synthPresets.demo, path: model, seed: 3 })
    const split = join(folder, 'split')
    await splitModel({ source: model, outDir: split, stages: 2 })
    manifest = join(split, 'manifest.json')
  })

  /** Each on a machine of its own: identities in different folders. */
  const identity = () => mkdtemp(join(folder, 'identity-'))
  const stage = (n: number) => ['worker', '--manifest', manifest, '--stage', String(n)]

  it('are used with the strings they print, over TLS', async () => {
    const first = await serve(...stage(0), '--secure', '--identity', await identity())
    const second = await serve(...stage(1), '--join', first.join!, '--identity', await identity())
    expect(first.join).toMatch(/^seamline:[\w-]{43}@tcp=127\.0\.0\.1:\d+#[\w-]{43}$/)
    const secretOf = (text: string) => /:([\w-]+)@/.exec(text)![1]
    expect(secretOf(second.join!)).toBe(secretOf(first.join!))
    const joins = [first.join!, second.join!].flatMap((text) => ['--join', text])
    const run = await seamline(['run', ...joins, '--manifest', manifest, ...prompt])
    expect(run.code).toBe(0)
    const { links, texts } = JSON.parse(run.stdout)
    expect(links.map(({ transport }: { transport: string }) => transport)).toEqual(['tcp', 'tcp'])

    const plain = await Promise.all([serve(...stage(0)), serve(...stage(1))])
    const addresses = plain.map(({ address }) => address).join(',')
    const other = await seamline(['run', '--workers', addresses, '--manifest', manifest, ...prompt])
    expect(JSON.parse(other.stdout).texts[0].tokens).toEqual(texts[0].tokens)
  })

  it('turn away whoever has another secret, and say no secret', async () => {
    const first = await serve(...stage(0), '--secure', '--identity', await identity())
    const second = await serve(...stage(1), '--join', first.join!, '--identity', await identity())
    const wrong = 'A'.repeat(43)
    const joins = [first.join!, second.join!].flatMap((text) => [
      '--join',
      text.replace(/:[\w-]+@/, `:${wrong}@`),
    ])
    const { code, stdout } = await seamline(['run', ...joins, '--manifest', manifest, ...prompt])
    const { error } = JSON.parse(stdout)
    expect(error).toMatchObject({ code: 'MISMATCH', message: expect.stringMatching(/another secret/) })
    expect(error.message).not.toContain(wrong)
    expect(code).toBe(3)
  })

  it('must be meant together: different secrets are refused with the way out', async () => {
    const strings = ['a', 'b'].map((c) => `seamline:${c.repeat(20)}@tcp=127.0.0.1:1#${'x'.repeat(43)}`)
    const joins = strings.flatMap((text) => ['--join', text])
    const { code, stdout } = await seamline(['run', ...joins, '--manifest', manifest, ...prompt])
    expect(JSON.parse(stdout).error.message).toMatch(/1 and 2 carry different secrets: .*--join/)
    expect(code).toBe(2)
  })

  it('meet in a relay when neither can be dialled directly', async () => {
    const access = join(folder, 'access')
    const relay = await serve('relay', '--listen', '127.0.0.1:0', '--secure', '--identity', await identity())
    expect(relay.address).toMatch(/^127\.0\.0\.1:\d+~[\w-]{43}$/)
    const plain = await serve('relay', '--listen', '127.0.0.1:0', '--access', await secretFile(access))
    const rooms = ['a', 'b'].map((room) => ['--listen', `relay=${plain.address}/${room}`])
    const options = ['--relay-access', access]
    const first = await serve(
      ...stage(0),
      ...rooms[0]!,
      ...options,
      '--secure',
      '--identity',
      await identity(),
    )
    const second = await serve(
      ...stage(1),
      ...rooms[1]!,
      ...options,
      '--join',
      first.join!,
      '--identity',
      await identity(),
    )
    // The direct address is one that nobody answers at.
    const joins = [first.join!, second.join!].flatMap((text) => [
      ...['--join', text.replace('@relay=', `@tcp=127.0.0.1:1#${'x'.repeat(43)},relay=`)],
    ])
    const { code, stdout } = await seamline(['run', ...joins, '--manifest', manifest, ...prompt])
    expect(JSON.parse(stdout).error).toBeUndefined()
    const { links, stages } = JSON.parse(stdout)
    for (const { transport } of [...links, ...stages]) expect(transport).toBe('relay')
    expect(code).toBe(0)
  })

  it('end with a secret that no join string can carry, and leave no listener', async () => {
    const dir = await identity()
    const { writeFile } = await import('node:fs/promises')
    await writeFile(join(dir, 'secret'), 'a secret with blanks\n')
    const { code, stderr } = await seamline([...stage(0), '--secure', '--identity', dir])
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/join string may hold/) })
    const misplaced = await seamline(['worker', '--listen', `seamline:${'s'.repeat(20)}@tcp=127.0.0.1:1`])
    expect(misplaced.code).toBe(2)
    expect(misplaced.stderr).not.toContain('s'.repeat(20))
  })

  async function secretFile(path: string): Promise<string> {
    const { writeFile } = await import('node:fs/promises')
    await writeFile(path, 'operator_secret_1\n', { mode: 0o600 })
    return path
  }
})

describe('beyond loopback', () => {
  it('a relay has TLS and an access secret without being asked to', async () => {
    const { mkdtempSync, readFileSync } = await import('node:fs')
    const identity = mkdtempSync(join(folder, 'identity-'))
    const { address } = await serve('relay', '--listen', '0.0.0.0:0', '--identity', identity)
    expect(address).toMatch(/~[\w-]{43}$/)
    expect(readFileSync(join(identity, 'relay-access'), 'utf8')).toMatch(/^[\w-]{43}$/)
  })
})
