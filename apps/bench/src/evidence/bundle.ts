import { join } from 'node:path'
import { type Lock, parseLock } from '../compare/lock.ts'
import { parseScenario, type Scenario } from '../e2e/scenario.ts'
import { parsePlan, type SelectPlan } from '../select/plan.ts'
import { derivedJson } from '../session/canonical.ts'
import { readSession, runDir, type StoredSession } from '../session/store.ts'
import { type Artifact, parseArtifacts } from './artifacts.ts'
import { type BundleFile, bundleLimits, inBatches, parseJson, readOptional, readText } from './files.ts'
import { type Problems, problems } from './problems.ts'
import { checkRecord, checkSession } from './schema.ts'
import { parseSpec, type Spec, type SpecSession } from './spec.ts'

/** What everything else in a bundle follows from. */
export interface Bundle {
  readonly spec: Spec
  readonly sessions: readonly BundleSession[]
  readonly lock: Lock | null
  readonly plan: SelectPlan | null
  readonly scenario: Scenario | null
  readonly artifacts: readonly Artifact[]
}

export interface BundleSession extends Omit<SpecSession, 'path'> {
  readonly stored: StoredSession
}

export const sessionPath = (name: string) => `sessions/${name}`
/** Of a run within the bundle. */
export const runPath = (session: string, number: number) => runDir(sessionPath(session), number)
const spanBytes = 48

/**
 * Reads what a bundle rests on; what cannot be read becomes a problem and is left out. Undefined without a specification. Nothing is
 * unpacked that would exceed the limits.
 */
export async function readBundle(
  dir: string,
  files: readonly BundleFile[],
  found: Problems = problems(),
): Promise<Bundle | undefined> {
  const spec = await found.attempt('SCHEMA', 'spec.json', async () =>
    parseSpec(parseJson(await readText(dir, 'spec.json'), 'spec.json')),
  )
  if (spec === undefined) return undefined
  const optional = <T>(path: string, parse: (value: unknown) => T) =>
    found.attempt('SCHEMA', path, async () => {
      const content = await readOptional(dir, path)
      return content === null ? null : parse(parseJson(content, path))
    })
  const lock = await optional('lock.json', parseLock)
  const plan = await optional('plan.json', parsePlan)
  const scenario = await optional('scenario.json', parseScenario)
  const artifacts = await optional('artifacts.json', parseArtifacts)
  for (const [name, given, value] of [
    ['lock.json', spec.lock, lock],
    ['plan.json', spec.plan, plan],
    ['scenario.json', spec.scenario, scenario],
  ] as const) {
    if (given !== null && value === null)
      found.add('SCHEMA', name, 'the specification names it and it is not there')
    if (given === null && value != null) found.add('SCHEMA', name, 'the specification does not name it')
  }
  const sessions: BundleSession[] = []
  let unpacked = 0
  for (const { path: _, ...entry } of spec.sessions) {
    const within = files.filter(({ path }) => path.startsWith(`${sessionPath(entry.name)}/`))
    unpacked += await checkRaw(dir, within, found)
    if (unpacked > bundleLimits.spanBytes) {
      found.add(
        'SIZE',
        sessionPath(entry.name),
        `spans take more than ${bundleLimits.spanBytes} B once unpacked`,
      )
      break
    }
    const stored = await found.attempt('RAW', sessionPath(entry.name), () =>
      readSession(join(dir, sessionPath(entry.name))),
    )
    if (stored !== undefined) sessions.push({ ...entry, stored })
  }
  return {
    spec,
    sessions,
    lock: lock ?? null,
    plan: plan ?? null,
    scenario: scenario ?? null,
    artifacts: artifacts ?? [],
  }
}

/** Forms of the JSON files of a session; returns the bytes that its spans say they take. */
async function checkRaw(dir: string, files: readonly BundleFile[], found: Problems): Promise<number> {
  const sizes = await inBatches(files, async ({ path }) => {
    if (path.endsWith('/trace/trace.json'))
      return found.attempt('RAW', path, async () => spanBytesOf(await readText(dir, path), path))
    if (!path.endsWith('.json')) return 0
    await found.attempt('SCHEMA', path, async () => {
      const content = await readText(dir, path)
      const value = parseJson(content, path)
      if (path.endsWith('/run.json')) checkRecord(value, path)
      else checkSession(value, path)
      if (derivedJson(value) !== content)
        throw new Error('the JSON is not in its one form: sorted keys, two spaces')
    })
    return 0
  })
  return sizes.reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0)
}

function spanBytesOf(content: string, path: string): number {
  const trace = parseJson(content, path) as { readonly processes?: unknown } | null
  const processes = Array.isArray(trace?.processes) ? trace.processes : []
  let records = 0
  for (const { members } of processes as { readonly members?: unknown }[]) {
    for (const { records: some } of (Array.isArray(members) ? members : []) as {
      readonly records?: unknown
    }[]) {
      if (!Number.isSafeInteger(some) || (some as number) < 0)
        throw new Error('a part has no count of records')
      records += some as number
    }
  }
  return records * spanBytes
}
