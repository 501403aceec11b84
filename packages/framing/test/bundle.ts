import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

/** Where a module named here cannot be resolved in a bundle, as where it is not installed. */
export interface BundleOptions {
  readonly missing?: readonly string[]
}

/** Bundles `entry`, a path relative to this folder, into one file of a fresh folder outside of the repository. */
export async function bundle(entry: string, { missing = [] }: BundleOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-framing-'))
  const file = join(folder, 'bundle.mjs')
  const build = await rolldown({
    input: fileURLToPath(new URL(entry, import.meta.url)),
    platform: 'node',
    logLevel: 'silent',
    plugins: [
      {
        name: 'missing',
        resolveId: (id) => (missing.includes(id) ? `\0missing:${id}` : null),
        load: (id) =>
          id.startsWith('\0missing:')
            ? `throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' }); export {}`
            : null,
      },
    ],
  })
  await build.write({ file, format: 'esm', codeSplitting: false })
  await build.close()
  return { file, remove: () => rmSync(folder, { recursive: true }) }
}
