import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { modelFacts, openModel } from '@seamline/gguf'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { resolveModel, verifyModel } from '../src/e2e/models.ts'
import { createUi } from '../src/ui.ts'

const context = { ui: createUi(true), signal: new AbortController().signal }
const before = process.env.SEAMLINE_MODEL_DIR

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bench-models-'))
  process.env.SEAMLINE_MODEL_DIR = folder
})
afterEach(async () => {
  if (before === undefined) delete process.env.SEAMLINE_MODEL_DIR
  else process.env.SEAMLINE_MODEL_DIR = before
  await rm(folder, { recursive: true, force: true })
})

it('a synthetic model is made on first use, with the bytes that are pinned, and no other bytes pass', async () => {
  const made = await resolveModel(context, 'wide-q4_0')
  expect(made.path).toBe(join(folder, 'wide-q4_0.gguf'))
  // Rows are what goes over the seam: wide ones from few layers.
  expect(modelFacts(openModel(made.path))).toMatchObject({ embedding: 4096, layerCount: 2 })
  await verifyModel(context, made)
  expect(await resolveModel(context, 'wide-q4_0')).toEqual(made)
  expect(await readdir(folder)).toEqual(['wide-q4_0.gguf'])

  await writeFile(made.path, 'x', { flag: 'a' })
  await expect(verifyModel(context, made)).rejects.toMatchObject({ code: 'MISMATCH' })
})

it('a name that is not there and a folder under /home are refused', async () => {
  await expect(resolveModel(context, 'none')).rejects.toMatchObject({
    ...{ code: 'USAGE', message: expect.stringContaining('1.1b-q4_0') },
  })
  await expect(resolveModel(context, 'toString')).rejects.toMatchObject({ code: 'USAGE' })
  process.env.SEAMLINE_MODEL_DIR = '/home/someone/models'
  await expect(resolveModel(context, 'wide-q4_0')).rejects.toMatchObject({ code: 'USAGE' })
})
