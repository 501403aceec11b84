import { type Clock, monotonicClock, SeamError } from '@seamline/core'

const tries = 5

/**
 * Proves that native stamps and those of JavaScript are of one clock: each native reading must lie between one before and one after it.
 * Returns by how much the narrowest such pair leaves open that they differ, in ns. Throws `UNSUPPORTED` naming both clocks' readings.
 */
export function checkClocks(nativeNowNs: () => number, clock: Clock = monotonicClock): number {
  let narrowestNs = Infinity
  for (let i = 0; i < tries; i++) {
    const beforeNs = clock.nowNs()
    const nativeNs = nativeNowNs()
    const afterNs = clock.nowNs()
    if (!(nativeNs >= beforeNs && nativeNs <= afterNs)) {
      throw new SeamError(
        'UNSUPPORTED',
        `the engine's clock read ${nativeNs} ns while that of JavaScript went from ${beforeNs} to ${afterNs} ns: what they stamp cannot be put together, so nothing may be measured here`,
      )
    }
    narrowestNs = Math.min(narrowestNs, afterNs - beforeNs)
  }
  return narrowestNs
}
