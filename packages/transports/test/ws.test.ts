import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tcpProxy } from '@seamline/conformance'
import type { Connection, Listener } from '@seamline/core'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { maxMessageBytes, type WsOptions, ws } from '../src/ws.ts'
import { createLog, hostAndPort, type Log } from './support/log.ts'

const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function listen(options: WsOptions = {}): Promise<[Listener, Log]> {
  const far = createLog()
  const listener = await ws(options).listen('127.0.0.1:0', far.accept)
  closing.push(listener.close)
  return [listener, far]
}

/** Sends `text` and tells what comes back until the end. */
async function answer(listener: Listener, text: string | Uint8Array): Promise<string> {
  const socket = connect(hostAndPort(listener.address))
  let received = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    received += String(chunk)
  })
  socket.write(text)
  await once(socket, 'close')
  return received
}

const upgrade = (extra = '', path = '/') =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
  `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${extra}\r\n`

describe('what is no peer of ours', () => {
  it('gets a short HTTP answer and is closed', async () => {
    const [listener, far] = await listen({ handshakeTimeoutMs: 1000 })
    const status = async (text: string) => (await answer(listener, text)).split('\r\n')[0]
    expect(await status('GET / HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('HTTP/1.1 426 Upgrade Required')
    expect(await status('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd')).toBe(
      'HTTP/1.1 426 Upgrade Required',
    )
    expect(await status(upgrade('', '/other'))).toBe('HTTP/1.1 400 Bad Request')
    expect(await status(upgrade().replace('Version: 13', 'Version: 7'))).toBe('HTTP/1.1 400 Bad Request')
    expect(await status(upgrade('Origin: http://example.org\r\n'))).toBe('HTTP/1.1 403 Forbidden')
    expect(await status(`GET / HTTP/1.1\r\nX: ${'y'.repeat(9000)}\r\n\r\n`)).toBe(
      'HTTP/1.1 431 Request Header Fields Too Large',
    )
    expect(await status('garbage\r\n\r\n')).toBe('HTTP/1.1 400 Bad Request')
    expect(far.accepts).toBe(0)
  })

  it('is closed when it takes too long, and keeps nobody out', async () => {
    const [listener, far] = await listen({ handshakeTimeoutMs: 200 })
    const slow = Array.from({ length: 300 }, () =>
      connect(hostAndPort(listener.address)).on('error', () => {}),
    )
    for (const socket of slow) socket.resume().write('GET / HTTP/1.1\r\n')
    const connection = await ws().dial(listener.address, createLog().accept)
    await connection.close()
    expect(far.accepts).toBe(1)
    await expect.poll(() => slow.every((socket) => socket.destroyed), { timeout: 5000 }).toBe(true)
  })

  it('finds a limit on connections', async () => {
    const [listener, far] = await listen({ maxConnections: 2 })
    const connections: Connection[] = []
    for (let index = 0; index < 2; index += 1) {
      connections.push(await ws().dial(listener.address, createLog().accept))
    }
    await expect(ws().dial(listener.address, createLog().accept)).rejects.toMatchObject({ code: 'RESET' })
    await Promise.all(connections.map((connection) => connection.close()))
    await expect.poll(() => far.closes.length).toBe(2)
    const connection = await ws().dial(listener.address, createLog().accept)
    await connection.close()
  })

  it('that answers HTTP, garbage, or hangs up: a typed error of the dial', async () => {
    const http = createHttpServer((_request, response) => response.writeHead(404).end('no')).listen(
      0,
      '127.0.0.1',
    )
    await once(http, 'listening')
    closing.push(() => void http.close())
    const dial = (port: number) => ws().dial(`127.0.0.1:${port}`, createLog().accept, { timeoutMs: 1000 })
    const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port
    await expect(dial(portOf(http))).rejects.toMatchObject({
      code: 'PROTOCOL',
      message: expect.stringContaining('404'),
    })
    for (const [text, code] of [
      ['garbage\r\n\r\n', 'PROTOCOL'],
      ['', 'RESET'],
    ] as const) {
      const server = createServer((socket) => socket.on('error', () => {}).end(text)).listen(0, '127.0.0.1')
      await once(server, 'listening')
      closing.push(() => void server.close())
      await expect(dial(portOf(server))).rejects.toMatchObject({ code })
    }
  })
})

describe('another implementation of RFC 6455', () => {
  it('as a client, with real masks and fragments: every byte in order, a pong, and a closing handshake', async () => {
    const [listener, far] = await listen()
    const { host, port } = hostAndPort(listener.address)
    far.onData = (bytes) => void far.connection?.send(Uint8Array.from(bytes))
    const client = new WebSocket(`ws://${host}:${port}/`)
    const received: Buffer[] = []
    client.on('message', (data: Buffer) => received.push(data))
    await once(client, 'open')
    const sent = Buffer.from(Array.from({ length: 150_000 }, (_, index) => (index * 7 + (index >> 8)) & 0xff))
    client.send(sent.subarray(0, 3))
    client.send(sent.subarray(3, 70_000), { fin: false })
    client.ping('life')
    client.send(sent.subarray(70_000, 70_001), { fin: true })
    client.send(sent.subarray(70_001))
    expect(String((await once(client, 'pong'))[0])).toBe('life')
    await expect.poll(() => Buffer.concat(received).length).toBe(sent.length)
    expect(Buffer.concat(received).equals(sent)).toBe(true)
    client.send(new Uint8Array(0))
    const [code] = await once(client, 'close')
    expect(code).toBe(1000)
    expect(received.at(-1)?.length).toBe(0)
    expect(far.closes).toEqual([undefined])
  })

  it('as a server: binary messages of at most 256 KiB, an empty one as the end, code 1000', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    await once(server, 'listening')
    closing.push(() => void server.close())
    const messages: Buffer[] = []
    let code = 0
    server.on('connection', (client) => {
      client.on('close', (found) => {
        code = found
      })
      client.on('message', (data: Buffer, isBinary) => {
        expect(isBinary).toBe(true)
        messages.push(data)
        const half = data.length >> 1
        if (half > 0) client.send(data.subarray(0, half), { fin: false })
        client.send(data.subarray(half))
      })
    })
    const near = createLog()
    const { port } = server.address() as AddressInfo
    const connection = await ws().dial(`127.0.0.1:${port}`, near.accept)
    const sent = Buffer.alloc(3 * maxMessageBytes + 5, 9)
    connection.send(sent)
    await expect.poll(() => near.bytes).toBe(sent.length)
    await connection.close()
    expect(near.closes).toEqual([undefined])
    await expect.poll(() => code).toBe(1000)
    expect(messages.map((message) => message.length)).toEqual([
      maxMessageBytes,
      maxMessageBytes,
      maxMessageBytes,
      5,
      0,
    ])
    expect(Buffer.concat(messages).equals(sent)).toBe(true)
  })

  const wrongs: ReadonlyArray<
    [name: string, code: string, send: (client: WebSocket, socket: Socket) => void]
  > = [
    ['a text message', 'PROTOCOL', (client) => client.send('text')],
    ['a message that is too long', 'LIMIT', (client) => client.send(new Uint8Array(maxMessageBytes + 1))],
    [
      'a fragmented message that is too long',
      'LIMIT',
      (client) => {
        for (let index = 0; index < 5; index += 1) client.send(new Uint8Array(1 << 16), { fin: false })
      },
    ],
    [
      'bytes behind its end',
      'PROTOCOL',
      (client) => {
        client.send(new Uint8Array(0))
        client.send(new Uint8Array(5))
      },
    ],
    ['a frame without a mask', 'PROTOCOL', (_client, socket) => socket.write(Buffer.of(0x82, 1, 1))],
    ['a reserved bit', 'PROTOCOL', (_client, socket) => socket.write(Buffer.of(0xc2, 0x81, 0, 0, 0, 0, 1))],
    [
      'a reserved opcode',
      'PROTOCOL',
      (_client, socket) => socket.write(Buffer.of(0x83, 0x81, 0, 0, 0, 0, 1)),
    ],
    [
      'a length of 2^63',
      'LIMIT',
      (_client, socket) => socket.write(Buffer.of(0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
    ],
    ['a close without ends', 'RESET', (client) => client.close(1001)],
    ['a socket that just goes', 'RESET', (client) => client.terminate()],
  ]
  it.each(wrongs)('%s: %s', async (_name, code, send) => {
    const [listener, far] = await listen()
    const { host, port } = hostAndPort(listener.address)
    const client = new WebSocket(`ws://${host}:${port}/`)
    client.on('error', () => {})
    let raw: Socket | undefined
    client.on('upgrade', (response) => {
      raw = response.socket
    })
    await once(client, 'open')
    send(client, raw as Socket)
    await expect.poll(() => far.closes[0]?.code, { timeout: 5000 }).toBe(code)
    expect(far.closes.length).toBe(1)
    if (client.readyState !== WebSocket.CLOSED) await once(client, 'close')
  })
})

describe('liveness', () => {
  it('a network that goes dark: TIMEOUT on both sides, though nobody sends', async () => {
    const [listener, far] = await listen({ keepAliveMs: 200 })
    const proxy = await tcpProxy({ target: listener.address })
    closing.push(proxy.close)
    const near = createLog()
    await ws({ keepAliveMs: 200 }).dial(proxy.address, near.accept)
    // Alive for longer than the limit: each hears the other's pings.
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect([near.closes, far.closes]).toEqual([[], []])
    proxy.blackhole()
    await expect.poll(() => [near.closes[0]?.code, far.closes[0]?.code]).toEqual(['TIMEOUT', 'TIMEOUT'])
    expect(near.closes[0]?.message).toContain('silent for 200 ms')
  })

  it('a side that is paused for long neither judges nor is judged', async () => {
    const [listener, far] = await listen({ keepAliveMs: 100 })
    const near = createLog()
    const connection = await ws({ keepAliveMs: 100 }).dial(listener.address, near.accept)
    await expect.poll(() => far.accepts).toBe(1)
    far.connection?.pause()
    connection.send(new Uint8Array(32 << 20))
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect([near.closes, far.closes]).toEqual([[], []])
    far.connection?.resume()
    await expect.poll(() => far.bytes, { timeout: 5000 }).toBe(32 << 20)
    await connection.close()
    await expect.poll(() => far.closes).toEqual([undefined])
  })
})

it('reads straight into the memory of the handler on the dialling side', async () => {
  const [listener, far] = await listen()
  const targets: Uint8Array[] = []
  let bytes = 0
  let direct = 0
  const connection = await ws().dial(listener.address, () => ({
    nextBuffer() {
      const target = new Uint8Array(maxMessageBytes)
      targets.push(target)
      return target
    },
    onData(count) {
      bytes += count
      // Longer than the stage: no copy of a single read can be.
      if (count > 1 << 16) direct += 1
    },
    onDrain() {},
    onClose() {},
  }))
  await expect.poll(() => far.accepts).toBe(1)
  connection.pause()
  far.connection?.send(new Uint8Array(8 << 20))
  await new Promise((resolve) => setTimeout(resolve, 50))
  connection.resume()
  await expect.poll(() => bytes).toBe(8 << 20)
  expect(direct).toBeGreaterThan(0)
  await connection.close()
})
