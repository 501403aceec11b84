import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { BenchCase } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import { measure } from 'mitata'
import { ascending, median, quantile } from './statistics/index.ts'

/** What the clock said about one case. */
export interface Measurement {
  readonly samples: number
  /** Runs that one sample is the mean of: more than 1 only for work of a few microseconds. */
  readonly runsPerSample: number
  readonly minNs: number
  readonly p50Ns: number
  /** Undefined below 100 samples. */
  readonly p99Ns: number | undefined
  /** The median of each round, in the order of the rounds: what ratios are made of. */
  readonly roundsNs: readonly number[]
  /** The 99th percentile of each round, however few its samples. */
  readonly roundsP99Ns: readonly number[]
}

export interface MeasureOptions {
  readonly signal: AbortSignal
  /** Time for each case, in all rounds together. */
  readonly timeMs: number
  /** @default 10 */
  readonly rounds?: number
  /** Runs each case once between its validations and measures nothing. */
  readonly smoke: boolean
  readonly onProgress?: (text: string) => void
}

export const defaultRounds = 10

export type Outcome =
  | { readonly case: BenchCase; readonly measurement: Measurement | undefined }
  | { readonly case: BenchCase; readonly failure: SeamError }

/** Beyond its slice of time a case gets this long before it counts as stuck. */
const stuckMs = 30_000
/** Both processes compile what they run often; before that figures are not of the code that stays. */
export const leastWarmUpMs = 100
/** Work shorter than this is timed in batches, because reading the clock takes about 0.1 us. */
const batchBelowNs = 5_000
const batchRuns = 64
const minSamplesOfP99 = 100

/**
 * Runs cases that are compared side by side: all are set up and validated, then each round gives every case a slice of its
 * time, in an order that rotates and turns around from round to round, and all are validated again. A case that fails is
 * reported and left out of what follows. Throws the reason of `signal`, with everything torn down.
 */
export async function measureBlock(
  cases: readonly BenchCase[],
  options: MeasureOptions,
): Promise<readonly Outcome[]> {
  const { signal, timeMs, smoke, onProgress } = options
  const rounds = smoke ? 0 : (options.rounds ?? defaultRounds)
  const sliceMs = timeMs / Math.max(rounds, 1)
  const failures = new Map<BenchCase, SeamError>()
  const slices = new Map<BenchCase, Slice[]>(cases.map((each) => [each, []]))

  /** Does one step of one case, unless an earlier one failed. */
  async function step(each: BenchCase, work: () => unknown, ms = 0): Promise<void> {
    if (failures.has(each)) return
    // Synchronous cases would keep an interruption out until all are done.
    await turnOfTheLoop()
    signal.throwIfAborted()
    try {
      await within(Promise.resolve().then(work), ms + stuckMs, signal)
    } catch (error) {
      signal.throwIfAborted()
      failures.set(each, SeamError.from(error, 'EXECUTOR'))
    }
  }

  try {
    for (const each of cases) {
      onProgress?.(`${each.id}: setting up`)
      await step(each, () => each.setup?.())
      await step(each, () => each.validate())
    }
    if (smoke) for (const each of cases) await step(each, () => each.run())
    // The first round warms up caches, windows and the compiler; its figures are dropped.
    for (let round = -1; round < rounds && !smoke; round += 1) {
      for (const each of orderOfRound(cases, round)) {
        const ms = round === -1 ? Math.max(sliceMs, leastWarmUpMs) : sliceMs
        onProgress?.(`${each.id}: round ${Math.max(round, 0) + 1} of ${rounds}`)
        await step(each, async () => slices.get(each)!.push(await runSlice(each, ms, signal)), ms)
      }
      if (round === -1) for (const list of slices.values()) list.length = 0
    }
    for (const each of cases) await step(each, () => each.validate())
  } finally {
    for (const each of cases) await tearDown(each)
  }
  return cases.map((each) => {
    const failure = failures.get(each)
    if (failure !== undefined) return { case: each, failure }
    return { case: each, measurement: smoke ? undefined : summarise(slices.get(each)!) }
  })

  async function tearDown(each: BenchCase): Promise<void> {
    try {
      await within(Promise.resolve(each.teardown?.()), stuckMs)
    } catch (error) {
      // A failure on the way out of an interruption is no news.
      if (!failures.has(each) && !signal.aborted) failures.set(each, SeamError.from(error, 'EXECUTOR'))
    }
  }
}

/** Rotated by the round, and backwards in every second one, so that no case always follows the same other. */
export function orderOfRound<T>(cases: readonly T[], round: number): T[] {
  const at = (Math.max(round, 0) >> 1) % Math.max(cases.length, 1)
  const rotated = [...cases.slice(at), ...cases.slice(0, at)]
  return round % 2 === 1 ? rotated.reverse() : rotated
}

interface Slice {
  readonly samplesNs: readonly number[]
  readonly runsPerSample: number
}

/**
 * Times one case for `sliceMs`, at least once, after one run that is not timed: it wakes what the other cases have put to
 * sleep or out of the caches.
 */
async function runSlice(each: BenchCase, sliceMs: number, signal: AbortSignal): Promise<Slice> {
  const first = each.run()
  if (!(first instanceof Promise)) {
    const stats = await measure(() => each.run(), {
      gc: false, // without --expose-gc mitata would allocate 1 GiB to provoke a collection
      min_cpu_time: sliceMs * 1e6,
      min_samples: 1,
      batch_threshold: batchBelowNs,
      batch_samples: batchRuns,
    })
    return { samplesNs: stats.samples, runsPerSample: Math.round(stats.ticks / stats.samples.length) }
  }
  await first
  const samplesNs: number[] = []
  const end = performance.now() + sliceMs
  while (samplesNs.length === 0 || performance.now() < end) {
    signal.throwIfAborted()
    const start = performance.now()
    await each.run()
    samplesNs.push((performance.now() - start) * 1e6)
  }
  return { samplesNs, runsPerSample: 1 }
}

function summarise(slices: readonly Slice[]): Measurement {
  const sorted = ascending(slices.flatMap((slice) => slice.samplesNs))
  return {
    samples: sorted.length,
    runsPerSample: Math.max(...slices.map((slice) => slice.runsPerSample)),
    minNs: sorted[0] ?? Number.NaN,
    p50Ns: quantile(sorted, 0.5),
    p99Ns: sorted.length < minSamplesOfP99 ? undefined : quantile(sorted, 0.99),
    roundsNs: slices.map((slice) => median(slice.samplesNs)),
    roundsP99Ns: slices.map((slice) => quantile(ascending(slice.samplesNs), 0.99)),
  }
}

/** Leaves neither a timer nor a listener behind. */
function within<T>(work: Promise<T>, ms: number, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new SeamError('TIMEOUT', `no end of it within ${Math.round(ms)} ms`)),
      ms,
    )
    const onAbort = () => reject(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    })
  })
}
