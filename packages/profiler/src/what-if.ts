import { SeamError, SpanPort } from '@seamline/core'
import { type ReplayOptions, type ReplayPolicy, type ReplayResult, replay } from './replay.ts'
import type { Cost, Frame, ReplayModel } from './replay-types.ts'
import type { Category } from './trace.ts'

/** How well a replay of what was recorded repeats it. */
export interface ReplayGate {
  readonly policy: ReplayPolicy
  /** True up to 1 % of the makespan and, at the 95th percentile, 2 % of a token's time since its request. */
  readonly passed: boolean
  readonly makespanErrorPct: number
  readonly tokenErrorP95Pct: number
}

const MAKESPAN_ERROR_PCT = 1
const TOKEN_ERROR_PCT = 2

/** By how much faster, in percent of the new time: 25 means that five tokens come in the time of four. */
export interface Gains {
  readonly ttftPct: number
  readonly prefillPct: number
  readonly tpotPct: number
  readonly throughputPct: number
}

/** What a change is predicted to gain at the K of the run; the two policies are the ends of a range. */
export interface Prediction {
  readonly frozen: Gains | null
  readonly requeued: Gains | null
}

/** Where a category is changed: `process` and `port` -1 stand for all. */
export interface Place {
  readonly category: Category
  readonly process: number
  readonly port: number
}

export interface WhatIfPrediction extends Place, Prediction {
  /** How much less of it. */
  readonly reductionPct: number
  /** Of {@link Gains.tpotPct}; NaN for a policy whose replay did not pass the gate. */
  readonly gainPctFrozen: number
  readonly gainPctRequeued: number
}

/** As {@link WhatIfPrediction}, with each occasion at `floorNs` at most. */
export interface FloorPrediction extends Omit<WhatIfPrediction, 'reductionPct'> {
  readonly floorNs: number
}

/** Predictions, or why there are none. */
export type WhatIf =
  | {
      readonly ok: true
      readonly gates: readonly ReplayGate[]
      readonly recorded: ReplayResult
      /** What `places` gain with 10, 25, 50 and 100 % less. */
      predictions(): WhatIfPrediction[]
      predict(change: Change): Prediction
      /** Each occasion of `place` takes `floorNs` at most. */
      toFloor(place: Place, floorNs: number): FloorPrediction
      injectionSlope(place: InjectionPlace, where?: InjectionWhere): InjectionSlope
    }
  | { readonly ok: false; readonly gates: readonly ReplayGate[]; readonly reason: string }

/** A run as it would be with other durations, or with work beside the engine. */
export type Change = Pick<ReplayOptions, 'duration' | 'isParallel' | 'window'>

const reductionsPct = [10, 25, 50, 100]

/**
 * Predicts what shorter durations would bring, by replaying the run with them. Only where a replay of the recorded durations repeats
 * the run: a policy that fails that gate predicts nothing, and `ok` is false when both do.
 */
export function whatIf(model: ReplayModel): WhatIf {
  const policies = ['frozen', 'requeued'] as const
  const baselines = new Map(policies.map((policy) => [policy, replay(model, { policy })]))
  const gates = policies.map((policy) => gate(model, policy, baselines.get(policy)!))
  const passed = new Set(gates.filter(({ passed }) => passed).map(({ policy }) => policy))
  if (passed.size === 0) return { ok: false, gates, reason: refusal(gates) }
  const recorded = baselines.get(passed.has('frozen') ? 'frozen' : 'requeued')!

  function predict(change: Change): Prediction {
    const of = (policy: ReplayPolicy) => {
      if (!passed.has(policy)) return null
      return gains(baselines.get(policy)!, replay(model, { policy, ...change }))
    }
    return { frozen: of('frozen'), requeued: of('requeued') }
  }
  function prediction(place: Place, change: Change): Omit<WhatIfPrediction, 'reductionPct'> {
    const { frozen, requeued } = predict(change)
    return {
      ...place,
      ...{ frozen, requeued },
      gainPctFrozen: frozen?.tpotPct ?? Number.NaN,
      gainPctRequeued: requeued?.tpotPct ?? Number.NaN,
    }
  }

  return {
    ok: true,
    ...{ gates, recorded, predict },
    predictions: () =>
      places(model).flatMap((place) =>
        reductionsPct.map((reductionPct) => ({
          ...prediction(place, scaled(place, 1 - reductionPct / 100)),
          reductionPct,
        })),
      ),
    toFloor: (place, floorNs) => ({
      ...prediction(place, {
        duration: (cost) => (isAt(cost, place) ? Math.min(cost.ns, floorNs) : cost.ns),
      }),
      floorNs,
    }),
    injectionSlope: (place, where = {}) =>
      injectionSlope(model, passed.has('requeued') ? 'requeued' : 'frozen', place, where),
  }
}

/** Compares a replay with what was recorded. */
export function gate(model: ReplayModel, policy: ReplayPolicy, result: ReplayResult): ReplayGate {
  const errors = model.requests.flatMap(({ emittedNs }, i) =>
    emittedNs.map((atNs, j) => {
      const replayed = result.emittedNs[i]?.[j]
      return replayed === undefined ? Infinity : (Math.abs(replayed - atNs) / Math.max(1, atNs)) * 100
    }),
  )
  errors.sort((a, b) => a - b)
  const tokenErrorP95Pct = errors[Math.max(0, Math.ceil(0.95 * errors.length) - 1)] ?? Infinity
  const makespanErrorPct = (Math.abs(result.makespanNs - model.makespanNs) / model.makespanNs) * 100
  const passed =
    result.finished && makespanErrorPct <= MAKESPAN_ERROR_PCT && tokenErrorP95Pct <= TOKEN_ERROR_PCT
  return { policy, passed, makespanErrorPct, tokenErrorP95Pct }
}

function refusal(gates: readonly ReplayGate[]): string {
  const shown = (pct: number) => (Number.isFinite(pct) ? `${pct.toFixed(1)} %` : '—')
  const found = gates.map(
    ({ policy, makespanErrorPct, tokenErrorP95Pct }) =>
      `${policy} ${shown(makespanErrorPct)} and ${shown(tokenErrorP95Pct)}`,
  )
  return (
    `a replay of the recorded durations misses the makespan and the times of tokens (95th percentile) by ${found.join(', ')}; ` +
    `${MAKESPAN_ERROR_PCT} % and ${TOKEN_ERROR_PCT} % are allowed: something that took time was not recorded, or waited for a CPU that others had`
  )
}

function gains(before: ReplayResult, after: ReplayResult): Gains {
  const faster = (from: number, to: number) => (from / to - 1) * 100
  return {
    ttftPct: faster(before.ttftNs, after.ttftNs),
    prefillPct: faster(before.prefillNs, after.prefillNs),
    tpotPct: faster(before.tpotNs, after.tpotNs),
    throughputPct: faster(after.tokensPerSecond, before.tokensPerSecond),
  }
}

// ---- changes

function isAt(cost: Cost, { category, process, port }: Place): boolean {
  return (
    cost.category === category &&
    (process === -1 || cost.process === process) &&
    (port === -1 || cost.port === port)
  )
}

/** Everything at `place` takes `factor` times as long. */
export function scaled(place: Place, factor: number): Change {
  return { duration: (cost) => (isAt(cost, place) ? cost.ns * factor : cost.ns) }
}

/** What `place` names on the loop of a stage happens while the engine computes that step. */
export function overlapped(place: Place): Change {
  return { isParallel: (cost) => isAt(cost, place) }
}

/** Costs that each frame has, whatever it holds. */
const perFrame: ReadonlySet<Category> = new Set<Category>([
  'frame.encode',
  'frame.decode',
  'send.call',
  'dispatch',
])

/** Of `frames` frames over `port` one is left, which costs what each did. */
export function coalesced(port: number, frames: number): Change {
  if (!(frames >= 1)) throw new SeamError('USAGE', `${frames} frames cannot become one: at least 1 is needed`)
  return {
    duration: (cost) => (cost.port === port && perFrame.has(cost.category) ? cost.ns / frames : cost.ns),
  }
}

/** `factor` times as many steps may be on their way from `stage` to the next one; -1: from every stage. */
export function widened(stage: number, factor: number): Change {
  if (!(factor >= 1))
    throw new SeamError('USAGE', `a window ${factor} times as wide is no wider: at least 1 is needed`)
  return {
    window: (recorded, at) => (stage === -1 || stage === at ? Math.ceil(recorded * factor) : recorded),
  }
}

/** Costs that are nothing but a walk over bytes. */
const perByte: ReadonlySet<Category> = new Set<Category>(['wire.rest', 'checksum', 'copy'])

/**
 * Frames over `port`, -1 for all, hold `factor` times the bytes. Of encoding and sending, that part shrinks which frames of different size
 * show to be of the bytes: a line through the medians of the smallest and the largest.
 */
export function shrunk(model: ReplayModel, port: number, factor: number): Change {
  const slopes = new Map<string, number>()
  const samples = new Map<string, Cost[]>()
  for (const cost of costsOf(model)) {
    if (perByte.has(cost.category) || !perFrame.has(cost.category) || cost.bytes === 0) continue
    const key = `${cost.category} ${cost.process} ${cost.port}`
    const found = samples.get(key)
    if (found === undefined) samples.set(key, [cost])
    else found.push(cost)
  }
  for (const [key, costs] of samples) slopes.set(key, nsPerByte(costs))
  return {
    duration(cost) {
      if (port !== -1 && cost.port !== port) return cost.ns
      if (perByte.has(cost.category)) return cost.ns * factor
      const slope = slopes.get(`${cost.category} ${cost.process} ${cost.port}`) ?? 0
      return Math.max(0, cost.ns - slope * cost.bytes * (1 - factor))
    },
  }
}

function nsPerByte(costs: readonly Cost[]): number {
  const sizes = costs.map(({ bytes }) => bytes)
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)]
  if (least === most) return 0
  const at = (size: number) => {
    const found = costs.filter(({ bytes }) => bytes === size).map(({ ns }) => ns)
    return found.sort((a, b) => a - b)[found.length >> 1]!
  }
  return Math.max(0, (at(most) - at(least)) / (most - least))
}

// ---- places

function* frameCosts({ sending, queue, early, first, rest, header, receiving }: Frame): Generator<Cost> {
  yield* sending
  yield queue
  yield early
  yield* first
  yield rest
  yield header
  yield* receiving
}

/** Every duration of the model. */
export function* costsOf({ steps, requests }: ReplayModel): Generator<Cost> {
  for (const { chunks } of requests) {
    for (const { before, frame } of chunks) {
      yield* before
      yield* frameCosts(frame)
    }
  }
  for (const step of steps) {
    yield* step.arriving
    yield* [
      step.ready,
      ...step.starting,
      step.decode,
      step.submit,
      ...step.compute,
      step.sync,
      ...step.finishing,
    ]
    if (step.hidden !== undefined) yield* frameCosts(step.hidden.frame)
    for (const frame of step.tokens?.frames ?? []) yield* frameCosts(frame)
    if (step.result !== undefined) {
      yield* frameCosts(step.result.frame)
      yield* step.result.emits
    }
  }
}

/** Every category that took time: over all, and in each place where there are several. */
function places(model: ReplayModel): Place[] {
  const totals = new Map<string, { readonly place: Place; ns: number }>()
  for (const { category, process, port, ns } of costsOf(model)) {
    const key = `${category} ${process} ${port}`
    const found = totals.get(key)
    if (found === undefined) totals.set(key, { place: { category, process, port }, ns })
    else found.ns += ns
  }
  const spent = [...totals.values()].filter(({ ns }) => ns > 0).map(({ place }) => place)
  const categories = [...new Set(spent.map(({ category }) => category))].sort()
  return categories.flatMap((category) => {
    const alike = spent.filter((place) => place.category === category)
    const everywhere: Place = { category, process: -1, port: -1 }
    return alike.length > 1 ? [everywhere, ...alike] : [everywhere]
  })
}

// ---- delays put in on purpose

/** Where a delay can be put in: the recorder's names of these are in the run's settings. */
export const injectionPlaces = [
  'codec',
  'framing',
  'sender queue',
  'wire',
  'relay',
  'stage queue',
  'compute',
  'emit',
  'open',
] as const

export type InjectionPlace = (typeof injectionPlaces)[number]

/** Narrows a place to one process or one link. */
export interface InjectionWhere {
  readonly process?: number
  readonly port?: number
  /** Of the delays that the slope is taken from, in ns. @default 1 % of the time per token */
  readonly delayNs?: number
}

export interface InjectionSlope {
  /** ns of TPOT, and of TTFT, for each ns of delay on each occasion. */
  readonly tpotPerNs: number
  readonly ttftPerNs: number
  readonly delayNs: number
  /** How many occasions a token has on average; 0 where the run has no such place. */
  readonly occasionsPerToken: number
}

/** Frames that the next token of a sequence waits for. */
const ringOut: ReadonlySet<number> = new Set([SpanPort.hiddenOut, SpanPort.tokensOut])
const ringIn: ReadonlySet<number> = new Set([SpanPort.hiddenIn, SpanPort.tokensIn])

const injected: Readonly<Record<InjectionPlace, (cost: Cost) => boolean>> = {
  codec: ({ category }) => category === 'convert.encode',
  framing: ({ category, port }) => category === 'frame.encode' && ringOut.has(port),
  'sender queue': ({ category, port }) => category === 'send.queue' && ringOut.has(port),
  wire: ({ category, port }) => category === 'wire.first' && ringIn.has(port),
  // Time in the queue of an idle relay is no cost at all; each frame is written out once.
  relay: ({ category }) => category === 'relay.out',
  // On arrival; what is charged to no port is the runtime's own way to the engine.
  'stage queue': ({ category, port }) => category === 'stage.queue' && port !== SpanPort.none,
  compute: ({ category }) => category === 'compute.device',
  emit: ({ category }) => category === 'emit',
  open: ({ category }) => category === 'open',
}

/** The slope of the time per token over a delay on every occasion of `place`, from two replays. */
export function injectionSlope(
  model: ReplayModel,
  policy: ReplayPolicy,
  place: InjectionPlace,
  where: InjectionWhere = {},
): InjectionSlope {
  const isHit = (cost: Cost) =>
    injected[place](cost) &&
    (where.process === undefined || cost.process === where.process) &&
    (where.port === undefined || cost.port === where.port)
  let occasions = 0
  for (const cost of costsOf(model)) if (isHit(cost)) occasions++
  const before = replay(model, { policy })
  const delayNs = where.delayNs ?? Math.max(1, Math.round(before.tpotNs / 100))
  const after = replay(model, { policy, duration: (cost) => cost.ns + (isHit(cost) ? delayNs : 0) })
  const tokens = model.requests.reduce((sum, { tokens }) => sum + tokens, 0)
  return {
    delayNs,
    tpotPerNs: (after.tpotNs - before.tpotNs) / delayNs,
    ttftPerNs: (after.ttftNs - before.ttftNs) / delayNs,
    occasionsPerToken: occasions / tokens,
  }
}
