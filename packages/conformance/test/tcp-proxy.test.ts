import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { perUnit, type TcpProxy, type TcpProxyOptions, tcpProxy } from '../src/tcp-proxy.ts'

let server: Server
let proxy: TcpProxy
const open: Socket[] = []

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})

afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy()
  await proxy.close()
  server.close()
})

interface Side {
  readonly socket: Socket
  readonly events: string[]
  text(): string
}

function watch(socket: Socket): Side {
  const events: string[] = []
  const chunks: Buffer[] = []
  open.push(socket)
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('end', () => events.push('end'))
  socket.on('error', (error: NodeJS.ErrnoException) => events.push(error.code ?? 'error'))
  return { socket, events, text: () => Buffer.concat(chunks).toString() }
}

async function dial(options: Omit<TcpProxyOptions, 'target'> = {}): Promise<{ client: Side; far: Side }> {
  proxy = await tcpProxy({ target: `127.0.0.1:${(server.address() as AddressInfo).port}`, ...options })
  const client = watch(connectTo(proxy))
  const [socket] = (await once(server, 'connection')) as [Socket]
  return { client, far: watch(socket) }
}

function connectTo({ address }: TcpProxy): Socket {
  const [host, port] = address.split(':')
  return connect({ host: host ?? '', port: Number(port), allowHalfOpen: true })
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 30))

it('passes bytes and ends on, both ways', async () => {
  const { client, far } = await dial()
  client.socket.end('to the target')
  await expect.poll(() => far.text()).toBe('to the target')
  await expect.poll(() => far.events).toEqual(['end'])
  far.socket.end('to the client')
  await expect.poll(() => client.text()).toBe('to the client')
  await expect.poll(() => client.events).toEqual(['end'])
  expect(proxy.accepted).toBe(1)
})

it('carries 32 MiB to a slow reader', async () => {
  const { client, far } = await dial()
  const total = 32 << 20
  let received = 0
  far.socket.removeAllListeners('data')
  far.socket.on('data', (chunk) => {
    received += chunk.length
    far.socket.pause()
    setImmediate(() => far.socket.resume())
  })
  client.socket.write(Buffer.alloc(total))
  await expect.poll(() => received, { timeout: 10_000 }).toBe(total)
})

it('edits whole units of one direction: drop, repeat, reorder, flip a bit', async () => {
  let kept: Uint8Array[] = []
  // Units of the test: one digit that says how many letters follow; unit 0 is a preamble of 2 B.
  const lengthOf = (bytes: Uint8Array, index: number) =>
    index === 0 ? 2 : bytes[0] === undefined ? undefined : 1 + bytes[0] - 0x30
  const edit = (unit: Uint8Array, index: number): Uint8Array[] => {
    if (index === 2) return []
    if (index === 3) return [unit, unit]
    if (index === 4) {
      kept = [unit]
      return []
    }
    if (index === 5) return [unit, ...kept]
    if (index === 6) return [unit.map((byte, at) => (at === 1 ? byte ^ 0x20 : byte))]
    return [unit]
  }
  const { client, far } = await dial({
    transform: (direction) => (direction === 'toTarget' ? perUnit(lengthOf, edit) : (chunk) => [chunk]),
  })
  for (const piece of ['P', 'P1', 'a3b', 'cd', '1e2', 'fg1h1', 'i1j']) {
    client.socket.write(piece)
    await pause()
  }
  // Sent: PP 1a 3bcd 1e 2fg 1h 1i 1j
  await expect.poll(() => far.text()).toBe('PP1a1e1e1h2fg1I1j')
  far.socket.write('1a3bcd')
  await expect.poll(() => client.text()).toBe('1a3bcd')
})

it('cut resets both sides and lets later dials through', async () => {
  const { client, far } = await dial()
  client.socket.write('before')
  await expect.poll(() => far.text()).toBe('before')
  proxy.cut()
  await expect.poll(() => [client.events, far.events]).toEqual([['ECONNRESET'], ['ECONNRESET']])
  const again = watch(connectTo(proxy))
  const [socket] = (await once(server, 'connection')) as [Socket]
  watch(socket).socket.end('hello')
  await expect.poll(() => again.text()).toBe('hello')
})

it('blackhole stops bytes, ends and resets, and keeps sockets open', async () => {
  const { client, far } = await dial()
  client.socket.write('before')
  await expect.poll(() => far.text()).toBe('before')
  proxy.blackhole()
  client.socket.write('after')
  far.socket.end('after')
  const late = watch(connectTo(proxy))
  await once(late.socket, 'connect')
  late.socket.write('late')
  await pause()
  client.socket.resetAndDestroy()
  await pause()
  expect([client.text(), far.text()]).toEqual(['', 'before'])
  expect([client.events, far.events, late.events]).toEqual([[], [], []])
  expect(far.socket.destroyed).toBe(false)
})

it('stall holds bytes and ends on every connection, flow lets all of them go on', async () => {
  const { client, far } = await dial()
  client.socket.write('before')
  await expect.poll(() => far.text()).toBe('before')
  proxy.stall()
  client.socket.end(Buffer.alloc(8 << 20, 'x'))
  far.socket.write('back')
  const late = watch(connectTo(proxy))
  const [lateFar] = (await once(server, 'connection')) as [Socket]
  const lateSide = watch(lateFar)
  late.socket.end('late')
  await pause()
  expect([far.text(), client.text(), lateSide.text()]).toEqual(['before', '', ''])
  expect([far.events, client.events, late.events]).toEqual([[], [], []])
  proxy.flow()
  await expect.poll(() => far.events).toEqual(['end'])
  expect(far.text()).toBe(`before${'x'.repeat(8 << 20)}`)
  await expect.poll(() => client.text()).toBe('back')
  await expect.poll(() => [lateSide.text(), lateSide.events]).toEqual(['late', ['end']])
})

it('delays bytes and ends, in order', async () => {
  const { client, far } = await dial({ delayMs: 100 })
  const startMs = performance.now()
  for (let index = 0; index < 10; index += 1) client.socket.write(String(index))
  client.socket.end()
  await expect.poll(() => far.events).toEqual(['end'])
  expect(far.text()).toBe('0123456789')
  // A lower bound that no load can break; timers may fire 1 ms early.
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(99)
})

it('resets the client when nobody listens at the target', async () => {
  server.close()
  proxy = await tcpProxy({ target: '127.0.0.1:1' })
  const client = watch(connectTo(proxy))
  await expect.poll(() => client.events).toEqual(['ECONNRESET'])
})
