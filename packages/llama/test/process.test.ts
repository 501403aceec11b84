import { spawn } from 'node:child_process'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { llamaRelease } from '../src/libraries.ts'
import { findAddon, loadAddon } from '../src/native.ts'
import { builtAddon, prebuild } from '../src/prebuild.ts'
import { hasModel, inFolder, modelPath } from './model.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '..', 'dist', 'index.js')).href

/**
 * Runs a script on the built package with an open stage `stage` and a `step(count)`, and resolves with how it
 * ended.
 */
function run(script: string): Promise<{ code: number | null; signal: string | null; output: string }> {
  const source = `
    import { llamaExecutor } from ${JSON.stringify(BUILT)}
    const stage = await llamaExecutor({ path: ${JSON.stringify(modelPath)}, contextLength: 512 })
    const sampler = { temperature: 0, topK: 0, topP: 1, minP: 0, penaltyLastN: 0, repeatPenalty: 1,
      frequencyPenalty: 0, presencePenalty: 0, seed: 0 }
    const session = stage.openSession({ sampler, promptTail: [] })
    let position = 0
    const step = (tokenCount) => {
      const rows = [{ session, position, tokenCount, sample: true }]
      position += tokenCount
      return stage.step({ rows, input: new Int32Array(tokenCount).fill(5), output: null, logits: null, tag: 0 })
    }
    ${script}`
  return inFolder(async (folder) => {
    const path = join(folder, 'script.mjs')
    await writeFile(path, source)
    const child = spawn(process.execPath, ['--expose-gc', path], { timeout: 20_000 })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, output })))
  })
}

describe('loader', () => {
  const refused = (message: RegExp) =>
    expect.objectContaining({ code: 'UNSUPPORTED', message: expect.stringMatching(message) })
  /** A folder as `build-native.mjs --prebuild` writes it, from the addon that was built here. */
  const inPrebuild = (build: unknown, body: (folder: string) => void | Promise<void>) =>
    inFolder(async (folder) => {
      await copyFile(builtAddon, join(folder, 'stage.node'))
      await writeFile(join(folder, 'stage.json'), JSON.stringify(build))
      await body(folder)
    })
  const release = llamaRelease()

  it('names a chosen addon that is not there, and the variable that chose it', () => {
    expect(() => loadAddon('/nonexistent/stage.node')).toThrow(
      refused(/^SEAMLINE_LLAMA_ADDON=\/nonexistent\/stage\.node cannot .*Unset it/),
    )
  })

  it.each([
    ['a module without exports', 'any.js', ''],
    [
      'a module whose values have other types',
      'any.cjs',
      "module.exports = { Stage: {}, napi: '8', release: 5 }",
    ],
    ['a module that throws what is no error', 'any.js', 'throw null'],
    ['JSON', 'any.json', 'null'],
    ['what is no code at all', 'stage.node', 'nonsense'],
  ])('refuses %s, naming file and variable', (_, name, text) =>
    inFolder(async (folder) => {
      const path = join(folder, name)
      await writeFile(path, text)
      expect(() => loadAddon(path)).toThrow(refused(/^SEAMLINE_LLAMA_ADDON=/))
      expect(() => loadAddon(path)).toThrow(new RegExp(`used: .*${name}`))
    }),
  )

  it('takes the name of a built-in module for a file', () => {
    expect(() => loadAddon('fs')).toThrow(refused(/SEAMLINE_LLAMA_ADDON=fs .*Cannot find module/))
  })

  it('passes over a prebuilt file that is no addon', async () => {
    await inPrebuild({ napi: 8, release }, async (folder) => {
      await writeFile(join(folder, 'stage.node'), 'nonsense')
      expect(findAddon('', prebuild(folder))).toMatchObject({
        ...{ origin: 'built', path: builtAddon },
        obstacles: [expect.stringContaining(folder)],
      })
    })
  })

  it('takes a prebuilt addon for this Node and this release of llama.cpp', async () => {
    await inPrebuild({ napi: 8, release }, (folder) => {
      expect(prebuild(folder)).toEqual({ path: join(folder, 'stage.node'), obstacle: null })
      expect(loadAddon('', prebuild(folder))).toMatchObject({ napi: 8, release })
      // The built one is another file and stays what is loaded otherwise.
      expect(loadAddon('', prebuild(folder))).not.toBe(loadAddon('', prebuild(join(folder, 'absent'))))
    })
  })

  it('refuses one for others, naming both', async () => {
    await inPrebuild({ napi: 99, release }, (folder) => {
      expect(prebuild(folder).obstacle).toMatch(/Node-API 99, this Node has \d+$/)
    })
    await inPrebuild({ napi: 8, release: 'v0.4.9' }, (folder) => {
      expect(prebuild(folder).obstacle).toMatch(/llama\.cpp v0\.4\.9, the installed .* v\d/)
    })
    for (const build of [null, [], 8, 'text', true, {}, { napi: '8', release }, { napi: 8 }]) {
      await inPrebuild(build, (folder) =>
        expect(prebuild(folder).obstacle).toMatch(/stage\.json must be an object/),
      )
    }
    await inFolder(async (folder) => expect(prebuild(folder).obstacle).toMatch(/no .*stage\.node/))
  })
})

describe.skipIf(!hasModel)('a process with a stage', () => {
  const ended = (output: string) => ({ code: 0, signal: null, output })

  it('stays for the step in flight and ends by itself when idle, also without close', async () => {
    expect(await run('console.log((await step(9)).tokens.length)')).toEqual(ended('1\n'))
  })

  it('may exit in the middle of steps', async () => {
    expect(await run('for (let i = 0; i < 8; i++) step(64).catch(() => {}); process.exit(0)')).toEqual(
      ended(''),
    )
  })

  it('survives the end of a thread in the middle of its steps', async () => {
    const script = `const { isMainThread, parentPort, Worker } = await import('node:worker_threads')
      if (isMainThread) {
        const worker = new Worker(new URL(import.meta.url))
        await new Promise((resolve) => worker.once('message', resolve))
        await worker.terminate()
        console.log((await step(3)).tokens.length)
      } else {
        for (let i = 0; i < 8; i++) step(64).catch(() => {})
        parentPort.postMessage('running')
        setInterval(() => {}, 1000)
      }`
    expect(await run(script)).toEqual(ended('1\n'))
  })

  it('may drop the stage for the garbage collector', async () => {
    const script = `await step(3); await session.close()
      for (let i = 0; i < 3; i++) {
        await llamaExecutor({ path: ${JSON.stringify(modelPath)}, contextLength: 64 })
        gc()
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      console.log('end')`
    expect(await run(script)).toEqual(ended('end\n'))
  })

  it('keeps the event loop free while the engine computes', async () => {
    const script = `let ticks = 0
      const timer = setInterval(() => ticks++, 1)
      const steps = []
      for (let i = 0; i < 8; i++) steps.push(step(64))
      await Promise.all(steps)
      clearInterval(timer)
      console.log(ticks > 0)`
    expect(await run(script)).toEqual(ended('true\n'))
  })
})
