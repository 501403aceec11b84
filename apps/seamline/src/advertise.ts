import { networkInterfaces } from 'node:os'
import type { TransportAddress } from '@seamline/core'

/** Addresses that mean "every interface here" and nothing anywhere else. */
const EVERYWHERE = /^(?:0\.0\.0\.0|\[::\])(?=:\d)/

/**
 * The addresses that others are to dial: where one listens on every interface, `host`, by default the first address of this machine
 * on a network. An address that names its own host, or a relay, stays as it is unless `host` is given for it.
 */
export function advertised(
  addresses: readonly TransportAddress[],
  host: string | undefined,
): readonly TransportAddress[] {
  return addresses.map(({ transport, address }) => ({ transport, address: visibleAddress(address, host) }))
}

export function visibleAddress(address: string, host: string | undefined): string {
  if (!EVERYWHERE.test(address)) return address
  const shown = host ?? firstAddress()
  return shown === undefined
    ? address
    : address.replace(EVERYWHERE, shown.includes(':') ? `[${shown}]` : shown)
}

function firstAddress(): string | undefined {
  const found = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  return found.find(({ internal, family }) => !internal && family === 'IPv4')?.address
}
