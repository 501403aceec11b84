import { BlockList, isIP } from 'node:net'
import { SeamError } from '@seamline/core'
import { checkFingerprint, type Security } from './security.ts'

export interface Address {
  readonly host: string
  readonly port: number
  /** What stands behind `#`. */
  readonly fingerprint: string | undefined
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Reads `host:port` or `host:port#fingerprint`. Throws `USAGE`. */
export function parseAddress(address: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:[\]#]+)):(\d{1,5})(?:#(.*))?$/.exec(address)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port > 65535 || (match?.[1] !== undefined && isIP(host) !== 6)) {
    throw new SeamError('USAGE', `${address} is not host:port, for example 127.0.0.1:7000 or [::1]:7000`)
  }
  return { host, port, fingerprint: match?.[4] }
}

export function formatAddress(host: string, port: number, fingerprint?: string): string {
  const end = fingerprint === undefined ? '' : `#${fingerprint}`
  return (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`) + end
}

/** The address to dial. `fingerprint` is there exactly when `security` is; anything else is `USAGE`. */
export function parseDialled(address: string, security: Security | undefined): Address {
  const parsed = parseAddress(address)
  const { fingerprint } = parsed
  if (security === undefined) {
    if (fingerprint === undefined) return parsed
    throw new SeamError(
      'USAGE',
      `${address} names a fingerprint, so its listener expects TLS: give this side \`security\` with the same secret`,
    )
  }
  if (fingerprint === undefined) {
    throw new SeamError(
      'USAGE',
      `${address} has no fingerprint, so anybody could answer there: dial host:port#fingerprint, ` +
        'the whole address that the listener prints',
    )
  }
  checkFingerprint(fingerprint)
  return parsed
}

/** The address to listen at; a fingerprint must be that of `security`. `USAGE` beyond loopback without `security`. */
export function parseListened(address: string, security: Security | undefined): Address {
  const parsed = parseAddress(address)
  if (security === undefined && !isLoopback(parsed.host)) {
    throw new SeamError(
      'USAGE',
      `cannot listen at ${address}: without \`security\` there is neither secret nor encryption, so only 127.0.0.0/8, ` +
        '[::1] and localhost are allowed; give `security: { identity: createIdentity(), secret }`, or use a loopback ' +
        'address and a tunnel between machines',
    )
  }
  if (parsed.fingerprint !== undefined && parsed.fingerprint !== security?.identity.fingerprint) {
    throw new SeamError(
      'USAGE',
      `cannot listen at ${address}: the identity here has the fingerprint ` +
        `${security?.identity.fingerprint ?? '(none: there is no security)'}; leave #… out`,
    )
  }
  return parsed
}

function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
