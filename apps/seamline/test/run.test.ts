import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { splitModel } from '@seamline/gguf'
import { describe, expect, it } from 'vitest'
import {
  childrenOf,
  gone,
  hasStories,
  STORIES,
  scratchFolder,
  seamline,
  start,
  startNode,
} from './support.ts'

const folder = scratchFolder()
const ORACLE = join(dirname(fileURLToPath(import.meta.url)), 'unsplit.mjs')
const PROMPT = 'Once upon a time'
const SAMPLED = ['--temp', '0.8', '--seed', '7', '--max-tokens', '64']

const local = (stages: number, ...args: string[]) =>
  seamline(['run', '--local', String(stages), '--model', STORIES, ...args])

describe.skipIf(!hasStories)('run on a trained model', () => {
  it('prints what node-llama-cpp gives unsplit', async () => {
    const expected = await startNode([ORACLE, STORIES, PROMPT, '64']).finished
    expect(expected.stdout).toContain('Lily')
    const { code, stdout, stderr } = await local(2, '--prompt', PROMPT, '--temp', '0', '--max-tokens', '64')
    expect(stdout).toBe(`${expected.stdout}\n`)
    expect(stderr).toMatch(/TTFT .* ms, prefill .* tok\/s, 64 tokens, decode .* tok\/s/)
    expect(code).toBe(0)
  })

  it('samples the same text for 1, 2 and 3 stages, and for 1 and 4 sequences in flight', async () => {
    const alone = await local(1, '--prompt', PROMPT, ...SAMPLED)
    const greedy = await local(1, '--prompt', PROMPT, '--temp', '0', '--max-tokens', '64')
    expect(alone.stdout).not.toBe(greedy.stdout)
    for (const stages of [2, 3])
      expect((await local(stages, '--prompt', PROMPT, ...SAMPLED)).stdout).toBe(alone.stdout)
    const prompts = ['The cat', PROMPT, 'Lily', PROMPT].flatMap((prompt) => ['--prompt', prompt])
    const { stdout } = await local(2, ...prompts, '--sequences', '4', '--json', ...SAMPLED)
    const texts = JSON.parse(stdout).texts.map(({ text }: { text: string }) => text)
    expect([texts[1], texts[3]]).toEqual([alone.stdout.slice(0, -1), alone.stdout.slice(0, -1)])
    expect(texts[0]).not.toBe(texts[1])
  })

  it('ends at the length that was asked for, and within the context by itself', async () => {
    const few = JSON.parse((await local(2, '--prompt', PROMPT, '--max-tokens', '3', '--json')).stdout)
    expect(few.texts[0]).toMatchObject({ finish: 'length' })
    expect(few.texts[0].tokens).toHaveLength(3)
    const { code, stdout } = await local(2, '--prompt', PROMPT, '--max-tokens', '600', '--json')
    const { error } = JSON.parse(stdout)
    expect(error.code).toBe('LIMIT')
    expect(error.message).toMatch(/prompt tokens .* 600 .* 512/)
    expect(code).toBe(2)
  })

  it('runs against workers by address, in any order, with the manifest and the tokenizer alone', async () => {
    const split = join(folder, 'split')
    await splitModel({ source: STORIES, outDir: split, stages: 2 })
    const manifest = join(split, 'manifest.json')
    const workers = [0, 1].map((stage) => start(['worker', '--manifest', manifest, '--stage', String(stage)]))
    try {
      await Promise.all(workers.map((worker) => worker.output(10)))
      const ready = workers.map((worker) => JSON.parse(worker.stdout()))
      expect(ready).toMatchObject([
        { name: 'worker-0', stage: 0, layerFirst: 0, pid: workers[0]!.pid },
        { name: 'worker-1', stage: 1, layerEnd: 5, pid: workers[1]!.pid },
      ])
      const addresses = ready.map(({ address }) => address).reverse()
      const args = ['run', '--workers', addresses.join(','), '--manifest', manifest, '--prompt', PROMPT]
      const remote = await seamline([...args, '--temp', '0', '--max-tokens', '64'])
      expect(remote.stdout).toBe(
        (await local(1, '--prompt', PROMPT, '--temp', '0', '--max-tokens', '64')).stdout,
      )

      const picky = await seamline([...args, '--chunk', '32', '--json'])
      expect(JSON.parse(picky.stdout).error.message).toMatch(
        /chunk size in tokens: worker-. has 64, coordinator has 32/,
      )
      expect(picky.code).toBe(3)
    } finally {
      for (const worker of workers) worker.kill('SIGTERM')
      const ends = await Promise.all(workers.map(({ finished }) => finished))
      expect(ends.map(({ code }) => code)).toEqual([0, 0])
    }
  })

  it('names the worker that nobody answers for', async () => {
    const split = join(folder, 'unserved')
    await splitModel({ source: STORIES, outDir: split, stages: 1 })
    const manifest = join(split, 'manifest.json')
    const args = ['run', '--workers', '127.0.0.1:9', '--manifest', manifest, '--prompt', 'x', '--json']
    const { code, stdout } = await seamline(args)
    expect(JSON.parse(stdout).error).toMatchObject({ code: 'RESET', worker: 'worker #1' })
    expect(code).toBe(3)
  })

  it('leaves no process behind', async () => {
    const run = start(['run', '--local', '3', '--model', STORIES, '--prompt', PROMPT, '--max-tokens', '450'])
    await run.output(10)
    const children = childrenOf(run.pid)
    expect(children).toHaveLength(3)
    expect((await run.finished).code).toBe(0)
    await gone(children, 100)
  })
})

describe('demo', () => {
  it('ends with status 0 and says that every token is equal', async () => {
    const { code, stdout } = await seamline(['demo'])
    expect(stdout).toContain('64 of 64 tokens equal those of the unsplit model')
    expect(stdout).toContain('The weights are random')
    for (const head of [
      'TTFT',
      'prefill tok/s',
      'decode tok/s',
      'layers',
      'file',
      'RSS',
      'compute',
      'seam',
    ]) {
      expect(stdout).toContain(head)
    }
    expect(code).toBe(0)
  })

  it.skipIf(!hasStories)('runs a model of the user', async () => {
    const { code, stdout } = await seamline(['demo', '--model', STORIES, '--stages', '2', '--json'])
    const report = JSON.parse(stdout)
    expect(report).toMatchObject({ equal: true, equalTokens: 64, tokens: 64 })
    expect(report.text).toContain('Lily')
    expect(report.stages).toHaveLength(2)
    for (const { rssBytes, fileBytes, computeShare } of report.stages) {
      expect(rssBytes).toBeGreaterThan(fileBytes)
      expect(computeShare).toBeGreaterThan(0)
      expect(computeShare).toBeLessThan(1)
    }
    expect(code).toBe(0)
  })
})
