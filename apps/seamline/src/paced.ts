import { InvalidArgumentError } from 'commander'

/** A stage that waits instead of computing, for runs with more stages than the machine has cores. */
export interface PacedStage {
  /** A decode step takes this long. */
  readonly computeMs: number
  readonly layerFirst: number
  readonly layerEnd: number
  readonly layerCount: number
  readonly embedding: number
}

/** What {@link parsePaced} reads: `14ms,layers=2-4/6,embedding=4096`. */
export function pacedText({ computeMs, layerFirst, layerEnd, layerCount, embedding }: PacedStage): string {
  return `${computeMs}ms,layers=${layerFirst}-${layerEnd}/${layerCount},embedding=${embedding}`
}

export function parsePaced(text: string): PacedStage {
  const match = /^(\d+(?:\.\d+)?)ms,layers=(\d+)-(\d+)\/(\d+),embedding=(\d+)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('For example 14ms,layers=2-4/6,embedding=4096.')
  const [computeMs, layerFirst, layerEnd, layerCount, embedding] = match.slice(1).map(Number) as [
    ...[number, number, number, number, number],
  ]
  return { computeMs, layerFirst, layerEnd, layerCount, embedding }
}
