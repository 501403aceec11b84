import { BlockList, isIP } from 'node:net'
import { SeamError } from '@seamline/core'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** True for 127.0.0.0/8, ::1 and `localhost`. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** Reads `HOST:PORT`. Throws `USAGE` when it is none, and beyond loopback. */
export function parseListened(address: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(address)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || !(port <= 65535)) {
    throw new SeamError('USAGE', `cannot listen at ${address}: that is not HOST:PORT, such as 127.0.0.1:7300`)
  }
  if (!isLoopback(host)) {
    const why = 'a tracker has neither secret nor TLS, so only 127.0.0.0/8, [::1] and localhost are allowed'
    throw new SeamError('USAGE', `cannot listen at ${address}: ${why}; use a tunnel between machines`)
  }
  return { host, port }
}
