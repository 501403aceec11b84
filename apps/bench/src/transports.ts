import type { Transport } from '@seamline/core'
import { relay } from '@seamline/transports/relay'
import type { Security } from '@seamline/transports/security'
import { tcp } from '@seamline/transports/tcp'
import { ws } from '@seamline/transports/ws'

/** How to make a transport, the same at both ends. Travels as JSON. */
export interface TransportSettings {
  readonly name: 'tcp' | 'ws' | 'relay'
  readonly security?: Security
  /** Of a relay. */
  readonly mode?: 'raw' | 'ws'
  /** Where to listen: loopback, or the address of the relay with a `/` behind it. */
  readonly listenAt: string
}

export function createTransport({ name, security, mode }: TransportSettings): Transport {
  const options = security === undefined ? {} : { security }
  if (name === 'tcp') return tcp(options)
  if (name === 'ws') return ws(options)
  return relay({ ...options, ...(mode === undefined ? {} : { mode }) })
}
