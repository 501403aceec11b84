import { stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { modelDir } from 'seamline/profile'
import { type Context, command } from '../command.ts'
import { neutral } from '../evidence/paths.ts'
import { ExitCode } from '../exit-codes.ts'
import { selectionPage } from '../page/selection-page.ts'
import { injectors } from '../select/gains.ts'
import {
  injectionPlan,
  planSha256,
  readPlan,
  type SelectPlan,
  selectionPlan,
  surveyPlan,
} from '../select/plan.ts'
import { selectionText, surveyText } from '../select/print.ts'
import { type Selection, selectionOf, surveyOf } from '../select/selection.ts'
import { derivedJson } from '../session/canonical.ts'
import { runSession, thisBuild } from '../session/run-session.ts'
import type { SessionPlan } from '../session/session.ts'
import { readSession, type StoredSession } from '../session/store.ts'

interface SelectOptions {
  readonly survey?: boolean
  readonly cell?: string
  readonly out?: string
  readonly read?: string
}

export function selectCommand(): Command {
  return command<SelectOptions, readonly [string]>(
    'select',
    'Find the one bottleneck worth removing: a survey of all cells of a plan, or the choice within one cell.',
    select,
  )
    .argument('<plan>', 'a file below benchmarks/plans')
    .option('--survey', 'a few runs of every cell, to see where to look')
    .option('--cell <name>', 'choose within this cell')
    .option('--out <dir>', 'where the sessions go (default: below the folder of models)')
    .option('--read <dir>', 'say again what such a folder says, and run nothing')
}

async function select(context: Context, options: SelectOptions, file: string): Promise<ExitCode> {
  const { ui } = context
  const plan = await readPlan(file)
  if ((options.survey === true) === (options.cell !== undefined))
    throw new SeamError('USAGE', 'give --survey, or --cell NAME')
  const at = new Date().toISOString().replaceAll(':', '-')
  const dir = options.read ?? options.out ?? join(modelDir(), 'selections', planSha256(plan).slice(0, 8), at)
  const isNew = options.read === undefined
  if (options.survey === true) {
    const survey = surveyOf(plan, await made(context, join(dir, 'survey'), surveyPlan(plan), isNew))
    await writeFile(join(dir, 'survey.json'), derivedJson(survey))
    ui.record({ type: 'survey', dir, ...survey })
    ui.print(surveyText(plan, survey))
    ui.print(`\nkept in ${dir}`)
    return ExitCode.OK
  }
  const { selection, stored } = await choose(context, plan, options.cell!, dir, isNew)
  await writeFile(join(dir, 'selection.json'), derivedJson(selection))
  const command = ['pnpm', 'bench', 'select', neutral(resolve(file)), '--cell', options.cell!]
  const commands = [command, [...command, '--read', neutral(resolve(dir))]]
  await writeFile(join(dir, 'report.html'), neutral(selectionPage({ plan, stored, selection, commands })))
  ui.record({ type: 'selection', dir, ...selection })
  ui.print(selectionText(selection))
  ui.print(`\nkept in ${dir}, with report.html`)
  return ExitCode.OK
}

async function choose(
  context: Context,
  plan: SelectPlan,
  cell: string,
  dir: string,
  isNew: boolean,
): Promise<{ readonly selection: Selection; readonly stored: StoredSession }> {
  const selected = await made(context, join(dir, 'select'), selectionPlan(plan, cell), isNew)
  const first = selectionOf(plan, cell, selected, undefined)
  const winner = first.ranked.find(({ name }) => name === first.winner)
  // Where nothing would be chosen anyway, or nothing can be delayed, an experiment says nothing.
  const isOpen = winner !== undefined && first.verdict !== 'TIE'
  const injector = isOpen ? injectors[winner.category] : undefined
  const injected = join(dir, 'inject')
  const isTried = isNew || (await stat(injected).catch(() => undefined)) !== undefined
  if (injector === undefined || !isTried) return { selection: first, stored: selected }
  const experiment = injectionPlan(plan, cell, injector.place, injector.stage)
  const delayed = await made(context, injected, experiment, isNew)
  return { selection: selectionOf(plan, cell, selected, delayed), stored: selected }
}

/** Makes a session, or reads the one that is there and checks that it is of this plan. */
async function made(
  context: Context,
  dir: string,
  plan: SessionPlan,
  isNew: boolean,
): Promise<StoredSession> {
  if (isNew) {
    context.ui.note(`${plan.runs.length} runs, into ${dir}`)
    await runSession(context, dir, plan, { here: await thisBuild() })
  }
  const stored = await readSession(dir)
  if (stored.session.plan.serves !== plan.serves)
    throw new SeamError(
      'MISMATCH',
      `${dir} is of the plan ${stored.session.plan.serves}, this one is ${plan.serves}`,
    )
  const { outcome, reason } = stored.session
  if (outcome !== 'done')
    context.ui.note(
      `${dir} is not whole: ${outcome}${reason === null ? '' : `, ${reason}`}; ${stored.records.size} of ${plan.runs.length} runs are there`,
    )
  return stored
}
