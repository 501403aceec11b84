import { createHash } from 'node:crypto'
import { closeSync, existsSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isSeamError } from '@seamline/core'
import { afterAll, expect } from 'vitest'
import { type GgufFile, openGguf } from '../src/read.ts'
import { type SynthOptions, synthModel } from '../src/synth.ts'

/** A folder that is removed after the tests of the calling file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-gguf-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export const smallShape = {
  width: 64,
  layers: 4,
  feedForward: 96,
  heads: 4,
  kvHeads: 2,
  vocabulary: 384,
  context: 128,
  type: 'Q8_0',
  seed: 7,
} as const

export async function smallModel(path: string, changes: Partial<SynthOptions> = {}): Promise<GgufFile> {
  await synthModel({ ...smallShape, path, ...changes })
  return openGguf(path)
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Bytes of a tensor, read with the file system alone. */
export function tensorData(file: GgufFile, name: string): Buffer {
  const tensor = file.tensors.get(name)
  if (tensor === undefined) throw new Error(`${file.path} has no ${name}`)
  const bytes = Buffer.alloc(tensor.byteLength)
  const fd = openSync(tensor.path, 'r')
  readSync(fd, bytes, 0, bytes.length, tensor.offset)
  closeSync(fd)
  return bytes
}

export async function expectCode(
  run: () => unknown,
  code: string,
  ...parts: (string | RegExp)[]
): Promise<void> {
  let thrown: unknown
  try {
    await run()
  } catch (error) {
    thrown = error
  }
  expect(isSeamError(thrown), String(thrown)).toBe(true)
  expect(thrown).toMatchObject({ code })
  for (const part of parts) expect((thrown as Error).message).toMatch(part)
}

/** The small trained model, or undefined with a line that says why tests on it are skipped. */
export function trainedModel(): string | undefined {
  const beside = fileURLToPath(new URL('../../../../shared/models/stories260K.gguf', import.meta.url))
  const path = process.env.SEAMLINE_TEST_MODEL ?? beside
  if (existsSync(path)) return path
  console.warn(`skipped: no trained model at ${path}; set SEAMLINE_TEST_MODEL to stories260K.gguf`)
  return undefined
}
