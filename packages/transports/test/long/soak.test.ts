import { transportSuite } from '@seamline/conformance'
import type { Transport } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { memory } from '../../src/memory.ts'
import { createIdentity, createSecret } from '../../src/security.ts'
import { tcp } from '../../src/tcp.ts'
import { ws } from '../../src/ws.ts'
import { silentListener } from '../support/silent-listener.ts'

const security = { identity: createIdentity(), secret: createSecret() }
const kinds: ReadonlyArray<[name: string, address: string, make: () => Transport]> = [
  ['tcp', '127.0.0.1:0', tcp],
  ['tcp', '[::1]:0', tcp],
  ['tcp with TLS', '127.0.0.1:0', () => tcp({ security })],
  ['ws', '127.0.0.1:0', ws],
  ['ws with TLS', '127.0.0.1:0', () => ws({ security })],
  ['memory', 'stage:0', memory],
]

async function silent(transport: Transport) {
  const found = await silentListener()
  const end = transport.authenticates ? `#${security.identity.fingerprint}` : ''
  return { ...found, address: `${found.address}${end}` }
}

describe.each(kinds)('%s at %s', (_name, address, make) => {
  const transport = make()
  const unanswered = transport.id === 'memory' ? {} : { unanswered: () => silent(transport) }
  const create = () => ({ transport: make(), address })
  transportSuite({ describe, it, create, ...unanswered, cycles: 1000, deadlineMs: 100_000 })

  it('carries one send of more than 2 GiB', async () => {
    const bytes = 2 ** 31 + 1
    const buffer = new Uint8Array(1 << 18)
    let received = 0
    let last = 0
    const listener = await transport.listen(address, () => ({
      nextBuffer: () => buffer,
      onData(count) {
        received += count
        last = buffer[count - 1] ?? 0
      },
      onDrain() {},
      onClose() {},
    }))
    const connection = await transport.dial(listener.address, () => ({
      nextBuffer: () => buffer,
      onData() {},
      onDrain() {},
      onClose() {},
    }))
    // Pages that nobody writes take no memory.
    const payload = new Uint8Array(bytes)
    payload[bytes - 1] = 77
    let released = 0
    connection.send(payload, () => {
      released += 1
    })
    await connection.close({ timeoutMs: 100_000 })
    await listener.close()
    expect([received, last, released]).toEqual([bytes, 77, 1])
  })
})
