import { transportSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { relay } from '../src/relay.ts'
import { createRelay } from '../src/relay-server.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { silentListener } from './support/silent-listener.ts'

const secret = createSecret()
const access = createSecret()
const security = { identity: createIdentity(), secret }
const tls = createIdentity()

// The other combinations are in long/relay.test.ts.
const kinds = [
  { name: 'raw', options: { mode: 'raw', secret }, server: {} },
  { name: 'ws', options: { mode: 'ws', secret }, server: {} },
  { name: 'raw, TLS end to end', options: { mode: 'raw', security }, server: {} },
  {
    name: 'ws, TLS end to end and to the relay',
    options: { mode: 'ws', security, access },
    server: { tls, access },
  },
] as const

describe.each(kinds)('relay: $name', ({ options, server }) => {
  transportSuite({
    describe,
    it,
    async create() {
      const running = await createRelay({ address: '127.0.0.1:0', ...server })
      return {
        transport: relay(options),
        address: `${running.address}/`,
        dispose: () => running.close({ timeoutMs: 0 }),
      }
    },
    ...('tls' in server || 'security' in options
      ? {}
      : {
          async unanswered() {
            const silent = await silentListener()
            return { address: `${silent.address}/room`, dispose: silent.dispose }
          },
        }),
    cycles: 40,
  })
})
