import { describe, expect, it } from 'vitest'
import { attribute } from '../src/index.ts'
import { simulate } from './simulator.ts'

const ms = 1_000_000
it('quick look', () => {
  const sim = simulate({
    stages: 3,
    sequences: 1,
    tokens: 4,
    computeNs: [8 * ms, 14 * ms, 9 * ms],
    delayNs: [3 * ms, 3 * ms, 3 * ms],
    bytesPerNs: 1024 / (0.5 * ms),
    costsNs: {
      'frame.encode': 2000,
      'frame.decode': 3000,
      'send.call': 4000,
      dispatch: 1000,
      'compute.submit': 500,
      'compute.sync': 700,
      sample: 20000,
      emit: 1500,
      checksum: 800,
      'convert.encode': 5000,
      'convert.decode': 6000,
      'cpu.wait': 900,
    },
  })
  const t0 = performance.now()
  const a = attribute(sim.trace, sim.alignment)
  console.log(performance.now() - t0, sim.makespanNs, a.recordingErrors, a.omitted, a.causalityViolations)
  for (const t of a.tokens.slice(0, 2)) {
    console.log(t.index, t.endNs - t.startNs, t.deliveryNs, t.hiddenNs)
    for (const s of t.segments)
      console.log('  ', s.process, s.category, s.endNs - s.startNs, s.reason ?? '', s.port)
  }
  for (const l of a.lanes) console.log(JSON.stringify(l))
})
