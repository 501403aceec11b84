import { alignClocks, metrics } from '@seamline/profiler'
import type { MetricName, MetricValues, StoredRecord } from './record.ts'

const none: MetricValues = {
  ...{ ttft: null, prefill: null, tpot: null, itl_p50: null, itl_p95: null },
  ...{ throughput: null, peak_rss: null, bytes_per_token: null, time: null },
}

/** The figures of one run, from its raw record alone. Null: not measured by such a run. A run that failed has none. */
export function metricValues(record: StoredRecord): MetricValues {
  if (record.status !== 'done') return none
  const { micro, external, trace } = record
  if (micro !== null) return { ...none, time: micro.p50Ns }
  if (external !== null) {
    const { prefillTokensPerSecond, decodeTokensPerSecond } = external
    return { ...none, prefill: prefillTokensPerSecond, tpot: 1e9 / decodeTokensPerSecond }
  }
  if (trace === undefined) return none
  const sameHost = trace.settings.severalHosts !== true
  const found = metrics(trace, trace.level === 0 ? undefined : alignClocks(trace, { sameHost }))
  const ttfts = found.sequences.flatMap(({ ttftNs }) => ttftNs ?? [])
  // A relay does not tell its memory; stages in the process of the coordinator have none of their own.
  const isOneProcess = trace.settings.transport === 'memory'
  const peaks = trace.processes.flatMap(({ role, peakRssBytes }) =>
    role === 'relay' || (isOneProcess && role === 'stage') ? [] : peakRssBytes,
  )
  const framed = found.bytesPerToken.map((edge) => edge.framed)
  const values: Record<MetricName, number | null> = {
    ...none,
    ttft: ttfts.length === 0 ? null : total(ttfts) / ttfts.length,
    prefill: found.prefillTokensPerSecond ?? null,
    tpot: found.tpotNs ?? null,
    itl_p50: found.itlNs.p50 ?? null,
    itl_p95: found.itlNs.p95 ?? null,
    throughput: (found.steady ?? found.uncut)?.tokensPerSecond ?? null,
    peak_rss: peaks.length === 0 || peaks.some((bytes) => bytes === 0) ? null : total(peaks),
    bytes_per_token:
      framed.length === 0 || framed.some((bytes) => bytes === undefined) ? null : total(framed as number[]),
  }
  return values
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0)
}
