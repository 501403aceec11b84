import { dirname, join } from 'node:path'
import { openGguf } from '@seamline/gguf'
import type { StageTrace } from '@seamline/runtime'
import { type PreparedSplit, rangeText } from './prepare.ts'
import type { Regime } from './settings.ts'
import { bytes, table } from './ui.ts'

/** What a stage may weigh beside its file: the runtime, buffers of one chunk and KV cells of {@link STATED_CONTEXT} positions. */
const BESIDE_BYTES = 80e6
export const STATED_CONTEXT = 1024

/** Types of which llama.cpp makes a second copy, rearranged for the kernels of this platform (ggml-cpu/repack.cpp). */
const REARRANGED: readonly string[] = [
  ...['Q4_0', 'Q4_K', 'Q2_K', 'IQ4_NL', 'MXFP4'],
  ...(process.arch === 'arm64' ? ['Q5_K', 'Q6_K', 'Q8_0'] : []),
]

export interface StageMemory {
  readonly worker: string
  readonly layers: string
  readonly fileBytes: number
  /** 2 where llama.cpp rearranges most of the weights. */
  readonly copies: 1 | 2
  readonly rssBytes: number
  readonly limitBytes: number
  readonly holds: boolean
}

/** Resident memory of each stage against its share of the model. */
export function stageMemory(
  { manifest, manifestPath }: PreparedSplit,
  traces: readonly StageTrace[],
  regime: Regime,
): StageMemory[] {
  return traces.map((trace, i) => {
    const { file, byteLength: fileBytes } = manifest.stages[i]!
    const copies = regime === 'per-row' && isRearranged(join(dirname(manifestPath), file)) ? 2 : 1
    const limitBytes = copies * fileBytes + BESIDE_BYTES
    const { worker, rssBytes } = trace
    return {
      ...{ worker, layers: rangeText(trace), fileBytes, copies, rssBytes, limitBytes },
      holds: rssBytes <= limitBytes,
    }
  })
}

function isRearranged(path: string): boolean {
  let rearranged = 0
  let all = 0
  for (const { type, byteLength } of openGguf(path).tensors.values()) {
    all += byteLength
    if (REARRANGED.includes(type.name)) rearranged += byteLength
  }
  return 2 * rearranged > all
}

export function memoryTable(stages: readonly StageMemory[]): string {
  const rows = stages.map(({ worker, layers, fileBytes, copies, rssBytes, limitBytes, holds }) => [
    ...[worker, layers, bytes(fileBytes), String(copies), bytes(rssBytes), bytes(limitBytes)],
    holds ? 'holds' : 'above',
  ])
  return table(['stage', 'layers', 'file', 'copies', 'RSS', 'limit', ''], rows, [2, 3, 4, 5])
}
