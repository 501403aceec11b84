import { execFile } from 'node:child_process'
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { availableParallelism, freemem, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { synthModel, synthPresets } from '@seamline/gguf'
import { startLocalWorkers } from '../cluster.ts'
import { type Context, command, integer } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { modelDir } from '../model-dir.ts'
import { bytes, table } from '../ui.ts'

interface DoctorOptions {
  readonly stages: number
  readonly threads: number
}

interface Check {
  readonly name: string
  readonly status: 'ok' | 'warning' | 'missing'
  readonly found: string
  /** What to do about it; empty when there is nothing to do. */
  readonly remedy: string
}

const run = promisify(execFile)
const TOOL_TIMEOUT_MS = 10_000
const get = (debian: string, fedora: string, mac: string) =>
  `Debian or Ubuntu: apt-get install ${debian}; Fedora: dnf install ${fedora}; macOS: ${mac}`
const XCODE = 'xcode-select --install'
const GET = {
  git: get('git', 'git', XCODE),
  cmake: get('cmake', 'cmake', 'brew install cmake'),
  make: get('make', 'make', XCODE),
  compiler: get('g++', 'gcc-c++', XCODE),
}
const MINIMUM_CMAKE = [3, 20] as const
const MINIMUM_NODE = [20, 19] as const

export function doctorCommand() {
  return command<DoctorOptions>('doctor', 'say what this machine lacks and how to get it', diagnose)
    .option('--stages <n>', 'stages you mean to run on this machine', integer(1), 3)
    .option('--threads <n>', 'compute threads of each stage', integer(1), 1)
}

async function diagnose({ ui }: Context, options: DoctorOptions): Promise<ExitCode> {
  ui.progress('checking')
  const { findAddon } = await import('@seamline/llama')
  const chosen = process.env.SEAMLINE_LLAMA_ADDON
  const checks = await Promise.all([
    nodeCheck(),
    // A chosen addon that is of no use is not mended by building one.
    ...toolChecks(isFound(findAddon) || isFound(() => findAddon(''))),
    librariesCheck(),
    addonCheck(findAddon, chosen),
    engineCheck(),
    coresCheck(options),
    memoryCheck(),
    modelDirCheck(),
  ])
  const marks = { ok: 'ok', warning: 'warn', missing: 'MISSING' }
  const rows = checks.map(({ name, status, found }) => [marks[status], name, found])
  ui.print(table(['', 'what', 'found'], rows))
  for (const { name, remedy } of checks) if (remedy !== '') ui.print(`\n${name}: ${remedy}`)
  const ready = checks.every(({ status }) => status !== 'missing')
  ui.print(ready ? '\nEverything that is needed is here.' : '\nSomething is missing, see above.')
  ui.result({ ready, checks })
  return ready ? ExitCode.OK : ExitCode.CHECK_FAILED
}

function nodeCheck(): Check {
  const found = process.versions.node
  const version = MINIMUM_NODE.join('.')
  const remedy = `version ${version} or later is needed: ${get('nodejs npm', 'nodejs', 'brew install node')}; where that is older: https://nodejs.org`
  return check('Node', found, isAtLeast(found, MINIMUM_NODE), remedy)
}

/** Asks each of the commands for its version and takes the first that answers. */
async function toolCheck(
  name: string,
  commands: readonly string[],
  install: string,
  minimum: readonly number[] = [],
): Promise<Check> {
  for (const tool of commands) {
    try {
      const { stdout } = await run(tool, ['--version'], { timeout: TOOL_TIMEOUT_MS })
      const version = stdout.split('\n')[0] ?? ''
      const wanted = `version ${minimum.join('.')} or later is needed: ${install}`
      return check(name, version, isAtLeast(/\d+(\.\d+)+/.exec(version)?.[0] ?? '', minimum), wanted)
    } catch {
      // Not here, or it does not run: the next one may.
    }
  }
  return check(name, 'not found', false, install)
}

/** What builds the addon; it is not missed where there is a usable one. */
export function toolChecks(hasAddon: boolean): Promise<Check>[] {
  const tools = [
    toolCheck('git', ['git'], GET.git),
    toolCheck('CMake', ['cmake'], GET.cmake, MINIMUM_CMAKE),
    toolCheck('make or Ninja', ['ninja', 'make'], GET.make),
    toolCheck('C++17 compiler', [process.env.CXX || 'c++', 'g++', 'clang++'], GET.compiler),
  ]
  return tools.map(async (checked): Promise<Check> => {
    const tool = await checked
    if (tool.status !== 'missing' || !hasAddon) return tool
    return { ...tool, status: 'ok', found: `${tool.found}; not needed: there is an addon`, remedy: '' }
  })
}

type FindAddon = typeof import('@seamline/llama').findAddon

function isFound(find: () => unknown): boolean {
  try {
    find()
    return true
  } catch {
    return false
  }
}

function addonCheck(find: FindAddon, chosen: string | undefined): Check {
  const name = 'addon'
  try {
    const { origin, path, obstacles } = find(chosen)
    return check(name, [`${origin}: ${path}`, ...obstacles].join('; passed over: '), true, '')
  } catch (error) {
    const remedy = chosen
      ? 'unset SEAMLINE_LLAMA_ADDON'
      : 'once git, CMake, make or Ninja and a C++17 compiler are here: pnpm --filter @seamline/llama build'
    return check(name, (error as Error).message, false, remedy)
  }
}

async function librariesCheck(): Promise<Check> {
  const name = 'llama.cpp libraries'
  const { findLibraries } = await import('@seamline/llama')
  try {
    return check(name, findLibraries(), true, '')
  } catch (error) {
    const remedy = `${(error as Error).message}; they come with node-llama-cpp: pnpm install, or name a folder in SEAMLINE_LLAMA_LIBS`
    return check(name, 'not found', false, remedy)
  }
}

/** Runs a worker on a tiny model: nothing less shows that addon, libraries and processes work together. */
async function engineCheck(): Promise<Check> {
  const name = 'a worker on llama.cpp'
  const folder = mkdtempSync(join(tmpdir(), 'seamline-doctor-'))
  try {
    const model = join(folder, 'tiny.gguf')
    await synthModel({
      ...synthPresets.demo,
      width: 64,
      heads: 2,
      kvHeads: 1,
      layers: 1,
      seed: 1,
      path: model,
    })
    const engine = {
      chunk: 8,
      ctx: 16,
      sequences: 1,
      threads: 1,
      flashAttn: 'on',
      regime: 'per-row',
    } as const
    const local = await startLocalWorkers({ stages: [{ model }], engine, startTimeoutMs: TOOL_TIMEOUT_MS })
    await local.close()
    const [worker] = local.workers
    return check(name, `${worker?.engine}, ${worker?.backend}`, true, '')
  } catch (error) {
    const remedy = 'once nothing above is missing: pnpm install && pnpm build'
    return check(name, (error as Error).message.split('\n')[0] ?? '', false, remedy)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function coresCheck({ stages, threads }: DoctorOptions): Check {
  const cores = availableParallelism()
  const found = `${cores} cores for ${stages} stages with ${threads} thread(s) each`
  const remedy =
    `${stages * threads} compute threads share ${cores} cores. Stages take turns on a single sequence, so this works, but a ` +
    'thread that waits in llama.cpp spins: give each stage one thread, or use fewer stages or more machines'
  return stages * threads <= cores
    ? check('cores', found, true, '')
    : { name: 'cores', status: 'warning', found, remedy }
}

function memoryCheck(): Check {
  return check('memory', `${bytes(freemem())} free of ${bytes(totalmem())}`, true, '')
}

async function modelDirCheck(): Promise<Check> {
  const folder = modelDir()
  const name = 'folder for split models'
  try {
    mkdirSync(folder, { recursive: true })
    accessSync(folder, constants.W_OK)
    const { bavail, bsize } = await statfs(folder)
    return check(name, `${folder}, ${bytes(bavail * bsize)} free`, true, '')
  } catch (error) {
    return check(name, (error as Error).message, false, 'set SEAMLINE_MODEL_DIR to a folder you may write to')
  }
}

function check(name: string, found: string, isOk: boolean, remedy: string): Check {
  return { name, status: isOk ? 'ok' : 'missing', found, remedy: isOk ? '' : remedy }
}

function isAtLeast(version: string, minimum: readonly number[]): boolean {
  const parts = version.split('.').map(Number)
  for (const [i, wanted] of minimum.entries()) {
    const part = parts[i] ?? 0
    if (part !== wanted) return part > wanted
  }
  return true
}
