import { describe, expect, it } from 'vitest'
import { divergence } from '../src/lossy.ts'

describe('the divergence of two distributions', () => {
  it('is that of the textbook', () => {
    // p = (0.36, 0.48, 0.16), q = uniform: D(p||q) = 0.0852996 nats (Kullback 1959, as worked in Wikipedia).
    const logs = (p: number[]) => Float32Array.from(p, Math.log)
    expect(divergence(logs([0.36, 0.48, 0.16]), logs([1 / 3, 1 / 3, 1 / 3]))).toBeCloseTo(0.0852996, 6)
    expect(divergence(logs([1 / 3, 1 / 3, 1 / 3]), logs([0.36, 0.48, 0.16]))).toBeCloseTo(0.097455, 6)
  })

  it('does not mind a constant, nor large logits', () => {
    const p = Float32Array.of(1000, 1001, 999)
    expect(divergence(p, p)).toBe(0)
    expect(
      divergence(
        p,
        p.map((x) => x - 700),
      ),
    ).toBeCloseTo(0, 6)
  })
})
