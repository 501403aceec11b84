import { access, copyFile, mkdir, readFile, rename } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { SeamError } from '@seamline/core'
import { hashModel, type SynthOptions, synthModel } from '@seamline/gguf'
import { modelDir } from 'seamline/profile'
import type { Context } from '../command.ts'
import { rootDir } from '../root.ts'

/** A model that cells name. */
export interface BenchModel {
  readonly path: string
  /** That the file must have. */
  readonly sha256: string
}

/** An entry of `benchmarks/models.json`: random weights of a shape and a seed, or a file that is at hand. */
interface Entry {
  readonly synthetic?: Omit<SynthOptions, 'path' | 'seed'>
  readonly seed?: number
  readonly file?: string
  readonly sha256: string
}

/**
 * The file of a model that `benchmarks/models.json` names. A synthetic one is made on first use in the folder of models; another is looked
 * for there, beside the repository in `shared/models`, and where `SEAMLINE_TEST_MODEL` points. Throws `USAGE` for an unknown name and for
 * a file under /home, `FILE` for one that is nowhere.
 */
export async function resolveModel({ ui, signal }: Context, name: string): Promise<BenchModel> {
  const all = JSON.parse(await readFile(join(rootDir, 'benchmarks', 'models.json'), 'utf8')) as Record<
    string,
    Entry
  >
  const entry = Object.hasOwn(all, name) ? all[name] : undefined
  if (entry === undefined)
    throw new SeamError(
      'USAGE',
      `benchmarks/models.json has no ${name}; it has ${Object.keys(all).join(', ')}`,
    )
  const { synthetic, seed = 1, file = `${name}.gguf`, sha256 } = entry
  const given = process.env.SEAMLINE_TEST_MODEL
  const places = [
    join(modelDir(), file),
    ...(synthetic === undefined ? [resolve(rootDir, '..', 'shared', 'models', file)] : []),
    ...(given?.endsWith(`${sep}${file}`) === true ? [given] : []),
  ]
  for (const path of places) {
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return { path: notAtHome(await inModelDir(path)), sha256 }
  }
  if (synthetic === undefined)
    throw new SeamError('FILE', `${file} is not in the folder of models (SEAMLINE_MODEL_DIR); put it there`)
  const path = notAtHome(places[0]!)
  await mkdir(dirname(path), { recursive: true })
  const onProgress = (done: number, all: number) =>
    ui.progress(`making ${name}: ${Math.round((100 * done) / all)} %`)
  const made = await synthModel({ ...synthetic, seed, path, signal, onProgress })
  if (sha256 !== '' && made.sha256 !== sha256)
    throw new SeamError(
      'MISMATCH',
      `${name} came out as ${made.sha256}, benchmarks/models.json says ${sha256}`,
    )
  return { path, sha256 }
}

/** Reads the file that {@link resolveModel} found. Throws `MISMATCH` where it is not the one that is pinned. */
export async function verifyModel({ ui, signal }: Context, { path, sha256 }: BenchModel): Promise<void> {
  const name = basename(path)
  const onProgress = (done: number, all: number) =>
    ui.progress(`checking ${name}: ${Math.round((100 * done) / all)} %`)
  const found = await hashModel(path, { signal, onProgress })
  if (found.sha256 === sha256) return
  throw new SeamError(
    'MISMATCH',
    `${name} has the SHA-256 ${found.sha256}, benchmarks/models.json says ${sha256}: remove it from the folder of models`,
  )
}

/** Builds in other folders look in the folder of models only, so that a file from elsewhere is copied there. */
async function inModelDir(path: string): Promise<string> {
  const own = join(modelDir(), basename(path))
  if (path === own) return own
  const partial = `${own}.${process.pid}.partial`
  await mkdir(modelDir(), { recursive: true })
  await copyFile(path, partial)
  await rename(partial, own)
  return own
}

/** Home folders are often on a network, and figures from there are of that. */
function notAtHome(path: string): string {
  if (resolve(path).startsWith(`${sep}home${sep}`))
    throw new SeamError(
      'USAGE',
      `a model under /home is not measured: set SEAMLINE_MODEL_DIR to a folder elsewhere`,
    )
  return path
}
