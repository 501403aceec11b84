import { readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Build } from '../session/session.ts'
import { readSession } from '../session/store.ts'
import { type Comparison, comparisonOf } from './comparison.ts'
import type { Lock } from './lock.ts'

/** A session made by a lock, with what it says now. */
export interface SessionUnder {
  readonly name: string
  readonly startedAt: string | null
  readonly builds: Readonly<Record<string, Build>>
  /** Null where it cannot be read. */
  readonly comparison: Comparison | null
  readonly problem: string | null
}

/** All sessions of `folder` in the order of their names, also those that were lost or cannot be read. None where there is no such folder. */
export async function sessionsIn(lock: Lock, folder: string): Promise<SessionUnder[]> {
  const names = (await readdir(folder).catch(() => [])).sort()
  const found: SessionUnder[] = []
  // One after the other: each holds all spans of its runs.
  for (const name of names) found.push(await sessionAt(lock, join(folder, name)))
  return found
}

async function sessionAt(lock: Lock, dir: string): Promise<SessionUnder> {
  const name = basename(dir)
  try {
    const stored = await readSession(dir)
    const { startedAt, builds } = stored.session
    return { name, startedAt, builds, comparison: comparisonOf(lock, stored), problem: null }
  } catch (error) {
    const problem = SeamError.from(error, 'FILE').message.replaceAll(dirname(dir), '…')
    return { name, startedAt: null, builds: {}, comparison: null, problem }
  }
}
