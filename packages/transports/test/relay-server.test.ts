import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { type ProxyTransform, tcpProxy } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type RelayMode, type RelayOptions, relay } from '../src/relay.ts'
import { roomKey } from '../src/relay-protocol.ts'
import { createRelay, type Relay, type RelayServerOptions } from '../src/relay-server.ts'
import { createIdentity, createSecret } from '../src/security.ts'
import { echoPeer, joinPair, testPeer } from './support/peers.ts'

const secret = createSecret()
const access = createSecret()
const identity = createIdentity()
const security = { identity, secret }
const modes = ['raw', 'ws'] as const satisfies readonly RelayMode[]

const undo: Array<() => unknown> = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function start(options: Partial<RelayServerOptions> = {}): Promise<Relay> {
  const running = await createRelay({ address: '127.0.0.1:0', ...options })
  undo.push(() => running.close({ timeoutMs: 0 }))
  return running
}

async function listenAt(address: string, options: RelayOptions = { secret }, peer = echoPeer()) {
  const listener = await relay(options).listen(address, peer.accept)
  undo.push(() => listener.close())
  return listener
}

function dial(address: string, options: RelayOptions = { secret }, openOptions = {}) {
  return relay(options).dial(address, testPeer().accept, openOptions)
}

/** A bare connection to the relay, and everything that it answers. */
function bare(running: Relay, text = ''): { socket: Socket; answer: () => string; closed: Promise<unknown> } {
  const { 1: host, 2: port } = /^(.*):(\d+)/.exec(running.address) ?? []
  const socket = connect(Number(port), host)
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  socket.on('error', () => {})
  undo.push(() => socket.destroy())
  if (text !== '') socket.write(text)
  return { socket, answer: () => answer, closed: new Promise((resolve) => socket.once('close', resolve)) }
}

describe.each(modes)('refusals in mode %s', (mode) => {
  const options = { secret, mode }

  it('names the room that nobody listens in', async () => {
    const running = await start()
    await expect(dial(`${running.address}/empty-room`, options)).rejects.toMatchObject({
      code: 'RESET',
      message: expect.stringContaining('nobody listens in room empty-room'),
    })
    expect(running.metrics()).toMatchObject({ rooms: [], peers: 0, drops: { no_listener: 1 } })
  })

  it('refuses another secret, from diallers and from listeners, and tells no key', async () => {
    const running = await start()
    const address = `${running.address}/room`
    await listenAt(address, options)
    const other = { secret: createSecret(), mode }
    for (const attempt of [dial(address, other), listenAt(address, other)]) {
      const error = await attempt.then(
        () => undefined,
        (reason: Error) => reason,
      )
      expect(error).toMatchObject({ code: 'MISMATCH', message: expect.stringContaining('room room') })
      expect(error?.message).not.toMatch(/[0-9a-f]{32}/)
    }
    expect(running.metrics().rooms[0]?.drops).toEqual({ key: 2 })
    await (await dial(address, options)).close()
  })

  it('refuses a wrong access secret, and none', async () => {
    const running = await start({ access })
    const address = `${running.address}/room`
    await expect(listenAt(address, options)).rejects.toMatchObject({ code: 'MISMATCH' })
    await expect(listenAt(address, { ...options, access: createSecret() })).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringContaining('access'),
    })
    await listenAt(address, { ...options, access })
    await expect(dial(address, options)).rejects.toMatchObject({ code: 'MISMATCH' })
    await (await dial(address, { ...options, access })).close()
    expect(running.metrics().drops).toEqual({ access: 3 })
  })

  it('refuses the other mode', async () => {
    const running = await start()
    const address = `${running.address}/room`
    await listenAt(address, options)
    const other = mode === 'raw' ? 'ws' : 'raw'
    await expect(dial(address, { secret, mode: other })).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringMatching(new RegExp(`mode ${mode}.*${other}`)),
    })
  })

  it('keeps to its limits on rooms, peers in a room and peers in all', async () => {
    const running = await start({ limits: { maxRooms: 2, maxPeersPerRoom: 3, maxPeers: 4 } })
    const address = `${running.address}/a`
    await listenAt(address, options)
    await listenAt(`${running.address}/b`, options)
    await expect(listenAt(`${running.address}/c`, options)).rejects.toMatchObject({
      code: 'LIMIT',
      message: expect.stringContaining('2 of 2 rooms'),
    })
    const first = await dial(address, options)
    await expect(dial(address, options)).rejects.toMatchObject({
      code: 'BUSY',
      message: expect.stringContaining('4 of 4 peers'),
    })
    await first.close()
    await expect.poll(() => running.metrics().peers).toBe(2)
    await (await dial(address, options)).close()

    const narrow = await start({ limits: { maxPeersPerRoom: 3 } })
    await listenAt(`${narrow.address}/a`, options)
    await dial(`${narrow.address}/a`, options)
    await expect(dial(`${narrow.address}/a`, options)).rejects.toMatchObject({
      code: 'BUSY',
      message: expect.stringContaining('room a has 3 of 3 peers'),
    })
    expect(running.metrics().drops).toEqual({ rooms: 1, peers: 1 })
    expect(narrow.metrics().rooms[0]?.drops).toEqual({ room_peers: 1 })
  })

  it('cuts a pair that moves nothing', async () => {
    const running = await start({ limits: { maxIdleMs: 60 } })
    const { near, far, listener } = await joinPair(relay(options), `${running.address}/room`)
    undo.push(() => listener.close())
    near.connection.send(Buffer.from('sign of life'))
    await expect.poll(() => [near.closes.length, far.closes.length], { timeout: 5000 }).toEqual([1, 1])
    expect(near.receivedBytes).toBe(12)
    expect(near.closes[0]?.code).toBe('RESET')
    expect(running.metrics().drops.idle).toBe(1)
  })

  it('lets a room go when everybody has left, and keeps its key while a pair is there', async () => {
    const running = await start()
    const address = `${running.address}/room`
    const { near, listener } = await joinPair(relay(options), address)
    await listener.close()
    expect(running.metrics().rooms).toMatchObject([{ room: 'room', listening: false, pairs: 1 }])
    const other = { secret: createSecret(), mode }
    await expect(listenAt(address, other)).rejects.toMatchObject({ code: 'MISMATCH' })
    await near.connection.close()
    await expect.poll(() => running.metrics().rooms).toEqual([])
    await listenAt(address, other)
  })
})

describe('addresses', () => {
  it('wants a room to dial, a pin for TLS, and all that is needed beyond loopback', async () => {
    const running = await start()
    const usage = (address: string, options: RelayOptions) =>
      expect(dial(address, options)).rejects.toMatchObject({ code: 'USAGE' })
    await usage(running.address, { secret })
    await usage(`${running.address}/`, { secret })
    await usage(`${running.address}/white space`, { secret })
    await usage(`${running.address}/${'r'.repeat(65)}`, { secret })
    await usage(`${running.address}/room`, { security })
    await usage(`${running.address}/room#${identity.fingerprint}`, { secret })
    await usage('192.0.2.1:7000/room', { secret })
    await usage(`192.0.2.1:7000/room#${identity.fingerprint}`, { security })
    await usage(`192.0.2.1:7000~${identity.fingerprint}/room`, { secret })
    await expect(
      relay({ security }).listen(
        `${running.address}/room#${createIdentity().fingerprint}`,
        testPeer().accept,
      ),
    ).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(identity.fingerprint) })
    const listener = await listenAt(`${running.address}/room`, { security })
    expect(listener.address).toBe(`${running.address}/room#${identity.fingerprint}`)
    const free = await listenAt(`${running.address}/`)
    expect(free.address).toMatch(/\/[\w-]{22}$/)
  })

  it('a relay beyond loopback needs access and TLS, and metrics need loopback', async () => {
    const attempts: RelayServerOptions[] = [
      { address: '0.0.0.0:0' },
      { address: '0.0.0.0:0', access },
      { address: '[::]:0', tls: identity },
      { address: '127.0.0.1:0', access: 'short' },
      { address: '127.0.0.1:0', metricsAddress: '0.0.0.0:0' },
      { address: '127.0.0.1:0', limits: { maxPeers: 0 } },
      { address: '127.0.0.1:0', limits: { maxPear: 1 } as object },
    ]
    for (const options of attempts) {
      await expect(createRelay(options)).rejects.toMatchObject({ code: 'USAGE' })
    }
    const running = await start()
    await expect(createRelay({ address: running.address })).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('taken'),
    })
  })

  it('refuses a relay with another certificate before it says anything', async () => {
    const running = await start({ tls: identity, access })
    const wrong = running.address.replace(identity.fingerprint, createIdentity().fingerprint)
    const options = { secret, access }
    await expect(dial(`${wrong}/room`, options)).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringContaining(identity.fingerprint),
    })
    await listenAt(`${running.address}/room`, options)
    await (await dial(`${running.address}/room`, options)).close()
    expect(running.metrics().drops).toEqual({})
  })

  it('refuses a peer with another secret end to end, though the room key is right', async () => {
    const running = await start()
    const listener = await listenAt(`${running.address}/room`, { security })
    const other = { secret, security: { identity, secret: createSecret() } }
    await expect(dial(listener.address, other)).rejects.toMatchObject({ code: 'MISMATCH' })
    const pinned = listener.address.replace(/#.*/, `#${createIdentity().fingerprint}`)
    await expect(dial(pinned, { security })).rejects.toMatchObject({ code: 'MISMATCH' })
    await (await dial(listener.address, { security })).close()
  })
})

describe.each(modes)('what a relay sees in mode %s', (mode) => {
  const marker = Buffer.from('the marker that nobody else may read')

  async function overheard(options: RelayOptions): Promise<Buffer> {
    const running = await start()
    const heard: Uint8Array[] = []
    const proxy = await tcpProxy({
      target: running.address,
      transform: () => (chunk) => {
        heard.push(chunk)
        return [chunk]
      },
    })
    undo.push(() => proxy.close())
    const { near, listener } = await joinPair(relay({ mode, ...options }), `${proxy.address}/room`)
    near.connection.send(marker)
    await expect.poll(() => near.received.equals(marker)).toBe(true)
    await near.connection.close()
    await listener.close()
    return Buffer.concat(heard)
  }

  it('is neither the data nor the secret, under security', async () => {
    const bytes = await overheard({ security })
    expect(bytes.includes(marker)).toBe(false)
    expect(bytes.includes(secret)).toBe(false)
    expect(bytes.includes(identity.key.split('\n')[1] ?? '')).toBe(false)
    // The ear works: it heard the requests.
    expect(bytes.includes('/seamline/relay/1/room')).toBe(true)
  })

  it('is the data without security, but never a secret', async () => {
    const bytes = await overheard({ secret, access })
    expect(bytes.includes(marker)).toBe(true)
    expect(bytes.includes(secret)).toBe(false)
    expect(bytes.includes(access)).toBe(false)
  })

  it('cannot be altered unnoticed under security', async () => {
    const running = await start()
    let tamper = false
    const flip: ProxyTransform = (chunk) => {
      if (!tamper || chunk.length < 1000) return [chunk]
      tamper = false
      const altered = Uint8Array.from(chunk)
      altered[chunk.length >> 1] = (altered[chunk.length >> 1] ?? 0) ^ 1
      return [altered]
    }
    const proxy = await tcpProxy({ target: running.address, transform: () => flip })
    undo.push(() => proxy.close())
    const { near, far, listener } = await joinPair(
      relay({ mode, security }),
      `${running.address}/room`,
      echoPeer(),
      (address) => address.replace(running.address, proxy.address),
    )
    near.connection.send(marker)
    await expect.poll(() => near.received.equals(marker)).toBe(true)
    tamper = true
    near.connection.send(new Uint8Array(5000))
    await expect.poll(() => [near.closes.length, far.closes.length]).toEqual([1, 1])
    expect(far.receivedBytes).toBe(marker.length)
    expect(far.closes[0]?.code).toBe('PROTOCOL')
    expect(['PROTOCOL', 'RESET']).toContain(near.closes[0]?.code)
    await listener.close()
  })
})

describe.each(modes)('a slow reader in mode %s', (mode) => {
  it('stops the writer, the relay holds no more than its limit, and every byte arrives', async () => {
    const maxQueuedBytesPerPair = 1 << 20
    const running = await start({ limits: { maxQueuedBytesPerPair } })
    const far = testPeer()
    const { near, listener } = await joinPair(relay({ secret, mode }), `${running.address}/room`, far)
    far.connection.pause()
    const chunk = new Uint8Array(1 << 16)
    let sentBytes = 0
    let releasedBytes = 0
    let maxQueued = 0
    let quiet = 0
    while (quiet < 40) {
      const before = releasedBytes
      while (near.connection.queuedBytes < 1 << 20) {
        near.connection.send(chunk, () => {
          releasedBytes += chunk.length
        })
        sentBytes += chunk.length
      }
      await new Promise((resolve) => setTimeout(resolve, 5))
      quiet = releasedBytes === before ? quiet + 1 : 0
      maxQueued = Math.max(maxQueued, running.metrics().rooms[0]?.queuedBytes ?? 0)
      expect(sentBytes).toBeLessThan(256 << 20)
    }
    // Each direction has half; one more read, or message, may be on its way when the mark is met.
    expect(maxQueued).toBeGreaterThan(0)
    expect(maxQueued).toBeLessThanOrEqual(maxQueuedBytesPerPair / 2 + (1 << 18) + 64)
    expect(running.metrics().rooms[0]?.stalls).toBeGreaterThan(0)
    far.connection.resume()
    await near.connection.close()
    await expect.poll(() => far.closes).toEqual([undefined])
    expect(far.receivedBytes).toBe(sentBytes)
    expect(running.metrics()).toMatchObject({ toListenerBytes: sentBytes, toDiallerBytes: 0 })
    await listener.close()
  })
})

describe('strangers', () => {
  it('are dropped when they say nothing, half of a request, or too much', async () => {
    const running = await start({ limits: { maxHandshakeMs: 100, maxHeaderBytes: 2048 } })
    const silent = bare(running)
    const slow = bare(running, 'GET /seamline/relay/1/room HTTP/1.1\r\nHost: a\r\n')
    const drip = setInterval(() => slow.socket.write('X: y\r\n'), 20)
    undo.push(() => clearInterval(drip))
    await Promise.all([silent.closed, slow.closed])
    expect([silent.answer(), slow.answer()]).toEqual(['', ''])
    expect(running.metrics()).toMatchObject({ drops: { handshake: 2 }, handshakes: 0, peers: 0 })

    const long = bare(running, `GET / HTTP/1.1\r\nX: ${'y'.repeat(4000)}\r\n\r\n`)
    await long.closed
    expect(long.answer()).toMatch(/^HTTP\/1\.1 431 [\s\S]*Seamline-Code: LIMIT[\s\S]*2048 B/)
    for (const text of [
      '\x16\x03\x01\x02\x00\x01\x00',
      'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
      'HELO\r\n\r\n',
    ]) {
      const wrong = bare(running, text)
      await wrong.closed
      expect(wrong.answer()).toMatch(/^HTTP\/1\.1 400 [\s\S]*Seamline-Code: PROTOCOL/)
    }
    expect(running.metrics().drops).toEqual({ handshake: 2, header_bytes: 1, request: 3 })
  })

  it('keep nobody out: at the limit the oldest gives way', async () => {
    const running = await start({ limits: { maxHandshakes: 4 } })
    const strangers = []
    for (let index = 0; index < 20; index += 1) strangers.push(bare(running))
    await Promise.all(strangers.slice(0, 16).map(({ closed }) => closed))
    await listenAt(`${running.address}/room`)
    await (await dial(`${running.address}/room`)).close()
    expect(running.metrics().drops.handshake).toBeGreaterThanOrEqual(16)
  })

  it('may not speak before they are answered', async () => {
    const running = await start({ limits: { maxJoinMs: 200 } })
    const address = `${running.address}/room`
    const upgrade = (role: string, more = '') =>
      `GET /seamline/relay/1/room HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${'A'.repeat(22)}==\r\nSeamline-Role: ${role}\r\n` +
      `Seamline-Mode: raw\r\nSeamline-Key: ${'0'.repeat(64)}\r\nSeamline-Keep-Alive: 1000\r\n${more}\r\n`
    const listener = bare(running, upgrade('listen', `Seamline-Token: ${'T'.repeat(22)}\r\n`))
    await expect.poll(listener.answer).toMatch(/^HTTP\/1\.1 101 /)
    const hasty = bare(running, `${upgrade('dial')}too early`)
    await hasty.closed
    // A listener that never comes, and a ticket that nobody holds.
    const waiting = bare(running, upgrade('dial'))
    await waiting.closed
    expect(waiting.answer()).toMatch(/^HTTP\/1\.1 504 [\s\S]*TIMEOUT[\s\S]*200 ms/)
    const stray = bare(running, upgrade('accept', `Seamline-Token: ${'T'.repeat(22)}\r\n`))
    await stray.closed
    expect(stray.answer()).toMatch(/^HTTP\/1\.1 404 [\s\S]*RESET/)
    expect(running.metrics()).toMatchObject({ peers: 1, rooms: [{ drops: { join: 2 } }] })
    listener.socket.destroy()
    await expect.poll(() => running.metrics().rooms).toEqual([])
    await expect(dial(address)).rejects.toMatchObject({ code: 'RESET' })
  })

  it('lose the pair with a message that is too long', async () => {
    const running = await start({ limits: { maxMessageBytes: 1000 } })
    const { near, far, listener } = await joinPair(relay({ secret, mode: 'ws' }), `${running.address}/room`)
    near.connection.send(new Uint8Array(1000))
    await expect.poll(() => near.receivedBytes).toBe(1000)
    near.connection.send(new Uint8Array(1001))
    await expect.poll(() => [near.closes[0]?.code, far.closes[0]?.code]).toEqual(['LIMIT', 'LIMIT'])
    expect(running.metrics().drops).toMatchObject({ message_bytes: 1 })
    await listener.close()
  })
})

describe.each(modes)('the control connection in mode %s', (mode) => {
  it('is made anew when it went silent; the connection that exists goes on, and dials work again', async () => {
    const running = await start()
    let dark = false
    const proxy = await tcpProxy({
      target: running.address,
      transform: (_direction, index) => (chunk) => (index === 0 && dark ? [] : [chunk]),
    })
    undo.push(() => proxy.close())
    const states: Array<string | undefined> = []
    const options: RelayOptions = {
      secret,
      mode,
      keepAliveMs: 200,
      onRegistration: (_address, lost) => states.push(lost?.code),
    }
    const { near, listener } = await joinPair(relay(options), `${proxy.address}/room`)
    dark = true
    await expect.poll(() => states.length, { timeout: 5000 }).toBe(2)
    // Both ends notice; the relay may be the first, and its end is what the listener sees then.
    expect(states[0]).toMatch(/^(TIMEOUT|CLOSED|RESET)$/)
    expect(states[1]).toBeUndefined()
    near.connection.send(Buffer.from('still here'))
    await expect.poll(() => String(near.received)).toBe('still here')
    await (await dial(`${running.address}/room`, { secret, mode })).close()
    await near.connection.close()
    expect(near.closes).toEqual([undefined])
    await listener.close()
    await expect.poll(() => running.metrics().rooms).toEqual([])
  })

  it('finds the relay again after a restart', async () => {
    const first = await start()
    const states: Array<string | undefined> = []
    const options: RelayOptions = {
      secret,
      mode,
      onRegistration: (_address, lost) => states.push(lost?.code),
    }
    const listener = await listenAt(`${first.address}/room`, options)
    await first.close()
    expect(states).toEqual(['CLOSED'])
    await expect(dial(listener.address, { secret, mode })).rejects.toMatchObject({ code: 'RESET' })
    await start({ address: first.address })
    await expect.poll(() => states, { timeout: 5000 }).toEqual(['CLOSED', undefined])
    await (await dial(listener.address, { secret, mode })).close()
  })
})

describe.each(modes)('closing a relay in mode %s', (mode) => {
  it('lets a pair come to its end, refuses newcomers meanwhile, and leaves nothing', async () => {
    const before = process.getActiveResourcesInfo().length
    const running = await start()
    const { near, far, listener } = await joinPair(
      relay({ secret, mode }),
      `${running.address}/room`,
      testPeer(),
    )
    const total = 32 << 20
    far.connection.pause()
    near.connection.send(new Uint8Array(total))
    const closed = running.close()
    await expect(dial(listener.address, { secret, mode })).rejects.toMatchObject({ code: 'RESET' })
    far.connection.resume()
    await near.connection.close()
    await closed
    expect([far.receivedBytes, near.closes[0], far.closes[0]]).toEqual([total, undefined, undefined])
    await listener.close()
    await expect.poll(() => process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before)
  })

  it('cuts the pairs that are left after the deadline', async () => {
    const running = await start()
    const { near, far, listener } = await joinPair(relay({ secret, mode }), `${running.address}/room`)
    await running.close({ timeoutMs: 50 })
    await expect.poll(() => [near.closes[0]?.code, far.closes[0]?.code]).toEqual(['RESET', 'RESET'])
    expect(running.metrics()).toMatchObject({ peers: 0, rooms: [], drops: { closing: 1 } })
    await listener.close()
  })
})

describe('metrics', () => {
  it('are text for Prometheus on loopback, for each room and direction', async () => {
    const running = await start({ metricsAddress: '127.0.0.1:0' })
    const { near, listener } = await joinPair(relay({ secret }), `${running.address}/room-1`)
    near.connection.send(new Uint8Array(1234))
    await expect.poll(() => near.receivedBytes).toBe(1234)
    await expect(dial(`${running.address}/room-1`, { secret: createSecret() })).rejects.toThrow()
    const get = async (path: string) => {
      const outgoing = request(`http://${running.metricsAddress}${path}`).end()
      const [response] = await once(outgoing, 'response')
      let text = ''
      for await (const chunk of response) text += chunk
      return { status: response.statusCode, type: response.headers['content-type'], text }
    }
    const { status, type, text } = await get('/metrics')
    expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
    for (const line of [
      'seamline_relay_rooms 1',
      'seamline_relay_peers 3',
      'seamline_relay_joins_total 1',
      'seamline_relay_drops_total{reason="key"} 1',
      'seamline_relay_room_pairs{room="room-1"} 1',
      'seamline_relay_room_queued_bytes{room="room-1"} 0',
      'seamline_relay_room_bytes_total{room="room-1",direction="to_listener"} 1234',
      'seamline_relay_room_bytes_total{room="room-1",direction="to_dialler"} 1234',
      'seamline_relay_room_drops_total{room="room-1",reason="key"} 1',
    ]) {
      expect(text.split('\n')).toContain(line)
    }
    expect(text).not.toContain(secret)
    expect((await get('/')).status).toBe(404)
    await near.connection.close()
    await listener.close()
  })
})

describe('a genuine WebSocket', () => {
  async function stranger(far = echoPeer()) {
    const running = await start()
    const listener = await listenAt(`${running.address}/room`, { secret: '', mode: 'ws' }, far)
    const client = new WebSocket(`ws://${listener.address.replace(/\/.*/, '')}/seamline/relay/1/room`, {
      headers: {
        'Seamline-Role': 'dial',
        'Seamline-Mode': 'ws',
        'Seamline-Key': roomKey('', 'room'),
        'Seamline-Keep-Alive': '10000',
      },
    })
    const received: Buffer[] = []
    client.on('message', (data) => received.push(data as Buffer))
    await once(client, 'open')
    return { client, far, received: () => Buffer.concat(received) }
  }

  it('joins the room: the `ws` library with keys, fragments and pings, and an end in good order', async () => {
    const { client, far, received } = await stranger()
    const random = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7919) >> 3))
    client.send(random.subarray(0, 100))
    client.send(random.subarray(100, 70_000), { fin: false })
    client.send(random.subarray(70_000, 200_001), { fin: false })
    client.send(random.subarray(200_001))
    await expect.poll(() => received().length).toBe(random.length)
    expect(received().equals(random)).toBe(true)
    const pong = once(client, 'pong')
    client.ping('from end to end')
    expect(String((await pong)[0])).toBe('from end to end')
    client.send(new Uint8Array(0))
    const [code] = await once(client, 'close')
    expect(code).toBe(1000)
    await expect.poll(() => far.closes).toEqual([undefined])
  })

  it('is PROTOCOL when it sends text, and RESET when it closes before its end', async () => {
    const chatty = await stranger()
    chatty.client.send('text')
    await expect.poll(() => chatty.far.closes[0]?.code).toBe('PROTOCOL')
    const hasty = await stranger()
    hasty.client.close(1000)
    await expect.poll(() => hasty.far.closes[0]?.code).toBe('RESET')
  })

  it('is cut off for a frame that a client must not send', async () => {
    const { client, far } = await stranger()
    client.send(Buffer.from('no key'), { mask: false })
    const [code] = await once(client, 'close')
    expect(code).toBe(1002)
    await expect.poll(() => far.closes[0]?.code).toBe('PROTOCOL')
  })
})

describe('churn', () => {
  it('leaves no room, peer, timer or socket after 1,000 joins and leaves', async () => {
    const running = await start()
    const before = process.getActiveResourcesInfo().length
    const room = async (index: number) => {
      const transport = relay({ secret, mode: modes[index % 2] ?? 'raw' })
      const listener = await transport.listen(`${running.address}/r${index}`, echoPeer().accept)
      for (let turn = 0; turn < 5; turn += 1) {
        const near = testPeer()
        await transport.dial(listener.address, near.accept)
        near.connection.send(Buffer.from('x'))
        if (turn === 0) near.connection.abort(new SeamError('ABORTED', 'leaves without a word'))
        await near.connection.close()
      }
      await listener.close()
    }
    for (let index = 0; index < 200; index += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, offset) => room(index + offset)))
    }
    await expect
      .poll(() => running.metrics())
      .toMatchObject({ rooms: [], peers: 0, handshakes: 0, joins: 1000 })
    await expect.poll(() => process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before)
  })
})
