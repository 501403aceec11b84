// `pnpm downstream`: what somebody gets who installs the packages from a registry. Packs the public ones, checks the archives with
// publint and attw, installs them with npm in an empty folder outside of the workspace, type-checks a small program there that
// swaps a codec, and runs it and the conformance suites under node:test.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const PUBLIC = ['core', 'codecs', 'codec-zstd', 'framing', 'transports', 'conformance']
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const { packageManager, devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const run = promisify(execFile)

/** Runs a command to its end; what it said comes out when it failed. */
async function command(file, args, cwd) {
  try {
    return (await run(file, args, { cwd, timeout: 180_000, maxBuffer: 1 << 26 })).stdout
  } catch (error) {
    process.stderr.write(`${error.stdout ?? ''}${error.stderr ?? ''}`)
    throw new Error(`${[file, ...args].join(' ')} failed in ${cwd}`)
  }
}

const binOf = (name, bin) => join(root, 'scripts/node_modules', name, bin)
const say = (text) => console.log(text)

const folder = await mkdtemp(join(tmpdir(), 'seamline-downstream-'))
try {
  const archives = new Map()
  for (const name of PUBLIC) {
    const made = join(folder, 'archives', name)
    await mkdir(made, { recursive: true })
    const packed = await command(
      'npx',
      ['-y', packageManager, 'pack', '--json', '--pack-destination', made],
      join(root, 'packages', name),
    )
    const { filename, files } = JSON.parse(packed.slice(packed.indexOf('{')))
    const archive = filename.startsWith('/') ? filename : join(made, filename)
    archives.set(name, archive)
    const stray = files.filter(
      ({ path }) => !/^(dist\/|proto\/|vectors\/|package\.json$|README\.md$|LICENSE$)/.test(path),
    )
    if (stray.length > 0) throw new Error(`${name} packs ${stray.map(({ path }) => path).join(', ')}`)
    await command(process.execPath, [binOf('publint', 'src/cli.js'), 'run', archive, '--strict'], root)
    await command(
      process.execPath,
      [binOf('@arethetypeswrong/cli', 'dist/index.js'), archive, '--profile', 'esm-only', '--no-emoji'],
      root,
    )
    say(`${name}: ${files.length} files, publint and attw have nothing to say`)
  }

  const app = join(folder, 'app')
  await cp(join(root, 'scripts/downstream'), app, { recursive: true })
  const dependencies = Object.fromEntries(
    [...archives].map(([name, archive]) => [`@seamline/${name}`, `file:${archive}`]),
  )
  await writeFile(
    join(app, 'package.json'),
    JSON.stringify({
      ...{ name: 'downstream', private: true, type: 'module', dependencies },
      devDependencies: {
        typescript: devDependencies.typescript,
        '@types/node': devDependencies['@types/node'],
      },
    }),
  )
  await command('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=optional'], app)
  // typescript's own binary for this platform is an optional dependency of it.
  await command(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', app], app)
  say('installed with npm and type-checked')
  process.stdout.write(await command(process.execPath, ['out/main.js'], app))
  await command(process.execPath, ['--test', 'out/conformance.test.js'], app)
  say('the conformance suites pass under node:test')
} finally {
  await rm(folder, { recursive: true, force: true })
}
