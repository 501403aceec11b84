import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, it } from 'vitest'
import { type RelayMode, type RelayOptions, relay } from '../src/relay.ts'
import { createRelay } from '../src/relay-server.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { echoPeer, joinPair, testPeer } from './support/peers.ts'

const security = { identity: createIdentity(), secret: createSecret() }
const modes = ['raw', 'ws'] as const satisfies readonly RelayMode[]

const undo: Array<() => unknown> = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

/** Starts `support/relay-process.mjs`, which runs the built package. */
async function child(role: 'relay' | 'listen' | 'dial', address: string, options: object = {}) {
  const path = new URL('support/relay-process.mjs', import.meta.url).pathname
  const started: ChildProcess = fork(path, [role, JSON.stringify({ address, options })])
  undo.push(() => started.kill('SIGKILL'))
  const [ready] = await once(started, 'message')
  return { process: started, address: String((ready as { address: string }).address) }
}

const kinds = [
  { name: 'raw', options: { mode: 'raw', secret: security.secret } },
  { name: 'ws under TLS', options: { mode: 'ws', security } },
] as const

describe.each(kinds)('processes, $name', ({ options }) => {
  it('the relay is killed: both peers see an end, and the listener serves again once it is back', async () => {
    const server = await child('relay', '127.0.0.1:0')
    const states: Array<string | undefined> = []
    const registered: RelayOptions = {
      ...options,
      onRegistration: (_address, lost) => states.push(lost?.code),
    }
    const { near, far, listener } = await joinPair(relay(registered), `${server.address}/room`)
    undo.push(() => listener.close())
    near.connection.send(Buffer.from('before'))
    await expect.poll(() => String(near.received)).toBe('before')
    server.process.kill('SIGKILL')
    await expect.poll(() => [near.closes.length, far.closes.length, states.length]).toEqual([1, 1, 1])
    for (const reason of [...near.closes, ...far.closes]) expect([undefined, 'RESET']).toContain(reason?.code)
    await expect(relay(options).dial(listener.address, testPeer().accept)).rejects.toMatchObject({
      code: 'RESET',
    })
    await child('relay', server.address)
    await expect.poll(() => states.at(-1), { timeout: 10_000 }).toBeUndefined()
    await (await relay(options).dial(listener.address, testPeer().accept)).close()
  })

  it('the listener, then a dialler, is killed: the other side sees an end', async () => {
    const server = await createRelay({ address: '127.0.0.1:0' })
    undo.push(() => server.close({ timeoutMs: 0 }))
    const listening = await child('listen', `${server.address}/one`, options)
    const near = testPeer()
    await relay(options).dial(listening.address, near.accept)
    near.connection.send(Buffer.from('hello'))
    await expect.poll(() => String(near.received)).toBe('hello')
    listening.process.kill('SIGKILL')
    await expect.poll(() => near.closes.length).toBe(1)
    expect([undefined, 'RESET']).toContain(near.closes[0]?.code)
    await expect.poll(() => server.metrics().rooms).toEqual([])

    const far = echoPeer()
    const listener = await relay(options).listen(`${server.address}/two`, far.accept)
    const dialling = await child('dial', listener.address, options)
    await expect.poll(() => String(far.received)).toBe('from another process')
    dialling.process.kill('SIGKILL')
    await expect.poll(() => far.closes.length).toBe(1)
    expect([undefined, 'RESET']).toContain(far.closes[0]?.code)
    await listener.close()
    await expect.poll(() => server.metrics()).toMatchObject({ rooms: [], peers: 0 })
  })
})

describe.each(modes)('a relay that is stopped, mode %s', (mode) => {
  it('is noticed by the listener in time, lets dials run into their deadline, and is used again later', async () => {
    const server = await child('relay', '127.0.0.1:0')
    const states: Array<string | undefined> = []
    const options: RelayOptions = {
      mode,
      secret: security.secret,
      keepAliveMs: 300,
      onRegistration: (_address, lost) => states.push(lost?.code),
    }
    const { near, far, listener } = await joinPair(relay(options), `${server.address}/room`)
    undo.push(() => listener.close())
    server.process.kill('SIGSTOP')
    undo.push(() => server.process.kill('SIGCONT'))
    await expect.poll(() => states, { timeout: 5000 }).toEqual(['TIMEOUT'])
    await expect(
      relay(options).dial(listener.address, testPeer().accept, { timeoutMs: 200 }),
    ).rejects.toMatchObject({ code: 'TIMEOUT' })
    if (mode === 'raw') near.connection.send(Buffer.from('patience'))
    else await expect.poll(() => [near.closes[0]?.code, far.closes[0]?.code]).toEqual(['TIMEOUT', 'TIMEOUT'])
    server.process.kill('SIGCONT')
    await expect.poll(() => states, { timeout: 15_000 }).toEqual(['TIMEOUT', undefined])
    // Bare bytes leave no room for a sign of life: that connection went on. Whoever wants to know sends beats in it.
    if (mode === 'raw') await expect.poll(() => String(near.received)).toBe('patience')
    await (await relay(options).dial(listener.address, testPeer().accept)).close()
  })
})

describe('memory of the relay', () => {
  it('stays bounded while a reader stands still', async () => {
    const server = await child('relay', '127.0.0.1:0')
    const ask = async () => {
      const answer = once(server.process, 'message')
      server.process.send('metrics')
      return ((await answer)[0] as { rssBytes: number }).rssBytes
    }
    const far = testPeer()
    const transport = relay({ secret: security.secret })
    const { near, listener } = await joinPair(transport, `${server.address}/room`, far)
    const total = 256 << 20
    far.connection.pause()
    const before = await ask()
    // Pages that nobody writes take no memory.
    near.connection.send(new Uint8Array(total))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect((await ask()) - before).toBeLessThan(64 << 20)
    far.connection.resume()
    await near.connection.close({ timeoutMs: 20_000 })
    await expect.poll(() => far.closes).toEqual([undefined])
    expect(far.receivedBytes).toBe(total)
    expect((await ask()) - before).toBeLessThan(64 << 20)
    await listener.close()
  })
})
