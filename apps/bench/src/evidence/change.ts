import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { SeamError } from '@seamline/core'
import { changedFiles, git } from '../compare/builds.ts'
import { rootDir } from '../root.ts'
import { sha256 } from '../session/canonical.ts'
import { put, readOptional } from './files.ts'

const limitMs = 60_000
const mostBytes = 64 << 20

/** `diff/`: what changed from one commit to the other, with the SHA-256 of each file as it became; of an earlier bundle without a history. */
export async function writeChange(base: string, head: string, dir: string, partial: string): Promise<void> {
  const names = await changedFiles(base, head).catch(async (error) => {
    const kept = await Promise.all(
      ['changed-files', 'stat'].map((name) => readOptional(dir, `diff/${name}.txt`)),
    )
    if (kept[0] === null || kept[1] === null) throw error
    await put(partial, 'diff/changed-files.txt', kept[0]!)
    await put(partial, 'diff/stat.txt', kept[1]!)
    return undefined
  })
  if (names === undefined) return
  const lines = await Promise.all(names.map(async (name) => `${await contentSha256(head, name)}  ${name}\n`))
  await put(partial, 'diff/changed-files.txt', lines.join(''))
  await put(
    partial,
    'diff/stat.txt',
    `${await git('diff', '--stat=200', '--no-renames', base, head, '--')}\n`,
  )
}

async function contentSha256(commit: string, name: string): Promise<string> {
  if ((await git('ls-tree', '--name-only', commit, '--', name)) === '') return 'deleted'
  const options = { cwd: rootDir, timeout: limitMs, maxBuffer: mostBytes, encoding: 'buffer' } as const
  try {
    const { stdout } = await promisify(execFile)('git', ['show', `${commit}:${name}`], options)
    return sha256(stdout)
  } catch (error) {
    throw SeamError.from(error, 'FILE')
  }
}
