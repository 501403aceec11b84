import { SeamError } from '@seamline/core'
import type { RunTrace } from '@seamline/profiler'
import { chainOf, createUi, type Injection, places, promptsOf, recordRun } from 'seamline/profile'
import type { Context } from '../command.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { ExternalFigures } from '../session/record.ts'
import { recordLlamaRpc } from './llama-rpc.ts'
import { recordInMemory } from './memory-run.ts'
import { recordUnsplit } from './unsplit-run.ts'

/**
 * Runs the sequences of a cell once and returns what was recorded: on fresh workers, in this process for transport `memory`, or without a
 * seam for `unsplit`. `model`: the file, null for stages that do not compute. The tokens of all ways are the same for one model.
 */
export async function recordPipeline(
  { signal }: Context,
  cell: PipelineCell,
  model: string | null,
): Promise<RunTrace> {
  const context = { ui: createUi({ json: true, progress: false }), signal }
  const { k, stages, tokens, warmupTokens, level, promptTokens, executor, transport } = cell
  const inject = injectionOf(cell)
  if (executor === 'unsplit') return recordUnsplit(context, cell, modelOf(cell, model))
  const paced = executor === 'fake' ? Array.from({ length: stages }, () => 0) : cell.pacedMs
  const { local, vocabulary, settings } = await chainOf(context, {
    ...(paced === null ? { model: modelOf(cell, model), local: stages } : { paced }),
    ...{ transport, codec: cell.codec, framing: cell.framing, ...linkOf(cell) },
    ...{ chunk: cell.chunk, ctx: cell.ctx, threads: cell.threads },
    ...{ embedding: cell.embedding ?? 0, k, liveness: 5000, progressDeadline: 60_000 },
  })
  const run = transport === 'memory' ? recordInMemory : recordRun
  return run(context, {
    ...{ prompts: promptsOf(k, promptTokens, vocabulary), tokens, warmupTokens, level },
    local: inject === undefined ? local : { ...local, inject },
    settings: { ...settings, command: ['bench', 'record'], model: cell.model ?? executor },
  })
}

/** What llama.cpp's own split of the model does on loopback. */
export function recordExternal(
  context: Context,
  cell: PipelineCell,
  model: string,
): Promise<ExternalFigures> {
  return recordLlamaRpc(context, cell, model)
}

function modelOf({ executor }: PipelineCell, model: string | null): string {
  if (model !== null) return model
  throw new SeamError('USAGE', `executor ${executor} needs a model`)
}

function linkOf({ link }: PipelineCell) {
  if (link === null) return {}
  const { delayMs, bitsPerSecond } = link
  return { link: { delayMs, ...(bitsPerSecond === null ? {} : { bitsPerSecond }) } }
}

function injectionOf(cell: PipelineCell): { stage: number; injection: Injection } | undefined {
  const { injection, executor, transport } = cell
  if (injection === null) return undefined
  if (executor === 'unsplit' || transport === 'memory')
    throw new SeamError(
      'USAGE',
      `delays go into worker processes: there are none of ${executor} ${transport}`,
    )
  const { stage, delayMs } = injection
  const place = places.find((known) => known === injection.place)
  if (place === undefined)
    throw new SeamError(
      'USAGE',
      `no delay can be put into ${injection.place}; places are ${places.join(', ')}`,
    )
  return { stage, injection: { place, delayMs } }
}
