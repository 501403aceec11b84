import { type ChildProcess, spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'

const here = dirname(fileURLToPath(import.meta.url))
export const ROOT = join(here, '../..')
export const BIN = join(ROOT, 'dist/bin.js')
const EXIT_MS = 30_000

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  /** The first line of standard output; rejects when the process ends without one. */
  readonly ready: Promise<string>
  readonly finished: Promise<Finished>
  kill(signal: NodeJS.Signals): void
  write(text: string): void
  /** Ends the standard input of the process. */
  end(): void
}

const children = new Set<ChildProcess>()
// What a failed test has not ended itself.
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
})

/** Starts Node with `args`; killed after half a minute. */
export function start(args: readonly string[]): Running {
  const child = spawn(process.execPath, args, { stdio: 'pipe' })
  children.add(child)
  child.stdin.on('error', () => {})
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), EXIT_MS)
  const finished = new Promise<Finished>((resolve) => {
    child.once('close', (code) => {
      clearTimeout(timer)
      children.delete(child)
      resolve({ code, stdout, stderr })
    })
  })
  const ready = new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).once('line', resolve)
    void finished.then(({ code }) => reject(new Error(`ended with status ${code}: ${stdout}${stderr}`)))
  })
  ready.catch(() => {})
  return {
    ready,
    finished,
    kill: (signal) => void child.kill(signal),
    write: (text) => void child.stdin.write(text),
    end: () => void child.stdin.end(),
  }
}

/** Runs the command line to its end. */
export function tracker(...args: readonly string[]): Promise<Finished> {
  return start([BIN, ...args]).finished
}
