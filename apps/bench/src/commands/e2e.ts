import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import { type ModelFacts, modelFacts, openModel } from '@seamline/gguf'
import type { Command } from 'commander'
import { modelDir } from 'seamline/profile'
import { type Context, command, wholeNumber } from '../command.ts'
import { e2ePlan, type Surroundings, withControls } from '../e2e/controls.ts'
import { llamaRpc } from '../e2e/llama-rpc.ts'
import { resolveModel, verifyModel } from '../e2e/models.ts'
import { e2eText } from '../e2e/print.ts'
import { readScenario, type Scenario, scenarioNames } from '../e2e/scenario.ts'
import { e2eTable } from '../e2e/table.ts'
import { ExitCode } from '../exit-codes.ts'
import { derivedJson } from '../session/canonical.ts'
import { runSession, thisBuild } from '../session/run-session.ts'
import { readSession } from '../session/store.ts'

interface E2eOptions {
  readonly runs?: number
  readonly out?: string
  readonly read?: string
}

export function e2eCommand(): Command {
  return command<E2eOptions, readonly string[]>(
    'e2e',
    'Run the cells of a scenario end to end, in turns with their controls and each in fresh processes.',
    e2e,
  )
    .argument('[scenario]', 'a name below benchmarks/scenarios, or a file')
    .option('--runs <n>', 'of every cell (default: what the scenario says)', wholeNumber(1, 1000))
    .option('--out <dir>', 'the folder of the session (default: below bench/ in the folder of models)')
    .option('--read <dir>', 'say again what a session on disk says, and run nothing')
}

async function e2e(context: Context, options: E2eOptions, ...[name]: readonly string[]): Promise<ExitCode> {
  const { ui } = context
  const dir = options.read ?? (await measure(context, name, options))
  const stored = await readSession(dir)
  const result = e2eTable(stored)
  await writeFile(join(dir, 'e2e.json'), derivedJson(result))
  const { environment, builds, outcome, reason } = stored.session
  ui.record({ type: 'environment', ...environment, builds, outcome, reason })
  for (const cell of result.cells) ui.record({ type: 'e2e', ...cell })
  ui.print(e2eText(result))
  const { cpu, cores, load, node, commit, dirty } = environment
  const tree =
    commit === null ? 'no commit' : `commit ${commit.slice(0, 12)}${dirty === true ? ', changed' : ''}`
  ui.print(`\n${cpu}, ${cores} cores, load ${load[0]}, Node ${node}, ${tree}`)
  if (outcome !== 'done') ui.print(`the session is ${outcome}${reason === null ? '' : `: ${reason}`}`)
  ui.print(`kept in ${dir}`)
  return result.cells.some(({ failed }) => failed.length > 0) ? ExitCode.CHECK_FAILED : ExitCode.OK
}

/** Makes the runs; returns the folder of the session. */
async function measure(context: Context, name: string | undefined, options: E2eOptions): Promise<string> {
  if (name === undefined)
    throw new SeamError(
      'USAGE',
      `name a scenario (${(await scenarioNames()).join(', ')}), or give --read DIR`,
    )
  const { ui } = context
  const scenario = await readScenario(name)
  const expanded = withControls(scenario, await surroundingsOf(context, scenario))
  for (const { control, cells, reason } of expanded.leftOut) {
    ui.record({ type: 'left-out', control, cells, reason })
    ui.note(`without ${control} beside ${cells.join(', ')}: ${reason}`)
  }
  const plan = e2ePlan(scenario, expanded, options.runs)
  const at = new Date().toISOString().replaceAll(':', '-')
  const dir = options.out ?? join(modelDir(), 'bench', `${scenario.name}-${at}`)
  const count = Object.keys(plan.cells).length
  ui.note(`${scenario.name}: ${count} cells, ${plan.runs.length} runs, into ${dir}`)
  await runSession(context, dir, plan, { here: await thisBuild() })
  return dir
}

/** Makes the models that are not there yet, so that no run does, and checks all. */
async function surroundingsOf(context: Context, { cells }: Scenario): Promise<Surroundings> {
  const known = new Map<string, ModelFacts>()
  for (const { model, ctx } of Object.values(cells)) {
    if (model === null) continue
    const facts = known.get(model) ?? (await factsOf(context, model))
    if (ctx > facts.contextLength)
      throw new SeamError('USAGE', `ctx ${ctx}: ${model} was trained for ${facts.contextLength} positions`)
    known.set(model, facts)
  }
  const found = await llamaRpc()
  return {
    embeddings: new Map([...known].map(([name, { embedding }]) => [name, embedding])),
    withoutLlamaRpc: 'reason' in found ? found.reason : undefined,
  }
}

async function factsOf(context: Context, name: string): Promise<ModelFacts> {
  const model = await resolveModel(context, name)
  await verifyModel(context, model)
  return modelFacts(openModel(model.path))
}
