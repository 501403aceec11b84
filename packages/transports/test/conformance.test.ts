import { transportSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { memory } from '../src/memory.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { tcp } from '../src/tcp.ts'
import { silentListener } from './support/silent-listener.ts'

describe('tcp', () => {
  transportSuite({
    describe,
    it,
    create: () => ({ transport: tcp(), address: '127.0.0.1:0' }),
    unanswered: silentListener,
  })
})

describe('tcp with TLS', () => {
  const security = { identity: createIdentity(), secret: createSecret() }
  transportSuite({
    describe,
    it,
    create: () => ({ transport: tcp({ security }), address: '127.0.0.1:0' }),
    unanswered: async () => {
      const silent = await silentListener()
      return { ...silent, address: `${silent.address}#${security.identity.fingerprint}` }
    },
  })
})

describe('memory', () => {
  transportSuite({ describe, it, create: () => ({ transport: memory(), address: 'stage:0' }) })
})
