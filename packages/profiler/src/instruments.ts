import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'
import { type Clock, monotonicClock, SpanName, type SpanRecorder } from '@seamline/core'

/** Measurements of a process beside the spans of its work. Failing to measure is never an error. */
export interface Instruments {
  /** Begins at `level` 1 or 2; starting again restarts. */
  start(level: number): void
  /** Records what is read rather than watched, for a drain of the recorder that follows. */
  read(): void
  stop(): void
}

const CALIBRATION_SPANS = 1000
const CALIBRATION_BATCHES = 5
/** How often the waits of the event loop's thread are read. */
const LOOP_MS = 10

/**
 * Into `recorder`: garbage collections from level 1; every 10 ms what the event loop's thread waited for a CPU from level 2 (Linux);
 * the peak of the resident memory since the start, where the kernel lets it be reset, and the cost of one span.
 */
export function processInstruments(recorder: SpanRecorder, clock: Clock = monotonicClock): Instruments {
  let observer: PerformanceObserver | undefined
  let reading: NodeJS.Timeout | undefined

  function watchGarbage(): void {
    // Entries count milliseconds from the start of the process.
    const originNs = clock.nowNs() - performance.now() * 1e6
    observer = new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) {
        const startNs = Math.round(originNs + startTime * 1e6)
        recorder.span(SpanName.gc, startNs, Math.round(startNs + duration * 1e6), 0, 0)
      }
    })
    observer.observe({ entryTypes: ['gc'] })
  }

  function watchLoop(): void {
    const waited = schedstatReader()
    if (waited === undefined) return
    let beforeNs = clock.nowNs()
    let before = waited()
    reading = setInterval(() => {
      const nowNs = clock.nowNs()
      const now = waited()
      recorder.span(SpanName.loopCpuWait, beforeNs, nowNs, 0, now - before)
      beforeNs = nowNs
      before = now
    }, LOOP_MS)
    reading.unref()
  }

  const instruments: Instruments = {
    start(level) {
      instruments.stop()
      const costNs = spanCostNs(recorder, clock)
      recorder.drain()
      const nowNs = clock.nowNs()
      recorder.span(SpanName.calibration, nowNs, nowNs + costNs, 0, 0)
      resetPeak()
      watchGarbage()
      if (level >= 2) watchLoop()
    },
    read() {
      const nowNs = clock.nowNs()
      recorder.span(SpanName.memory, nowNs, nowNs, 0, peakRssBytes())
    },
    stop() {
      observer?.disconnect()
      clearInterval(reading)
    },
  }
  return instruments
}

/**
 * Cost in ns of recording one span with both of its stamps: the mean of the best of some batches, the first of which warm the code up. The
 * spans stay in the recorder.
 */
export function spanCostNs(recorder: SpanRecorder, clock: Clock = monotonicClock): number {
  let best = Number.POSITIVE_INFINITY
  for (let batch = 0; batch < CALIBRATION_BATCHES; batch++) {
    const startNs = clock.nowNs()
    for (let i = 0; i < CALIBRATION_SPANS; i++) {
      const atNs = clock.nowNs()
      recorder.span(SpanName.calibration, atNs, clock.nowNs(), 0, 0)
    }
    best = Math.min(best, (clock.nowNs() - startNs) / CALIBRATION_SPANS)
  }
  return best
}

/** Highest resident memory of this process since {@link resetPeak}, or, where the kernel does not tell, at present. */
export function peakRssBytes(): number {
  try {
    const kib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]
    if (kib !== undefined) return Number(kib) * 1024
  } catch {}
  return process.memoryUsage.rss()
}

function resetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {}
}

/** Reads how long this thread could run and had no CPU, in ns: the second number of its schedstat. */
function schedstatReader(): (() => number) | undefined {
  try {
    // The thread of the event loop has the number of the process.
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
    const text = Buffer.alloc(96)
    const read = () => {
      const length = readSync(file, text, 0, text.length, 0)
      return Number(text.toString('latin1', 0, length).split(' ')[1])
    }
    if (Number.isFinite(read())) return read
    closeSync(file)
  } catch {}
  return undefined
}
