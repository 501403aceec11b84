import { tcpProxy, transportSuite } from '@seamline/conformance'
import type { Transport } from '@seamline/core'
import { describe, it } from 'vitest'
import { memory } from '../src/memory.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { tcp } from '../src/tcp.ts'
import { ws } from '../src/ws.ts'
import { silentListener } from './support/silent-listener.ts'

const security = { identity: createIdentity(), secret: createSecret() }
const pin = `#${security.identity.fingerprint}`
const keepAliveMs = 400
const kinds: ReadonlyArray<
  [name: string, make: (options: { keepAliveMs?: number }) => Transport, end: string]
> = [
  ['tcp', tcp, ''],
  ['tcp with TLS', (options) => tcp({ ...options, security }), pin],
  ['ws', ws, ''],
  ['ws with TLS', (options) => ws({ ...options, security }), pin],
]

describe.each(kinds)('%s', (name, make, end) => {
  const keepAlive = {
    ms: keepAliveMs,
    async through(address: string) {
      const proxy = await tcpProxy({ target: address.replace(/#.*/, '') })
      return { address: proxy.address + end, stall: proxy.blackhole, close: proxy.close }
    },
  }
  transportSuite({
    describe,
    it,
    create: () => ({
      transport: make(name.startsWith('ws') ? { keepAliveMs } : {}),
      address: '127.0.0.1:0',
    }),
    unanswered: async () => {
      const silent = await silentListener()
      return { ...silent, address: `${silent.address}${end}` }
    },
    // test:long does 1000.
    cycles: 200,
    // TCP finds that a host is gone, not that packets stop on a live one.
    ...(name.startsWith('ws') ? { keepAlive } : {}),
  })
})

describe('memory', () => {
  transportSuite({ describe, it, create: () => ({ transport: memory(), address: 'stage:0' }) })
})
