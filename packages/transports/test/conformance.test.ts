import { transportSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { memory } from '../src/memory.ts'
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

describe('memory', () => {
  transportSuite({ describe, it, create: () => ({ transport: memory(), address: 'stage:0' }) })
})
