import { monotonicClock } from '@seamline/core'
import { it } from 'vitest'
import { emulated } from '../src/emulated.ts'
import { memory } from '../src/memory.ts'

/** How much later than asked a plain timer of the process fires, as a measure of what the host adds. */
async function timerLateness(timers: number) {
  const late: number[] = []
  for (let i = 0; i < timers; i += 1) {
    const startNs = monotonicClock.nowNs()
    await new Promise((resolve) => setTimeout(resolve, 20))
    late.push((monotonicClock.nowNs() - startNs) / 1e6 - 20)
  }
  return summary('setTimeout of 20 ms', late)
}

function summary(what: string, late: number[]) {
  late.sort((one, other) => one - other)
  const mean = late.reduce((sum, value) => sum + value, 0) / late.length
  const at = (share: number) => late[Math.floor(late.length * share)]!.toFixed(3)
  return { what, meanMs: mean.toFixed(3), p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), minMs: at(0) }
}

/** Milliseconds between the time that the definition of the link gives and the last byte of each 16 KiB frame. */
async function lateness(delayMs: number, bitsPerSecond: number, gapMs: number, frames: number) {
  const frameBytes = 16384
  const frame = new Uint8Array(frameBytes)
  const transport = emulated(memory(), { delayMs, bitsPerSecond })
  const buffer = new Uint8Array(1 << 16)
  const sentNs: number[] = []
  const late: number[] = []
  let received = 0
  let freeNs = 0
  let done = () => {}
  const listener = await transport.listen('stage:0', () => ({
    nextBuffer: () => buffer,
    onData(bytes) {
      received += bytes
      for (; late.length < Math.floor(received / frameBytes); ) {
        freeNs = Math.max(freeNs, sentNs[late.length]!) + (frameBytes * 8e9) / bitsPerSecond
        late.push((monotonicClock.nowNs() - freeNs) / 1e6 - delayMs)
      }
      if (late.length === frames) done()
    },
    onDrain() {},
    onClose() {},
  }))
  const connection = await transport.dial(listener.address, () => ({
    nextBuffer: () => buffer,
    onData() {},
    onDrain() {},
    onClose() {},
  }))
  const cpu = process.cpuUsage()
  const startNs = monotonicClock.nowNs()
  const all = new Promise<void>((resolve) => {
    done = resolve
  })
  for (let i = 0; i < frames; i += 1) {
    sentNs.push(monotonicClock.nowNs())
    connection.send(frame)
    if (gapMs > 0) await new Promise((resolve) => setTimeout(resolve, gapMs))
  }
  await all
  const { user, system } = process.cpuUsage(cpu)
  const wallUs = (monotonicClock.nowNs() - startNs) / 1e3
  await connection.close()
  await listener.close()
  const rhythm = gapMs > 0 ? `a frame each ${gapMs} ms` : 'back to back'
  return {
    ...summary(`${delayMs} ms, ${bitsPerSecond / 1e6} Mbit/s, ${rhythm}`, late),
    cpuShare: ((user + system) / wallUs).toFixed(2),
  }
}

// Prints figures and asserts none: SEAMLINE_MEASURE=1 vitest run test/emulated-lateness.test.ts
it.skipIf(process.env.SEAMLINE_MEASURE === undefined)('lateness of the emulated link', async () => {
  const rows: object[] = [await timerLateness(100)]
  // So that no row pays for the compiler.
  await lateness(0, 1e9, 0, 2000)
  for (const [delayMs, bitsPerSecond] of [
    [20, 100e6],
    [40, 10e6],
    [5, 1e9],
    [0, 1e9],
  ] as const) {
    rows.push(await lateness(delayMs, bitsPerSecond, 25, 100))
    rows.push(await lateness(delayMs, bitsPerSecond, 0, Math.min(1000, bitsPerSecond / 1e5)))
  }
  console.table(rows)
})
