import { SeamError } from '@seamline/core'
import { asObject, knownFields, oneOf, parseCell, real, text, whole } from '../session/cell.ts'
import { guardNames } from '../session/record.ts'

const recordFields = [
  ...['format', 'cell', 'status', 'reason', 'startedAt', 'endedAt', 'environment', 'guards', 'micro'],
  ...['external', 'hasTrace'],
]
const environmentFields = [
  ...[
    'cpu',
    'cores',
    'governor',
    'memoryBytes',
    'platform',
    'kernel',
    'node',
    'v8',
    'load',
    'commit',
    'dirty',
  ],
  ...['bufferOffsets', 'startedAt'],
]
const planFields = ['format', 'purpose', 'serves', 'seed', 'cells', 'runs', 'cooldownMs']
const purposes = ['e2e', 'survey', 'select', 'inject', 'compare', 'aa', 'micro'] as const
const mostRuns = 10_000

/** Every field of `run.json`, also that there is no other. Throws `USAGE` naming the field. */
export function checkRecord(value: unknown, where: string): void {
  const record = asObject(value, where)
  knownFields(record, recordFields, where)
  oneOf(record.format, ['seamline-run/1'], `${where}: format`)
  const status = oneOf(record.status, ['done', 'failed'], `${where}: status`)
  parseCell(record.cell, `${where}: cell`)
  if ((record.reason === null) !== (status === 'done'))
    throw new SeamError('USAGE', `${where}: reason: a run that failed has one, and no other`)
  if (record.reason !== null) text(record.reason, `${where}: reason`)
  for (const name of ['startedAt', 'endedAt']) time(record[name], `${where}: ${name}`)
  checkEnvironment(record.environment, `${where}: environment`)
  if (typeof record.hasTrace !== 'boolean')
    throw new SeamError('USAGE', `${where}: hasTrace: true or false is needed`)
  if (record.guards !== null) {
    const guards = asObject(record.guards, `${where}: guards`)
    knownFields(guards, guardNames, `${where}: guards`)
    for (const name of guardNames) text(guards[name], `${where}: guards.${name}`)
  } else if (status === 'done') throw new SeamError('USAGE', `${where}: guards: a run that was done has them`)
  if (record.micro !== null) {
    const micro = asObject(record.micro, `${where}: micro`)
    knownFields(micro, ['samples', 'p50Ns', 'minNs', 'roundsNs', 'bytes'], `${where}: micro`)
    whole(micro.samples, `${where}: micro.samples`, 1, Number.MAX_SAFE_INTEGER)
    const leastNs = real(micro.minNs, `${where}: micro.minNs`, 0, 1e15)
    real(micro.p50Ns, `${where}: micro.p50Ns`, leastNs, 1e15)
  }
  if (record.external !== null) {
    const external = asObject(record.external, `${where}: external`)
    knownFields(external, ['prefillTokensPerSecond', 'decodeTokensPerSecond', 'raw'], `${where}: external`)
    for (const name of ['prefillTokensPerSecond', 'decodeTokensPerSecond'])
      real(external[name], `${where}: external.${name}`, 0, 1e12)
  }
}

/** As {@link checkRecord}, for `session.json`. */
export function checkSession(value: unknown, where: string): void {
  const session = asObject(value, where)
  knownFields(session, ['plan', 'builds', 'environment', 'startedAt', 'endedAt', 'outcome', 'reason'], where)
  oneOf(session.outcome, ['running', 'done', 'cut'], `${where}: outcome`)
  time(session.startedAt, `${where}: startedAt`)
  if (session.endedAt !== null) time(session.endedAt, `${where}: endedAt`)
  checkEnvironment(session.environment, `${where}: environment`)
  const builds = asObject(session.builds, `${where}: builds`)
  for (const [name, value] of Object.entries(builds)) {
    const build = asObject(value, `${where}: builds.${name}`)
    knownFields(build, ['commit', 'dirty', 'distSha256'], `${where}: builds.${name}`)
    for (const field of ['commit', 'distSha256']) text(build[field], `${where}: builds.${name}.${field}`)
    if (typeof build.dirty !== 'boolean')
      throw new SeamError('USAGE', `${where}: builds.${name}.dirty: true or false is needed`)
  }
  const plan = asObject(session.plan, `${where}: plan`)
  knownFields(plan, planFields, `${where}: plan`)
  oneOf(plan.format, ['seamline-session/1'], `${where}: plan.format`)
  oneOf(plan.purpose, purposes, `${where}: plan.purpose`)
  if (plan.serves !== null) text(plan.serves, `${where}: plan.serves`)
  whole(plan.seed, `${where}: plan.seed`, 0, 0xffffffff)
  real(plan.cooldownMs, `${where}: plan.cooldownMs`, 0, 600_000)
  const cells = asObject(plan.cells, `${where}: plan.cells`)
  for (const [name, cell] of Object.entries(cells)) parseCell(cell, `${where}: plan.cells.${name}`)
  if (!Array.isArray(plan.runs) || plan.runs.length > mostRuns)
    throw new SeamError('USAGE', `${where}: plan.runs: a list of at most ${mostRuns} runs is needed`)
  for (const [i, each] of plan.runs.entries()) {
    const at = `${where}: plan.runs[${i}]`
    const run = asObject(each, at)
    knownFields(run, ['number', 'cell', 'build', 'arm', 'pair'], at)
    whole(run.number, `${at}.number`, 1, mostRuns)
    oneOf(run.cell, Object.keys(cells), `${at}.cell`)
    oneOf(run.build, Object.keys(builds), `${at}.build`)
    text(run.arm, `${at}.arm`)
    if (run.pair !== null) whole(run.pair, `${at}.pair`, 0, mostRuns)
  }
}

function checkEnvironment(value: unknown, where: string): void {
  const environment = asObject(value, where)
  knownFields(environment, environmentFields, where)
  for (const name of ['cpu', 'platform', 'kernel', 'node', 'v8']) text(environment[name], `${where}.${name}`)
  for (const name of ['governor', 'commit']) {
    if (environment[name] !== null) text(environment[name], `${where}.${name}`)
  }
  for (const name of ['cores', 'memoryBytes'])
    whole(environment[name], `${where}.${name}`, 1, Number.MAX_SAFE_INTEGER)
  if (environment.dirty !== null && typeof environment.dirty !== 'boolean')
    throw new SeamError('USAGE', `${where}.dirty: true, false or null is needed`)
}

function time(value: unknown, where: string): void {
  const given = text(value, where)
  if (!/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(given) || Number.isNaN(Date.parse(given)))
    throw new SeamError('USAGE', `${where}: a time in ISO 8601 and UTC is needed, not ${given.slice(0, 60)}`)
}
