import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { childrenOf, gone, type Running, scratchFolder, seamline, start } from './support.ts'

const folder = scratchFolder()
const MODEL = join(folder, 'model.gguf')
const LIVENESS_MS = 1000

beforeAll(async () => {
  await seamline(['synth', '--out', MODEL])
})

/** A long text in three stages, some of which is out already. */
async function generating(...args: string[]): Promise<{ run: Running; children: number[] }> {
  const settings = ['--prompt', 'x', '--temp', '0', '--max-tokens', '2000', '--liveness', String(LIVENESS_MS)]
  const run = start(['run', '--local', '3', '--model', MODEL, ...settings, ...args])
  await run.output(20)
  return { run, children: childrenOf(run.pid) }
}

describe.runIf(process.platform === 'linux')('in mid-generation', () => {
  it.each([0, 1, 2])('the end of worker %i is reported by name, and nothing is left', async (index) => {
    const { run, children } = await generating()
    process.kill(children[index]!, 'SIGKILL')
    const { code, stderr } = await run.finished
    expect(stderr).toMatch(new RegExp(`worker-${index} \\(layers .*\\) was ended by SIGKILL \\[WORKER\\]`))
    expect(code).toBe(3)
    await gone(children, 100)
  })

  it('a frozen worker is reported by name after the liveness deadline', async () => {
    const { run, children } = await generating()
    process.kill(children[1]!, 'SIGSTOP')
    const { code, stderr } = await run.finished
    expect(stderr).toMatch(/worker-1: .*deadline 1000 ms.* \[TIMEOUT\]/)
    expect(code).toBe(3)
    await gone(children, 100)
  })

  it('no token is printed after the fault', async () => {
    const { run, children } = await generating()
    process.kill(children[2]!, 'SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, LIVENESS_MS / 2))
    const text = run.stdout()
    expect((await run.finished).stdout).toBe(`${text}\n`)
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('%s ends everything in good order', async (signal) => {
    const { run, children } = await generating()
    run.kill(signal)
    const { code, stderr } = await run.finished
    expect(stderr).toMatch(/interrupted \[ABORTED\]\n$/)
    expect(stderr).not.toContain('tidying up')
    expect(code).toBe(130)
    await gone(children, 100)
  })

  it('a worker that freezes while it starts is reported by name', async () => {
    const run = start([
      'run',
      '--local',
      '2',
      '--model',
      MODEL,
      '--prompt',
      'x',
      '--liveness',
      String(LIVENESS_MS),
    ])
    let frozen: number[] = []
    while (frozen.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      frozen = childrenOf(run.pid).filter((pid) =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('worker-1'),
      )
    }
    process.kill(frozen[0]!, 'SIGSTOP')
    const { code, stderr } = await run.finished
    expect(stderr).toMatch(
      /worker-1 .*said nothing for \d+ ms while it started, deadline 1000 ms \[TIMEOUT\]/,
    )
    expect(code).toBe(3)
    await gone(frozen, 100)
  })

  it('one interruption that arrives as two signals is one', async () => {
    const { run, children } = await generating()
    run.kill('SIGINT')
    run.kill('SIGTERM')
    const { code, stderr } = await run.finished
    expect(stderr).toMatch(/interrupted \[ABORTED\]\n$/)
    expect(code).toBe(130)
    await gone(children, 100)
  })

  it('the workers end with a parent that is killed, also one that is frozen', async () => {
    const { run, children } = await generating()
    process.kill(children[1]!, 'SIGSTOP')
    run.kill('SIGKILL')
    await run.finished
    await gone(children, 5000)
  })
})

describe('a worker', () => {
  it('says which port is taken', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const { code, stderr } = await seamline(['worker', '--model', MODEL, '--listen', `127.0.0.1:${port}`])
    server.close()
    expect(stderr).toContain(`127.0.0.1:${port}`)
    expect(stderr).toContain('[USAGE]')
    expect(code).toBe(2)
  })

  it('turns a second client away, goes on serving the first, and is free again when that is gone', async () => {
    const split = join(folder, 'split')
    const manifest = join(split, 'manifest.json')
    await seamline(['split', '--model', MODEL, '--stages', '1', '--out', split])
    const worker = start(['worker', '--manifest', manifest, '--stage', '0'])
    await worker.output(10)
    const { address } = JSON.parse(worker.stdout())
    const args = ['run', '--workers', address, '--manifest', manifest, '--prompt', 'x', '--temp', '0']
    const first = start([...args, '--max-tokens', '2000'])
    await first.output(20)
    const second = await seamline([...args, '--max-tokens', '4', '--json'])
    expect(JSON.parse(second.stdout).error).toMatchObject({ code: 'BUSY', worker: 'worker-0' })
    expect(second.code).toBe(3)
    const served = first.stdout().length
    await first.output(served + 20)
    first.kill('SIGINT')
    expect(await first.finished).toMatchObject({ code: 130, stderr: 'seamline: interrupted [ABORTED]\n' })
    const third = await seamline([...args, '--max-tokens', '4'])
    expect(third.code).toBe(0)
    worker.kill('SIGINT')
    expect((await worker.finished).code).toBe(0)
  })
})
