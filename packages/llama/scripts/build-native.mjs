// Builds the native addon into dist/native/stage.node; with --test it also runs CTest. Needs git, CMake, make
// or Ninja and a C++17 compiler, and says which is missing. Run after `tsc -b`. Does nothing where nothing
// changed.
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const source = join(root, 'native')
const out = join(root, 'dist', 'native')
const build = join(out, 'build')
const recorded = join(build, 'configured.json')

function fail(...lines) {
  for (const line of lines) console.error(`build-native: ${line}`)
  process.exit(1)
}

function found(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0
}

/** Runs quietly; shows everything when it fails. */
function run(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', ...options })
  if (status !== 0) {
    process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`)
    fail(`failed: ${command} ${args.join(' ')}${error ? ` (${error.message})` : ''}`)
  }
}

function configuration() {
  if (!existsSync(join(root, 'dist', 'libraries.js'))) fail('run `tsc -b` in packages/llama first')
  const require = createRequire(import.meta.url)
  const llama = join(dirname(require.resolve('node-llama-cpp')), '..', 'llama')
  const apiHeaders = require('node-api-headers')
  return {
    LLAMA_BUNDLE: join(llama, 'gitRelease.bundle'),
    LLAMA_RELEASE: JSON.parse(readFileSync(join(llama, 'llama.cpp.info.json'), 'utf8')).tag,
    NODE_API_INCLUDE: apiHeaders.include_dir,
    NODE_ADDON_API_INCLUDE: dirname(require.resolve('node-addon-api')),
  }
}

if (process.platform === 'win32') fail('the addon builds on Linux and macOS; on Windows use WSL')

const compilers = process.env.CXX === undefined ? ['c++', 'g++', 'clang++'] : [process.env.CXX]
const missing = [
  ['git', found('git')],
  ['CMake', found('cmake')],
  ['Ninja or make', found('ninja') || found('make')],
  [`a C++17 compiler (${compilers.join(', ')})`, compilers.some(found)],
].flatMap(([name, present]) => (present ? [] : [name]))
if (missing.length > 0) {
  fail(
    `missing: ${missing.join('; ')}`,
    'Debian or Ubuntu: apt-get install git cmake make g++',
    'Fedora: dnf install git cmake make gcc-c++',
    'macOS: xcode-select --install, then brew install cmake',
  )
}

const { findLibraries } = await import('../dist/libraries.js').catch(() =>
  fail('run `tsc -b` in packages/llama first'),
)
const definitions = { ...configuration(), LLAMA_LIBS: findLibraries() }
const generator = found('ninja') ? 'Ninja' : 'Unix Makefiles'
const wanted = JSON.stringify({ source, build, generator, definitions })
if (!existsSync(recorded) || readFileSync(recorded, 'utf8') !== wanted) {
  // Also after a restore from a cache into another folder, where CMake would refuse the old paths.
  rmSync(build, { recursive: true, force: true })
  mkdirSync(build, { recursive: true })
  const flags = Object.entries(definitions).map(([name, value]) => `-D${name}=${value}`)
  run('cmake', ['-S', source, '-B', build, '-G', generator, ...flags])
  writeFileSync(recorded, wanted)
}
run('cmake', ['--build', build, '--parallel', '2'])

// The addon is copied only when it changed, so that what depends on its time stamp does not run again.
const built = join(build, 'stage.node')
const addon = join(out, 'stage.node')
if (!existsSync(addon) || statSync(addon).mtimeMs < statSync(built).mtimeMs) copyFileSync(built, addon)

if (process.argv.includes('--test')) {
  const { status } = spawnSync('ctest', ['--test-dir', build, '--output-on-failure'], { stdio: 'inherit' })
  process.exit(status ?? 1)
}
