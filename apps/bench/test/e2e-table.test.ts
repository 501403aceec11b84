import type { RunTrace } from '@seamline/profiler'
import { expect, it } from 'vitest'
import { e2eText } from '../src/e2e/print.ts'
import { e2eTable } from '../src/e2e/table.ts'
import { parseCell } from '../src/session/cell.ts'
import type { StoredRecord } from '../src/session/record.ts'
import type { PlannedRun, SessionPlan } from '../src/session/session.ts'
import type { StoredSession } from '../src/session/store.ts'

const real = { model: 'm', k: 1, promptTokens: 4, tokens: 3, level: 0 }
const cells = {
  relay: parseCell({ ...real, executor: 'llama', transport: 'relay', link: { delayMs: 20 } }, 'cell'),
  whole: parseCell({ ...real, executor: 'unsplit' }, 'cell'),
  // Other work: nothing to compare with.
  longer: parseCell({ ...real, executor: 'llama', tokens: 5 }, 'cell'),
  rpc: parseCell({ ...real, executor: 'llama-rpc' }, 'cell'),
}

/** TPOT in ms by round: those of `relay` are 1.2, 1.3, 1.4, 1.5, 1.6 and 0.85 times those of `whole`. */
const tpots = { relay: [12, 13, 14, 15, 16, 17], whole: [10, 10, 10, 10, 10, 20] }

function trace(tpotMs: number): RunTrace {
  const acceptedNs = 5_000_000
  const firstNs = acceptedNs + 3 * tpotMs * 1e6
  const emittedNs = [firstNs, firstNs + tpotMs * 1e6 - 1000, firstNs + 2 * tpotMs * 1e6]
  const process = { layerFirst: 0, layerEnd: 1, spans: new Float64Array(), dropped: 0, spanCostNs: 0 }
  return {
    ...{ format: 'seamline-trace/1', complete: true, level: 0 },
    settings: { sequences: 1, embedding: 0, transport: 'relay' } as RunTrace['settings'],
    processes: [
      { ...process, name: 'coordinator', role: 'coordinator', stage: -1, peakRssBytes: 1000 },
      { ...process, name: 'worker-0', role: 'stage', stage: 0, peakRssBytes: 200 },
      { ...process, name: 'relay', role: 'relay', stage: -1, peakRssBytes: 0 },
    ],
    sequences: [{ sequence: 1, promptTokens: 4, acceptedNs, emittedNs, tokens: [1, 2, 3] }],
  }
}

function session(): StoredSession {
  const runs: PlannedRun[] = []
  const records = new Map<number, StoredRecord>()
  const add = (cell: keyof typeof cells, pair: number, record: Partial<StoredRecord> | undefined) => {
    const number = runs.length + 1
    runs.push({ number, cell, build: 'here', arm: cell, pair })
    if (record === undefined) return
    const base = { format: 'seamline-run/1', cell: cells[cell], status: 'done', reason: null, micro: null }
    records.set(number, { ...base, external: null, trace: undefined, ...record } as StoredRecord)
  }
  for (let pair = 0; pair < 6; pair++) {
    // The order within a round turns around: it is the pair that tells what belongs together.
    const round = (['relay', 'whole'] as const).toSorted(() => (pair % 2 === 0 ? 1 : -1))
    for (const name of round) add(name, pair, { trace: trace(tpots[name][pair]!) })
  }
  add('longer', 0, { status: 'failed', reason: 'worker-1 ended [WORKER]' })
  add('longer', 1, undefined)
  add('rpc', 0, { external: { prefillTokensPerSecond: 40, decodeTokensPerSecond: 50, raw: {} } })
  const plan: SessionPlan = {
    ...{ format: 'seamline-session/1', purpose: 'e2e', serves: null, seed: 1 },
    ...{ cells, runs, cooldownMs: 0 },
  }
  return { dir: '', session: { plan } as StoredSession['session'], records }
}

const result = e2eTable(session())
const cellOf = (name: string) => result.cells.find((cell) => cell.name === name)!

it('the table has medians over runs with the interval that their order gives', () => {
  const { figures, done, planned, role, emulated } = cellOf('relay')
  expect({ done, planned, role, emulated }).toEqual({ done: 6, planned: 6, role: 'split', emulated: true })
  // With six values only the extremes cover the median at 95 %: 1 - 2 / 2^6 = 96.9 %.
  expect(figures.tpot).toEqual({ n: 6, median: 14_500_000, low: 12_000_000, high: 17_000_000 })
  expect(figures.ttft).toEqual({ n: 6, median: 43_500_000, low: 36_000_000, high: 51_000_000 })
  // Two tokens after the first, in two times TPOT.
  expect(figures.throughput!.high).toBe(Number((1000 / 12).toPrecision(9)))
  expect(figures.peak_rss).toEqual({ n: 6, median: 1200, low: 1200, high: 1200 })
  expect(figures.itl_p95).toBeNull()
  expect(figures.bytes_per_token).toBeNull()
})

it('ratios are of runs of the same round', () => {
  expect(cellOf('relay').unsplit).toBe('whole')
  expect(cellOf('relay').ratios.tpot).toEqual({ n: 6, median: 1.35, low: 0.85, high: 1.6 })
  expect(cellOf('whole').ratios.tpot).toBeNull()
  expect(cellOf('longer').unsplit).toBeNull()
  // One round of llama-bench, at 20 ms a token, has no interval.
  expect(cellOf('rpc').figures.prefill).toEqual({ n: 1, median: 40, low: null, high: null })
  expect(cellOf('rpc').ratios.tpot).toEqual({ n: 1, median: 2, low: null, high: null })
})

it('runs that failed or are missing are told, not left out', () => {
  const { done, planned, failed, missing, figures } = cellOf('longer')
  expect({ done, planned, missing }).toEqual({ done: 0, planned: 2, missing: [14] })
  expect(failed).toEqual([{ run: 13, reason: 'worker-1 ended [WORKER]' }])
  expect(figures.tpot).toBeNull()
  const text = e2eText(result)
  expect(text).toContain('run 13 of longer failed: worker-1 ended [WORKER]')
  expect(text).toContain('longer: no record of run 14')
  expect(text).toContain('14.50 ms')
  expect(text).toContain('12.00 … 17.00 ms')
  expect(text).toContain('1.35 (0.850 … 1.60)')
  expect(text).toContain('emulated')
})
