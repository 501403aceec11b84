import { writeFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { modelDir } from 'seamline/profile'
import { type Context, command, wholeNumber } from '../command.ts'
import { buildOf, builtIn, changedFiles, commitOf, descends } from '../compare/builds.ts'
import { type Comparison, comparisonOf } from '../compare/comparison.ts'
import { type Lock, outsideOf, readLock } from '../compare/lock.ts'
import { planOf } from '../compare/plan.ts'
import { comparisonText } from '../compare/print.ts'
import { closedBy, quickId, quickLock } from '../compare/quick.ts'
import { type SessionUnder, sessionsIn } from '../compare/sessions.ts'
import { analyserSha256 } from '../evidence/analyser.ts'
import { neutral } from '../evidence/paths.ts'
import { ExitCode } from '../exit-codes.ts'
import { comparisonPage } from '../page/comparison-page.ts'
import { derivedJson } from '../session/canonical.ts'
import type { MicroCell } from '../session/cell.ts'
import { type BuildPlace, runSession } from '../session/run-session.ts'
import { readSession, type StoredSession } from '../session/store.ts'

interface CompareOptions {
  readonly lock?: string
  readonly micro?: string
  readonly pairs: number
  readonly time: number
  readonly base?: string
  readonly head?: string
  readonly baseDir?: string
  readonly headDir?: string
  readonly read?: string
  readonly list?: boolean
  readonly sessions?: string
}

/** Where sessions of a lock are kept, also those that were lost. */
export function sessionsOf(lock: Lock, folder = join(modelDir(), 'sessions')): string {
  return join(folder, lock.lockId === quickId ? 'quick' : lock.lockId.slice(0, 8))
}

export function compareCommand(): Command {
  return command<CompareOptions>(
    'compare',
    'Compare two revisions by a lock: fresh processes in pairs, as many as the lock says.',
    compare,
  )
    .option('--lock <file>', 'the lock')
    .option('--base <revision>', 'the revision before the change')
    .option(
      '--head <revision>',
      'the revision with it; the same as the base to see how they differ by chance',
    )
    .option('--base-dir <dir>', 'instead of --base: a checkout that is built; never evidence')
    .option('--head-dir <dir>', 'instead of --head: a checkout that is built; never evidence')
    .option('--read <dir>', 'say again what a session on disk says, and run nothing')
    .option('--list', 'all sessions under this lock with what they say')
    .option('--sessions <dir>', 'where sessions are kept (default: sessions below the folder of models)')
    .option('--micro <id>', 'instead of --lock, for a quick look: one case; never evidence')
    .option('--pairs <n>', 'pairs of a quick look', wholeNumber(6, 200), 12)
    .option('--time <ms>', 'time of the case in each run of a quick look', wholeNumber(10, 600_000), 200)
}

async function compare(context: Context, options: CompareOptions): Promise<ExitCode> {
  if ((options.lock === undefined) === (options.micro === undefined))
    throw new SeamError('USAGE', 'give --lock FILE, or --micro ID for a quick look')
  if (options.micro !== undefined) return look(context, options.micro, options)
  const { ui } = context
  const file = options.lock!
  const lock = await readLock(file)
  if (options.list === true) return list(context, lock, options.sessions)
  const dir = options.read ?? (await measure(context, lock, options))
  const stored = await readSession(dir)
  const comparison = comparisonOf(lock, stored)
  await writeFile(join(dir, 'comparison.json'), derivedJson(comparison))
  await writeFile(join(dir, 'report.html'), await report(file, options.sessions, lock, stored, comparison))
  ui.record({ type: 'comparison', dir, ...comparison })
  ui.print(comparisonText(comparison))
  ui.print(`\nkept in ${dir}, with report.html`)
  return exitCodeOf(comparison)
}

/** One case, with nothing fixed beforehand. */
async function look(context: Context, id: string, options: CompareOptions): Promise<ExitCode> {
  const { ui } = context
  if (options.list === true) throw new SeamError('USAGE', '--list is of a lock: give --lock FILE')
  const cell: MicroCell = { kind: 'micro', id, timeMs: options.time }
  const open = quickLock(cell, options.pairs)
  const dir = options.read ?? (await runs(context, open, await placesOf(context, options), options.sessions))
  const stored = await readSession(dir)
  const comparison = comparisonOf(closedBy(open, stored), stored)
  ui.record({ type: 'look', dir, ...comparison })
  ui.print(comparisonText(comparison))
  ui.print(`\n${open.lockId}; kept in ${dir}`)
  return exitCodeOf(comparison)
}

/** Builds both revisions and makes the runs; returns the folder of the session. */
async function measure(context: Context, lock: Lock, options: CompareOptions): Promise<string> {
  const found = await analyserSha256()
  if (found !== lock.analyserSha256)
    throw new SeamError(
      'MISMATCH',
      `the lock was made for the analyser ${lock.analyserSha256.slice(0, 12)}, this one is ${found.slice(0, 12)}: make a new lock`,
    )
  return runs(context, lock, await placesOf(context, options, lock), options.sessions)
}

async function runs(
  context: Context,
  lock: Lock,
  places: Readonly<Record<string, BuildPlace>>,
  folder: string | undefined,
): Promise<string> {
  const at = new Date().toISOString().replaceAll(':', '-')
  const dir = join(sessionsOf(lock, folder), at)
  const plan = planOf(lock)
  context.ui.note(`${plan.runs.length} runs, into ${dir}`)
  await runSession(context, dir, plan, places)
  return dir
}

/** Builds of both revisions, which must be what the lock allows; or what somebody else has built. */
async function placesOf(
  context: Context,
  options: CompareOptions,
  lock?: Lock,
): Promise<Record<string, BuildPlace>> {
  const { base, head, baseDir, headDir } = options
  if (baseDir !== undefined && headDir !== undefined && base === undefined && head === undefined) {
    const before = await builtIn(baseDir)
    return { base: before, copy: before, head: await builtIn(headDir) }
  }
  if (base === undefined || head === undefined || baseDir !== undefined || headDir !== undefined)
    throw new SeamError(
      'USAGE',
      'give --base REVISION and --head REVISION, or --base-dir DIR and --head-dir DIR, or --read DIR',
    )
  const [before, after] = await Promise.all([commitOf(base), commitOf(head)])
  if (lock !== undefined) await checkChange(lock, before, after)
  return {
    base: await buildOf(context, before),
    copy: await buildOf(context, before, '-copy'),
    head: await buildOf(context, after),
  }
}

/** The change must be later than the lock, and may touch what the lock allows and nothing else. */
export async function checkChange(lock: Lock, base: string, head: string): Promise<void> {
  for (const commit of new Set([base, head])) {
    if (!(await descends(commit, lock.commit)))
      throw new SeamError(
        'MISMATCH',
        `the lock was made at ${lock.commit.slice(0, 12)}, which is not in the history of ${commit.slice(0, 12)}: a change comes after its lock`,
      )
  }
  const outside = outsideOf(lock, await changedFiles(base, head))
  if (outside.length === 0) return
  throw new SeamError(
    'MISMATCH',
    `${outside.length} files differ outside of ${lock.hypothesis.allowedPaths.join(', ')}: ${outside.slice(0, 5).join(', ')}`,
  )
}

/** The page of a session, with all others under the lock; it holds no path of this machine. */
async function report(
  file: string,
  folder: string | undefined,
  lock: Lock,
  stored: StoredSession,
  comparison: Comparison,
): Promise<string> {
  const { builds, startedAt } = stored.session
  const name = basename(resolve(stored.dir))
  const own: SessionUnder = { name, startedAt, builds, comparison, problem: null }
  const others = await sessionsIn(lock, sessionsOf(lock, folder))
  const sessions = others.some((each) => each.name === name) ? others : [...others, own]
  const command = ['pnpm', 'bench', 'compare', '--lock', neutral(resolve(file))]
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
