import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { transportSuite } from '@seamline/conformance'
import { afterEach, describe, expect, it } from 'vitest'
import { relay } from '../../src/relay.ts'
import { createRelay } from '../../src/relay-server.ts'
import { createIdentity, createSecret } from '../../src/security.ts'
import { joinPair, testPeer } from '../support/peers.ts'

const secret = createSecret()
const access = createSecret()
const security = { identity: createIdentity(), secret }
const tls = createIdentity()

const kinds = [
  { name: 'raw, a relay behind TLS', options: { mode: 'raw', secret, access }, server: { tls, access } },
  { name: 'ws, a relay behind TLS', options: { mode: 'ws', secret, access }, server: { tls, access } },
  { name: 'ws, TLS end to end', options: { mode: 'ws', security }, server: {} },
  { name: 'raw, TLS twice', options: { mode: 'raw', security, access }, server: { tls, access } },
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
    cycles: 1000,
    deadlineMs: 100_000,
  })
})

const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

describe.each(['raw', 'ws'] as const)('a relay in a process of its own, mode %s', (mode) => {
  it('carries 4 GiB with flat memory', async () => {
    const path = new URL('../support/relay-process.mjs', import.meta.url).pathname
    const child = fork(path, ['relay', JSON.stringify({ address: '127.0.0.1:0' })])
    children.push(child)
    const [ready] = await once(child, 'message')
    const ask = async () => {
      const answer = once(child, 'message')
      child.send('metrics')
      return ((await answer)[0] as { rssBytes: number }).rssBytes
    }
    const far = testPeer()
    const transport = relay({ secret, mode })
    const address = (ready as { address: string }).address
    const { near, listener } = await joinPair(transport, `${address}/room`, far)
    const piece = new Uint8Array(64 << 20)
    const total = 4 * 2 ** 30
    const levels: number[] = []
    for (let sent = 0; sent < total; sent += piece.length) {
      await new Promise<void>((resolve) => near.connection.send(piece, resolve))
      levels.push(await ask())
    }
    await near.connection.close({ timeoutMs: 60_000 })
    await expect.poll(() => far.closes).toEqual([undefined])
    expect(far.receivedBytes).toBe(total)
    // After a first eighth for the heap to settle.
    const settled = levels.slice(levels.length / 8)
    expect(Math.max(...settled) - Math.min(...settled)).toBeLessThan(48 << 20)
    await listener.close()
  })
})
