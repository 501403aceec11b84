import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { type Context, command } from '../command.ts'
import { type Verified, verifyBundle } from '../evidence/verify.ts'
import { ExitCode } from '../exit-codes.ts'

export function verifyCommand(): Command {
  return command<object, readonly [string]>(
    'verify',
    'Derive everything in a bundle anew from its raw records and compare. Needs nothing but the bundle.',
    async (context, _, place): Promise<ExitCode> => {
      let worst: ExitCode = ExitCode.OK
      const bundles = await bundlesIn(place)
      for (const dir of bundles) {
        context.signal.throwIfAborted()
        context.ui.progress(`verifying ${dir}`)
        const status = reportVerified(context, dir, await verifyBundle(dir))
        if (status !== ExitCode.OK) worst = status
      }
      if (bundles.length === 0) context.ui.print(`${place} holds no bundle yet`)
      return worst
    },
  ).argument('<bundle>', 'a bundle, or a folder of bundles')
}

/** The folder itself where it is a bundle, else the folders in it that are meant to be one. */
async function bundlesIn(place: string): Promise<string[]> {
  const isThere = (path: string) =>
    stat(path).then(
      () => true,
      () => false,
    )
  const isBundle = async (dir: string) =>
    (await isThere(join(dir, 'bundle.json'))) || (await isThere(join(dir, 'spec.json')))
  if (await isBundle(place)) return [place]
  const entries = await readdir(place, { withFileTypes: true }).catch((error) => {
    throw new SeamError('FILE', `${place} cannot be read: ${error.code}`, { cause: error })
  })
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(place, name))
  const found: string[] = []
  for (const folder of folders.sort()) if (await isBundle(folder)) found.push(folder)
  if (found.length === 0 && !(await isThere(join(place, 'README.md'))))
    throw new SeamError('FILE', `${place} is no bundle: it has no bundle.json`)
  return found
}

/** Says what was found, and how a command ends for it. */
export function reportVerified({ ui }: Context, dir: string, verified: Verified): ExitCode {
  const { problems, notes, title, files, bytes } = verified
  ui.record({
    type: 'verified',
    bundle: dir,
    ok: problems.length === 0,
    title,
    files,
    bytes,
    problems,
    notes,
  })
  for (const { code, file, message } of problems) ui.print(`${code.padEnd(12)} ${file}: ${message}`)
  for (const note of notes) ui.print(`note: ${note}`)
  const size = `${files} files, ${(bytes / 1e6).toFixed(1)} MB`
  ui.print(
    problems.length === 0 ? `${dir}: verified (${size})` : `${dir}: ${problems.length} problems (${size})`,
  )
  return problems.length === 0 ? ExitCode.OK : ExitCode.CHECK_FAILED
}
