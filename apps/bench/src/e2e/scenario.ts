import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { SeamError } from '@seamline/core'
import { rootDir } from '../root.ts'
import {
  asObject,
  knownFields,
  type PipelineCell,
  parseCell,
  pipelineDefaults,
  text,
  whole,
} from '../session/cell.ts'
import { isLinkName, linkName, links } from './links.ts'

/** A file below `benchmarks/scenarios`: workloads that are measured side by side. */
export interface Scenario {
  readonly schema: 'seamline-scenario/1'
  readonly name: string
  readonly description: string
  /** Of every cell and control. */
  readonly runs: number
  /** Of the order of the runs. */
  readonly seed: number
  /** Idle before each run. */
  readonly cooldownMs: number
  /** By names that tell what varies: `ws K=2 10mbit-40ms`. */
  readonly cells: Readonly<Record<string, PipelineCell>>
  /** The fields of cells that vary, in the order of the file. */
  readonly varied: readonly Field[]
}

/** What can vary. */
export type Field = Exclude<keyof PipelineCell, 'kind' | 'injection'>

const fields = ['schema', 'name', 'description', 'runs', 'seed', 'cooldownMs', 'base', 'vary']
const mostCells = 200

/** A name below `benchmarks/scenarios` or the path of a file. Throws `FILE` or `USAGE`. */
export async function readScenario(name: string): Promise<Scenario> {
  const isPath = name.endsWith('.json') || name.includes('/')
  const file = isPath ? name : join(scenarioDir, `${name}.json`)
  try {
    return parseScenario(JSON.parse(await readFile(file, 'utf8')))
  } catch (error) {
    if (error instanceof SyntaxError)
      throw new SeamError('USAGE', `${basename(file)} is no JSON: ${error.message}`)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || isPath) throw SeamError.from(error, 'FILE')
    throw new SeamError(
      'USAGE',
      `there is no scenario ${name}; there are ${(await scenarioNames()).join(', ')}`,
    )
  }
}

/** All that lie below `benchmarks/scenarios`. */
export async function scenarioNames(): Promise<string[]> {
  const files = await readdir(scenarioDir).catch(() => [])
  return files.flatMap((file) => (file.endsWith('.json') ? basename(file, '.json') : [])).sort()
}

const scenarioDir = join(rootDir, 'benchmarks', 'scenarios')

/** Every combination of what varies is a cell. Throws `USAGE` naming the field that is wrong. */
export function parseScenario(value: unknown): Scenario {
  const scenario = asObject(value, 'scenario')
  knownFields(scenario, fields, 'scenario')
  if (scenario.schema !== 'seamline-scenario/1')
    throw new SeamError('USAGE', 'scenario.schema: seamline-scenario/1 is needed')
  const vary = Object.entries(asObject(scenario.vary ?? {}, 'scenario.vary')).map(([field, values]) => {
    const where = `scenario.vary.${field}`
    if (!isField(field)) throw new SeamError('USAGE', `${where}: cells have no such field that can vary`)
    if (!Array.isArray(values) || values.length === 0)
      throw new SeamError('USAGE', `${where}: a list of values is needed`)
    return [field, values as readonly unknown[]] as const
  })
  const count = vary.reduce((product, [, values]) => product * values.length, 1)
  if (count > mostCells) throw new SeamError('LIMIT', `${count} cells, at most ${mostCells} are run`)
  let combinations: Record<string, unknown>[] = [asObject(scenario.base, 'scenario.base')]
  for (const [field, values] of vary)
    combinations = combinations.flatMap((fixed) => values.map((each) => ({ ...fixed, [field]: each })))
  const varied = vary.map(([field]) => field)
  const cells: Record<string, PipelineCell> = {}
  for (const fixed of combinations) {
    const cell = splitCell(fixed)
    const name = variedName(cell, varied.length === 0 ? ['transport'] : varied)
    if (cells[name] !== undefined) throw new SeamError('USAGE', `scenario.vary: ${name} is there twice`)
    cells[name] = cell
  }
  return {
    ...({ schema: 'seamline-scenario/1', name: text(scenario.name, 'scenario.name') } as const),
    description: text(scenario.description, 'scenario.description'),
    runs: whole(scenario.runs ?? 6, 'scenario.runs', 1, 1000),
    seed: whole(scenario.seed ?? 1, 'scenario.seed', 0, 0xffffffff),
    cooldownMs: whole(scenario.cooldownMs ?? 0, 'scenario.cooldownMs', 0, 600_000),
    ...{ cells, varied },
  }
}

/** A chain of stages without a delay on purpose: what else there is runs beside it as a control. */
function splitCell(fixed: Record<string, unknown>): PipelineCell {
  const { link } = fixed
  const cell = parseCell(
    { ...fixed, link: typeof link === 'string' ? linkNamed(link) : (link ?? null) },
    'scenario.base',
  )
  if (cell.kind !== 'pipeline' || cell.executor === 'unsplit' || cell.executor === 'llama-rpc')
    throw new SeamError('USAGE', 'scenario.base: a chain of stages is needed; its controls are added to it')
  if (cell.injection !== null || cell.level === 0)
    throw new SeamError('USAGE', 'scenario.base: without an injection and at level 1 or 2 is needed')
  return cell
}

function linkNamed(name: string) {
  if (isLinkName(name)) return links[name]
  throw new SeamError('USAGE', `there is no link ${name}; there are ${Object.keys(links).join(', ')}`)
}

/** What tells a cell from others of its scenario: `ws K=2 10mbit-40ms`. */
export function variedName(cell: PipelineCell, varied: readonly Field[]): string {
  return varied.map((field) => partOf(cell, field)).join(' ')
}

function partOf(cell: PipelineCell, field: Field): string {
  if (field === 'k') return `K=${cell.k}`
  if (field === 'stages') return `x${cell.stages}`
  if (field === 'link') return linkName(cell.link)
  if (field === 'pacedMs') return `${cell.pacedMs?.join('+')}ms`
  const value = cell[field]
  return typeof value === 'string' ? value : `${field}=${value}`
}

function isField(name: string): name is Field {
  return (
    name !== 'kind' &&
    name !== 'injection' &&
    (name in pipelineDefaults || name === 'executor' || name === 'model')
  )
}
