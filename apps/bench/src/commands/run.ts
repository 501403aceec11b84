import { SeamError } from '@seamline/core'
import { type Environment, readEnvironment } from '../environment.ts'
import { ExitCode } from '../exit-codes.ts'
import { grouped } from '../grouped.ts'
import { defaultRounds, leastWarmUpMs, type Measurement, measureBlock } from '../measure.ts'
import { type Ratio, type RatioSpec, ratioOf } from '../ratios.ts'
import { type CaseResult, caseTable, type RatioResult, ratioTable } from '../report.ts'
import { type Catalogue, type Entry, select } from '../selection.ts'
import { colours, type Ui } from '../ui.ts'

export interface RunOptions {
  readonly filter?: string
  readonly list?: boolean
  readonly smoke?: boolean
  readonly time: number
}

/** Measured or not, what setting up and checking add to the time of a case. */
const overheadMs = 100
/** Runs of a case that takes longer than its slice: two in each round, the one that warms up included. */
const leastRuns = 2 * (defaultRounds + 1)
/** A guess for estimates, on the low side: round trips through a relay on two cores. */
const guessedBytesPerMs = 400_000

/** Runs what `--filter` selects, block by block, and prints tables or records. */
export async function run(
  catalogue: Catalogue,
  options: RunOptions,
  { ui, signal }: { readonly ui: Ui; readonly signal: AbortSignal },
): Promise<ExitCode> {
  const { filter, time, smoke = false } = options
  const entries = select(catalogue, filter)
  if (options.list === true) {
    for (const { case: each } of entries) ui.print(each.id)
    for (const { case: each, group, block } of entries)
      ui.record({ type: 'listed', id: each.id, group, block })
    return ExitCode.OK
  }
  const environment = await readEnvironment()
  ui.record({ type: 'environment', ...environment, timeMs: smoke ? 0 : time, dropped: catalogue.dropped })
  for (const { arm, reason } of catalogue.dropped) ui.note(`left out: ${arm}, ${reason}`)
  const estimate = createEstimate(entries, smoke ? undefined : time)
  ui.note(`${casesText(entries.length)}, about ${timeText(estimate.leftSeconds())}`)
  printEnvironment(environment, ui)

  const done = new Map<string, CaseResult>()
  let failures = 0
  for (const block of grouped(entries, (entry) => entry.block).values()) {
    const outcomes = await measureBlock(
      block.map((entry) => entry.case),
      {
        signal,
        timeMs: time,
        smoke,
        onProgress: (text) => ui.progress(`about ${timeText(estimate.leftSeconds())} left; ${text}`),
      },
    )
    estimate.done(block)
    for (const [i, outcome] of outcomes.entries()) {
      const entry = block[i]!
      if ('failure' in outcome) {
        failures += 1
        const { code, message } = outcome.failure
        ui.record({ type: 'failure', id: entry.case.id, code, message })
        ui.note(`${colours.red('failed')}: ${entry.case.id}: ${message} [${code}]`)
        continue
      }
      if (outcome.measurement === undefined) {
        ui.record({ type: 'checked', id: entry.case.id, group: entry.group })
        ui.print(`ok ${entry.case.id}`)
        continue
      }
      const result = resultOf(entry, outcome.measurement)
      done.set(result.id, result)
      ui.record(caseRecord(result))
    }
  }
  report(catalogue.ratios, done, ui)
  if (failures > 0) ui.note(`${failures} of ${casesText(entries.length)} failed, without figures`)
  return failures > 0 ? ExitCode.CHECK_FAILED : ExitCode.OK
}

/** Of the time that is left: a guess from sizes, corrected by how long the blocks so far took. */
function createEstimate(entries: readonly Entry[], timeMs: number | undefined) {
  const guess = (some: readonly Entry[]) =>
    some.reduce((sum, { case: { bytes = 0 } }) => {
      const runMs = bytes / guessedBytesPerMs
      if (timeMs === undefined) return sum + overheadMs + 3 * runMs
      return (
        sum +
        overheadMs +
        Math.max(timeMs + Math.max(timeMs / defaultRounds, leastWarmUpMs), leastRuns * runMs)
      )
    }, 0)
  const allMs = guess(entries)
  const startedMs = performance.now()
  let doneMs = 0
  let factor = 1
  return {
    done(block: readonly Entry[]): void {
      doneMs += guess(block)
      factor = (performance.now() - startedMs) / doneMs
    },
    leftSeconds: () => Math.ceil((factor * allMs - (performance.now() - startedMs)) / 1000),
  }
}

function casesText(count: number): string {
  return count === 1 ? '1 case' : `${count} cases`
}

function timeText(seconds: number): string {
  return seconds < 120 ? `${Math.max(seconds, 1)} s` : `${Math.ceil(seconds / 60)} min`
}

function printEnvironment(environment: Environment, ui: Ui): void {
  const { cpu, cores, kernel, node, v8, load, commit, dirty } = environment
  const build =
    commit === null ? '' : `, commit ${commit.slice(0, 12)}${dirty === true ? ' and changes' : ''}`
  ui.print(`${cpu}, ${cores} cores, kernel ${kernel}, Node ${node}, V8 ${v8}, load ${load[0]}${build}`)
}

function resultOf({ case: each, group, block }: Entry, measurement: Measurement): CaseResult {
  return { id: each.id, group, block, bytes: each.bytes, measurement }
}

function caseRecord({ id, group, block, bytes, measurement }: CaseResult): object {
  const { p99Ns, ...rest } = measurement
  return {
    type: 'case',
    id,
    group,
    block,
    bytes: bytes ?? null,
    ...rest,
    p99Ns: p99Ns ?? null,
    bytesPerSecond: bytes === undefined ? null : bytes / (measurement.p50Ns / 1e9),
  }
}

/** Tables of the cases by group, each with the ratios of its candidates. */
function report(ratios: readonly RatioSpec[], done: ReadonlyMap<string, CaseResult>, ui: Ui): void {
  const groups = grouped(done.values(), (result) => result.group)
  for (const [group, results] of groups) {
    const compared: RatioResult[] = ratios.flatMap((spec) => {
      const candidate = done.get(spec.candidate)
      const control = done.get(spec.control)
      if (candidate === undefined || control === undefined || candidate.group !== group) return []
      return [{ spec, ratio: compare(spec, candidate, control) }]
    })
    for (const { spec, ratio } of compared) ui.record(ratioRecord(spec, ratio))
    ui.print(`\n${colours.bold(group)}\n${caseTable(results)}`)
    if (compared.length > 0) ui.print(`\n${ratioTable(compared)}`)
  }
}

function compare(spec: RatioSpec, candidate: CaseResult, control: CaseResult): Ratio {
  if (candidate.block !== control.block)
    throw new SeamError('USAGE', `${spec.candidate} and ${spec.control} do not run side by side`)
  const timed = ({ bytes, measurement }: CaseResult) => ({
    bytes,
    roundsNs: spec.statistic === 'p99' ? measurement.roundsP99Ns : measurement.roundsNs,
  })
  return ratioOf(spec, timed(candidate), timed(control))
}

function ratioRecord({ candidate, control, of, statistic = 'p50', target }: RatioSpec, ratio: Ratio): object {
  const { pass, ...rest } = ratio
  return {
    type: 'ratio',
    candidate,
    control,
    of,
    statistic,
    ...rest,
    target: target ?? null,
    pass: pass ?? null,
  }
}
