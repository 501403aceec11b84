import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { SeamError } from '@seamline/core'
import { modelDir } from 'seamline/profile'
import type { Context } from '../command.ts'
import { rootDir } from '../root.ts'
import { notRecorded } from '../session/guards.ts'
import { type BuildPlace, distSha256 } from '../session/run-session.ts'

const buildLimitMs = 20 * 60_000
const gitLimitMs = 60_000
/** Less than what a command may take to tidy up. */
const endMs = 5000
const lastLines = 12

/** What git prints in this repository. Rejects with `USAGE` and what git says. */
export async function git(...args: string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)('git', args, {
      ...{ cwd: rootDir, timeout: gitLimitMs, maxBuffer: 64 << 20 },
    })
    return stdout.trim()
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim() || (error as Error).message
    throw new SeamError('USAGE', `git ${args.join(' ')}: ${said}`)
  }
}

export async function commitOf(revision: string): Promise<string> {
  return git('rev-parse', '--verify', '--end-of-options', `${revision}^{commit}`)
}

/** Files that differ between two commits, as paths from the root. */
export async function changedFiles(base: string, head: string): Promise<string[]> {
  const names = await git('diff', '--name-only', '--no-renames', base, head, '--')
  return names === '' ? [] : names.split('\n')
}

/** Whether `commit` has everything that `earlier` has. */
export async function descends(commit: string, earlier: string): Promise<boolean> {
  return (await git('rev-list', '--max-count=1', `${commit}..${earlier}`, '--')) === ''
}

/** A checkout that somebody else has built: of which commit, nobody knows. */
export async function builtIn(dir: string): Promise<BuildPlace> {
  const root = resolve(dir)
  await stat(benchOf(root)).catch(() => {
    throw new SeamError('USAGE', `${dir} has no apps/bench/dist/bin.js: it is no checkout or was not built`)
  })
  return { root, build: { commit: notRecorded, dirty: true, distSha256: await distSha256(root) } }
}

/**
 * A checkout of `commit` of the repository `from` in the folder of models, installed and built; kept, so that a later call finds it. `copy`
 * names a second installation of the same build. Rejects with `EXECUTOR` and the last lines that the step which failed wrote, and leaves
 * nothing then.
 */
export async function buildOf(
  context: Context,
  commit: string,
  copy = '',
  from = rootDir,
): Promise<BuildPlace> {
  // No folder above may begin with `build`: the hash of what was built leaves such folders out.
  const folder = join(modelDir(), 'revisions')
  const root = join(folder, `${commit.slice(0, 12)}${copy}`)
  const mark = join(root, '.built')
  const known = await readFile(mark, 'utf8').catch(() => undefined)
  if (known !== commit) {
    await rm(root, { recursive: true, force: true })
    await mkdir(folder, { recursive: true })
    try {
      if (copy === '') await build(context, commit, root, from)
      else {
        const original = await buildOf(context, commit, '', from)
        context.ui.progress(`copying the build of ${commit.slice(0, 12)}`)
        await run(context, rootDir, ['cp', '-a', original.root, root])
      }
      await writeFile(mark, commit)
    } catch (error) {
      await rm(root, { recursive: true, force: true })
      throw error
    }
  }
  return { root, build: { commit, dirty: false, distSha256: await distSha256(root) } }
}

async function build(context: Context, commit: string, root: string, from: string): Promise<void> {
  const { ui } = context
  ui.progress(`checking out ${commit.slice(0, 12)}`)
  // A clone of its own rather than a worktree: it leaves nothing behind in this repository.
  await run(context, from, ['git', 'clone', '--quiet', '--shared', '--no-checkout', from, root])
  await run(context, root, ['git', 'checkout', '--quiet', '--detach', commit])
  const { packageManager } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    readonly packageManager: string
  }
  const pnpm = ['npx', '-y', packageManager]
  ui.progress(`installing ${commit.slice(0, 12)}`)
  await run(context, root, [...pnpm, 'install', '--frozen-lockfile', '--prefer-offline'])
  ui.progress(`building ${commit.slice(0, 12)}`)
  await run(context, root, [...pnpm, 'build'])
  await stat(benchOf(root)).catch(() => {
    throw new SeamError('USAGE', `${commit.slice(0, 12)} has no bench: it is older than what compares`)
  })
}

function benchOf(root: string): string {
  return join(root, 'apps', 'bench', 'dist', 'bin.js')
}

/** Runs to the end or rejects; an interruption ends it and all that it started. */
function run({ signal }: Context, cwd: string, [file, ...args]: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    // In a group of its own: what a package manager starts outlives it otherwise, and writes into a folder that is being removed.
    const child = spawn(file!, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    let said = ''
    let force: NodeJS.Timeout | undefined
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', (text: string) => {
        said = (said + text).slice(-8000)
      })
    }
    const stop = () => {
      endGroup(child, 'SIGTERM')
      force ??= setTimeout(() => endGroup(child, 'SIGKILL'), endMs)
    }
    const limit = setTimeout(() => {
      said += `\nno end within ${buildLimitMs / 60_000} min`
      stop()
    }, buildLimitMs)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const done = (failure: string | undefined) => {
      clearTimeout(limit)
      clearTimeout(force)
      signal.removeEventListener('abort', stop)
      if (signal.aborted) reject(signal.reason)
      else if (failure === undefined) resolve()
      else {
        const last = said.trim().split('\n').slice(-lastLines).join('\n')
        reject(new SeamError('EXECUTOR', `${file} ${args.join(' ')}: ${failure}\n${last}`))
      }
    }
    child.once('error', (error) => done(error.message))
    child.once('close', (code, by) => done(code === 0 ? undefined : `ended with ${code ?? by}`))
  })
}

function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // It has ended.
  }
}
