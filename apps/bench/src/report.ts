import { grouped } from './grouped.ts'
import type { Measurement } from './measure.ts'
import { bar, spread, strip } from './plot.ts'
import type { Ratio, RatioSpec } from './ratios.ts'
import { colours, table } from './ui.ts'

/** One row of a table. */
export interface CaseResult {
  readonly id: string
  readonly group: string
  readonly block: string
  readonly bytes: number | undefined
  readonly measurement: Measurement
}

export interface RatioResult {
  readonly spec: RatioSpec
  readonly ratio: Ratio
}

const barCells = 12
const columns = ['case', 'p50', 'p99', 'speed', 'samples', 'rounds', 'spread', 'p50 in its block']

/** The cases of one group: a line for each, blocks apart, with its rounds, and a bar as long as the median within its block. */
export function caseTable(results: readonly CaseResult[]): string {
  const blocks = grouped(results, (result) => result.block)
  const rows = [...blocks.values()].flatMap((block, i) => {
    const longest = Math.max(...block.map(({ measurement }) => measurement.p50Ns))
    const lines = block.map(({ id, bytes, measurement: { p50Ns, p99Ns, samples, roundsNs } }) => [
      id,
      duration(p50Ns),
      p99Ns === undefined ? '—' : duration(p99Ns),
      bytes === undefined ? '—' : speed(bytes, p50Ns),
      String(samples),
      strip(roundsNs),
      spread(roundsNs),
      bar(p50Ns / longest, barCells),
    ])
    return i === 0 ? lines : [new Array<string>(columns.length).fill(''), ...lines]
  })
  return table(columns, rows, [1, 2, 3, 4, 6])
}

export function ratioTable(results: readonly RatioResult[]): string {
  const rows = results.map(({ spec, ratio }) => [
    spec.candidate,
    spec.control,
    `${spec.of}${spec.statistic === 'p99' ? ' p99' : ''}`,
    times(ratio.value),
    `${times(ratio.low)} … ${times(ratio.high)}`,
    spec.target === undefined ? '' : `${spec.target.relation} ${spec.target.value}`,
    ratio.pass === undefined ? '' : ratio.pass ? colours.green('pass') : colours.red('miss'),
  ])
  return table(['case', 'against', 'of', 'ratio', 'of all rounds', 'target', ''], rows, [3, 4, 5])
}

export function duration(ns: number): string {
  const [value, unit] = ns < 1e3 ? [ns, 'ns'] : ns < 1e6 ? [ns / 1e3, 'us'] : [ns / 1e6, 'ms']
  return `${digits(value)} ${unit}`
}

/** Decimal units. */
export function speed(bytes: number, ns: number): string {
  const perSecond = bytes / (ns / 1e9)
  return perSecond >= 1e9 ? `${digits(perSecond / 1e9)} GB/s` : `${digits(perSecond / 1e6)} MB/s`
}

function digits(value: number): string {
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)
}

function times(value: number): string {
  return value < 0.1 ? value.toPrecision(2) : value.toFixed(2)
}
