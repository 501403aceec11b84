import { SeamError, type TransportAddress } from '@seamline/core'

/** What a coordinator, or a further worker, needs to know of a worker. */
export interface Join {
  readonly secret: string
  /** The secret of the relay's operator, where one is asked for. */
  readonly access?: string
  /** In the order in which they are to be tried; each carries the fingerprint to expect. */
  readonly addresses: readonly TransportAddress[]
}

const SCHEME = 'seamline:'

/**
 * One string that can be pasted into a shell as it is: `seamline:SECRET@tcp=HOST:PORT#FINGERPRINT,relay=HOST:PORT/ROOM#FINGERPRINT`,
 * with `SECRET+ACCESS` where a relay wants a secret of its own. Whoever has it can use the worker.
 */
export function encodeJoin({ secret, access, addresses }: Join): string {
  const secrets = access === undefined ? [secret] : [secret, access]
  for (const each of secrets) {
    if (!/^[\w-]+$/.test(each))
      throw new SeamError('USAGE', 'a secret in a join string may hold letters, digits, _ and - only')
  }
  return `${SCHEME}${secrets.join('+')}@${addresses.map(addressText).join(',')}`
}

/** Throws `USAGE` for anything but the result of {@link encodeJoin}; the error does not repeat the secret. */
export function decodeJoin(text: string): Join {
  const match = /^seamline:([\w-]+)(?:\+([\w-]+))?@(.+)$/.exec(text.trim())
  const [, secret, access, addresses] = match ?? []
  if (secret === undefined || addresses === undefined) {
    throw new SeamError(
      'USAGE',
      `this is no join string (${text.trim().length} characters): it begins with ${SCHEME} and is printed by a worker, copy all of it`,
    )
  }
  if (addresses.includes(SCHEME)) {
    throw new SeamError('USAGE', 'these are several join strings in one: give --join again for each worker')
  }
  return {
    ...(access === undefined ? { secret } : { secret, access }),
    addresses: addresses.split(',').map((address) => parseAddress(address)),
  }
}

export function addressText({ transport, address }: TransportAddress): string {
  return `${transport}=${address}`
}

/** Reads `TRANSPORT=ADDRESS`, or an address alone with `transport` as its transport. Throws `USAGE`. */
export function parseAddress(text: string, transport?: string): TransportAddress {
  // Its text is not repeated: it carries a secret.
  if (text.includes(SCHEME))
    throw new SeamError('USAGE', 'this is a join string, not an address: give it to --join')
  const match = /^(?:([a-z][a-z0-9-]*)=)?([^=\s]+)$/.exec(text.trim())
  const named = match?.[1] ?? transport
  if (match?.[2] === undefined || named === undefined) {
    throw new SeamError('USAGE', `"${text.trim()}" is no address; for example tcp=127.0.0.1:7100`)
  }
  return { transport: named, address: match[2] }
}
