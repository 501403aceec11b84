import { transportSuite } from '@seamline/conformance'
import type { Transport } from '@seamline/core'
import { describe, it } from 'vitest'
import { memory } from '../src/memory.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { tcp } from '../src/tcp.ts'
import { ws } from '../src/ws.ts'
import { silentListener } from './support/silent-listener.ts'

describe('tcp', () => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: tcp(), address: '127.0.0.1:0' }),
    unanswered: silentListener,
  })
})

const security = { identity: createIdentity(), secret: createSecret() }
const kinds: ReadonlyArray<[name: string, make: () => Transport, end: string]> = [
  ['tcp with TLS', () => tcp({ security }), `#${security.identity.fingerprint}`],
  ['ws', () => ws(), ''],
  ['ws with TLS', () => ws({ security }), `#${security.identity.fingerprint}`],
]

describe.each(kinds)('%s', (_name, make, end) => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: make(), address: '127.0.0.1:0' }),
    unanswered: async () => {
      const silent = await silentListener()
      return { ...silent, address: `${silent.address}${end}` }
    },
  })
})

describe('memory', () => {
  transportSuite({ describe, it, create: () => ({ transport: memory(), address: 'stage:0' }) })
})
