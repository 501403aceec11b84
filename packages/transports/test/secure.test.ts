import { once } from 'node:events'
import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { tcpProxy } from '@seamline/conformance'
import type { Listener, Transport } from '@seamline/core'
import { afterEach, describe, expect, it } from 'vitest'
import { createIdentity, createSecret, type Security } from '../src/security.ts'
import { tcp } from '../src/tcp.ts'
import { ws } from '../src/ws.ts'
import { createLog, hostAndPort, type Log } from './support/log.ts'

const security: Security = { identity: createIdentity(), secret: createSecret() }
const { fingerprint } = security.identity

interface Options {
  security?: Security
  handshakeTimeoutMs?: number
}

const kinds: ReadonlyArray<[name: string, make: (options: Options) => Transport]> = [
  ['tcp', tcp],
  ['ws', ws],
]

const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

describe.each(kinds)('%s with security', (_name, make) => {
  async function listen(options: Options = {}, address = '127.0.0.1:0'): Promise<[Listener, Log]> {
    const far = createLog()
    const listener = await make({ security, ...options }).listen(address, far.accept)
    closing.push(listener.close)
    return [listener, far]
  }

  function plain(address: string): Socket {
    const socket = connectPlain(hostAndPort(address))
    socket.on('error', () => {})
    closing.push(() => void socket.destroy())
    return socket
  }

  /** The listener is well: a right peer gets through, and is the only one that ever did. */
  async function expectOnlyRightPeers(listener: Listener, far: Log): Promise<void> {
    const near = createLog()
    const connection = await make({ security }).dial(listener.address, near.accept)
    connection.send(Buffer.from('right'))
    await connection.close()
    expect(far.text).toBe('right')
    expect(far.accepts).toBe(1)
  }

  it('authenticates with security, and not without', () => {
    expect([make({ security }).authenticates, make({}).authenticates]).toEqual([true, false])
  })

  it('tells its fingerprint, and may listen beyond loopback', async () => {
    const [listener, far] = await listen({}, '0.0.0.0:0')
    expect(listener.address).toMatch(new RegExp(`^0\\.0\\.0\\.0:\\d+#${fingerprint}$`))
    await expectOnlyRightPeers(listener, far)
    await expect(make({}).listen('0.0.0.0:0', far.accept)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('give `security'),
    })
  })

  it('refuses to dial without a pin, with half a pin, with a pin and no security, and a short secret', async () => {
    const usage = (text: RegExp) => ({ code: 'USAGE', message: expect.stringMatching(text) })
    const { accept } = createLog()
    const dial = (address: string, options: Options = { security }) => make(options).dial(address, accept)
    await expect(dial('127.0.0.1:7000')).rejects.toMatchObject(usage(/dial host:port#fingerprint/))
    await expect(dial('127.0.0.1:7000#abc')).rejects.toMatchObject(usage(/3 characters.*43/))
    await expect(dial(`127.0.0.1:7000#${fingerprint}`, {})).rejects.toMatchObject(
      usage(/give this side `security`/),
    )
    await expect(
      make({ security }).listen(`127.0.0.1:0#${createIdentity().fingerprint}`, accept),
    ).rejects.toMatchObject(usage(new RegExp(`identity here has the fingerprint ${fingerprint}`)))
    expect(() => make({ security: { ...security, secret: 'short' } })).toThrow(/5 B, at least 16 B/)
  })

  it('another secret: MISMATCH without either secret, and nobody is accepted', async () => {
    const [listener, far] = await listen()
    const wrong = { ...security, secret: createSecret() }
    const near = createLog()
    const error = await make({ security: wrong })
      .dial(listener.address, near.accept)
      .catch((error) => error)
    expect(error).toMatchObject({ code: 'MISMATCH', message: expect.stringContaining('another secret') })
    for (let seen = error; seen !== undefined; seen = seen.cause) {
      const text = `${seen} ${seen.stack} ${JSON.stringify(seen)}`
      expect(text).not.toContain(wrong.secret)
      expect(text).not.toContain(security.secret)
    }
    expect(near.accepts).toBe(0)
    await expectOnlyRightPeers(listener, far)
  })

  it('a listener with another certificate of the same name: MISMATCH with both fingerprints', async () => {
    const impostor = { ...security, identity: createIdentity() }
    const [listener, far] = await listen({ security: impostor })
    const { host, port } = hostAndPort(listener.address)
    await expect(
      make({ security }).dial(`${host}:${port}#${fingerprint}`, createLog().accept),
    ).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringContaining(`${impostor.identity.fingerprint}, expected ${fingerprint}`),
    })
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(far.accepts).toBe(0)
  })

  it('garbage, TLS 1.2, TLS without the proof, and a wrong proof are accepted by nobody', async () => {
    const [listener, far] = await listen()
    const garbage = plain(listener.address)
    garbage.resume().write(Buffer.alloc(3000, 0x5a))
    await once(garbage, 'close')
    const old = connectTls({
      ...hostAndPort(listener.address),
      maxVersion: 'TLSv1.2',
      rejectUnauthorized: false,
    })
    expect((await once(old, 'error'))[0].code).toMatch(/PROTOCOL_VERSION/)
    const silent = connectTls({ ...hostAndPort(listener.address), rejectUnauthorized: false })
    await once(silent, 'secureConnect')
    silent.end()
    silent.resume()
    await once(silent, 'close')
    const liar = connectTls({ ...hostAndPort(listener.address), rejectUnauthorized: false })
    liar.write(Buffer.alloc(4096, 1))
    const [reply] = await once(liar, 'data')
    expect(reply).toEqual(Buffer.concat([Buffer.of(1), Buffer.alloc(32)]))
    liar.resume()
    await once(liar, 'close')
    await expectOnlyRightPeers(listener, far)
  })

  it('a listener without TLS, and one that says nothing: a typed error at the dialling side', async () => {
    const listener = await make({}).listen('127.0.0.1:0', createLog().accept)
    closing.push(listener.close)
    const dialled = make({ security }).dial(`${listener.address}#${fingerprint}`, createLog().accept, {
      timeoutMs: 200,
    })
    // A plain TCP listener waits for more, HTTP answers.
    await expect(dialled).rejects.toMatchObject({ code: expect.stringMatching(/TIMEOUT|PROTOCOL|RESET/) })
  })

  it('a peer without TLS is cut off and accepted by nobody', async () => {
    const [listener, far] = await listen({ handshakeTimeoutMs: 100 })
    const { host, port } = hostAndPort(listener.address)
    const near = createLog()
    const dialled = make({}).dial(`${host}:${port}`, near.accept)
    const connection = await dialled.catch(() => undefined)
    connection?.send(Buffer.from('plain'))
    await expect.poll(() => connection === undefined || near.closes.length > 0).toBe(true)
    await expectOnlyRightPeers(listener, far)
  })

  it('slow handshakes are cut off, and hold nobody up', async () => {
    const [listener, far] = await listen({ handshakeTimeoutMs: 300 })
    const slow: Socket[] = []
    const drip = setInterval(() => {
      for (const socket of slow) if (!socket.destroyed) socket.write(Buffer.of(0x16))
    }, 50)
    closing.push(() => clearInterval(drip))
    for (let index = 0; index < 300; index += 1) {
      const socket = plain(listener.address)
      socket.resume()
      slow.push(socket)
    }
    await Promise.all(slow.map((socket) => once(socket, 'connect')))
    await expectOnlyRightPeers(listener, far)
    await expect.poll(() => slow.every((socket) => socket.destroyed), { timeout: 5000 }).toBe(true)
  })

  it('200 peers at once', async () => {
    const [listener, far] = await listen({ handshakeTimeoutMs: 20_000 })
    const transport = make({ security })
    const dials = Array.from({ length: 200 }, async () => {
      const connection = await transport.dial(listener.address, createLog().accept, { timeoutMs: 20_000 })
      connection.send(new Uint8Array(100))
      await connection.close({ timeoutMs: 20_000 })
    })
    await Promise.all(dials)
    await expect.poll(() => far.bytes).toBe(20_000)
    expect(far.accepts).toBe(200)
  })

  it('a recorded connection that is played again is accepted by nobody', async () => {
    const [listener, far] = await listen()
    const recorded: Uint8Array[] = []
    const { host, port } = hostAndPort(listener.address)
    const proxy = await tcpProxy({
      target: `${host}:${port}`,
      transform: (direction) => (chunk) => {
        if (direction === 'toTarget') recorded.push(Uint8Array.from(chunk))
        return [chunk]
      },
    })
    closing.push(proxy.close)
    const near = createLog()
    const connection = await make({ security }).dial(`${proxy.address}#${fingerprint}`, near.accept)
    connection.send(Buffer.from('once'))
    await connection.close()
    expect([far.accepts, far.text]).toEqual([1, 'once'])
    for (const whole of [true, false]) {
      const replay = plain(listener.address)
      replay.resume()
      if (whole) replay.write(Buffer.concat(recorded))
      else for (const piece of recorded) replay.write(piece)
      await once(replay, 'close')
    }
    expect([far.accepts, far.text]).toEqual([1, 'once'])
  })

  it.each(['toTarget', 'toClient'] as const)(
    'a byte altered on the way %s ends both sides',
    async (altered) => {
      const [listener, far] = await listen()
      const { host, port } = hostAndPort(listener.address)
      let armed = false
      const proxy = await tcpProxy({
        target: `${host}:${port}`,
        transform: (direction) => (chunk) => {
          if (!armed || direction !== altered) return [chunk]
          const copy = Uint8Array.from(chunk)
          copy[copy.length - 1] = (copy[copy.length - 1] ?? 0) ^ 1
          return [copy]
        },
      })
      closing.push(proxy.close)
      const near = createLog()
      await make({ security }).dial(`${proxy.address}#${fingerprint}`, near.accept)
      await expect.poll(() => far.accepts).toBe(1)
      armed = true
      const [sender, receiver] = altered === 'toTarget' ? [near, far] : [far, near]
      sender.connection?.send(Buffer.from('to be altered'))
      await expect.poll(() => [near.closes.length, far.closes.length]).toEqual([1, 1])
      expect(receiver.closes[0]).toMatchObject({
        code: 'PROTOCOL',
        message: expect.stringMatching(/altered on the way \(ERR_SSL.*BAD_RECORD_MAC\)/),
      })
      expect(sender.closes[0]?.code ?? 'RESET').toMatch(/RESET|PROTOCOL/)
      expect(receiver.bytes).toBe(0)
    },
  )

  it('64 MiB to a slow reader: the sender waits and neither side piles them up', async () => {
    const [listener, far] = await listen()
    const near = createLog()
    const payload = Buffer.alloc(64 << 20, 7)
    const connection = await make({ security }).dial(listener.address, near.accept)
    await expect.poll(() => far.accepts).toBe(1)
    const reader = far.connection
    reader?.pause()
    const before = process.memoryUsage().rss
    let most = 0
    let released = 0
    for (let at = 0; at < payload.length; at += 16 << 20) {
      connection.send(payload.subarray(at, at + (16 << 20)), () => {
        released += 1
      })
    }
    // Gives the sender all the time it needs to run ahead.
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(released).toBeLessThan(2)
    far.onData = () => {
      most = Math.max(most, process.memoryUsage.rss())
      reader?.pause()
      setImmediate(() => reader?.resume())
    }
    reader?.resume()
    await expect.poll(() => far.bytes, { timeout: 20_000 }).toBe(payload.length)
    expect(released).toBe(4)
    expect(most - before).toBeLessThan(48 << 20)
    await connection.close()
  })

  it('a connection cut by the network without a word of TLS ends on both sides', async () => {
    const [listener, far] = await listen()
    const { host, port } = hostAndPort(listener.address)
    const proxy = await tcpProxy({ target: `${host}:${port}` })
    closing.push(proxy.close)
    const near = createLog()
    await make({ security }).dial(`${proxy.address}#${fingerprint}`, near.accept)
    await expect.poll(() => far.accepts).toBe(1)
    proxy.cut()
    await expect.poll(() => [near.closes[0]?.code, far.closes[0]?.code]).toEqual(['RESET', 'RESET'])
  })

  it('closing the listener drops handshakes that are in progress', async () => {
    const [listener, far] = await listen()
    const half = plain(listener.address)
    half.resume()
    await once(half, 'connect')
    await new Promise((resolve) => setTimeout(resolve, 20))
    await listener.close()
    await once(half, 'close')
    expect(far.accepts).toBe(0)
  })
})
