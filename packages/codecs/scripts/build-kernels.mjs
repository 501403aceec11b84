// Compiles each assembly/*.ts to WebAssembly and writes it, as base64, to src/generated: no file is looked up at run time.
// The modules are checked in, so that sources compile and run without this step; with CI set it fails where one is stale.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import asc from 'assemblyscript/asc'

const root = fileURLToPath(new URL('..', import.meta.url))
const OPTIONS = ['-O3', '--converge', '--noAssert', '--runtime', 'stub', '--importMemory', '--enable', 'simd']

/** Source text of a module that exports the compiled `assembly/NAME.ts`. */
export async function compile(name) {
  let binary
  const { error, stderr } = await asc.main([`assembly/${name}.ts`, '--outFile', 'kernel.wasm', ...OPTIONS], {
    readFile: (file, base) => readOrNull(join(base, file)),
    writeFile: (_, contents) => {
      binary = contents
    },
    listFiles: (folder, base) => readdirSync(join(base, folder)),
    baseDir: root,
  })
  if (error) throw new Error(`assembly/${name}.ts: ${error.message}\n${stderr}`)
  return `// Compiled from assembly/${name}.ts by scripts/build-kernels.mjs.
/** A WebAssembly module, base64. */
export const wasm =
  '${Buffer.from(binary).toString('base64')}'
`
}

function readOrNull(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(root, 'src', 'generated')
  mkdirSync(folder, { recursive: true })
  for (const file of readdirSync(join(root, 'assembly')).filter((file) => /^\w+\.ts$/.test(file))) {
    const name = basename(file, '.ts')
    const path = join(folder, `${name}.ts`)
    const text = await compile(name)
    if (text === readOrNull(path)) continue
    if (process.env.CI) {
      console.error(
        `src/generated/${name}.ts is not what assembly/${name}.ts compiles to: run pnpm build and commit it`,
      )
      process.exitCode = 1
    } else writeFileSync(path, text)
  }
}
