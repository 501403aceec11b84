import { SPAN_RECORD_LENGTH } from '@seamline/core'
import { metrics, type RunTrace } from '@seamline/profiler'
import { chainOf, createUi, promptsOf, recordRun } from 'seamline/profile'
import { ExitCode } from '../exit-codes.ts'
import { pairedEstimate } from '../statistics/index.ts'
import type { Ui } from '../ui.ts'

export interface LevelsOptions {
  readonly model: string
  readonly pairs: number
  readonly tokens: number
  readonly stages: number
}

/** Recording spans may cost this much of a token. */
const LIMIT_PCT = 1
/** Where pairs cannot tell, so much of a token is what spans times their calibrated cost may come to. */
const CALIBRATED_LIMIT_PCT = 0.1

/**
 * What recording spans (level 1) costs against stamps of tokens alone (level 0): fresh processes for every run, in the order
 * ABBA, and the paired interval of the logarithm of TPOT.
 */
export async function levels(
  { model, pairs, tokens, stages }: LevelsOptions,
  { ui, signal }: { readonly ui: Ui; readonly signal: AbortSignal },
): Promise<ExitCode> {
  const context = { ui: createUi({ json: true, progress: false }), signal }
  const { local, vocabulary, settings } = await chainOf(context, {
    ...{ model, local: stages, transport: 'tcp', embedding: 0, k: 1 },
    ...{ liveness: 5000, progressDeadline: 60_000 },
  })
  const record = (level: 0 | 1) =>
    recordRun(context, {
      ...{ local, prompts: promptsOf(1, 16, vocabulary), tokens, warmupTokens: 8, level },
      settings: { ...settings, command: ['bench', 'levels'], model },
    })
  const differences: number[] = []
  let spansPerToken = 0
  let spanCostNs = 0
  const tpotNs: number[] = []
  for (let pair = 0; pair < pairs; pair++) {
    const order = pair % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)
    const found: [number, number] = [0, 0]
    for (const level of order) {
      ui.progress(`pair ${pair + 1} of ${pairs}, level ${level}`)
      const trace = await record(level)
      found[level] = metrics(trace).tpotNs!
      if (level === 1) {
        spansPerToken = spansOf(trace) / tokens
        spanCostNs = Math.max(...trace.processes.map((process) => process.spanCostNs))
      }
    }
    tpotNs.push(found[0])
    differences.push(Math.log(found[1] / found[0]))
    ui.record({ type: 'pair', pair, order, tpotNs: found })
  }
  const { center, low, high, confidence } = pairedEstimate(differences)
  const [centerPct, lowPct, highPct] = [center, low, high].map((log) => 100 * (Math.exp(log) - 1)) as [
    number,
    number,
    number,
  ]
  const calibratedPct = (100 * spansPerToken * spanCostNs) / mean(tpotNs)
  const verdict =
    highPct <= LIMIT_PCT
      ? 'WITHIN'
      : lowPct > LIMIT_PCT
        ? 'ABOVE'
        : calibratedPct <= CALIBRATED_LIMIT_PCT
          ? 'INCONCLUSIVE, calibrated within'
          : 'INCONCLUSIVE'
  ui.record({
    ...{ type: 'levels', pairs, tokens, stages, centerPct, lowPct, highPct, confidence },
    ...{ spansPerToken, spanCostNs, calibratedPct, tpotNs: mean(tpotNs), verdict },
  })
  ui.print(
    `level 1 against level 0, ${pairs} pairs: TPOT ${signed(centerPct)} %, ${(100 * confidence).toFixed(1)} % interval ${signed(lowPct)} to ${signed(highPct)} %; limit ${LIMIT_PCT} %`,
  )
  ui.print(
    `${spansPerToken.toFixed(1)} spans a token in all processes, ${spanCostNs.toFixed(0)} ns each: ${calibratedPct.toFixed(3)} % of ${(mean(tpotNs) / 1e6).toFixed(2)} ms`,
  )
  ui.print(verdict)
  return verdict === 'ABOVE' || verdict === 'INCONCLUSIVE' ? ExitCode.CHECK_FAILED : ExitCode.OK
}

function spansOf({ processes }: RunTrace): number {
  return processes.reduce((sum, { spans }) => sum + spans.length / SPAN_RECORD_LENGTH, 0)
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function signed(value: number): string {
  return `${value >= 0 ? '+' : ''}${value.toFixed(2)}`
}
