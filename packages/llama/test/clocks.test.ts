import { monotonicClock } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { checkClocks } from '../src/clocks.ts'
import { loadAddon } from '../src/native.ts'

describe('checkClocks', () => {
  it('finds the addon on the clock of JavaScript, to the microseconds that a call takes', () => {
    expect(checkClocks(() => loadAddon().nowNs())).toBeGreaterThan(0)
  })

  it('refuses a clock that is ahead or behind, naming both readings', () => {
    let nowNs = 1000
    const clock = { nowNs: () => (nowNs += 10) }
    expect(checkClocks(() => nowNs + 5, clock)).toBe(10)
    expect(() => checkClocks(() => nowNs + 11, clock)).toThrow(/read 1121 ns .* from 1110 to 1120 ns/)
    expect(() => checkClocks(() => nowNs - 1, clock)).toThrow(/read 1129 ns .* from 1130 to 1140 ns/)
    expect(() => checkClocks(() => Number.NaN, clock)).toThrow(/read NaN ns/)
    expect(() => checkClocks(() => monotonicClock.nowNs() + 1e6)).toThrow(/cannot be put together/)
  })
})
