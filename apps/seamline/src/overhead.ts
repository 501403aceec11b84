import { SpanName, spanTagParts } from '@seamline/core'
import type { StageTrace } from '@seamline/runtime'
import { spansOf } from './shares.ts'
import { median } from './ui.ts'

/** One traced generation. */
export interface TracedRun {
  readonly promptTokens: number
  readonly startedNs: number
  /** When each token arrived. */
  readonly receivedNs: readonly number[]
  readonly traces: readonly StageTrace[]
}

/** One decode step: feeding a token until the next one arrives. */
export interface DecodeStep {
  /** Of the token that was fed. */
  readonly position: number
  readonly wallNs: number
  /** In the engines of all stages together, by their own stamps around decode and synchronise. */
  readonly computeNs: number
}

export interface DecodeOverhead {
  readonly medianWallNs: number
  readonly medianComputeNs: number
  readonly ratio: number
  readonly steps: readonly DecodeStep[]
}

/** What a decoded token costs on the wall beyond the stages' own compute; sampling counts as wall. */
export function decodeOverhead({ promptTokens, receivedNs, traces }: TracedRun): DecodeOverhead {
  const computeNs = traces.map(computeByPosition)
  const steps = receivedNs.slice(1).map((arrivedNs, i) => {
    const position = promptTokens + i
    return {
      position,
      wallNs: arrivedNs - receivedNs[i]!,
      computeNs: computeNs.reduce((sum, ofStage) => sum + (ofStage.get(position) ?? Number.NaN), 0),
    }
  })
  const medianWallNs = median(steps.map(({ wallNs }) => wallNs))
  const medianComputeNs = median(steps.map((step) => step.computeNs))
  return { medianWallNs, medianComputeNs, ratio: medianWallNs / medianComputeNs, steps }
}

export interface PrefillOverhead {
  /** From the request to the first token. */
  readonly wallNs: number
  /** What the wall would be if nothing but compute took time: the slowest stage, and the others' first chunk. */
  readonly idealNs: number
  readonly ratio: number
  /** Compute of each chunk on each stage. */
  readonly chunkNs: readonly (readonly number[])[]
}

/** What a prefill costs on the wall beyond the slowest stage's compute and the filling of the pipeline. */
export function prefillOverhead({ promptTokens, startedNs, receivedNs, traces }: TracedRun): PrefillOverhead {
  const chunkNs = traces.map((trace) =>
    [...computeByPosition(trace)].filter(([position]) => position < promptTokens).map(([, ns]) => ns),
  )
  const summed = chunkNs.map((chunks) => chunks.reduce((sum, ns) => sum + ns, 0))
  const slowest = summed.indexOf(Math.max(...summed))
  const idealNs = chunkNs.reduce((sum, chunks, i) => sum + (i === slowest ? summed[i]! : chunks[0]!), 0)
  const wallNs = receivedNs[0]! - startedNs
  return { wallNs, idealNs, ratio: wallNs / idealNs, chunkNs }
}

/** Compute of one stage by the position of the first token of each step. */
function computeByPosition(trace: StageTrace): Map<number, number> {
  const found = new Map<number, number>()
  for (const { name, startNs, endNs, tag } of spansOf(trace)) {
    if (name === SpanName.compute) found.set(spanTagParts(tag).position, endNs - startNs)
  }
  return found
}
