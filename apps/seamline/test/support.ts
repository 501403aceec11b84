import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach } from 'vitest'

const here = dirname(fileURLToPath(import.meta.url))
export const BIN = join(here, '../dist/bin.js')
const EXIT_TIMEOUT_MS = 50_000

/** A small trained model; the tests that want one skip, saying so, where it is absent. */
export const STORIES =
  process.env.SEAMLINE_TEST_MODEL ?? join(here, '../../../../shared/models/stories260K.gguf')
export const hasStories = existsSync(STORIES)
if (!hasStories) console.warn(`${STORIES} is absent: tests on a trained model are skipped`)

/** A folder for this file's models and splits, removed afterwards. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-test-'))
  process.env.SEAMLINE_MODEL_DIR = folder
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly pid: number
  /** Standard output so far. */
  readonly stdout: () => string
  /** Resolves once standard output has at least this many characters; rejects when the process ends before. */
  output(characters: number): Promise<void>
  kill(signal: NodeJS.Signals): void
  readonly finished: Promise<Finished>
}

/** Starts the command line as its users do. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  return startNode([BIN, ...args], env)
}

/** Runs the command line to its end. */
export function seamline(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  return start(args, env).finished
}

const children = new Set<ChildProcess>()
// What a failed test has not ended itself.
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
})

export function startNode(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeoutMs = EXIT_TIMEOUT_MS,
): Running {
  return startCommand(process.execPath, args, env, timeoutMs)
}

/** Starts any program. */
export function startCommand(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeoutMs = EXIT_TIMEOUT_MS,
): Running {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  children.add(child)
  let stdout = ''
  let stderr = ''
  let check = () => {}
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    check()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
  const finished = new Promise<Finished>((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      children.delete(child)
      resolve({ code, signal, stdout, stderr })
    })
  })
  return {
    pid: child.pid!,
    stdout: () => stdout,
    output: (characters) =>
      new Promise((resolve, reject) => {
        check = () => {
          if (stdout.length >= characters) resolve()
        }
        check()
        finished.then(() => reject(new Error(`ended after ${stdout.length} characters: ${stderr}`)))
      }),
    kill: (signal) => child.kill(signal),
    finished,
  }
}

/** Processes whose parent is `pid`, by start. Linux only. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => parentOf(name) === pid)
    .map(Number)
    .sort((a, b) => a - b)
}

function parentOf(pid: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return undefined // it has just ended
  }
}

/** Resolves once none of the processes is left; rejects when that takes longer than `withinMs`. */
export async function gone(pids: readonly number[], withinMs: number): Promise<void> {
  const deadline = Date.now() + withinMs
  for (;;) {
    const left = pids.filter(isRunning)
    if (left.length === 0) return
    if (Date.now() > deadline) throw new Error(`processes ${left.join(', ')} are still there`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
