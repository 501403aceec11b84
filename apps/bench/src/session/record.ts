import type { RunTrace } from '@seamline/profiler'
import type { Environment } from '../environment.ts'
import type { Cell } from './cell.ts'

/** Everything known of one run of one cell in fresh processes, as `run.json` in its folder; spans lie beside it as a trace. */
export interface RunRecord {
  readonly format: 'seamline-run/1'
  readonly cell: Cell
  readonly status: 'done' | 'failed'
  /** Why it failed. */
  readonly reason: string | null
  /** ISO 8601 of the host. */
  readonly startedAt: string
  readonly endedAt: string
  readonly environment: Environment
  readonly guards: Guards | null
  /** For a cell of kind `micro`. */
  readonly micro: MicroFigures | null
  /** For executor `llama-rpc`: what llama-bench printed as JSON. */
  readonly external: ExternalFigures | null
  /** The folder also holds a trace: for pipelines other than `llama-rpc`. */
  readonly hasTrace: boolean
}

export interface MicroFigures {
  readonly samples: number
  readonly p50Ns: number
  readonly minNs: number
  /** The median of each round. */
  readonly roundsNs: readonly number[]
  /** Bytes that one run handles; null where the case says nothing. */
  readonly bytes: number | null
}

export interface ExternalFigures {
  readonly prefillTokensPerSecond: number
  readonly decodeTokensPerSecond: number
  /** Of every repetition, as printed. */
  readonly raw: unknown
}

/** What two runs must share for their times to be comparable, and what a change must not alter. All texts; `not recorded` where absent. */
export type Guards = Readonly<Record<GuardName, string>>

export const guardNames = [
  'protocolIds',
  'modelSha256',
  'manifestSha256',
  'engine',
  'libraries',
  'backend',
  'cpu',
  'cores',
  'kernel',
  'node',
  'transport',
  'link',
  'codec',
  'framing',
  /** SHA-256 over the token ids of all sequences. */
  'tokens',
  /** Framed bytes that a decoded token costs on all edges. */
  'bytesPerToken',
] as const

export type GuardName = (typeof guardNames)[number]

/** A record with its spans, as it was read back. */
export interface StoredRecord extends RunRecord {
  readonly trace: RunTrace | undefined
}

export const metricNames = [
  'ttft',
  'prefill',
  'tpot',
  'itl_p50',
  'itl_p95',
  'throughput',
  'peak_rss',
  'bytes_per_token',
  'time',
] as const

/**
 * `ttft`, `tpot`, `itl_*` in ns (mean TTFT over sequences), `prefill` and `throughput` in tokens/s (`throughput`: K sequences in flight,
 * steady part, uncut where there is none), `peak_rss` the sum over coordinator and stages in bytes, `bytes_per_token` framed bytes on all edges
 * together, `time` the median of a micro case in ns.
 */
export type MetricName = (typeof metricNames)[number]

export type MetricValues = Readonly<Record<MetricName, number | null>>

export const metricFacts: Readonly<
  Record<
    MetricName,
    {
      readonly label: string
      readonly unit: 'ns' | 'tokens/s' | 'bytes'
      readonly better: 'lower' | 'higher'
      readonly exact: boolean
    }
  >
> = {
  ttft: { label: 'TTFT', unit: 'ns', better: 'lower', exact: false },
  prefill: { label: 'Prefill', unit: 'tokens/s', better: 'higher', exact: false },
  tpot: { label: 'Decode (TPOT)', unit: 'ns', better: 'lower', exact: false },
  itl_p50: { label: 'ITL median', unit: 'ns', better: 'lower', exact: false },
  itl_p95: { label: 'ITL p95', unit: 'ns', better: 'lower', exact: false },
  throughput: { label: 'Throughput', unit: 'tokens/s', better: 'higher', exact: false },
  peak_rss: { label: 'Memory (peak RSS)', unit: 'bytes', better: 'lower', exact: false },
  bytes_per_token: { label: 'Bytes per token', unit: 'bytes', better: 'lower', exact: true },
  time: { label: 'Time', unit: 'ns', better: 'lower', exact: false },
}
