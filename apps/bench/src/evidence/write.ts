import { copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import { SeamError } from '@seamline/core'
import { modelDir } from 'seamline/profile'
import type { Context } from '../command.ts'
import { derivedJson } from '../session/canonical.ts'
import { analyserSha256 } from './analyser.ts'
import { type Artifact, parseArtifacts } from './artifacts.ts'
import { readBundle } from './bundle.ts'
import { writeChange } from './change.ts'
import { type Derivation, derivations } from './derivations.ts'
import { deriveAll, readFacts } from './facts.ts'
import { fileSha256, listFiles, parseJson, put, readOptional, readText } from './files.ts'
import { findArtifacts } from './find-artifacts.ts'
import { isRaw, written } from './layout.ts'
import { located, neutral } from './paths.ts'
import { problems } from './problems.ts'
import { readmeOf } from './readme.ts'
import { recordCommands } from './recorded-commands.ts'
import { parseSpec, type Spec } from './spec.ts'
import { predicateOf, predicateType, type Statement, statementType } from './statement.ts'

export interface WriteOptions {
  /** Runs commands again whose outputs lie in the bundle. */
  readonly rerun?: boolean
  readonly derivations?: readonly Derivation[]
}

/**
 * Makes the bundle of `dir` anew from the four files in it that are written by hand, and from the sessions that `spec.json` names; a
 * session that is no longer where it says is taken from the bundle as it was. The folder changes at once and only when all went well.
 * Throws `FILE` or `USAGE` for what is missing or wrong, `LIMIT` naming the file for what is too large.
 */
export async function writeBundle(context: Context, dir: string, options: WriteOptions = {}): Promise<void> {
  const { ui, signal } = context
  const list = options.derivations ?? derivations
  const spec = parseSpec(parseJson(await readText(dir, 'spec.json'), 'spec.json'))
  const partial = `${dir.replace(/\/$/, '')}.partial`
  await rm(partial, { recursive: true, force: true })
  try {
    await mkdir(partial, { recursive: true })
    for (const name of written) {
      const content = await readOptional(dir, name)
      if (content !== null) await writeFile(join(partial, name), content)
    }
    for (const session of spec.sessions) {
      signal.throwIfAborted()
      ui.progress(`copying session ${session.name}`)
      await copySession(session.path, dir, join(partial, 'sessions', session.name), session.name)
    }
    await copyNamed(spec, dir, partial)
    if (spec.base !== null && spec.head !== null) await writeChange(spec.base, spec.head, dir, partial)
    await recordCommands(context, spec, dir, partial, options.rerun === true)

    ui.progress('deriving')
    const found = problems()
    const raw = await readBundle(partial, await listFiles(partial, found), found)
    refuse(found.found)
    if (raw!.lock !== null) await requireAllSessions(raw!.lock.lockId, spec)
    const known = await readOptional(dir, 'artifacts.json')
    const before: Artifact[] = known === null ? [] : parseArtifacts(parseJson(known, 'artifacts.json'))
    const artifacts = await findArtifacts(raw!, dir, before)
    await put(partial, 'artifacts.json', derivedJson(artifacts))
    const bundle = { ...raw!, artifacts }
    const derived = deriveAll(bundle, list)
    for (const [path, content] of derived.files) {
      await put(partial, path, path.endsWith('.gz') ? await packed(content) : content)
    }
    const facts = await readFacts(partial, await listFiles(partial, found), bundle, derived)
    await put(partial, 'README.md', readmeOf(await readText(partial, 'README.tmpl.md'), facts))

    const files = await listFiles(partial, found)
    refuse(found.found)
    const statement: Statement = {
      ...{ _type: statementType, predicateType },
      subject: await Promise.all(
        files.map(async ({ path }) => ({
          name: path,
          digest: { sha256: await fileSha256(join(partial, path)) },
        })),
      ),
      predicate: predicateOf(bundle, await analyserSha256(list)),
    }
    await put(partial, 'bundle.json', derivedJson(statement))
    signal.throwIfAborted()
    await replace(dir, partial)
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}

/** The first problem is thrown; a bundle that could not be verified is not written. */
function refuse(
  found: readonly { readonly code: string; readonly file: string; readonly message: string }[],
): void {
  const [first] = found
  if (first === undefined) return
  const more = found.length === 1 ? '' : `, and ${found.length - 1} more`
  throw new SeamError(first.code === 'SIZE' ? 'LIMIT' : 'USAGE', `${first.file}: ${first.message}${more}`)
}

/** Raw files as they are; in JSON real paths become neutral ones. */
async function copySession(path: string, dir: string, to: string, name: string): Promise<void> {
  const given = located(path, dir)
  const kept = join(dir, 'sessions', name)
  const from = (await isFolder(given)) ? given : kept
  if (!(await isFolder(from)))
    throw new SeamError('FILE', `session ${name}: ${path} is not there, nor is it in the bundle`)
  const found = problems()
  const files = await listFiles(from, found)
  for (const { path } of files) {
    if (!isRaw(path)) continue
    const target = join(to, path)
    await mkdir(dirname(target), { recursive: true })
    if (path.endsWith('.json')) await writeFile(target, neutral(await readText(from, path)))
    else await copyFile(join(from, path), target)
  }
  await mkdir(join(to, 'runs'), { recursive: true })
}

async function copyNamed(spec: Spec, dir: string, partial: string): Promise<void> {
  for (const [name, path] of [
    ['lock.json', spec.lock],
    ['plan.json', spec.plan],
    ['scenario.json', spec.scenario],
  ] as const) {
    if (path === null) continue
    const given = await readFile(located(path, dir), 'utf8').catch(() => undefined)
    // As they are: an order may follow from that of their fields.
    await put(partial, name, neutral(given ?? (await readText(dir, name))))
  }
  if (spec.report !== null) {
    const given = await readFile(located(spec.report, dir), 'utf8').catch(() => undefined)
    await put(partial, 'report.html', neutral(given ?? (await readText(dir, 'report.html'))))
  }
}

/** Sessions under a lock are all told, those that were lost too. */
async function requireAllSessions(lockId: string, { sessions }: Spec): Promise<void> {
  const place = join(modelDir(), 'sessions', lockId.slice(0, 8))
  const told = new Set(sessions.map(({ path }) => basename(path)))
  const untold = (await readdir(place).catch(() => [])).filter((name) => !told.has(name)).sort()
  if (untold.length === 0) return
  throw new SeamError(
    'USAGE',
    `spec.sessions: ${untold.length} sessions under the lock are not in it, ${untold[0]} first: name them, with the reason as lost`,
  )
}

async function replace(dir: string, partial: string): Promise<void> {
  const old = `${dir.replace(/\/$/, '')}.old`
  await rm(old, { recursive: true, force: true })
  await rename(dir, old)
  await rename(partial, dir)
  await rm(old, { recursive: true, force: true })
}

function packed(content: string): Promise<Buffer> {
  return promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION })
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}
