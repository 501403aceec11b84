import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Accept, Connection, SeamError } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { tcp } from '../src/tcp.ts'

interface Log {
  readonly accept: Accept
  readonly closes: Array<SeamError | undefined>
  readonly targets: Uint8Array[]
  connection: Connection | undefined
  bytes: number
}

function log(): Log {
  const entry: Log = {
    closes: [],
    targets: [],
    connection: undefined,
    bytes: 0,
    accept(connection) {
      entry.connection = connection
      return {
        nextBuffer() {
          const target = new Uint8Array(1 << 16)
          entry.targets.push(target)
          return target
        },
        onData(bytes) {
          entry.bytes += bytes
        },
        onDrain() {},
        onClose: (reason) => void entry.closes.push(reason),
      }
    },
  }
  return entry
}

const parts = (address: string) => /^\[?(.*?)\]?:(\d+)$/.exec(address)?.slice(1) ?? []

describe('addresses', () => {
  it('tells the port it got for port 0 and serves IPv4, IPv6 and localhost', async () => {
    for (const address of ['127.0.0.1:0', '127.9.8.7:0', '[::1]:0', 'localhost:0']) {
      const far = log()
      const listener = await tcp().listen(address, far.accept)
      const [host, port] = parts(listener.address)
      expect(Number(port)).toBeGreaterThan(0)
      if (!address.startsWith('localhost')) expect(host).toBe(parts(address)[0])
      const dialled = address.startsWith('localhost') ? `localhost:${port}` : listener.address
      const near = log()
      const connection = await tcp().dial(dialled, near.accept)
      expect(connection.remote).toBe(dialled)
      connection.send(new Uint8Array(5))
      await connection.close()
      await expect.poll(() => far.closes).toEqual([undefined])
      expect(far.bytes).toBe(5)
      await listener.close()
    }
  })

  it('listens on loopback only and says what to do instead', async () => {
    for (const address of [
      '0.0.0.0:0',
      '[::]:0',
      '192.0.2.1:7000',
      '[2001:db8::1]:7000',
      'example.org:7000',
      '128.0.0.1:0',
    ]) {
      await expect(tcp().listen(address, log().accept)).rejects.toMatchObject({
        code: 'USAGE',
        message: expect.stringMatching(/cannot listen at .*only 127\.0\.0\.0\/8.*tunnel/),
      })
    }
    // The same host written in full.
    const listener = await tcp().listen('[0:0:0:0:0:0:0:1]:0', log().accept)
    expect(listener.address).toMatch(/^\[::1\]:\d+$/)
    await listener.close()
  })

  it('refuses what is not host:port', async () => {
    for (const address of [
      '',
      '7000',
      'localhost',
      '127.0.0.1:',
      '127.0.0.1:70000',
      '::1:7000',
      '[127.0.0.1]:7000',
      ':7000',
      '127.0.0.1:-1',
      'tcp://127.0.0.1:7000',
    ]) {
      const refusal = { code: 'USAGE', message: expect.stringContaining('is not host:port') }
      await expect(tcp().dial(address, log().accept)).rejects.toMatchObject(refusal)
      await expect(tcp().listen(address, log().accept)).rejects.toMatchObject(refusal)
    }
  })

  it('names a taken port and the way out', async () => {
    const listener = await tcp().listen('127.0.0.1:0', log().accept)
    await expect(tcp().listen(listener.address, log().accept)).rejects.toMatchObject({
      code: 'USAGE',
      message: `cannot listen at ${listener.address}: the port is taken, choose another or 0`,
    })
    await listener.close()
  })

  it('names a host that cannot be reached, with the cause', async () => {
    const dialled = tcp().dial('no-such-host.invalid:7000', log().accept)
    await expect(dialled).rejects.toMatchObject({
      code: 'RESET',
      message: expect.stringMatching(/cannot reach no-such-host\.invalid:7000 \((ENOTFOUND|EAI_AGAIN)\)/),
    })
  })

  it('says that nobody listens at a dead port', async () => {
    const listener = await tcp().listen('127.0.0.1:0', log().accept)
    await listener.close()
    await expect(tcp().dial(listener.address, log().accept)).rejects.toMatchObject({
      code: 'RESET',
      message: `nobody listens at ${listener.address} (ECONNREFUSED)`,
    })
  })
})

describe('a peer that is no transport of ours', () => {
  async function dialPlain(): Promise<{ near: Log; connection: Connection; peer: Socket; done(): void }> {
    const server = createServer({ allowHalfOpen: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const near = log()
    const arrived = once(server, 'connection')
    const connection = await tcp().dial(`127.0.0.1:${port}`, near.accept)
    const [peer] = (await arrived) as [Socket]
    return { near, connection, peer, done: () => void server.close() }
  }

  it('that resets: RESET names the address, and what is sent after the reset is released', async () => {
    const { near, connection, peer, done } = await dialPlain()
    peer.resetAndDestroy()
    let released = 0
    let sent = 0
    while (near.closes.length === 0) {
      connection.send(new Uint8Array(1000), () => {
        released += 1
      })
      sent += 1
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(near.closes[0]).toMatchObject({ code: 'RESET' })
    expect(near.closes[0]?.message).toMatch(/^127\.0\.0\.1:\d+ ended without warning \((ECONNRESET|EPIPE)\)$/)
    expect(released).toBe(sent)
    done()
  })

  it('that closed both directions before the write: the process lives, the sender learns it', async () => {
    const { near, connection, peer, done } = await dialPlain()
    connection.pause()
    peer.on('error', () => {})
    peer.destroy()
    await new Promise((resolve) => setTimeout(resolve, 20))
    let released = 0
    for (let index = 0; index < 8; index += 1) {
      connection.send(new Uint8Array(1 << 20), () => {
        released += 1
      })
    }
    await expect.poll(() => near.closes.length).toBe(1)
    expect(near.closes[0]?.code).toBe('RESET')
    expect(released).toBe(8)
    done()
  })

  it('that sends and ends at once: everything arrives and the end is answered', async () => {
    const { near, peer, done } = await dialPlain()
    peer.end(new Uint8Array(300_000))
    peer.resume()
    await once(peer, 'close')
    await expect.poll(() => near.closes).toEqual([undefined])
    expect(near.bytes).toBe(300_000)
    done()
  })

  it('that dials and leaves before it is served does not harm the listener', async () => {
    const far = log()
    const listener = await tcp().listen('127.0.0.1:0', far.accept)
    const [host, port] = parts(listener.address)
    for (let index = 0; index < 20; index += 1) {
      const socket = connect({ host: host ?? '', port: Number(port) })
      socket.on('error', () => {})
      socket.once('connect', () => socket.resetAndDestroy())
      await once(socket, 'close')
    }
    const connection = await tcp().dial(listener.address, log().accept)
    connection.send(new Uint8Array(7))
    await connection.close()
    await expect.poll(() => far.bytes).toBe(7)
    await listener.close()
  })
})

it('reads straight into the memory of the handler on the dialling side', async () => {
  const far = log()
  const near = log()
  const listener = await tcp().listen('127.0.0.1:0', far.accept)
  await tcp().dial(listener.address, near.accept)
  await expect.poll(() => far.connection).toBeDefined()
  for (let round = 1; round <= 3; round += 1) {
    far.connection?.send(new Uint8Array(1000).fill(round))
    await expect.poll(() => near.bytes).toBe(1000 * round)
    // One more target than reads: the kernel has the next one before the bytes are there.
    expect(near.targets.length).toBe(round + 1)
    expect(near.targets[round - 1]?.[999]).toBe(round)
  }
  await near.connection?.close()
  await listener.close()
})

it('keeps the high-water mark it is given', async () => {
  const listener = await tcp().listen('127.0.0.1:0', log().accept)
  const connection = await tcp({ highWaterMarkBytes: 5000 }).dial(listener.address, log().accept)
  expect(connection.send(new Uint8Array(4999))).toBe(true)
  expect(connection.send(new Uint8Array(1))).toBe(false)
  expect(connection.queuedBytes).toBe(5000)
  await connection.close()
  await listener.close()
})
