import { SeamError } from '@seamline/core'
import type { RunTrace } from '@seamline/profiler'
import { createCatalogue } from '../catalogue.ts'
import type { Context } from '../command.ts'
import { recordExternal, recordPipeline } from '../e2e/executors.ts'
import { resolveModel } from '../e2e/models.ts'
import { readEnvironment } from '../environment.ts'
import { measureBlock } from '../measure.ts'
import { createPeers } from '../peers.ts'
import type { Cell, MicroCell } from './cell.ts'
import { guardsOf } from './guards.ts'
import type { ExternalFigures, MicroFigures, RunRecord } from './record.ts'
import { writeRecord } from './store.ts'
import { metricValues } from './values.ts'

/** Runs one cell once, with this process as its coordinator, and writes the record to `dir`, also one that says why it failed. */
export async function recordCell(context: Context, cell: Cell, dir: string): Promise<RunRecord> {
  const environment = await readEnvironment()
  const startedAt = new Date().toISOString()
  let trace: RunTrace | undefined
  let micro: MicroFigures | null = null
  let external: ExternalFigures | null = null
  let failure: SeamError | undefined
  try {
    if (cell.kind === 'micro') micro = await recordMicro(context, cell)
    else {
      const model = cell.model === null ? null : await resolveModel(context, cell.model)
      if (cell.executor === 'llama-rpc') external = await recordExternal(context, cell, model!.path)
      else trace = await recordPipeline(context, cell, model?.path ?? null)
      if (model !== null && trace !== undefined && trace.settings.modelSha256 !== model.sha256)
        throw new SeamError(
          'MISMATCH',
          `${cell.model} has the SHA-256 ${trace.settings.modelSha256}, benchmarks/models.json says ${model.sha256}`,
        )
    }
  } catch (error) {
    context.signal.throwIfAborted()
    failure = SeamError.from(error, 'EXECUTOR')
  }
  const base = {
    ...({ format: 'seamline-run/1', cell, startedAt, environment, micro, external } as const),
    endedAt: new Date().toISOString(),
    status: failure === undefined ? ('done' as const) : ('failed' as const),
    reason: failure === undefined ? null : `${failure.message} [${failure.code}]`,
    hasTrace: trace !== undefined,
  }
  const bytes = metricValues({ ...base, guards: null, trace }).bytes_per_token
  const record: RunRecord = {
    ...base,
    guards: failure === undefined ? await guardsOf(cell, trace, bytes) : null,
  }
  await writeRecord(dir, record, trace)
  return record
}

async function recordMicro({ signal }: Context, { id, timeMs }: MicroCell): Promise<MicroFigures> {
  const peers = createPeers()
  try {
    const { entries, dropped } = await createCatalogue(peers)
    const entry = entries.find((each) => each.case.id === id)
    if (entry === undefined) {
      const absent = dropped.map(({ arm, reason }) => `; left out: ${arm}, ${reason}`).join('')
      throw new SeamError('USAGE', `there is no case ${id}; pnpm bench --list prints every id${absent}`)
    }
    const [outcome] = await measureBlock([entry.case], { signal, timeMs, smoke: false })
    if (outcome === undefined || 'failure' in outcome)
      throw outcome?.failure ?? new SeamError('EXECUTOR', `${id} did not run`)
    const { samples, p50Ns, minNs, roundsNs } = outcome.measurement!
    return { samples, p50Ns, minNs, roundsNs, bytes: entry.case.bytes ?? null }
  } finally {
    await peers.dispose()
  }
}
