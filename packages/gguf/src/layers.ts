import { ErrorCode, SeamError } from '@seamline/core'

/** A half-open range of layers. */
export interface LayerRange {
  readonly layerFirst: number
  /** One past the last layer. */
  readonly layerEnd: number
}

/** Parses half-open ranges such as `0-8,8-16`. Throws USAGE when they are not written so or not contiguous from 0. */
export function parseLayerRanges(text: string): LayerRange[] {
  const ranges = text.split(',').map((part) => {
    const match = /^\s*(\d{1,6})-(\d{1,6})\s*$/.exec(part)
    if (match === null) {
      throw new SeamError(ErrorCode.USAGE, `layer range "${part}" is not FIRST-END, for example 0-8,8-16`)
    }
    return { layerFirst: Number(match[1]), layerEnd: Number(match[2]) }
  })
  checkContiguous(ranges)
  return ranges
}

/** Throws USAGE unless the ranges cover layers 0 to `layerCount`, in order, without gaps, each holding a layer. */
export function checkLayerRanges(ranges: readonly LayerRange[], layerCount: number): void {
  checkContiguous(ranges)
  const end = ranges.at(-1)?.layerEnd ?? 0
  if (end !== layerCount) {
    throw new SeamError(ErrorCode.USAGE, `layer ranges end at ${end}, the model has ${layerCount} layers`)
  }
}

function checkContiguous(ranges: readonly LayerRange[]): void {
  let expected = 0
  for (const { layerFirst, layerEnd } of ranges) {
    if (layerFirst !== expected) {
      throw new SeamError(
        ErrorCode.USAGE,
        `layer range ${layerFirst}-${layerEnd} must begin at ${expected}: ranges are half-open and follow one another from 0`,
      )
    }
    if (layerEnd <= layerFirst) {
      throw new SeamError(ErrorCode.USAGE, `layer range ${layerFirst}-${layerEnd} holds no layer`)
    }
    expected = layerEnd
  }
}

/**
 * Cuts layers into `stages` contiguous ranges so that the largest stage is as small as possible.
 * `layerBytes[i]` is the size of layer i; `firstBytes` and `lastBytes` are what the first and the last stage hold besides
 * layers; only ranges that are `allowed` are made. Throws USAGE unless 1 <= stages <= layers, or when no cut is allowed.
 */
export function balanceByBytes(
  layerBytes: readonly number[],
  stages: number,
  firstBytes = 0,
  lastBytes = 0,
  allowed: (range: LayerRange) => boolean = () => true,
): LayerRange[] {
  const layers = layerBytes.length
  if (!Number.isInteger(stages) || stages < 1 || stages > layers) {
    throw new SeamError(
      ErrorCode.USAGE,
      `${stages} stages: a model of ${layers} layers takes 1 to ${layers} stages`,
    )
  }
  const before = [0]
  for (const [i, bytes] of layerBytes.entries()) before.push((before[i] ?? 0) + bytes)
  function weight(from: number, to: number): number {
    if (!allowed({ layerFirst: from, layerEnd: to })) return Number.POSITIVE_INFINITY
    return before[to]! - before[from]! + (from === 0 ? firstBytes : 0) + (to === layers ? lastBytes : 0)
  }

  // best[k][end]: the smallest possible largest stage when the first `end` layers make up k + 1 stages.
  const best: number[][] = [before.map((_, end) => weight(0, end))]
  const cuts: number[][] = [before.map(() => 0)]
  for (let k = 1; k < stages; k++) {
    const row = new Array<number>(layers + 1).fill(Number.POSITIVE_INFINITY)
    const cutRow = new Array<number>(layers + 1).fill(0)
    for (let end = k + 1; end <= layers; end++) {
      for (let cut = k; cut < end; cut++) {
        const largest = Math.max(best[k - 1]![cut]!, weight(cut, end))
        if (largest < row[end]!) {
          row[end] = largest
          cutRow[end] = cut
        }
      }
    }
    best.push(row)
    cuts.push(cutRow)
  }
  if (!Number.isFinite(best[stages - 1]![layers]!)) {
    throw new SeamError(
      ErrorCode.USAGE,
      `the ${layers} layers of this model cannot be cut into ${stages} stages; take another number of stages`,
    )
  }
  const ranges: LayerRange[] = []
  for (let k = stages - 1, layerEnd = layers; k >= 0; k--) {
    const layerFirst = cuts[k]![layerEnd]!
    ranges.unshift({ layerFirst, layerEnd })
    layerEnd = layerFirst
  }
  return ranges
}
