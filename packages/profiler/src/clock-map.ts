import { clockUncertaintyNs, onLastStage } from './clocks.ts'
import type { ClockMap } from './trace.ts'

/** `ownNs` of the process of `map` on the clock of the last stage, rounded. */
export function placed(map: ClockMap, ownNs: number): number {
  return Math.round(onLastStage(map, ownNs))
}

/** How early and how late `ownNs` can have been on the clock of the last stage; without a band at any time. */
export function placedBand(
  map: ClockMap,
  ownNs: number,
): { readonly lowNs: number; readonly highNs: number } {
  const { band } = map
  const half = clockUncertaintyNs(map, ownNs)
  if (half === Infinity) return { lowNs: -half, highNs: half }
  const after = band.findIndex(({ atNs }) => atNs >= ownNs)
  const to = band[after === -1 ? band.length - 1 : Math.max(1, after)]!
  const from = band[band.indexOf(to) - 1]!
  const share = to.atNs === from.atNs ? 0 : (ownNs - from.atNs) / (to.atNs - from.atNs)
  return {
    lowNs: ownNs + from.lowNs + share * (to.lowNs - from.lowNs),
    highNs: ownNs + from.highNs + share * (to.highNs - from.highNs),
  }
}
