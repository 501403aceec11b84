import { canonicalJson } from '../session/canonical.ts'
import { guardNames, type StoredRecord } from '../session/record.ts'
import type { PlannedRun, Session } from '../session/session.ts'
import type { Lock } from './lock.ts'
import { planOf } from './plan.ts'

export interface GuardDifference {
  readonly run: number
  readonly arm: string
  readonly guard: string
  readonly locked: string
  readonly found: string
}

/** What differs from the lock, run by run: guards, and a cell that is another one. */
export function differences(
  { guards, cells }: Lock,
  runs: readonly PlannedRun[],
  records: ReadonlyMap<number, StoredRecord>,
): GuardDifference[] {
  return runs.flatMap(({ number, arm, cell }) => {
    const record = records.get(number)
    const [locked, recorded] = [cells[cell], guards[cell]]
    if (locked === undefined || recorded === undefined)
      return [{ run: number, arm, guard: 'cell', locked: Object.keys(cells).join(', '), found: cell }]
    if (record === undefined) return []
    const [wanted, made] = [canonicalJson(locked), canonicalJson(record.cell)]
    if (wanted !== made) return [{ run: number, arm, guard: 'cell', locked: wanted, found: made }]
    const found = record.guards
    if (found === null) return []
    return guardNames
      .filter((guard) => found[guard] !== recorded[guard])
      .map((guard) => ({ run: number, arm, guard, locked: recorded[guard], found: found[guard] }))
  })
}

/** Why a session says nothing of a change, whatever its figures are; empty where nothing speaks against it. */
export function reasonsAgainst(
  lock: Lock,
  { plan, builds, outcome, reason }: Session,
  records: ReadonlyMap<number, StoredRecord>,
  guardDifferences: readonly GuardDifference[],
): string[] {
  const reasons: string[] = []
  if (plan.serves !== lock.lockId)
    reasons.push(`the session was made by another lock: ${plan.serves ?? 'none'}`)
  else if (canonicalJson(plan) !== canonicalJson(planOf(lock)))
    reasons.push('the runs or their order are not those that follow from the lock')
  const dirty = Object.keys(builds).filter((name) => builds[name]!.dirty)
  if (dirty.length > 0) reasons.push(`not built from a commit alone: ${dirty.join(', ')}`)
  const { base, copy } = builds
  if (base?.commit !== copy?.commit || base?.distSha256 !== copy?.distSha256)
    reasons.push('the copy of the base is another build')
  if (outcome !== 'done') reasons.push(`the session was not brought to its end: ${reason ?? outcome}`)
  const missing = plan.runs.filter(({ number }) => !records.has(number))
  if (missing.length > 0) reasons.push(`${missing.length} of ${plan.runs.length} runs have no record`)
  const failed = [...records].filter(([, { status }]) => status === 'failed')
  if (failed.length > 0)
    reasons.push(`${failed.length} runs failed, run ${failed[0]![0]} first: ${failed[0]![1].reason}`)
  for (const guard of new Set(guardDifferences.map((each) => each.guard))) {
    const { run, arm, locked, found } = guardDifferences.find((each) => each.guard === guard)!
    reasons.push(`${guard} differs, in run ${run} (${arm}) first: ${found} instead of ${locked}`)
  }
  return reasons
}
