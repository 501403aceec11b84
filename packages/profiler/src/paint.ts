/** What covers an interval: the first layer that claims an instant has it. */
export interface Layer<T> {
  readonly startNs: number
  readonly endNs: number
  readonly label: T
}

/** A part of a tiling. */
export interface Tile<T> {
  readonly startNs: number
  readonly endNs: number
  readonly label: T
}

/**
 * Tiles `[startNs, endNs]` exactly: every instant gets the label of the first layer that covers it, or `rest`. Neighbours of one
 * label object are joined. Stamps must be integers, so that the lengths add up without rounding.
 */
export function paint<T>(startNs: number, endNs: number, layers: Iterable<Layer<T>>, rest: T): Tile<T>[] {
  const tiles: Tile<T>[] = []
  let free: Layer<null>[] = endNs > startNs ? [{ startNs, endNs, label: null }] : []
  for (const layer of layers) {
    if (free.length === 0) break
    if (layer.endNs <= startNs || layer.startNs >= endNs) continue
    const left: Layer<null>[] = []
    for (const gap of free) {
      const from = Math.max(gap.startNs, layer.startNs)
      const to = Math.min(gap.endNs, layer.endNs)
      if (from >= to) {
        left.push(gap)
        continue
      }
      tiles.push({ startNs: from, endNs: to, label: layer.label })
      if (gap.startNs < from) left.push({ startNs: gap.startNs, endNs: from, label: null })
      if (to < gap.endNs) left.push({ startNs: to, endNs: gap.endNs, label: null })
    }
    free = left
  }
  for (const gap of free) tiles.push({ ...gap, label: rest })
  tiles.sort((a, b) => a.startNs - b.startNs)
  return joined(tiles)
}

function joined<T>(tiles: readonly Tile<T>[]): Tile<T>[] {
  const out: Tile<T>[] = []
  for (const tile of tiles) {
    const last = out.at(-1)
    if (last !== undefined && last.label === tile.label && last.endNs === tile.startNs)
      out[out.length - 1] = { ...last, endNs: tile.endNs }
    else out.push(tile)
  }
  return out
}
