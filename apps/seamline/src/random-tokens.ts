/** Token ids below `vocabulary` that depend on the seed alone: xorshift32 (Marsaglia), 13, 17, 5. */
export function randomTokens(length: number, vocabulary: number, seed: number): number[] {
  let state = (seed + 0x9e3779b9) >>> 0 || 1
  return Array.from({ length }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state % vocabulary
  })
}
