import { type ChildProcess, spawn } from 'node:child_process'
import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SeamError } from '@seamline/core'
import type { Context } from '../command.ts'
import { readEnvironment } from '../environment.ts'
import { ExitCode } from '../exit-codes.ts'
import { rootDir } from '../root.ts'
import { sha256 } from './canonical.ts'
import { type Cell, cellLabel } from './cell.ts'
import type { RunRecord } from './record.ts'
import type { Build, PlannedRun, Session, SessionPlan } from './session.ts'
import { runDir, writeRecord, writeSession } from './store.ts'

/** A checkout that has been built, and what it was built from. */
export interface BuildPlace {
  readonly root: string
  readonly build: Build
}

/** A run that takes longer than this is stuck. */
const runLimitMs = 15 * 60_000
const endMs = 15_000
const lastBytes = 2000
const lastLineCount = 8

/**
 * Makes all runs of a plan in their order, each in fresh processes of the build it names, into a folder that must not exist. A run that
 * fails is recorded with its reason and the session goes on. An interruption marks the session `cut` and rejects with its reason.
 */
export async function runSession(
  context: Context,
  dir: string,
  plan: SessionPlan,
  places: Readonly<Record<string, BuildPlace>>,
): Promise<Session> {
  if (await stat(join(dir, 'session.json')).catch(() => undefined))
    throw new SeamError('USAGE', `${dir} already holds a session; give another folder`)
  checkPlan(plan, places)
  const session: Session = {
    plan,
    builds: Object.fromEntries(Object.entries(places).map(([name, { build }]) => [name, build])),
    environment: await readEnvironment(),
    startedAt: new Date().toISOString(),
    ...{ endedAt: null, outcome: 'running', reason: null },
  }
  await writeSession(dir, session)
  const end = async (outcome: 'done' | 'cut', reason: string | null) => {
    const ended = { ...session, endedAt: new Date().toISOString(), outcome, reason }
    await writeSession(dir, ended)
    return ended
  }
  const startedMs = performance.now()
  try {
    for (const [done, run] of plan.runs.entries()) {
      const cell = plan.cells[run.cell]!
      const left = done === 0 ? '' : `, ${etaText(startedMs, done, plan.runs.length)} left`
      context.ui.progress(`run ${done + 1} of ${plan.runs.length}${left}: ${run.arm}, ${cellLabel(cell)}`)
      if (plan.cooldownMs > 0) await sleep(plan.cooldownMs, undefined, { signal: context.signal })
      await makeRun(context, dir, run, cell, places[run.build]!)
      context.ui.record({ type: 'run', ...run, of: plan.runs.length })
    }
  } catch (error) {
    const reason = context.signal.aborted ? context.signal.reason : error
    await end('cut', SeamError.from(reason, 'ABORTED').message)
    throw reason
  }
  return end('done', null)
}

function checkPlan({ runs, cells }: SessionPlan, places: Readonly<Record<string, BuildPlace>>): void {
  for (const [i, run] of runs.entries()) {
    if (run.number !== i + 1)
      throw new SeamError('USAGE', `run ${i + 1} of the plan has the number ${run.number}`)
    if (cells[run.cell] === undefined)
      throw new SeamError('USAGE', `run ${run.number} names no cell of the plan: ${run.cell}`)
    if (places[run.build] === undefined)
      throw new SeamError('USAGE', `run ${run.number} names no build: ${run.build}`)
  }
}

async function makeRun(
  { ui, signal }: Context,
  dir: string,
  run: PlannedRun,
  cell: Cell,
  { root }: BuildPlace,
): Promise<void> {
  const out = runDir(dir, run.number)
  const startedAt = new Date().toISOString()
  const bin = join(root, 'apps', 'bench', 'dist', 'bin.js')
  const child = spawn(process.execPath, [bin, 'record', '--cell', JSON.stringify(cell), '--out', out], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.setEncoding('utf8')
  child.stderr.on('data', (text: string) => {
    said = (said + text).slice(-lastBytes)
  })
  const { code, how } = await ended(child, signal)
  signal.throwIfAborted()
  if (code === ExitCode.INTERRUPTED) throw new SeamError('ABORTED', 'interrupted')
  const written = await readFile(join(out, 'run.json'), 'utf8').catch(() => undefined)
  if (written === undefined) {
    await rm(`${out}.partial`, { recursive: true, force: true })
    await writeRecord(out, await failed(cell, startedAt, `${how}: ${lastLines(said)}`))
    ui.note(`run ${run.number} left no record: ${how}: ${lastLines(said)}`)
  } else {
    const { status, reason } = JSON.parse(written) as RunRecord
    if (status === 'failed') ui.note(`run ${run.number} failed: ${reason}`)
  }
}

async function failed(cell: Cell, startedAt: string, reason: string): Promise<RunRecord> {
  return {
    ...({ format: 'seamline-run/1', cell, status: 'failed', reason, startedAt } as const),
    endedAt: new Date().toISOString(),
    environment: await readEnvironment(),
    ...{ guards: null, micro: null, external: null, hasTrace: false },
  }
}

/** Waits for the end of a process; an interruption and the limit end it, by force where it does not tidy up in time. */
function ended(
  child: ChildProcess,
  signal: AbortSignal,
): Promise<{ readonly code: number | null; readonly how: string }> {
  return new Promise((resolve) => {
    let late = ''
    let force: NodeJS.Timeout | undefined
    const stop = () => {
      child.kill('SIGTERM')
      force ??= setTimeout(() => child.kill('SIGKILL'), endMs)
    }
    const limit = setTimeout(() => {
      late = `no end within ${runLimitMs / 1000} s, `
      stop()
    }, runLimitMs)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const finish = (code: number | null, how: string) => {
      clearTimeout(limit)
      clearTimeout(force)
      signal.removeEventListener('abort', stop)
      resolve({ code, how: `${late}${how}` })
    }
    child.once('error', (error) => finish(null, error.message))
    child.once('close', (code, by) => finish(code, by === null ? `exit status ${code}` : `ended by ${by}`))
  })
}

function etaText(startedMs: number, done: number, all: number): string {
  const seconds = Math.ceil(((performance.now() - startedMs) / done / 1000) * (all - done))
  return seconds < 120 ? `about ${seconds} s` : `about ${Math.ceil(seconds / 60)} min`
}

/** The checkout that this code runs from. */
export async function thisBuild(): Promise<BuildPlace> {
  const root = rootDir
  const { commit, dirty } = await readEnvironment()
  return {
    root,
    build: { commit: commit ?? 'not recorded', dirty: dirty ?? true, distSha256: await distSha256(root) },
  }
}

/** See {@link Build.distSha256}. Source maps and build notes name paths and times, and count for nothing at run time. */
export async function distSha256(root: string): Promise<string> {
  const lines: string[] = []
  for (const kind of ['packages', 'apps']) {
    for (const name of (await readdir(join(root, kind))).sort()) {
      const dist = join(root, kind, name, 'dist')
      const files = await readdir(dist, { recursive: true, withFileTypes: true }).catch(() => [])
      for (const file of files) {
        if (
          !file.isFile() ||
          !/\.(js|wasm|node)$/.test(file.name) ||
          relative(dist, file.parentPath).includes('build')
        )
          continue
        const path = join(file.parentPath, file.name)
        lines.push(`${relative(root, path)} ${sha256(await readFile(path))}`)
      }
    }
  }
  return sha256(lines.sort().join('\n'))
}

function lastLines(said: string): string {
  return said.trim().split('\n').slice(-lastLineCount).join('\n') || 'it said nothing'
}
