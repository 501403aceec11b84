import { SeamError } from '@seamline/core'
import { shuffle } from '../compare/plan.ts'
import { canonicalJson } from '../session/canonical.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { PlannedRun, SessionPlan } from '../session/session.ts'
import { random } from '../statistics/index.ts'
import { notByLlamaRpc } from './llama-rpc.ts'
import { type Field, type Scenario, variedName } from './scenario.ts'

/** What has to be known beside a scenario to name its controls. */
export interface Surroundings {
  /** Values in a hidden row of each model, so that stages which do not compute send as many. */
  readonly embeddings: ReadonlyMap<string, number>
  /** Why llama.cpp's own split cannot be run at all; undefined where it can. */
  readonly withoutLlamaRpc: string | undefined
}

export interface Expanded {
  /** The cells of the scenario, then their controls. */
  readonly cells: Readonly<Record<string, PipelineCell>>
  /** Controls that some cells go without, and why. */
  readonly leftOut: readonly {
    readonly control: string
    readonly cells: readonly string[]
    readonly reason: string
  }[]
}

/** `told`: the fields that it shares with the cell it runs beside, and is named by where they vary. */
interface Control {
  readonly name: string
  readonly cell: PipelineCell
  readonly told: readonly Field[]
}

const workload = [
  'model',
  'k',
  'promptTokens',
  'tokens',
  'warmupTokens',
  'chunk',
  'ctx',
  'threads',
  'level',
] as const
const seam = [...workload, 'stages', 'codec', 'framing'] as const

/**
 * The cells of a scenario with the controls that always run beside: the whole model without a seam, the seam alone (stages that do not
 * compute, in one process), the seam on the same transport and link, the stages in one process, and llama.cpp's own split where it is
 * at hand. Controls that several cells share run once a round.
 */
export function withControls(scenario: Scenario, surroundings: Surroundings): Expanded {
  const { varied } = scenario
  const cells: Record<string, PipelineCell> = { ...scenario.cells }
  const known = new Set(Object.values(cells).map(canonicalJson))
  const leftOut = new Map<string, { control: string; cells: string[]; reason: string }>()
  const leave = (control: string, cell: string, reason: string) => {
    const key = `${control}: ${reason}`
    const others = leftOut.get(key)?.cells ?? []
    leftOut.set(key, { control, reason, cells: [...others, cell] })
  }
  for (const [name, cell] of Object.entries(scenario.cells)) {
    for (const control of controlsOf(cell, surroundings, (kind, reason) => leave(kind, name, reason))) {
      const key = canonicalJson(control.cell)
      if (known.has(key)) continue
      known.add(key)
      const told = varied.filter((field) => control.told.includes(field))
      const full = [control.name, variedName(cell, told)].filter((part) => part !== '').join(' ')
      if (cells[full] !== undefined)
        throw new SeamError('USAGE', `two different controls would be called ${full}; split the scenario`)
      cells[full] = control.cell
    }
  }
  return { cells, leftOut: [...leftOut.values()] }
}

function controlsOf(
  cell: PipelineCell,
  { embeddings, withoutLlamaRpc }: Surroundings,
  leave: (control: string, reason: string) => void,
): Control[] {
  const { model } = cell
  const embedding = model === null ? cell.embedding : (embeddings.get(model) ?? null)
  const fake = { ...cell, executor: 'fake', model: null, pacedMs: null, embedding } as const
  const inMemory = { transport: 'memory', link: null } as const
  const controls: Control[] = [
    { name: 'fake memory', cell: { ...fake, ...inMemory }, told: seam },
    { name: `fake ${cell.transport}`, cell: fake, told: [...seam, 'link'] },
    { name: `${cell.executor} memory`, cell: { ...cell, ...inMemory }, told: seam },
  ]
  if (model === null) {
    for (const control of ['unsplit', 'llama-rpc']) leave(control, `${cell.executor} has no model`)
    return controls
  }
  const whole = { ...cell, executor: 'unsplit', transport: 'none', stages: 1, link: null } as const
  controls.unshift({ name: 'unsplit', cell: { ...whole, codec: 'f32', framing: 'protobuf' }, told: workload })
  const excluded = withoutLlamaRpc ?? notByLlamaRpc(cell)
  if (excluded === undefined) {
    const rpc = { ...cell, executor: 'llama-rpc', transport: 'tcp', framing: 'ggml-rpc' } as const
    controls.push({ name: 'llama-rpc', cell: rpc, told: [...workload, 'stages'] })
  } else leave('llama-rpc', excluded)
  return controls
}

/** Every cell and control once a round, in another order each; what ran in one round shares the number of its `pair`. */
export function e2ePlan(scenario: Scenario, { cells }: Expanded, rounds = scenario.runs): SessionPlan {
  const next = random(scenario.seed)
  const runs: PlannedRun[] = []
  for (let pair = 0; pair < rounds; pair++) {
    const names = Object.keys(cells)
    shuffle(names, next)
    for (const cell of names) runs.push({ number: runs.length + 1, cell, build: 'here', arm: cell, pair })
  }
  return {
    ...({ format: 'seamline-session/1', purpose: 'e2e', serves: null, seed: scenario.seed } as const),
    ...{ cells, runs, cooldownMs: scenario.cooldownMs },
  }
}
