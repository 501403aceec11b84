import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Context, command, wholeNumber } from '../command.ts'
import { type Lock, lockIdOf, parseLock } from '../compare/lock.ts'
import { analyserSha256 } from '../evidence/analyser.ts'
import { ExitCode } from '../exit-codes.ts'
import { planSha256, readPlan } from '../select/plan.ts'
import type { Selection } from '../select/selection.ts'
import { derivedJson, sha256 } from '../session/canonical.ts'
import { parseCell } from '../session/cell.ts'
import {
  type Guards,
  guardNames,
  type MetricName,
  type MetricValues,
  metricFacts,
  metricNames,
  type StoredRecord,
} from '../session/record.ts'
import { runSession, thisBuild } from '../session/run-session.ts'
import { readSession } from '../session/store.ts'
import { metricValues } from '../session/values.ts'
import { median } from '../statistics/index.ts'

interface LockOptions {
  readonly plan?: string
  readonly selection?: string
  readonly cell?: string
  readonly metric?: MetricName
  readonly change: string
  readonly allow: readonly string[]
  readonly also?: readonly string[]
  readonly secondary?: readonly { readonly cell: string; readonly metric: MetricName }[]
  readonly predicted?: readonly [number, number]
  readonly mde: number
  readonly alpha: number
  readonly pairs: number
  readonly aaPairs: number
  readonly seed: number
  readonly cooldown: number
  readonly out: string
}

const baselineRuns = 3

export function lockCommand(): Command {
  const several = (value: string, before: readonly string[] = []) => [...before, value]
  return command<LockOptions>('lock', 'Freeze a before/after benchmark before the change exists.', lock)
    .option('--plan <file>', 'the plan that was selected by')
    .option('--selection <file>', 'what bench select wrote: selection.json')
    .option('--cell <file>', 'instead of both: a cell, which nothing was selected in')
    .addOption(new Option('--metric <name>', 'with --cell: what is compared').choices(metricNames))
    .requiredOption('--change <text>', 'the change, in one sentence')
    .requiredOption('--allow <glob>', 'what it may touch; several times', several)
    .requiredOption('--out <file>', 'a file that does not exist yet, below benchmarks/locks')
    .option('--also <cell>', 'measure this cell of the plan too; several times', several)
    .option(
      '--secondary <cell:metric>',
      'judge this too, with Holm among all of these; several times',
      secondary,
    )
    .option('--predicted <low,high>', 'percent of the metric as it was, for example -35,-25', range)
    .option('--mde <percent>', 'less than this counts as nothing', Number, 3)
    .option('--alpha <share>', 'of false verdicts', Number, 0.05)
    .option('--pairs <n>', 'pairs of both revisions for each cell', wholeNumber(6, 200), 16)
    .option('--aa-pairs <n>', 'pairs of the base with its copy', wholeNumber(6, 200), 8)
    .option('--seed <n>', 'of the order', wholeNumber(0, 0xffffffff), 63)
    .option('--cooldown <ms>', 'idle before each run', wholeNumber(0, 600_000), 500)
}

async function lock(context: Context, options: LockOptions): Promise<ExitCode> {
  const { ui } = context
  if ((await stat(options.out).catch(() => undefined)) !== undefined)
    throw new SeamError('USAGE', `${options.out} is there already: a lock is never changed, make another one`)
  const place = await thisBuild()
  if (place.build.dirty)
    throw new SeamError('USAGE', 'there are changes that are not committed: a lock is of a commit')
  const subject = await subjectOf(options)
  const also = [...(options.also ?? []), ...(options.secondary ?? []).map(({ cell }) => cell)]
  const names = [...new Set([subject.cell, ...also])]
  const unknown = names.find((name) => subject.cells[name] === undefined)
  if (unknown !== undefined)
    throw new SeamError(
      'USAGE',
      `there is no cell ${unknown}; there are ${Object.keys(subject.cells).join(', ')}`,
    )
  const cells = Object.fromEntries(names.map((name) => [name, subject.cells[name]!]))
  if (metricFacts[subject.metric].exact)
    throw new SeamError(
      'USAGE',
      `${metricFacts[subject.metric].label} is a guard: a change that alters it is another protocol, not a faster one`,
    )
  const { guards, baseline } = await recorded(context, cells, place)
  const primary = { cell: subject.cell, metric: subject.metric }
  for (const { cell, metric } of [primary, ...(options.secondary ?? [])]) {
    if (baseline[cell]![metric] === null)
      throw new SeamError('USAGE', `runs of ${cell} do not measure ${metric}: there is nothing to compare`)
  }
  const made: Omit<Lock, 'lockId'> = {
    ...{ schema: 'seamline-lock/1', createdAt: new Date().toISOString(), commit: place.build.commit },
    bottleneck: subject.bottleneck,
    hypothesis: {
      change: options.change,
      allowedPaths: options.allow,
      predictedPct: options.predicted ?? null,
    },
    primary: { ...primary, minimumEffectPct: options.mde, alpha: options.alpha },
    secondaries: options.secondary ?? [],
    design: {
      ...{
        order: 'ABBA',
        seed: options.seed,
        freshProcesses: true,
        cooldownMs: options.cooldown,
        stop: 'fixed-n',
      },
      pairs: Object.fromEntries(
        names.map((name) => [name, { pairs: options.pairs, aaPairs: options.aaPairs }]),
      ),
    },
    ...{ cells, guards, baseline },
    analyserSha256: await analyserSha256(),
  }
  const whole = parseLock({ ...made, lockId: lockIdOf(made) })
  await writeFile(options.out, derivedJson(whole), { flag: 'wx' })
  ui.record({ type: 'lock', file: options.out, lockId: whole.lockId })
  ui.print(`lock ${whole.lockId.slice(0, 8)} in ${options.out}; commit it before the change`)
  return ExitCode.OK
}

interface Subject {
  readonly cell: string
  readonly metric: MetricName
  readonly cells: Lock['cells']
  readonly bottleneck: Lock['bottleneck']
}

/** What was selected, or a cell that somebody names. */
async function subjectOf({ plan: planFile, selection: file, cell, metric }: LockOptions): Promise<Subject> {
  if (cell !== undefined && metric !== undefined && planFile === undefined && file === undefined) {
    const none = 'not selected'
    const bottleneck = { category: none, place: none, planSha256: none, selectionSha256: none }
    return {
      cell: 'cell',
      metric,
      cells: { cell: parseCell(JSON.parse(await textOf(cell)), cell) },
      bottleneck,
    }
  }
  if (planFile === undefined || file === undefined || cell !== undefined)
    throw new SeamError('USAGE', 'give --plan FILE and --selection FILE, or --cell FILE and --metric NAME')
  const plan = await readPlan(planFile)
  const text = await textOf(file)
  const selection = JSON.parse(text) as Selection
  const { verdict, cell: chosen, target } = selection
  if (selection.planSha256 !== planSha256(plan))
    throw new SeamError(
      'MISMATCH',
      `the selection is of the plan ${selection.planSha256}, this one is ${planSha256(plan)}`,
    )
  const winner = selection.ranked.find(({ name }) => name === selection.winner)
  if (winner === undefined || (verdict !== 'SELECTED' && verdict !== 'TIE'))
    throw new SeamError('USAGE', `nothing was selected: ${verdict}, ${selection.text}`)
  const hashes = { planSha256: selection.planSha256, selectionSha256: sha256(text) }
  const bottleneck = { category: winner.category, place: winner.name, ...hashes }
  return { cell: chosen, metric: target, cells: plan.cells, bottleneck }
}

async function textOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error) => {
    throw SeamError.from(error, 'FILE')
  })
}

/** A few runs of each cell as it is: what has to stay the same, and where the machine stood. */
async function recorded(
  context: Context,
  cells: Lock['cells'],
  place: Awaited<ReturnType<typeof thisBuild>>,
): Promise<Pick<Lock, 'guards' | 'baseline'>> {
  const dir = join(tmpdir(), `seamline-lock-${process.pid}`)
  try {
    const order = Object.keys(cells).flatMap((cell) => Array.from({ length: baselineRuns }, () => cell))
    await runSession(
      context,
      dir,
      {
        ...{ format: 'seamline-session/1', purpose: 'e2e', serves: null, seed: 0, cells, cooldownMs: 0 },
        runs: order.map((cell, i) => ({ number: i + 1, cell, build: 'here', arm: cell, pair: null })),
      },
      { here: place },
    )
    const { session, records } = await readSession(dir)
    const guards: Record<string, Guards> = {}
    const baseline: Record<string, MetricValues> = {}
    for (const cell of Object.keys(cells)) {
      const own = session.plan.runs
        .filter((run) => run.cell === cell)
        .flatMap(({ number }) => records.get(number) ?? [])
      const failed = own.find(({ status }) => status === 'failed')
      if (failed !== undefined) throw new SeamError('EXECUTOR', `a run of ${cell} failed: ${failed.reason}`)
      guards[cell] = commonGuards(cell, own)
      const values = own.map(metricValues)
      baseline[cell] = Object.fromEntries(
        metricNames.map((metric) => {
          const known = values.flatMap((each) => each[metric] ?? [])
          return [metric, known.length === 0 ? null : median(known)]
        }),
      ) as unknown as MetricValues
    }
    return { guards, baseline }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** What differs from run to run of one build can guard nothing. */
function commonGuards(cell: string, records: readonly StoredRecord[]): Guards {
  const [first, ...others] = records.map(({ guards }) => guards!)
  const loose = guardNames.find((name) => others.some((guards) => guards[name] !== first![name]))
  if (loose !== undefined)
    throw new SeamError(
      'MISMATCH',
      `${loose} differs among ${records.length} runs of ${cell} by the same build: such a cell cannot be compared`,
    )
  return first!
}

function secondary(value: string, before: NonNullable<LockOptions['secondary']> = []) {
  const at = value.lastIndexOf(':')
  const metric = metricNames.find((name) => name === value.slice(at + 1))
  if (at < 1 || metric === undefined)
    throw new InvalidArgumentError(
      `A cell and a metric are needed, such as NAME:tpot; metrics are ${metricNames.join(', ')}.`,
    )
  return [...before, { cell: value.slice(0, at), metric }]
}

function range(value: string): [number, number] {
  const [low, high] = value.split(',').map(Number)
  if (low === undefined || high === undefined || !(low <= high))
    throw new InvalidArgumentError('Two numbers are needed, the lower first.')
  return [low, high]
}
