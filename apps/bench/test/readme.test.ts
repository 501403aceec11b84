import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const app = join(root, 'apps/bench')

/** What the reader of an example has of their own. */
const own = `
import type { CodecFactory, FramingFactory, StageExecutor, Transport } from '@seamline/core'
export declare const myCodec: CodecFactory
export declare const myFraming: FramingFactory
export declare function myTransport(): Transport
export declare function openStages(count: number): Promise<StageExecutor[]>
`

async function readmes(): Promise<string[]> {
  const packages = await readdir(join(root, 'packages'))
  return ['benchmarks', ...packages.map((name) => `packages/${name}`)]
}

it('every example in TypeScript of a README type-checks as it is printed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'seamline-readme-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(app, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  let examples = 0
  for (const place of await readmes()) {
    const text = await readFile(join(root, place, 'README.md'), 'utf8')
    const name = place.replaceAll('/', '-')
    for (const [i, [, code]] of [...text.matchAll(/^```ts\n(.*?)^```$/gms)].entries()) {
      await writeFile(join(folder, `${name}-${i + 1}.ts`), `${code}\nexport {}\n`)
      examples += 1
    }
  }
  expect(examples).toBeGreaterThan(0)
  await writeFile(join(folder, 'mine.ts'), own)
  const compilerOptions = {
    ...{ target: 'ES2022', lib: ['ES2023'], module: 'nodenext', types: ['node'], strict: true },
    ...{ noEmit: true, allowImportingTsExtensions: true, skipLibCheck: true },
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  expect(await typeCheck(folder)).toBe('')
})

/** What the compiler has to say: nothing if all is well. */
function typeCheck(folder: string): Promise<string> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  return new Promise((resolve) =>
    execFile(process.execPath, [tsc, '-p', folder], { cwd: folder, timeout: 60_000 }, (error, stdout) =>
      resolve(error === null ? '' : stdout || error.message),
    ),
  )
}
