import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type ProxyDirection = 'toTarget' | 'toClient'

/** Decides what goes on in place of `chunk`: nothing, the chunk, or any other chunks. May keep `chunk`. */
export type ProxyTransform = (chunk: Uint8Array) => readonly Uint8Array[]

export interface TcpProxyOptions {
  /** `host:port` that every accepted connection is joined to. */
  readonly target: string
  /**
   * Called once for each connection (0, 1, …) and direction; its result sees all bytes of that direction in order, in
   * the pieces they arrive in. Use {@link perUnit} to see whole frames. @default passes everything on
   */
  readonly transform?: (direction: ProxyDirection, connection: number) => ProxyTransform
  /** Time that every chunk and every end spends in the proxy, in order. @default 0 */
  readonly delayMs?: number
}

/** A TCP hop on loopback that goes wrong on demand. */
export interface TcpProxy {
  /** `127.0.0.1:port` to dial instead of the target. */
  readonly address: string
  /** Connections accepted so far. */
  readonly accepted: number
  /** Resets both sides of every connection. Later dials are joined as before. */
  cut(): void
  /**
   * From now on nothing passes, in either direction and on later connections as well: no byte, no end, no reset.
   * All sockets stay open, and senders stall once the kernel is full, as behind a link that went down.
   */
  blackhole(): void
  /**
   * Holds everything, in both directions and on later connections as well, until {@link flow}: nothing is lost, and senders stall
   * once the kernel is full, as behind a peer that is stopped.
   */
  stall(): void
  /** Ends {@link stall}. */
  flow(): void
  /** {@link cut}, and stops listening. */
  close(): Promise<void>
}

/** Starts a {@link TcpProxy}. Throws what the bind throws; a target that refuses shows as a reset to the client. */
export async function tcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const { target, transform = () => (chunk) => [chunk], delayMs = 0 } = options
  const [host, port] = splitAddress(target)
  const sockets = new Set<Socket>()
  let accepted = 0
  let dark = false
  let stalled = false
  let held: Array<() => void> = []

  /** Runs `action` behind the delay and any stall, in the order of the calls. */
  function later(action: () => void): void {
    const pass = () => {
      if (stalled) held.push(action)
      else action()
    }
    if (delayMs > 0) setTimeout(pass, delayMs)
    else pass()
  }

  function track(socket: Socket): void {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  }

  function join(from: Socket, to: Socket, change: ProxyTransform): void {
    from.on('data', (chunk) => {
      for (const piece of change(chunk)) {
        later(() => {
          if (dark || to.destroyed || to.write(piece)) return
          from.pause()
          to.once('drain', () => {
            if (!dark) from.resume()
          })
        })
      }
    })
    from.on('end', () => later(() => dark || to.end()))
    from.on('error', () => later(() => dark || to.resetAndDestroy()))
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    track(client)
    const index = accepted
    accepted += 1
    if (dark) {
      client.on('error', () => {})
      return
    }
    const far = connect({ host, port, allowHalfOpen: true, noDelay: true })
    track(far)
    join(client, far, transform('toTarget', index))
    join(far, client, transform('toClient', index))
    if (stalled) for (const socket of [client, far]) socket.pause()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const proxy: TcpProxy = {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    get accepted() {
      return accepted
    },
    cut() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    blackhole() {
      dark = true
      for (const socket of sockets) socket.pause()
    },
    stall() {
      stalled = true
      for (const socket of sockets) socket.pause()
    },
    flow() {
      if (!stalled) return
      stalled = false
      const actions = held
      held = []
      for (const action of actions) action()
      if (!dark) for (const socket of sockets) socket.resume()
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      proxy.cut()
      await closed
    },
  }
  return proxy
}

/**
 * A transform that sees whole units, such as frames, however the stream is cut. `lengthOf` returns the bytes of the
 * unit at the front of `buffered`, or undefined while too few are there to tell; `edit` says what is sent in place
 * of unit `index` (0, 1, …): `[]` drops it, `[unit, unit]` repeats it, and one kept for a later call reorders.
 */
export function perUnit(
  lengthOf: (buffered: Uint8Array, index: number) => number | undefined,
  edit: (unit: Uint8Array, index: number) => readonly Uint8Array[],
): ProxyTransform {
  let buffered: Uint8Array = new Uint8Array(0)
  let index = 0
  return (chunk) => {
    buffered = Buffer.concat([buffered, chunk])
    const out: Uint8Array[] = []
    for (;;) {
      const bytes = lengthOf(buffered, index)
      if (bytes === undefined || bytes > buffered.length) return out
      if (bytes < 1) throw new RangeError(`unit ${index} has ${bytes} B; at least 1 B is needed`)
      out.push(...edit(buffered.subarray(0, bytes), index))
      buffered = buffered.subarray(bytes)
      index += 1
    }
  }
}

function splitAddress(address: string): [host: string, port: number] {
  const colon = address.lastIndexOf(':')
  return [address.slice(0, colon).replace(/^\[|\]$/g, ''), Number(address.slice(colon + 1))]
}
