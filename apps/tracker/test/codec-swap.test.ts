import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type * as Tracker from '../src/index.ts'
import { type SplitModel, type Stage, splitTestModel } from './support/model.ts'
import { ROOT, start } from './support/process.ts'
import { GREEDY } from './support/workers.ts'

const DIST = join(ROOT, 'dist')
const STAGE_PROCESS = join(ROOT, 'test/support/stage-process.mjs')
const OURS = "from '@seamline/codecs';"
const TOKENS = 40
const PROMPT = [1, 20, 300, 45, 211, 7]

let model: SplitModel
// In a folder for what is installed: imports resolve there as they do for the original.
const folder = mkdtempSync(join(mkdirs(join(ROOT, 'node_modules')), '.swapped-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
beforeAll(async () => {
  model = await splitTestModel()
})

function mkdirs(path: string): string {
  mkdirSync(path, { recursive: true })
  return path
}

/** This app with the one line changed that names the codec package. */
function swapped(name: string, codecPackage: string): string {
  const copy = join(folder, name)
  cpSync(DIST, join(copy, 'dist'), { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(copy, 'package.json'))
  const path = join(copy, 'dist/config.js')
  const lines = readFileSync(path, 'utf8').split('\n')
  const naming = lines.filter((line) => line.includes(OURS))
  expect(naming).toEqual([`import * as codecPackage ${OURS}`])
  const changed = lines.map((line) => line.replace(OURS, `from '${codecPackage}';`))
  writeFileSync(path, changed.join('\n'))
  return join(copy, 'dist')
}

interface Outcome {
  readonly codecs: readonly string[]
  /** Of the links for hidden rows, as it was agreed on. */
  readonly used: readonly string[]
  readonly tokens: readonly number[]
}

/** A tracker process and a worker process for each stage, all of one build of this app, and a coordinator here. */
async function run(dist: string, stages: readonly Stage[]): Promise<Outcome> {
  const { config, createTracker, trackerClient } = (await import(
    pathToFileURL(join(dist, 'index.js')).href
  )) as typeof Tracker
  const serve = start([join(dist, 'bin.js'), 'serve'])
  const { url } = JSON.parse(await serve.ready)
  const processes = stages.map((stage, i) =>
    start([STAGE_PROCESS, JSON.stringify({ dist, url, name: `stage-${i}`, stage })]),
  )
  const announced = await Promise.all(processes.map(async ({ ready }) => JSON.parse(await ready)))
  const pipeline = await createTracker(config).connect(await trackerClient(url).plan())
  const tokens: number[] = []
  const request = { prompt: PROMPT, maxTokens: TOKENS, sampler: GREEDY, stopTokens: [] }
  for await (const { token } of pipeline.generate(request)) tokens.push(token)
  const hidden = pipeline.links.filter(({ carries }) => carries === 'hidden rows')
  await pipeline.close()
  for (const { end } of processes) end()
  for (const { finished } of processes) expect(await finished).toMatchObject({ code: 0 })
  expect(await trackerClient(url).workers()).toEqual([])
  serve.kill('SIGTERM')
  expect(await serve.finished).toMatchObject({ code: 0, stderr: '' })
  return { codecs: announced[0].codecs, used: hidden.map(({ codec }) => codec), tokens }
}

describe('a codec package of somebody else', () => {
  it('goes in by one line, carries a real model to the same tokens, and comes out again', async () => {
    const unsplit = await run(DIST, [model.whole])
    expect(unsplit.used).toEqual([])
    expect(unsplit.tokens).toHaveLength(TOKENS)
    expect(new Set(unsplit.tokens).size).toBeGreaterThan(3)

    const before = await run(DIST, model.stages)
    expect(before).toMatchObject({ used: ['f32'], tokens: unsplit.tokens })

    const theirs = swapped('theirs', '../../../../third-party/f32-planes/index.js')
    const after = await run(theirs, model.stages)
    expect(after).toEqual({ codecs: ['f32-planes'], used: ['f32-planes'], tokens: unsplit.tokens })

    expect(await run(DIST, model.stages)).toEqual(before)
  }, 120_000)

  it('that gets values wrong is seen in the tokens', async () => {
    const path = join(folder, 'wrong.mjs')
    const good = pathToFileURL(join(ROOT, 'third-party/f32-planes/index.js')).href
    writeFileSync(
      path,
      `import { f32Planes } from '${good}'
      export const wrong = (options) => {
        const codec = f32Planes(options)
        return { ...codec, id: 'wrong', decodeInto(src, rows, columns, dst) {
          codec.decodeInto(src, rows, columns, dst)
          for (let i = 0; i < rows * columns; i += 2) dst[i] = -dst[i]
        } }
      }`,
    )
    const outcome = await run(swapped('wrong', pathToFileURL(path).href), model.stages)
    expect(outcome.used).toEqual(['wrong'])
    expect(outcome.tokens).not.toEqual((await run(DIST, [model.whole])).tokens)
  }, 120_000)
})
