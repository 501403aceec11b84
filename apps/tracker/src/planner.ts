import { type HelloMessage, type LinkFacts, SeamError } from '@seamline/core'
import { type Allowed, agreed, directFirst, unreachable } from './agreement.ts'
import { type Chain, findChain, type Search, some } from './chain.ts'
import { differences, withoutLayers } from './facts.ts'
import type { Candidate, Plan, PlannedStage } from './plan.ts'

/** A request with nothing left open. */
export interface Wanted {
  readonly facts: Partial<LinkFacts>
  readonly without: readonly string[]
  readonly allowed: Allowed
}

/**
 * Chooses the shortest chain of workers that share all facts but their layers. Throws `UNSUPPORTED` when nobody serves a range,
 * naming it, `MISMATCH` when those who do differ from the others, naming the facts with both values, and `USAGE` when workers of
 * several models are known and the request names none.
 */
export function makePlan(workers: readonly HelloMessage[], wanted: Wanted): Plan {
  const reasons = new Map(workers.map((worker) => [worker.name, unfit(worker, wanted)]))
  const usable = workers.filter(({ name }) => reasons.get(name) === '')
  if (usable.length === 0) throw noWorker(workers, reasons)
  checkOneModel(usable)
  const groups = grouped(usable)
  let found: { readonly chain: Chain; readonly group: readonly HelloMessage[] } | undefined
  const lacking: { readonly group: readonly HelloMessage[]; readonly search: Search }[] = []
  for (const group of groups) {
    const search = findChain(group, wanted.allowed)
    if (search.chain !== undefined) {
      found = { chain: search.chain, group }
      break
    }
    lacking.push({ group, search })
  }
  if (found === undefined) throw noChain(lacking, reasons)
  const { chain, group } = found
  const head = chain.stages[0]!
  const candidates = workers.map((worker): Candidate => {
    const { name, facts } = worker
    const at = { name, layerFirst: facts.layerFirst, layerEnd: facts.layerEnd }
    if (chain.stages.includes(worker)) return { ...at, use: 'chosen', reason: '' }
    if (group.includes(worker)) return { ...at, use: 'spare', reason: 'the chain is complete without it' }
    const reason = reasons.get(name) || unlike(head, worker)
    return { ...at, use: 'unfit', reason }
  })
  return {
    facts: { ...head.facts, layerFirst: 0, layerEnd: head.facts.layerCount },
    stages: chain.stages.map((worker) => stageOf(worker, wanted.allowed)),
    links: chain.links,
    candidates,
  }
}

function stageOf(worker: HelloMessage, { framings, relayed }: Allowed): PlannedStage {
  const { name, facts, addresses } = worker
  return {
    ...{ name, layerFirst: facts.layerFirst, layerEnd: facts.layerEnd },
    addresses: directFirst(addresses, relayed),
    framing: agreed(framings, framings, worker.framings)!,
  }
}

/** Why the request rules a worker out; empty when it does not. */
function unfit(worker: HelloMessage, { facts, without, allowed }: Wanted): string {
  if (without.includes(worker.name)) return 'the request does without it'
  return (
    differences(withoutRange(facts), worker.facts, 'the request', worker.name) || unreachable(worker, allowed)
  )
}

/** A request may state what a whole model does; a stage has its own range. */
function withoutRange({ layerFirst, layerEnd, ...facts }: Partial<LinkFacts>): Partial<LinkFacts> {
  return facts
}

function unlike(one: HelloMessage, other: HelloMessage): string {
  return (
    differences(withoutLayers(one.facts), withoutLayers(other.facts), one.name, other.name) ||
    `${one.name} and ${other.name} do not state the same facts`
  )
}

/** Workers that share all facts but their layers, in the order of the first of each. */
function grouped(workers: readonly HelloMessage[]): readonly (readonly HelloMessage[])[] {
  const groups = new Map<string, HelloMessage[]>()
  for (const worker of workers) {
    const key = JSON.stringify(withoutLayers(worker.facts))
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [worker])
    else group.push(worker)
  }
  return [...groups.values()]
}

function checkOneModel(workers: readonly HelloMessage[]): void {
  const models = new Map(workers.map(({ name, facts }) => [facts.modelSha256, name]))
  if (models.size <= 1) return
  const known = [...models].map(([sha256, name]) => `${sha256 || 'one without a hash'} (${name})`)
  const way = 'name one as facts.modelSha256'
  throw new SeamError('USAGE', `workers of ${models.size} models are known: ${some(known)}; ${way}`)
}

function noWorker(workers: readonly HelloMessage[], reasons: ReadonlyMap<string, string>): SeamError {
  if (workers.length === 0)
    return new SeamError(
      'WORKER',
      'no worker has announced itself: pipe `seamline worker …` into `tracker announce`',
    )
  const why = workers.map(({ name }) => `${name}: ${reasons.get(name)}`)
  return new SeamError('MISMATCH', `none of ${workers.length} workers fits the request: ${some(why)}`)
}

/** Blames facts where a worker of another group serves what this one lacks, else the range itself. */
function noChain(
  lacking: readonly { readonly group: readonly HelloMessage[]; readonly search: Search }[],
  reasons: ReadonlyMap<string, string>,
): SeamError {
  const missing = ({ gaps }: Search) => gaps.reduce((sum, [first, end]) => sum + end - first, 0)
  const [nearest, ...rest] = lacking.toSorted((a, b) => missing(a.search) - missing(b.search))
  const { group, search } = nearest!
  const head = group[0]!
  const lack = `no chain of workers like ${head.name} through ${head.facts.layerCount} layers: ${search.lack}`
  const others = rest.flatMap((other) => other.group)
  const { gaps } = search
  const serving = others.filter(({ facts }) =>
    gaps.some(([first, end]) => facts.layerFirst < end && facts.layerEnd > first),
  )
  if (serving.length > 0) {
    const unlikes = serving.map((other) => {
      const { layerFirst, layerEnd } = other.facts
      return `${other.name} serves ${layerFirst}-${layerEnd} but differs in ${unlike(head, other)}`
    })
    return new SeamError('MISMATCH', `${lack}; ${some(unlikes)}`)
  }
  const left = [...reasons].filter(([, why]) => why !== '').map(([name, why]) => `${name}: ${why}`)
  const elsewhere = left.length === 0 ? '' : `; left out: ${some(left)}`
  return new SeamError(gaps.length > 0 ? 'UNSUPPORTED' : 'MISMATCH', lack + elsewhere)
}
