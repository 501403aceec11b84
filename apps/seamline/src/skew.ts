import { type Clock, monotonicClock, type SpanSink, type StageExecutor } from '@seamline/core'
import { InvalidArgumentError } from 'commander'

/** A clock that is off, for experiments with several hosts on one: by an offset now, and by so much more for every second. */
export interface Skew {
  readonly offsetMs: number
  readonly driftPpm: number
}

/** Reads `1500ms,80ppm`. */
export function parseSkew(text: string): Skew {
  const match = /^(-?\d+(?:\.\d+)?)ms,(-?\d+(?:\.\d+)?)ppm$/.exec(text)
  if (match === null) throw new InvalidArgumentError('For example 1500ms,80ppm.')
  return { offsetMs: Number(match[1]), driftPpm: Number(match[2]) }
}

export interface SkewedClock extends Clock {
  /** What this clock showed when the true one showed `trueNs`. */
  at(trueNs: number): number
}

export function skewedClock({ offsetMs, driftPpm }: Skew): SkewedClock {
  const epochNs = monotonicClock.nowNs()
  const at = (trueNs: number) => Math.round(trueNs + offsetMs * 1e6 + ((trueNs - epochNs) * driftPpm) / 1e6)
  return { at, nowNs: () => at(monotonicClock.nowNs()) }
}

/** Takes spans with true stamps and passes them on with those of `clock`. */
export function skewedSink(sink: SpanSink, clock: SkewedClock): SpanSink {
  return {
    span: (name, startNs, endNs, tag, bytes, port) =>
      sink.span(name, clock.at(startNs), clock.at(endNs), tag, bytes, port),
  }
}

/** The stamps of steps as `clock` shows them. */
export function skewedExecutor(executor: StageExecutor, clock: SkewedClock): StageExecutor {
  return {
    get spec() {
      return executor.spec
    },
    get freeSessions() {
      return executor.freeSessions
    },
    openSession: (options) => executor.openSession(options),
    async step(step) {
      const result = await executor.step(step)
      return {
        ...result,
        computeStartNs: clock.at(result.computeStartNs),
        computeEndNs: clock.at(result.computeEndNs),
        sampleEndNs: clock.at(result.sampleEndNs),
      }
    },
    abort: () => executor.abort(),
    close: () => executor.close(),
  }
}
