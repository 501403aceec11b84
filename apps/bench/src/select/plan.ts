import { readFile } from 'node:fs/promises'
import { SeamError } from '@seamline/core'
import { type Category, categories } from '@seamline/profiler'
import { shuffle } from '../compare/plan.ts'
import { canonicalJson, sha256 } from '../session/canonical.ts'
import { asObject, type Cell, knownFields, oneOf, parseCell, real, text, whole } from '../session/cell.ts'
import type { PlannedRun, SessionPlan } from '../session/session.ts'
import { random } from '../statistics/index.ts'
import { leastRuns } from './estimate.ts'
import { type FloorRule, floorRules } from './floors.ts'
import { notRemovable } from './gains.ts'
import { type Target, targets } from './targets.ts'

/** What is to be found out, written before anything is measured. */
export interface SelectPlan {
  readonly schema: 'seamline-plan/1'
  readonly name: string
  readonly target: Target
  /** Removing a candidate must gain this much, in percent of the time. */
  readonly minimumEffectPct: number
  readonly alpha: number
  /** Categories that may be chosen. Absent: all that a seam can take away. */
  readonly candidates?: readonly Category[]
  /** Down to what a candidate is removed. Absent: `measured`. */
  readonly floors?: FloorRule
  readonly seed: number
  /** Of every cell, to choose which ones to look at. */
  readonly surveyRuns: number
  /** Of a chosen cell; at least 10. */
  readonly selectRuns: number
  /** Of it with more recorded: the winner must be the same. */
  readonly level2Runs: number
  /** With a delay at the winner. */
  readonly injectionRuns: number
  readonly injectionDelayMs: number
  readonly cells: Readonly<Record<string, Cell>>
}

const fields = [
  ...['schema', 'name', 'target', 'minimumEffectPct', 'alpha', 'candidates', 'floors', 'seed', 'cells'],
  ...['surveyRuns', 'selectRuns', 'level2Runs', 'injectionRuns', 'injectionDelayMs'],
]

export async function readPlan(file: string): Promise<SelectPlan> {
  try {
    return parsePlan(JSON.parse(await readFile(file, 'utf8')))
  } catch (error) {
    if (error instanceof SyntaxError) throw new SeamError('USAGE', `${file} is no JSON: ${error.message}`)
    throw SeamError.from(error, 'FILE')
  }
}

/** Throws `USAGE` naming the field that is wrong. */
export function parsePlan(value: unknown): SelectPlan {
  const plan = asObject(value, 'plan')
  knownFields(plan, fields, 'plan')
  oneOf(plan.schema, ['seamline-plan/1'], 'plan.schema')
  const given = asObject(plan.cells, 'plan.cells')
  const cells = Object.entries(given).map(
    ([name, cell]) => [name, parseCell(cell, `plan.cells.${name}`)] as const,
  )
  if (cells.length === 0) throw new SeamError('USAGE', 'plan.cells: at least one cell is needed')
  for (const [name, cell] of cells) {
    const hasSeam = cell.kind === 'pipeline' && cell.executor !== 'llama-rpc' && cell.executor !== 'unsplit'
    if (hasSeam && cell.level === 1 && cell.injection === null) continue
    throw new SeamError(
      'USAGE',
      `plan.cells.${name}: pipelines of stages, recorded at level 1 and without a delay, are needed`,
    )
  }
  return {
    ...({ schema: 'seamline-plan/1', name: text(plan.name, 'plan.name') } as const),
    target: oneOf(plan.target, targets, 'plan.target'),
    minimumEffectPct: real(plan.minimumEffectPct ?? 3, 'plan.minimumEffectPct', 0.1, 100),
    alpha: real(plan.alpha ?? 0.05, 'plan.alpha', 0.001, 0.2),
    ...(plan.candidates === undefined ? {} : { candidates: candidatesIn(plan.candidates) }),
    ...(plan.floors === undefined ? {} : { floors: oneOf(plan.floors, floorRules, 'plan.floors') }),
    seed: whole(plan.seed ?? 1, 'plan.seed', 0, 0xffffffff),
    surveyRuns: whole(plan.surveyRuns ?? 3, 'plan.surveyRuns', 1, 100),
    selectRuns: whole(plan.selectRuns ?? leastRuns, 'plan.selectRuns', leastRuns, 200),
    level2Runs: whole(plan.level2Runs ?? 3, 'plan.level2Runs', 3, 100),
    injectionRuns: whole(plan.injectionRuns ?? 6, 'plan.injectionRuns', 6, 100),
    injectionDelayMs: real(plan.injectionDelayMs ?? 10, 'plan.injectionDelayMs', 0.1, 10_000),
    cells: Object.fromEntries(cells),
  }
}

function candidatesIn(value: unknown): readonly Category[] {
  const removable = categories.filter((category) => !notRemovable.has(category))
  if (!Array.isArray(value) || value.length === 0)
    throw new SeamError('USAGE', `plan.candidates: a list is needed, of ${removable.join(', ')}`)
  return value.map((each, i) => oneOf(each, removable, `plan.candidates[${i}]`))
}

export function planSha256(plan: SelectPlan): string {
  return sha256(canonicalJson(plan))
}

/** Every cell `surveyRuns` times, in rounds of another order each. */
export function surveyPlan(plan: SelectPlan): SessionPlan {
  const next = random(plan.seed)
  const names = Object.keys(plan.cells)
  const rounds = Array.from({ length: plan.surveyRuns }, () => {
    const round = [...names]
    shuffle(round, next)
    return round
  })
  return sessionPlan(plan, 'survey', plan.cells, rounds.flat())
}

/** The chosen cell at level 1, with runs at level 2 in between. */
export function selectionPlan(plan: SelectPlan, cell: string): SessionPlan {
  const chosen = cellOf(plan, cell)
  const level2 = `${cell} level 2`
  const order = [...many(cell, plan.selectRuns), ...many(level2, plan.level2Runs)]
  shuffle(order, random(plan.seed + 1))
  return sessionPlan(plan, 'select', { [cell]: chosen, [level2]: { ...chosen, level: 2 } }, order)
}

/** The chosen cell with a delay at the winner, and as often without, in turns. */
export function injectionPlan(plan: SelectPlan, cell: string, place: string, stage: number): SessionPlan {
  const chosen = cellOf(plan, cell)
  const delayed = `${cell} delayed`
  const injection = { place, stage, delayMs: plan.injectionDelayMs }
  const order = many(cell, plan.injectionRuns).flatMap((name, i) =>
    i % 2 === 0 ? [name, delayed] : [delayed, name],
  )
  return sessionPlan(plan, 'inject', { [cell]: chosen, [delayed]: { ...chosen, injection } }, order)
}

function cellOf(plan: SelectPlan, name: string) {
  const cell = Object.hasOwn(plan.cells, name) ? plan.cells[name] : undefined
  if (cell?.kind === 'pipeline') return cell
  throw new SeamError('USAGE', `the plan has no cell ${name}; it has ${Object.keys(plan.cells).join(', ')}`)
}

function many(name: string, n: number): string[] {
  return Array.from({ length: n }, () => name)
}

function sessionPlan(
  plan: SelectPlan,
  purpose: SessionPlan['purpose'],
  cells: Readonly<Record<string, Cell>>,
  order: readonly string[],
): SessionPlan {
  const seen = new Map<string, number>()
  const runs = order.map((cell, i): PlannedRun => {
    const pair = seen.get(cell) ?? 0
    seen.set(cell, pair + 1)
    return { number: i + 1, cell, build: 'here', arm: cell, pair: purpose === 'inject' ? pair : null }
  })
  return {
    ...({ format: 'seamline-session/1', purpose, serves: planSha256(plan), seed: plan.seed } as const),
    ...{ cells, runs, cooldownMs: 0 },
  }
}
