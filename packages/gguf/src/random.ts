import { createHash } from 'node:crypto'

/** Generator state: 16 bytes of SHA-256 of the seed and the tensor's name, so it depends on nothing else. */
export function tensorSeed(seed: number, name: string): Uint32Array {
  const digest = createHash('sha256').update(`${seed} ${name}`).digest()
  return Uint32Array.from({ length: 4 }, (_, i) => digest.readUInt32LE(4 * i))
}

/**
 * Near-normal values in integer arithmetic, so that every machine makes the same: the sum of the four bytes of one
 * xoshiro128** draw (Blackman and Vigna), less its mean 510, over its standard deviation sqrt((256^2 - 1) / 3).
 */
export function normalSource(seed: Uint32Array) {
  let [a = 0, b = 0, c = 0, d = 0] = seed
  return (out: Float32Array, count: number, sigma: number): void => {
    const scale = Math.fround(sigma / Math.sqrt((256 ** 2 - 1) / 3))
    for (let i = 0; i < count; i++) {
      const scrambled = Math.imul(b, 5)
      const draw = Math.imul((scrambled << 7) | (scrambled >>> 25), 9)
      const shifted = b << 9
      c ^= a
      d ^= b
      b ^= c
      a ^= d
      c ^= shifted
      d = (d << 11) | (d >>> 21)
      const sum = (draw & 0xff) + ((draw >>> 8) & 0xff) + ((draw >>> 16) & 0xff) + (draw >>> 24)
      out[i] = (sum - 510) * scale
    }
  }
}
