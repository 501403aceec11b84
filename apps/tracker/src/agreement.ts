import type { HelloMessage, TransportAddress } from '@seamline/core'
import type { PlannedLink } from './plan.ts'

/** Ids that a coordinator allows, and what it dials with. */
export interface Allowed {
  readonly codecs: readonly string[]
  /** In the coordinator's order of preference. */
  readonly framings: readonly string[]
  readonly transports: readonly string[]
  /** Transports that pass through somebody else: their addresses come after all others. */
  readonly relayed: readonly string[]
}

/** Direct addresses before those through a relay, else in the order given. */
export function directFirst(
  addresses: readonly TransportAddress[],
  relayed: readonly string[],
): readonly TransportAddress[] {
  const isRelayed = ({ transport }: TransportAddress) => relayed.includes(transport)
  return [...addresses.filter((at) => !isRelayed(at)), ...addresses.filter(isRelayed)]
}

/** The addresses of `worker` that somebody with `transports` can dial, best first. */
function dialable(
  worker: HelloMessage,
  transports: readonly string[],
  relayed: readonly string[],
): readonly TransportAddress[] {
  const usable = worker.addresses.filter(({ transport }) => transports.includes(transport))
  return directFirst(usable, relayed)
}

/** The first of `preferred` that is allowed and offered. */
export function agreed(
  preferred: readonly string[],
  allowed: readonly string[],
  offered: readonly string[],
): string | undefined {
  return preferred.find((id) => allowed.includes(id) && offered.includes(id))
}

/**
 * What `to`, which receives and dials, will use with `from`: of what both offer and the coordinator allows the first in the order
 * of `to`. A text says why they cannot be neighbours.
 */
export function agree(
  from: HelloMessage,
  to: HelloMessage,
  carries: PlannedLink['carries'],
  allowed: Allowed,
): PlannedLink | string {
  const addresses = dialable(from, to.transports, allowed.relayed)
  const framing = agreed(to.framings, allowed.framings, from.framings)
  const codec = carries === 'tokens' ? '' : agreed(to.codecs, allowed.codecs, from.codecs)
  if (addresses.length === 0) {
    return `${to.name} dials ${to.transports.join(', ')}, ${from.name} listens on ${listening(from)}`
  }
  if (framing === undefined) return nothingIn('framing', from, to, 'framings', allowed)
  if (codec === undefined) return nothingIn('codec', from, to, 'codecs', allowed)
  return { from: from.name, to: to.name, carries, addresses, framing, codec }
}

/** Why the coordinator cannot talk to `worker`; empty when it can. */
export function unreachable(worker: HelloMessage, allowed: Allowed): string {
  if (dialable(worker, allowed.transports, allowed.relayed).length === 0) {
    return `it listens on ${listening(worker)}, the coordinator dials ${allowed.transports.join(', ')}`
  }
  if (agreed(allowed.framings, allowed.framings, worker.framings) === undefined) {
    return `it speaks ${worker.framings.join(', ')}, the coordinator ${allowed.framings.join(', ')}`
  }
  return ''
}

function listening({ addresses }: HelloMessage): string {
  return [...new Set(addresses.map(({ transport }) => transport))].join(', ')
}

function nothingIn(
  what: string,
  from: HelloMessage,
  to: HelloMessage,
  key: 'codecs' | 'framings',
  allowed: Allowed,
): string {
  const [sends, receives] = [from[key].join(', '), to[key].join(', ')]
  return `no ${what} in common: ${from.name} sends ${sends}, ${to.name} receives ${receives}, allowed are ${allowed[key].join(', ') || 'none'}`
}
