import type { HelloMessage } from '@seamline/core'
import { type Allowed, agree } from './agreement.ts'
import type { PlannedLink } from './plan.ts'

/** Workers in the order of their layers, from the first layer to the last, with the links between neighbours. */
export interface Chain {
  readonly stages: readonly HelloMessage[]
  readonly links: readonly PlannedLink[]
}

/** What became of a search. */
export interface Search {
  readonly chain: Chain | undefined
  /** Why there is none; empty when there is one. */
  readonly lack: string
  /** Layer ranges that nobody serves; empty where the ranges do not meet or neighbours do not agree. */
  readonly gaps: readonly (readonly [first: number, end: number])[]
}

/**
 * The chain of fewest stages through `workers`, which share all facts but their layers; ties go to who was announced first.
 * Neighbours meet exactly, and agree.
 */
export function findChain(workers: readonly HelloMessage[], allowed: Allowed): Search {
  const layers = workers[0]!.facts.layerCount
  const gaps = uncovered(workers, layers)
  if (gaps.length > 0) return { chain: undefined, lack: `${rangeList(gaps)} served by nobody`, gaps }
  const furthest = reached(workers, layers)
  if (furthest !== layers) {
    const begins = [...new Set(workers.map(({ facts }) => facts.layerFirst))].sort((a, b) => a - b)
    const text = `no ranges meet at layer ${furthest}: workers begin at ${begins.join(', ')}`
    return { chain: undefined, lack: text, gaps: [] }
  }
  const refusals = new Set<string>()
  let best: Chain | undefined
  for (const first of workers.filter(({ facts }) => facts.layerFirst === 0)) {
    const chain = fewest(first, workers, allowed, refusals)
    if (chain !== undefined && (best === undefined || chain.stages.length < best.stages.length)) best = chain
  }
  const lack = best === undefined ? `neighbours do not agree: ${some([...refusals])}` : ''
  return { chain: best, lack, gaps: [] }
}

/** Breadth first from one stage 0. */
function fewest(
  first: HelloMessage,
  workers: readonly HelloMessage[],
  allowed: Allowed,
  refusals: Set<string>,
): Chain | undefined {
  const queue: Chain[] = [{ stages: [first], links: [] }]
  const seen = new Set([first.name])
  for (let chain = queue.shift(); chain !== undefined; chain = queue.shift()) {
    const last = chain.stages.at(-1)!
    if (last.facts.layerEnd === last.facts.layerCount) {
      const closed = withTokenReturn(chain, allowed)
      if (typeof closed !== 'string') return closed
      refusals.add(closed)
      continue
    }
    for (const next of workers) {
      if (next.facts.layerFirst !== last.facts.layerEnd || seen.has(next.name)) continue
      const link = agree(last, next, 'hidden rows', allowed)
      if (typeof link === 'string') {
        refusals.add(link)
        continue
      }
      seen.add(next.name)
      queue.push({ stages: [...chain.stages, next], links: [...chain.links, link] })
    }
  }
  return undefined
}

/**
 * Stage 0 dials the last one for its tokens. Where it cannot, they go through the coordinator; where it can and no framing is
 * shared, the workers would refuse each other.
 */
function withTokenReturn(chain: Chain, allowed: Allowed): Chain | string {
  const [first, last] = [chain.stages[0]!, chain.stages.at(-1)!]
  if (chain.stages.length === 1) return chain
  const canDial = last.addresses.some(({ transport }) => first.transports.includes(transport))
  if (!canDial) return chain
  const link = agree(last, first, 'tokens', allowed)
  return typeof link === 'string' ? link : { ...chain, links: [...chain.links, link] }
}

function uncovered(workers: readonly HelloMessage[], layers: number): [number, number][] {
  const gaps: [number, number][] = []
  let covered = 0
  for (const { facts } of workers.toSorted((a, b) => a.facts.layerFirst - b.facts.layerFirst)) {
    if (facts.layerFirst > covered) gaps.push([covered, facts.layerFirst])
    covered = Math.max(covered, facts.layerEnd)
  }
  if (covered < layers) gaps.push([covered, layers])
  return gaps
}

/** The last layer boundary that exact neighbours lead to from layer 0. */
function reached(workers: readonly HelloMessage[], layers: number): number {
  const ends = new Set([0])
  for (const end of ends) {
    for (const { facts } of workers) if (facts.layerFirst === end) ends.add(facts.layerEnd)
  }
  return ends.has(layers) ? layers : Math.max(...ends)
}

const MOST_NAMED = 4

/** A few of many, and how many more. */
export function some(texts: readonly string[], separator = '; '): string {
  const more = texts.length - MOST_NAMED
  return texts.slice(0, MOST_NAMED).join(separator) + (more > 0 ? `${separator}and ${more} more` : '')
}

function rangeList(ranges: readonly (readonly [number, number])[]): string {
  const texts = ranges.map(([first, end]) => `${first}-${end}`)
  return `layers ${some(texts, ', ')} ${ranges.length === 1 ? 'is a range' : 'are ranges'}`
}
