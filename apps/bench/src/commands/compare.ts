import { writeFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import picomatch from 'picomatch'
import { modelDir } from 'seamline/profile'
import { type Context, command } from '../command.ts'
import { buildOf, changedFiles, commitOf } from '../compare/builds.ts'
import { type Comparison, comparisonOf } from '../compare/comparison.ts'
import { type Lock, readLock } from '../compare/lock.ts'
import { planOf } from '../compare/plan.ts'
import { comparisonText } from '../compare/print.ts'
import { type SessionUnder, sessionsIn } from '../compare/sessions.ts'
import { analyserSha256 } from '../evidence/analyser.ts'
import { neutral } from '../evidence/paths.ts'
import { ExitCode } from '../exit-codes.ts'
import { comparisonPage } from '../page/comparison-page.ts'
import { derivedJson } from '../session/canonical.ts'
import { type BuildPlace, runSession } from '../session/run-session.ts'
import { readSession, type StoredSession } from '../session/store.ts'

interface CompareOptions {
  readonly lock: string
  readonly base?: string
  readonly head?: string
  readonly read?: string
  readonly list?: boolean
  readonly sessions?: string
}

/** Where sessions of a lock are kept, also those that were lost. */
export function sessionsOf(lock: Lock, folder = join(modelDir(), 'sessions')): string {
  return join(folder, lock.lockId.slice(0, 8))
}

export function compareCommand(): Command {
  return command<CompareOptions>(
    'compare',
    'Compare two revisions by a lock: fresh processes in pairs, as many as the lock says.',
    compare,
  )
    .requiredOption('--lock <file>', 'the lock')
    .option('--base <revision>', 'the revision before the change')
    .option('--head <revision>', 'the revision with it')
    .option('--read <dir>', 'say again what a session on disk says, and run nothing')
    .option('--list', 'all sessions under this lock with what they say')
    .option('--sessions <dir>', 'where sessions are kept (default: sessions below the folder of models)')
}

async function compare(context: Context, options: CompareOptions): Promise<ExitCode> {
  const { ui } = context
  const lock = await readLock(options.lock)
  if (options.list === true) return list(context, lock, options.sessions)
  const dir = options.read ?? (await measure(context, lock, options))
  const stored = await readSession(dir)
  const comparison = comparisonOf(lock, stored)
  await writeFile(join(dir, 'comparison.json'), derivedJson(comparison))
  await writeFile(join(dir, 'report.html'), await report(options, lock, stored, comparison))
  ui.record({ type: 'comparison', dir, ...comparison })
  ui.print(comparisonText(comparison))
  ui.print(`\nkept in ${dir}, with report.html`)
  return exitCodeOf(comparison)
}

/** Builds both revisions and makes the runs; returns the folder of the session. */
async function measure(context: Context, lock: Lock, options: CompareOptions): Promise<string> {
  if (options.base === undefined || options.head === undefined)
    throw new SeamError('USAGE', 'give --base REVISION and --head REVISION, or --read DIR')
  const [base, head] = await Promise.all([commitOf(options.base), commitOf(options.head)])
  await checkChange(lock, base, head)
  const found = await analyserSha256()
  if (found !== lock.analyserSha256)
    throw new SeamError(
      'MISMATCH',
      `the lock was made for the analyser ${lock.analyserSha256.slice(0, 12)}, this one is ${found.slice(0, 12)}: make a new lock`,
    )
  const places: Record<string, BuildPlace> = {
    base: await buildOf(context, base),
    copy: await buildOf(context, base, '-copy'),
    head: await buildOf(context, head),
  }
  const at = new Date().toISOString().replaceAll(':', '-')
  const dir = join(sessionsOf(lock, options.sessions), at)
  const plan = planOf(lock)
  context.ui.note(`${plan.runs.length} runs, into ${dir}`)
  await runSession(context, dir, plan, places)
  return dir
}

/** A change may touch what the lock allows and nothing else. */
export async function checkChange(lock: Lock, base: string, head: string): Promise<void> {
  const isAllowed = picomatch([...lock.hypothesis.allowedPaths], { dot: true })
  const outside = (await changedFiles(base, head)).filter((path) => !isAllowed(path))
  if (outside.length === 0) return
  throw new SeamError(
    'MISMATCH',
    `${outside.length} files differ outside of ${lock.hypothesis.allowedPaths.join(', ')}: ${outside.slice(0, 5).join(', ')}`,
  )
}

/** The page of a session, with all others under the lock; it holds no path of this machine. */
async function report(
  options: CompareOptions,
  lock: Lock,
  stored: StoredSession,
  comparison: Comparison,
): Promise<string> {
  const { builds, startedAt } = stored.session
  const name = basename(resolve(stored.dir))
  const own: SessionUnder = { name, startedAt, builds, comparison, problem: null }
  const others = await sessionsIn(lock, sessionsOf(lock, options.sessions))
  const sessions = others.some((each) => each.name === name) ? others : [...others, own]
  const command = ['pnpm', 'bench', 'compare', '--lock', neutral(resolve(options.lock))]
  const revisions = ['base', 'head'].flatMap((build) => [`--${build}`, builds[build]?.commit ?? build])
  const commands = [
    [...command, ...revisions],
    [...command, '--read', neutral(resolve(stored.dir))],
  ]
  return neutral(comparisonPage({ lock, stored, comparison, sessions, name, commands }))
}

async function list({ ui }: Context, lock: Lock, folder: string | undefined): Promise<ExitCode> {
  for (const { name, startedAt, builds, comparison, problem } of await sessionsIn(
    lock,
    sessionsOf(lock, folder),
  )) {
    const verdict = comparison?.verdict ?? 'UNREADABLE'
    const reasons = comparison?.reasons ?? [problem]
    const primary = comparison?.rows[0] ?? null
    ui.record({ type: 'session', name, startedAt, builds, verdict, reasons, primary })
    const commits = ['base', 'head'].map((build) => builds[build]?.commit.slice(0, 12)).join(' to ')
    ui.print(`${name}  ${commits}  ${verdict}${reasons.length === 0 ? '' : `: ${reasons[0]}`}`)
  }
  return ExitCode.OK
}

function exitCodeOf({ verdict }: Comparison): ExitCode {
  return verdict === 'INVALID' || verdict === 'ENV-CHANGED' || verdict === 'REGRESSED'
    ? ExitCode.CHECK_FAILED
    : ExitCode.OK
}
