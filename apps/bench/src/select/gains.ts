import { SpanPort } from '@seamline/core'
import {
  type Category,
  type Change,
  type Cost,
  coalesced,
  costsOf,
  overlapped,
  type Prediction,
  portName,
  scaled,
  shrunk,
  widened,
} from '@seamline/profiler'
import type { Place } from 'seamline/profile'
import type { Floors } from './floors.ts'
import type { Replayed } from './replayed.ts'
import type { Target } from './targets.ts'

/** What may be removed: a category down to its floor, wherever it is or at one place, or a change of structure. */
export interface Candidate {
  readonly name: string
  readonly category: Category
  /** Index of a process of the trace, for a wire the receiving one, and a `SpanPort`; both -1: everywhere. */
  readonly process: number
  readonly port: number
  /** The candidate everywhere that this one is a part of. */
  readonly partOf: string | null
  /** Where its floor comes from, in words. */
  readonly floor: string
}

/** Of the engine, what samples, and waits that end by themselves when others get shorter: no seam takes these away. */
export const notRemovable: ReadonlySet<Category> = new Set<Category>([
  ...(['compute.device', 'compute.submit', 'compute.sync', 'cpu.wait', 'sample'] as const),
  ...(['wait.sequence', 'wait.loop', 'stage.queue', 'UNATTRIBUTED'] as const),
])

interface Structure {
  readonly name: string
  readonly category: Category
  readonly floor: string
  /** It stands for the category itself, of which no smaller duration would say anything. */
  readonly replaces: boolean
  readonly applies: (run: Replayed, target: Target) => boolean
  readonly change: (run: Replayed) => Change
}

const everywhere = { process: -1, port: -1 }

/** Changes that no smaller duration stands for: a replay of the changed structure is their floor. */
const structures: readonly Structure[] = [
  {
    ...({ name: 'open, pipelined', category: 'open', replaces: true } as const),
    floor: 'replay in which the prompt follows at once',
    applies: (run) => spends(run, 'open'),
    change: () => scaled({ category: 'open', ...everywhere }, 0),
  },
  {
    ...({ name: 'wait.credit, window 8 x', category: 'wait.credit', replaces: true } as const),
    floor: 'replay with a window 8 times as wide',
    applies: ({ model, shares }) =>
      shares['wait.credit'] !== undefined && model.stages.some(({ window }) => window !== Infinity),
    change: () => widened(-1, 8),
  },
  ...(['convert.encode', 'convert.decode'] as const).map((category) => ({
    ...{ name: `${category}, beside the engine`, category, replaces: false },
    floor: 'replay with the codec in parallel',
    applies: (run: Replayed) => spends(run, category),
    change: () => overlapped({ category, ...everywhere }),
  })),
  {
    ...({ name: 'frame.encode, two frames in one', category: 'frame.encode', replaces: false } as const),
    floor: 'replay with half of the frames of hidden rows',
    // One sequence has one frame on its way between two tokens.
    applies: ({ model, settings }, target) =>
      model.stages.length > 1 &&
      (settings.sequences > 1 ||
        (target !== 'tpot' && model.requests.some(({ chunks }) => chunks.length > 1))),
    change: () => coalesced(SpanPort.hiddenOut, 2),
  },
  {
    ...({ name: 'wire.rest, half the bytes', category: 'wire.rest', replaces: false } as const),
    floor: 'replay with half of the bytes of hidden rows',
    applies: ({ model, settings }) => model.stages.length > 1 && settings.codec === 'f32',
    change: halved,
  },
]

/** Everything that may be removed in some of `runs`, in order of names. `only`: of these categories, of all that are the seam's without it. */
export function candidatesOf(
  runs: readonly Replayed[],
  target: Target,
  floors: Floors,
  only?: readonly Category[],
): Candidate[] {
  const isAllowed = (category: Category) =>
    !notRemovable.has(category) && (only === undefined || only.includes(category))
  const applying = structures.filter(
    ({ category, applies }) => isAllowed(category) && runs.some((run) => applies(run, target)),
  )
  const replaced = new Set(applying.filter(({ replaces }) => replaces).map(({ category }) => category))
  const places = new Map<Category, Map<string, { process: number; port: number }>>()
  for (const { model } of runs) {
    for (const { category, process, port, ns } of costsOf(model)) {
      if (ns === 0 || !isAllowed(category) || replaced.has(category)) continue
      const known = places.get(category) ?? new Map<string, { process: number; port: number }>()
      places.set(category, known.set(`${process} ${port}`, { process, port }))
    }
  }
  const names = runs[0]?.names ?? []
  const plain = [...places].flatMap(([category, at]): Candidate[] => {
    const floor = floors.source(category)
    const whole = { name: category, category, ...everywhere, partOf: null, floor }
    if (at.size < 2) return [whole]
    const parts = [...at.values()].map(({ process, port }) => ({
      ...{ category, process, port, partOf: category, floor },
      name: `${category} at ${names[process] ?? process}${port === SpanPort.none ? '' : `, ${portName(port)}`}`,
    }))
    return [whole, ...parts]
  })
  const changed = applying.map(({ name, category, floor }) => ({
    ...{ name, category, floor, partOf: null },
    ...everywhere,
  }))
  return [...changed, ...plain].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * What `candidate` would take off the target, in percent of it; the lesser of the two replay policies. NaN where the replay did not pass
 * its gate.
 */
export function gainPct(run: Replayed, candidate: Candidate, floors: Floors, target: Target): number {
  if (!run.whatIf.ok) return Number.NaN
  const structure = structures.find(({ name }) => name === candidate.name)
  const { category, process, port } = candidate
  const isHit = (cost: Cost) =>
    cost.category === category && (process === -1 || (cost.process === process && cost.port === port))
  const change = structure?.change(run) ?? {
    duration: (cost: Cost) => (isHit(cost) ? Math.min(cost.ns, floors.ns(cost)) : cost.ns),
  }
  return Math.min(...fasterPct(run.whatIf.predict(change), target).map(lessPct))
}

const gainOf = { ttft: 'ttftPct', prefill: 'prefillPct', tpot: 'tpotPct' } as const

function fasterPct({ frozen, requeued }: Prediction, target: Target): number[] {
  return [requeued, frozen].flatMap((gains) => (gains === null ? [] : [gains[gainOf[target]]]))
}

/** So many percent more in the same time is so much less time for each. */
function lessPct(faster: number): number {
  return 100 * (1 - 1 / (1 + faster / 100))
}

function spends({ model }: Replayed, category: Category): boolean {
  for (const cost of costsOf(model)) if (cost.category === category && cost.ns > 0) return true
  return false
}

/** An emulated link holds frames back whole, so that their bytes cost time before the first of them. */
function halved({ model, settings }: Replayed): Change {
  const rest = shrunk(model, SpanPort.hiddenIn, 0.5)
  const sent = shrunk(model, SpanPort.hiddenOut, 0.5)
  const nsPerByte = 8e9 / (settings.link?.bitsPerSecond ?? Infinity)
  return {
    duration(cost) {
      if (cost.port === SpanPort.hiddenOut) return sent.duration!(cost)
      if (cost.category !== 'wire.first' || cost.port !== SpanPort.hiddenIn) return rest.duration!(cost)
      return Math.max(0, cost.ns - 0.5 * cost.bytes * nsPerByte)
    },
  }
}

// ---- delays put in on purpose

/** Where a delay stands for more of a category. */
export interface Injector {
  /** By the names of the recorder. */
  readonly place: Place
  readonly stage: number
  /** What gets longer in a replay. */
  readonly hits: (cost: Cost) => boolean
}

/** Processes of a trace: the coordinator, then the stages. */
const firstStage = 1
const secondStage = 2

const wire: Injector = {
  ...{ place: 'wire', stage: 1 },
  hits: ({ category, process, port }) =>
    category === 'wire.first' && process === secondStage && port === SpanPort.hiddenIn,
}
const relay: Injector = {
  ...{ place: 'relay', stage: 0 },
  hits: ({ category }) => category === 'relay.queue',
}
const atFirstStage = (place: Place, category: Category): Injector => ({
  ...{ place, stage: 0 },
  hits: (cost) =>
    cost.category === category && cost.process === firstStage && cost.port === SpanPort.hiddenOut,
})

/** By the category of a winner; absent where the recorder has no place for a delay. */
export const injectors: Partial<Readonly<Record<Category, Injector>>> = {
  open: { place: 'open', stage: 0, hits: ({ category, ns }) => category === 'open' && ns > 0 },
  'wire.first': wire,
  'wire.rest': wire,
  'relay.in': relay,
  'relay.queue': relay,
  'relay.out': relay,
  'frame.encode': atFirstStage('framing', 'frame.encode'),
  'convert.encode': atFirstStage('codec', 'convert.encode'),
  'send.queue': atFirstStage('sender-queue', 'send.queue'),
  emit: { place: 'emit', stage: 0, hits: ({ category }) => category === 'emit' },
}

/** ns of the target for each ns of delay on every occasion, by replay; undefined where that did not pass its gate. */
export function predictedSlope(run: Replayed, { hits }: Injector, target: Target): number | undefined {
  if (!run.whatIf.ok) return undefined
  const { recorded, predict } = run.whatIf
  const beforeNs = { ttft: recorded.ttftNs, prefill: recorded.prefillNs, tpot: recorded.tpotNs }[target]
  const delayNs = Math.max(1, beforeNs / 100)
  const change = { duration: (cost: Cost) => cost.ns + (hits(cost) ? delayNs : 0) }
  const [faster] = fasterPct(predict(change), target)
  return (beforeNs / (1 + faster! / 100) - beforeNs) / delayNs
}
