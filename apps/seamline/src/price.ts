import type { Pipeline } from '@seamline/runtime'
import { GREEDY } from './options.ts'
import { median } from './ui.ts'

/** Medians of wall time on one pipeline. */
export interface Pace {
  /** Between two tokens of a sequence that runs alone. */
  readonly tokenNs: number
  /** From the request to the first token. */
  readonly prefillNs: number
}

export interface PaceOptions {
  readonly prompt: readonly number[]
  readonly tokens: number
  readonly rounds: number
  readonly signal: AbortSignal
}

/** Runs the same generation on every pipeline in turn, `rounds` times over, so that what else the machine does hits all alike. */
export async function comparePace(pipelines: readonly Pipeline[], options: PaceOptions): Promise<Pace[]> {
  const { prompt, tokens, rounds, signal } = options
  const found = pipelines.map(() => ({ tokenNs: [] as number[], prefillNs: [] as number[] }))
  for (let round = 0; round < rounds; round++) {
    for (const [i, pipeline] of pipelines.entries()) {
      const { tokenNs, prefillNs } = found[i]!
      const generation = pipeline.generate({
        ...{ prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [], signal },
      })
      let lastNs: number | undefined
      for await (const { receivedNs } of generation) {
        if (lastNs === undefined) prefillNs.push(receivedNs - generation.startedNs)
        else tokenNs.push(receivedNs - lastNs)
        lastNs = receivedNs
      }
    }
  }
  return found.map(({ tokenNs, prefillNs }) => ({ tokenNs: median(tokenNs), prefillNs: median(prefillNs) }))
}
