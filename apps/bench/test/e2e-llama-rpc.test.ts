import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { llamaRelease } from '@seamline/llama'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { llamaRpc, recordLlamaRpc } from '../src/e2e/llama-rpc.ts'
import { type PipelineCell, parseCell } from '../src/session/cell.ts'

const context = { signal: new AbortController().signal }
const cell = parseCell(
  { executor: 'llama-rpc', model: 'm', stages: 2, promptTokens: 12, tokens: 7, ctx: 64, chunk: 4 },
  'cell',
) as PipelineCell

/** Stands in for both programs: serves a port, and answers with rates that tell what it was asked. */
const server = `
const at = (name) => process.argv[process.argv.indexOf(name) + 1]
require('node:fs').writeFileSync(__dirname + '/pid-' + process.pid, '')
require('node:net').createServer((socket) => socket.on('error', () => {})).listen(Number(at('--port')), at('--host'))
`
const bench = (version: string, rate: string) => `
const at = (name) => process.argv[process.argv.indexOf(name) + 1]
if (process.argv.includes('--version')) {
  console.error('version: ${version} (build 1, commit abcdef1)')
  process.exit()
}
const [n_prompt, n_gen] = [Number(at('--n-prompt')), Number(at('--n-gen'))]
const n_depth = process.argv.includes('--n-depth') ? Number(at('--n-depth')) : 0
const addresses = at('--rpc').split(',')
let open = 0
for (const address of addresses) {
  const [host, port] = address.split(':')
  const socket = require('node:net').connect(Number(port), host, () => {
    socket.destroy()
    if (++open < addresses.length) return
    const result = { n_prompt, n_gen, n_depth, devices: open, model_filename: at('--model'), avg_ts: ${rate} }
    console.log(JSON.stringify([result]))
  })
}
`
const rate = '1000 * n_prompt + 10 * n_gen + n_depth / 100'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'llama-rpc-'))
  process.env.SEAMLINE_LLAMA_RPC = folder
})
afterEach(async () => {
  delete process.env.SEAMLINE_LLAMA_RPC
  await rm(folder, { recursive: true, force: true })
})

async function program(name: string, text: string): Promise<void> {
  await writeFile(join(folder, name), `#!/usr/bin/env node\n${text}`)
  await chmod(join(folder, name), 0o755)
}

async function programs(text: string): Promise<void> {
  await program('ggml-rpc-server', server)
  await program('llama-bench', text)
}

it("llama.cpp's own split is measured on a server for each stage: the prompt, then tokens behind it", async () => {
  const version = `${llamaRelease().slice(1)}-dev`
  await programs(bench(version, rate))
  const figures = await recordLlamaRpc(context, cell, '/some/folder/m.gguf')
  expect(figures.prefillTokensPerSecond).toBe(12_000)
  expect(figures.decodeTokensPerSecond).toBe(70.12)
  const shared = { devices: 2, model_filename: 'm.gguf' }
  expect(figures.raw).toEqual({
    version,
    results: [
      { ...shared, n_prompt: 12, n_gen: 0, n_depth: 0, avg_ts: 12_000 },
      { ...shared, n_prompt: 0, n_gen: 7, n_depth: 12, avg_ts: 70.12 },
    ],
  })
})

it('no server is left behind, also after a failure', async () => {
  await programs(bench(llamaRelease(), '0'))
  await expect(recordLlamaRpc(context, cell, 'm.gguf')).rejects.toThrow('avg_ts 0')
  const pids = (await readdir(folder)).flatMap((name) =>
    name.startsWith('pid-') ? Number(name.slice(4)) : [],
  )
  expect(pids).toHaveLength(2)
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})

it('a server that ends at once is told', async () => {
  await programs(bench(llamaRelease(), rate))
  await program('ggml-rpc-server', 'process.exit(3)')
  await expect(recordLlamaRpc(context, cell, 'm.gguf')).rejects.toThrow('it ended with exit status 3')
})

it('what llama-bench says is told where it fails', async () => {
  await programs(`
if (process.argv.includes('--version')) console.error('version: ${llamaRelease()} (build 1)')
else { console.error('loading\\nno such model'); process.exit(1) }`)
  await expect(recordLlamaRpc(context, cell, 'm.gguf')).rejects.toThrow('no such model')
})

it.each([
  ['another release', 'f32', 1, null, /llama-bench is of llama.cpp 0.0.1/, '0.0.1'],
  ['several sequences', 'f32', 2, null, /one sequence in flight, not 2/, undefined],
  ['an emulated link', 'f32', 1, { delayMs: 1, bitsPerSecond: null }, /emulated/, undefined],
  ['another codec', 'f16', 1, null, /sends f32, not f16/, undefined],
])('it is left out for %s', async (_, codec, k, link, message, version) => {
  await programs(bench(version ?? llamaRelease(), rate))
  await expect(recordLlamaRpc(context, { ...cell, codec, k, link }, 'm.gguf')).rejects.toMatchObject({
    ...{ code: 'UNSUPPORTED', message: expect.stringMatching(message) },
  })
})

it('a folder without the programs is a reason, and so is none', async () => {
  expect(await llamaRpc()).toEqual({ reason: expect.stringContaining('has no llama-bench') })
  await program('llama-bench', bench(llamaRelease(), rate))
  expect(await llamaRpc()).toEqual({ reason: expect.stringContaining('has no ggml-rpc-server') })
  await program('ggml-rpc-server', server)
  expect(await llamaRpc()).toEqual({ folder, version: llamaRelease() })
  process.env.SEAMLINE_LLAMA_RPC = ''
  expect(await llamaRpc()).toEqual({ reason: expect.stringContaining('SEAMLINE_LLAMA_RPC') })
})
