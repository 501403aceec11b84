// Builds the native addon into dist/native/stage.node. Needs git, CMake, make or Ninja and a C++17 compiler, and
// says which is missing; needs none of them, and compiles nothing, where the package holds a prebuilt addon for this
// platform. Run after `tsc -b`. Does nothing where nothing changed.
//   --test      also runs CTest
//   --sanitize  builds with AddressSanitizer and UBSan into a tree of its own instead, and runs CTest and
//               scripts/smoke.mjs there; with --test or --prebuild it does both
//   --prebuild  writes the addon to prebuilds/ for the package to ship
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const source = join(root, 'native')
const require = createRequire(import.meta.url)
const compilers = process.env.CXX === undefined ? ['c++', 'g++', 'clang++'] : [process.env.CXX]
const wants = (option) => process.argv.includes(option)

function fail(...lines) {
  for (const line of lines) console.error(`build-native: ${line}`)
  process.exit(1)
}

function found(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0
}

/** Runs quietly; shows everything when it fails. */
function run(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) {
    process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`)
    fail(`failed: ${command} ${args.join(' ')}${error ? ` (${error.message})` : ''}`)
  }
  return stdout
}

/** Shows what it does and ends this process when it fails. */
function show(command, args, env = {}) {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  if (status !== 0) process.exit(status ?? 1)
}

function checkTools() {
  if (process.platform === 'win32') fail('the addon builds on Linux and macOS; on Windows use WSL')
  const missing = [
    ['git', found('git')],
    ['CMake', found('cmake')],
    ['Ninja or make', found('ninja') || found('make')],
    [`a C++17 compiler (${compilers.join(', ')})`, compilers.some(found)],
  ].flatMap(([name, present]) => (present ? [] : [name]))
  if (missing.length === 0) return
  fail(
    `missing: ${missing.join('; ')}`,
    'Debian or Ubuntu: apt-get install git cmake make g++',
    'Fedora: dnf install git cmake make gcc-c++',
    'macOS: xcode-select --install, then brew install cmake',
    `or, without them, a prebuilt addon, which is not here: ${prebuild().obstacle}`,
    'published packages bring it; in a checkout, `npm run build:prebuilt` writes it on a machine that has the tools',
  )
}

/** Configures, where something changed, and builds; returns the build tree. */
function compile(name, sanitize) {
  const build = join(root, 'dist', 'native', name)
  const recorded = join(build, 'configured.json')
  const definitions = {
    LLAMA_BUNDLE: join(dirname(nodeLlamaCpp()), '..', 'llama', 'gitRelease.bundle'),
    LLAMA_RELEASE: llamaRelease(),
    NODE_API_INCLUDE: require('node-api-headers').include_dir,
    NODE_ADDON_API_INCLUDE: dirname(require.resolve('node-addon-api')),
    LLAMA_LIBS: findLibraries(),
    SEAMLINE_SANITIZE: sanitize,
  }
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
  return build
}

function test(build) {
  show('ctest', ['--test-dir', build, '--output-on-failure'])
}

/** Runs the sanitised addon inside a Node that is not: the runtime of the sanitizers has to be there first. */
function smoke(build) {
  if (process.platform !== 'linux') return
  const library = run(compilers.find(found), ['-print-file-name=libasan.so']).trim()
  if (!existsSync(library)) fail(`the compiler has no libasan.so for Node to load first; use g++ (CXX=g++)`)
  show(process.execPath, [join(root, 'scripts', 'smoke.mjs')], {
    LD_PRELOAD: library,
    ASAN_OPTIONS: 'detect_leaks=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
    SEAMLINE_LLAMA_ADDON: join(build, 'stage.node'),
  })
}

const load = (name) => import(`../dist/${name}.js`).catch(() => fail('run `tsc -b` in packages/llama first'))
const { findLibraries, llamaRelease, nodeLlamaCpp } = await load('libraries')
const { builtAddon, prebuild } = await load('prebuild')

const compiling = ['--test', '--sanitize', '--prebuild'].some(wants)
if (!compiling && prebuild().obstacle === null) {
  console.log(`build-native: nothing compiled, ${prebuild().path} is used; remove it to build here`)
  process.exit(0)
}

checkTools()
if (wants('--sanitize')) {
  const build = compile('build-asan', 'address,undefined')
  test(build)
  smoke(build)
}
if (!wants('--sanitize') || wants('--test') || wants('--prebuild')) {
  const build = compile('build', '')
  // The addon is copied only when it changed, so that what depends on its time stamp does not run again.
  const addon = join(build, 'stage.node')
  if (!existsSync(builtAddon) || statSync(builtAddon).mtimeMs < statSync(addon).mtimeMs) {
    copyFileSync(addon, builtAddon)
  }
  if (wants('--test')) test(build)
}
if (wants('--prebuild')) {
  const { path } = prebuild()
  const { napi, release } = require(builtAddon)
  mkdirSync(dirname(path), { recursive: true })
  copyFileSync(builtAddon, path)
  writeFileSync(join(dirname(path), 'stage.json'), `${JSON.stringify({ napi, release })}\n`)
  console.log(`build-native: wrote ${path} for Node-API ${napi} and llama.cpp ${release}`)
}
