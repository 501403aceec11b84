import { SeamError } from '@seamline/core'
import type { RunTrace } from '@seamline/profiler'
import { chainOf, createUi, type Injection, places, promptsOf, recordRun } from 'seamline/profile'
import type { Context } from '../command.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { ExternalFigures } from '../session/record.ts'

/** Runs the sequences of a cell on fresh workers and returns what was recorded. `model`: the file, null for stages that do not compute. */
export async function recordPipeline(
  { signal }: Context,
  cell: PipelineCell,
  model: string | null,
): Promise<RunTrace> {
  const context = { ui: createUi({ json: true, progress: false }), signal }
  const { k, stages, tokens, warmupTokens, level, promptTokens } = cell
  const paced = cell.executor === 'fake' ? Array.from({ length: stages }, () => 0) : cell.pacedMs
  const link =
    cell.link === null
      ? {}
      : {
          link: {
            delayMs: cell.link.delayMs,
            ...(cell.link.bitsPerSecond === null ? {} : { bitsPerSecond: cell.link.bitsPerSecond }),
          },
        }
  const { local, vocabulary, settings } = await chainOf(context, {
    ...(model === null ? { paced: paced! } : { model, local: stages }),
    ...{ transport: cell.transport, codec: cell.codec, framing: cell.framing, ...link },
    ...{ chunk: cell.chunk, ctx: cell.ctx, threads: cell.threads },
    ...{ embedding: cell.embedding ?? 0, k, liveness: 5000, progressDeadline: 60_000 },
  })
  const inject = injectionOf(cell)
  return recordRun(context, {
    ...{
      local: inject === undefined ? local : { ...local, inject },
      prompts: promptsOf(k, promptTokens, vocabulary),
      tokens,
      warmupTokens,
      level,
    },
    settings: { ...settings, command: ['bench', 'record'], model: cell.model ?? cell.executor },
  })
}

export function recordExternal(
  _context: Context,
  _cell: PipelineCell,
  _model: string,
): Promise<ExternalFigures> {
  throw new SeamError('UNSUPPORTED', 'executor llama-rpc is not there yet')
}

function injectionOf({ injection }: PipelineCell): { stage: number; injection: Injection } | undefined {
  if (injection === null) return undefined
  const { stage, delayMs } = injection
  const place = places.find((known) => known === injection.place)
  if (place === undefined)
    throw new SeamError(
      'USAGE',
      `no delay can be put into ${injection.place}; places are ${places.join(', ')}`,
    )
  return { stage, injection: { place, delayMs } }
}
