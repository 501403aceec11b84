import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Problems } from './problems.ts'

/** What a bundle may hold at most. A file counts as it lies on disk; raw spans lie there gzipped. */
export const bundleLimits = {
  fileBytes: 2 << 20,
  bundleBytes: 20 << 20,
  files: 20_000,
  spanBytes: 256 << 20,
} as const

export interface BundleFile {
  /** Within the bundle, with `/`. */
  readonly path: string
  readonly bytes: number
}

/**
 * All files of a bundle in the order of their paths. What is too large, too much or no file becomes a problem; links are not
 * followed.
 */
export async function listFiles(dir: string, problems: Problems): Promise<BundleFile[]> {
  const files: BundleFile[] = []
  let all = 0
  const folders = ['']
  while (folders.length > 0 && files.length <= bundleLimits.files) {
    const folder = folders.pop()!
    for (const name of (await readdir(join(dir, folder))).sort()) {
      const path = folder === '' ? name : `${folder}/${name}`
      const found = await lstat(join(dir, path))
      if (found.isDirectory()) folders.push(path)
      else if (!found.isFile()) problems.add('EXTRA-FILE', path, 'a link or a device; only files belong here')
      else {
        if (found.size > bundleLimits.fileBytes)
          problems.add('SIZE', path, `${found.size} B; a file may have ${bundleLimits.fileBytes} B`)
        files.push({ path, bytes: found.size })
        all += found.size
      }
    }
  }
  if (files.length > bundleLimits.files)
    problems.add('SIZE', '', `more than ${bundleLimits.files} files are in the bundle`)
  if (all > bundleLimits.bundleBytes) {
    const { path, bytes } = files.reduce((most, file) => (file.bytes > most.bytes ? file : most))
    problems.add(
      'SIZE',
      '',
      `the bundle has ${all} B; it may have ${bundleLimits.bundleBytes} B. The largest file is ${path} with ${bytes} B`,
    )
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** Of a file of any size. */
export async function fileSha256(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

const together = 16

/** Some at a time, so that no more are open than that. Results are in the order of `items`. */
export async function inBatches<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += together)
    results.push(...(await Promise.all(items.slice(at, at + together).map(work))))
  return results
}

/** Reads a text of a bundle, as far as it is within the limit for files. Throws `FILE` and `LIMIT`. */
export async function readText(dir: string, path: string): Promise<string> {
  try {
    const { size } = await lstat(join(dir, path))
    if (size > bundleLimits.fileBytes)
      throw new SeamError('LIMIT', `${path}: ${size} B; at most ${bundleLimits.fileBytes} B are read`)
    return await readFile(join(dir, path), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new SeamError('FILE', `${path} is not there`)
    throw SeamError.from(error, 'FILE')
  }
}

/** As {@link readText}, for a file that need not be there. */
export async function readOptional(dir: string, path: string): Promise<string | null> {
  const isThere = await lstat(join(dir, path)).then(
    (found) => found.isFile(),
    () => false,
  )
  return isThere ? readText(dir, path) : null
}

export function parseJson(content: string, path: string): unknown {
  try {
    return JSON.parse(content)
  } catch (error) {
    throw new SeamError('FILE', `${path} is no JSON: ${(error as Error).message}`)
  }
}

/** Writes a file of a bundle, with the folders that it needs. */
export async function put(dir: string, path: string, content: string | Buffer): Promise<void> {
  await mkdir(dirname(join(dir, path)), { recursive: true })
  await writeFile(join(dir, path), content)
}
