import picomatch from 'picomatch'
import { builds } from '../compare/plan.ts'
import { planSha256 } from '../select/plan.ts'
import { canonicalJson, derivedJson, sha256 } from '../session/canonical.ts'
import { notRecorded, tokensSha256 } from '../session/guards.ts'
import { guardNames, type StoredRecord } from '../session/record.ts'
import { metricValues } from '../session/values.ts'
import { isAttributable, runAttribution } from './attribution.ts'
import type { Bundle, BundleSession } from './bundle.ts'
import { runPath, sessionPath } from './bundle.ts'
import { compared, type FidelityRow, planned, selectionIn } from './derivations.ts'
import type { ChangedFile } from './facts.ts'
import type { BundleFile } from './files.ts'
import { expectedPlan } from './orders.ts'
import type { Problems } from './problems.ts'

/** Runs that the plan names and that are there; order and times; builds and cells. */
export function checkSessions(bundle: Bundle, files: readonly BundleFile[], found: Problems): void {
  for (const entry of bundle.sessions) {
    const { name, lost, stored } = entry
    const { session, records } = stored
    const { plan } = session
    const at = `${sessionPath(name)}/session.json`
    const numbers = new Set(plan.runs.map(({ number }) => String(number).padStart(4, '0')))
    const folders = new Set(
      files.flatMap(({ path }) =>
        path.startsWith(`${sessionPath(name)}/runs/`) ? [path.split('/')[3]!] : [],
      ),
    )
    for (const folder of folders) {
      if (!numbers.has(folder))
        found.add('RUN-MISSING', `${sessionPath(name)}/runs/${folder}`, 'the plan names no such run')
    }
    if (plan.runs.some(({ number }, i) => number !== i + 1))
      found.add('ORDER', at, 'the numbers of the runs have a gap or another order')
    let endedAt = session.startedAt
    for (const run of plan.runs) {
      const record = records.get(run.number)
      const path = `${runPath(name, run.number)}/run.json`
      if (record === undefined) {
        if (lost === null)
          found.add('RUN-MISSING', runPath(name, run.number), 'the plan names this run and it has no record')
        continue
      }
      if (canonicalJson(record.cell) !== canonicalJson(plan.cells[run.cell]))
        found.add('ORDER', path, `this is not a run of the cell ${run.cell}`)
      if (record.startedAt < endedAt || record.endedAt < record.startedAt)
        found.add(
          'ORDER',
          path,
          `it ran from ${record.startedAt} to ${record.endedAt}, the one before it ended at ${endedAt}`,
        )
      endedAt = record.endedAt
      const build = session.builds[run.build]
      if (lost === null && record.environment.commit !== null && build?.commit !== record.environment.commit)
        found.add(
          'ORDER',
          path,
          `run by the commit ${record.environment.commit}, build ${run.build} is ${build?.commit}`,
        )
    }
    if (session.endedAt !== null && session.endedAt < endedAt)
      found.add('ORDER', at, `it ended at ${session.endedAt}, before its last run at ${endedAt}`)
    if (lost !== null) continue
    if (session.outcome !== 'done')
      found.add('RUN-MISSING', at, `the outcome is ${session.outcome}: ${session.reason ?? ''}`)
    for (const [build, { dirty }] of Object.entries(session.builds)) {
      if (dirty) found.add('DIRTY', at, `build ${build} has changes that no commit holds`)
    }
    checkPlan(bundle, entry, at, found)
  }
}

/** The order follows from the lock or the plan of the bundle, which the session says it serves. */
function checkPlan(bundle: Bundle, { stored }: BundleSession, at: string, found: Problems): void {
  const { plan, builds: made } = stored.session
  const expected = expectedPlan(bundle, stored)
  if (expected === 'unknown')
    found.add('ORDER', at, `a session for ${plan.purpose} serves a lock or a plan that is not in the bundle`)
  else if (expected !== null && canonicalJson(expected) !== canonicalJson(plan))
    found.add('ORDER', at, 'the runs are not those that follow from the seed of the lock or the plan')
  if (plan.purpose !== 'compare') return
  const { base, head } = bundle.spec
  const commits = { base, copy: base, head }
  for (const build of builds) {
    if (made[build]?.commit !== commits[build])
      found.add(
        'ORDER',
        at,
        `build ${build} is of ${made[build]?.commit}, the specification says ${commits[build]}`,
      )
  }
  if (made.base?.distSha256 !== made.copy?.distSha256)
    found.add('ORDER', at, 'the copy is not the same build as the base')
}

/** Each record of what is evidence against itself: counts, stamps, what was lost, sums, guards. */
export function checkRecords(bundle: Bundle, found: Problems): void {
  for (const { name, lost, stored } of bundle.sessions) {
    if (lost !== null) continue
    for (const [number, record] of stored.records) {
      if (record.status !== 'done') continue
      const path = runPath(name, number)
      for (const check of [checkCounts, checkClosure, checkOwnGuards]) {
        try {
          check(record, path, found)
        } catch (error) {
          found.add('RAW', path, (error as Error).message)
        }
      }
    }
  }
}

function checkCounts(
  { cell, trace, micro, external, hasTrace }: StoredRecord,
  path: string,
  found: Problems,
): void {
  const raw = (message: string) => found.add('RAW', path, message)
  if (cell.kind === 'micro') {
    if (micro === null) raw('a run of a case has no figures')
    return
  }
  if (cell.executor === 'llama-rpc') {
    if (external === null) raw('a run of llama.cpp has no figures')
    return
  }
  if (!hasTrace || trace === undefined) return raw('a run of a pipeline has no trace')
  if (!trace.complete) raw('the recording was cut')
  if (trace.level !== cell.level) raw(`recorded at level ${trace.level}, the cell says ${cell.level}`)
  if (trace.sequences.length !== cell.k) raw(`${trace.sequences.length} sequences, the cell says ${cell.k}`)
  for (const { sequence, promptTokens, acceptedNs, emittedNs, tokens } of trace.sequences) {
    const of = `sequence ${sequence}`
    if (promptTokens !== cell.promptTokens)
      raw(`${of} has ${promptTokens} prompt tokens, the cell says ${cell.promptTokens}`)
    if (tokens.length !== cell.tokens || emittedNs.length !== cell.tokens)
      raw(`${of} has ${tokens.length} token ids and ${emittedNs.length} stamps, the cell says ${cell.tokens}`)
    if (emittedNs.some((ns, i) => ns < (emittedNs[i - 1] ?? acceptedNs))) raw(`stamps of ${of} go back`)
  }
  for (const { name, dropped, spans } of trace.processes) {
    if (dropped > 0) raw(`${name} lost ${dropped} spans`)
    for (let at = 0; at < spans.length; at += 6) {
      const [startNs, endNs] = [spans[at + 1]!, spans[at + 2]!]
      if (Number.isFinite(startNs) && Number.isFinite(endNs) && endNs >= startNs) continue
      raw(`span ${at / 6} of ${name} ends at ${endNs} ns, before its start at ${startNs} ns`)
      break
    }
  }
}

/** Segments of every token and of every lane add up; nothing comes before its cause; lanes are serial. */
function checkClosure(record: StoredRecord, path: string, found: Problems): void {
  if (!isAttributable(record)) return
  const { recordingErrors, faults } = runAttribution(record)
  for (const error of recordingErrors) found.add('RAW', path, error)
  for (const fault of faults) found.add('CLOSURE', path, fault)
}

/** Guards that the record itself proves. */
function checkOwnGuards(record: StoredRecord, path: string, found: Problems): void {
  const { guards, cell, trace, environment } = record
  if (guards === null) return
  const bytes = metricValues(record).bytes_per_token
  const facts: Partial<Record<(typeof guardNames)[number], string>> = {
    cpu: environment.cpu === 'unknown' ? notRecorded : environment.cpu,
    cores: String(environment.cores),
    kernel: environment.kernel,
    node: environment.node,
  }
  if (cell.kind === 'pipeline') {
    facts.transport = cell.transport
    facts.link = cell.link === null ? 'bare' : canonicalJson(cell.link)
  }
  if (trace !== undefined) {
    facts.tokens = tokensSha256(trace)
    for (const name of ['modelSha256', 'manifestSha256', 'engine', 'backend', 'codec', 'framing'] as const)
      facts[name] = trace.settings[name] || notRecorded
    facts.bytesPerToken = bytes === null ? notRecorded : String(bytes)
  }
  for (const [name, value] of Object.entries(facts)) {
    const said = guards[name as keyof typeof facts]
    if (said !== value) found.add('GUARD', path, `guard ${name} says ${said}, the record shows ${value}`)
  }
}

/** Guards are equal between all runs of a cell in a session, and between its arms. */
export function checkGuards({ sessions }: Bundle, found: Problems): void {
  for (const { name, lost, stored } of sessions) {
    if (lost !== null) continue
    const first = new Map<string, StoredRecord>()
    for (const { number, cell } of stored.session.plan.runs) {
      const record = stored.records.get(number)
      if (record?.guards == null) continue
      const other = first.get(cell)
      if (other === undefined) first.set(cell, record)
      for (const guard of guardNames) {
        const [said, before] = [record.guards[guard], other?.guards?.[guard] ?? record.guards[guard]]
        if (said !== before)
          found.add(
            'GUARD',
            runPath(name, number),
            `${guard} is ${said}, in another run of ${cell} it was ${before}`,
          )
      }
    }
  }
}

/** Runs of one workload made the same tokens, those of the unsplit model among them. */
export function checkFidelity(rows: readonly FidelityRow[], found: Problems): void {
  for (const { workload, tokens } of rows) {
    const [first, ...others] = tokens
    for (const { cells } of others)
      found.add(
        'FIDELITY',
        'sessions',
        `${workload}: ${cells.join(', ')} made other tokens than ${first!.cells.join(', ')}`,
      )
  }
}

/** What changed is what the lock allows. */
export function checkScope({ lock }: Bundle, changed: readonly ChangedFile[], found: Problems): void {
  if (lock === null) return
  const isAllowed = picomatch([...lock.hypothesis.allowedPaths], { dot: true })
  for (const { path } of changed) {
    if (!isAllowed(path))
      found.add(
        'SCOPE',
        'diff/changed-files.txt',
        `${path} changed; the lock allows ${lock.hypothesis.allowedPaths.join(', ')}`,
      )
  }
}

/** The lock came before what it judges and after the choice that it names, where that is in the bundle. */
export function checkLock(bundle: Bundle, found: Problems): void {
  const { lock, plan } = bundle
  if (lock === null) return
  for (const { name, stored } of compared(bundle)) {
    if (stored.session.startedAt < lock.createdAt)
      found.add(
        'LOCK',
        sessionPath(name),
        `begun at ${stored.session.startedAt}, before the lock at ${lock.createdAt}`,
      )
  }
  if (plan === null) return
  const { planSha256: named, selectionSha256 } = lock.bottleneck
  if (planSha256(plan) !== named)
    found.add('LOCK', 'lock.json', `it names the plan ${named}, the one of the bundle is ${planSha256(plan)}`)
  const selections = planned(bundle, 'select')
  const digests = selections.map((session) => sha256(derivedJson(selectionIn(bundle, session))))
  if (selections.length > 0 && !digests.includes(selectionSha256))
    found.add(
      'LOCK',
      'lock.json',
      `it names the selection ${selectionSha256}; the runs give ${digests.join(', ')}`,
    )
}
