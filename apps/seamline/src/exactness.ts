import { codecs, named } from './cluster.ts'
import type { Ui } from './ui.ts'

/** Whether a run's output is, bit for bit, that of the whole model computing one token of one sequence at a time. */
export interface Exactness {
  readonly regime: string
  readonly bitExact: boolean
  /** What stands against it; empty where nothing does. */
  readonly because: string
}

export interface Composition {
  readonly regime: string
  /** Sequences that may share a decode step. */
  readonly rows: number
  /** Name of the codec that was asked for. */
  readonly codec?: string | undefined
}

export function exactnessOf({ regime, rows, codec }: Composition): Exactness {
  const reasons: string[] = []
  if (regime !== 'uniform' && rows > 1) {
    reasons.push(`up to ${rows} rows share a step: equal only to a run with the same sequences in each step`)
  }
  if (codec !== undefined && named('codec', codecs, codec)().lossy)
    reasons.push(`codec ${codec} rounds hidden rows`)
  return { regime, bitExact: reasons.length === 0, because: reasons.join('; ') }
}

/** Says so on standard error where a run is not bit-exact. */
export function noteExactness(ui: Ui, { bitExact, because }: Exactness): void {
  if (!bitExact) ui.note(`not bit-exact: ${because}`)
}
