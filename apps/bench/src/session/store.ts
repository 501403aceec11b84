import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import { type RunTrace, readTrace, writeTrace } from '@seamline/profiler'
import { derivedJson } from './canonical.ts'
import { asObject, parseCell } from './cell.ts'
import type { RunRecord, StoredRecord } from './record.ts'
import type { Session } from './session.ts'

/** A session as it was read back. */
export interface StoredSession {
  readonly dir: string
  readonly session: Session
  /** By the number of the run; those that are missing are absent. */
  readonly records: ReadonlyMap<number, StoredRecord>
}

const mostBytes = 16 << 20
const mostRuns = 10_000

export function runDir(session: string, number: number): string {
  return join(session, 'runs', String(number).padStart(4, '0'))
}

/** Writes `run.json` and the trace beside it. The folder appears whole or not at all; it must not exist. */
export async function writeRecord(dir: string, record: RunRecord, trace?: RunTrace): Promise<void> {
  const partial = `${dir}.partial`
  await mkdir(partial, { recursive: true })
  if (trace !== undefined) await writeTrace(join(partial, 'trace'), trace)
  await writeFile(join(partial, 'run.json'), derivedJson(record))
  await rename(partial, dir)
}

/** Throws `FILE` where nothing is, `MISMATCH` for what is no record. */
export async function readRecord(dir: string): Promise<StoredRecord> {
  const record = (await readJson(join(dir, 'run.json'), 'seamline-run/1')) as unknown as RunRecord
  parseCell(record.cell, `${shortName(dir)}/run.json: cell`)
  if (record.status !== 'done' && record.status !== 'failed')
    throw new SeamError('MISMATCH', `${shortName(dir)}/run.json: status is neither done nor failed`)
  const trace = record.hasTrace ? await readTrace(join(dir, 'trace')) : undefined
  if (trace !== undefined && trace.losses.length > 0)
    throw new SeamError('MISMATCH', `${shortName(dir)}: the trace is not whole: ${trace.losses.join('; ')}`)
  return { ...record, trace }
}

export async function writeSession(dir: string, session: Session): Promise<void> {
  await mkdir(join(dir, 'runs'), { recursive: true })
  const file = join(dir, 'session.json')
  await writeFile(`${file}.partial`, derivedJson(session))
  await rename(`${file}.partial`, file)
}

/** Reads all runs that the plan names and that are there. Throws `FILE` or `MISMATCH` for what cannot be read. */
export async function readSession(dir: string): Promise<StoredSession> {
  const session = (await readJson(join(dir, 'session.json'), undefined)) as unknown as Session
  const plan = asObject(session.plan, 'session.json: plan')
  if (plan.format !== 'seamline-session/1' || !Array.isArray(plan.runs) || plan.runs.length > mostRuns)
    throw new SeamError('MISMATCH', `${shortName(dir)}/session.json is no seamline-session/1`)
  const present = new Set(await readdir(join(dir, 'runs')).catch(() => []))
  const records = new Map<number, StoredRecord>()
  for (const { number } of session.plan.runs) {
    const run = runDir(dir, number)
    if (present.has(run.slice(-4))) records.set(number, await readRecord(run))
  }
  return { dir, session, records }
}

async function readJson(file: string, format: string | undefined): Promise<Record<string, unknown>> {
  try {
    const { size } = await stat(file)
    if (size > mostBytes)
      throw new SeamError('LIMIT', `${shortName(file)}: ${size} B, at most ${mostBytes} B are read`)
    const value = asObject(JSON.parse(await readFile(file, 'utf8')), shortName(file))
    if (format !== undefined && value.format !== format)
      throw new SeamError(
        'MISMATCH',
        `${shortName(file)}: format ${JSON.stringify(value.format)} instead of ${format}`,
      )
    return value
  } catch (error) {
    if (error instanceof SyntaxError)
      throw new SeamError('MISMATCH', `${shortName(file)} is no JSON: ${error.message}`)
    throw SeamError.from(error, 'FILE')
  }
}

function shortName(path: string): string {
  return path.split('/').slice(-2).join('/')
}
