import { BlockList, connect, createServer, isIP, type Socket } from 'node:net'
import { SeamError, type Transport } from '@seamline/core'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening, type Wire } from './endpoint.ts'

export interface TcpOptions {
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
  /** Sends small frames at once instead of waiting for more (turns Nagle's algorithm off). @default true */
  readonly noDelay?: boolean
}

// Takes what the kernel delivers while no handler names memory: the first read and the one after a pause.
const stageBytes = 1 << 16

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/**
 * Plain TCP. Addresses are `host:port`, with an IPv6 host in brackets; port 0 listens at a free port. It listens on
 * loopback only. On the dialling side the kernel reads straight into the memory of the handler; an accepted
 * connection copies once, so bulk data is cheapest when its receiver dials.
 */
export function tcp(options: TcpOptions = {}): Transport {
  const { highWaterMarkBytes = defaultHighWaterMarkBytes, noDelay = true } = options
  const stage = new Uint8Array(stageBytes)
  return {
    id: 'tcp',
    authenticates: false,
    async dial(address, accept, openOptions = {}) {
      const { host, port } = parseAddress(address)
      return opening(`dial of ${address}`, openOptions, (resolve, reject) => {
        let endpoint: Endpoint | undefined
        const socket = connect({
          host,
          port,
          noDelay,
          allowHalfOpen: true,
          onread: {
            buffer: () => endpoint?.nextBuffer() ?? stage,
            callback: (bytes, buffer) => {
              if (buffer !== stage) endpoint?.filled(bytes)
              else if (endpoint !== undefined) receive(socket, endpoint, stage.subarray(0, bytes))
              return true
            },
          },
        })
        const onError = (error: NodeJS.ErrnoException) => {
          const cause = error.code === 'ECONNREFUSED' ? 'nobody listens at' : 'cannot reach'
          reject(
            new SeamError('RESET', `${cause} ${address} (${error.code ?? error.message})`, { cause: error }),
          )
        }
        socket.once('error', onError)
        socket.once('connect', () => {
          socket.off('error', onError)
          endpoint = attach(socket, address, highWaterMarkBytes)
          // Without this the socket starts to read one tick later, even when `accept` has paused it by then.
          socket.read(0)
          try {
            endpoint.open(accept)
            resolve(endpoint.connection)
          } catch (error) {
            reject(error)
          }
        })
        return () => socket.destroy()
      })
    },
    async listen(address, accept, openOptions = {}) {
      const { host, port } = parseAddress(address)
      if (!isLoopback(host)) {
        throw new SeamError(
          'USAGE',
          `cannot listen at ${address}: plain TCP has neither secret nor encryption, so only 127.0.0.0/8, [::1] and ` +
            'localhost are allowed; use a loopback address and a tunnel between machines',
        )
      }
      return opening(`bind of ${address}`, openOptions, (resolve, reject) => {
        const server = createServer({ allowHalfOpen: true, noDelay }, (socket) => {
          const remote = formatAddress(socket.remoteAddress ?? 'unknown', socket.remotePort ?? 0)
          try {
            attach(socket, remote, highWaterMarkBytes).open(accept)
          } catch {
            // The connection is aborted, which tells the peer; the listener serves the others.
          }
        })
        // Stays for the life of the server: running out of descriptors must cost one connection, not the process.
        server.on('error', (error: NodeJS.ErrnoException) => {
          const cause = error.code === 'EADDRINUSE' ? 'the port is taken, choose another or 0' : error.message
          reject(new SeamError('USAGE', `cannot listen at ${address}: ${cause}`, { cause: error }))
        })
        server.listen(port, host, () => {
          const bound = server.address()
          if (bound === null || typeof bound === 'string') throw new TypeError('a TCP server has an address')
          resolve({
            address: formatAddress(bound.address, bound.port),
            async close() {
              server.close()
            },
          })
        })
        return () => server.close()
      })
    },
  }
}

/** Connects the events of an open socket to a new endpoint. */
function attach(socket: Socket, remote: string, highWaterMarkBytes: number): Endpoint {
  const wire: Wire = {
    remote,
    write(bytes, done) {
      socket.write(bytes, (error) => {
        if (!error) done()
      })
    },
    end: () => socket.end(),
    destroy(flushed) {
      // A reset drops what the two kernels hold. After the end it is not needed, and refused while the
      // shutdown is under way: the socket would never close.
      if (flushed || socket.writableEnded) socket.destroy()
      else socket.resetAndDestroy()
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
  }
  const endpoint = createEndpoint(wire, highWaterMarkBytes)
  socket.on('data', (chunk) => receive(socket, endpoint, chunk))
  socket.on('end', () => endpoint.ended())
  socket.on('error', (error: NodeJS.ErrnoException) => {
    endpoint.failed(
      new SeamError('RESET', `${remote} ended without warning (${error.code ?? error.message})`, {
        cause: error,
      }),
    )
  })
  socket.on('close', () => endpoint.closed())
  return endpoint
}

/** Gives `chunk` to the handler; what it does not take because it paused goes back to the front of the stream. */
function receive(socket: Socket, endpoint: Endpoint, chunk: Uint8Array): void {
  const taken = endpoint.receive(chunk)
  // A copy, because `chunk` may be the stage.
  if (taken < chunk.length && !socket.destroyed) socket.unshift(chunk.slice(taken))
}

function parseAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(address)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port > 65535 || (match?.[1] !== undefined && isIP(host) !== 6)) {
    throw new SeamError('USAGE', `${address} is not host:port, for example 127.0.0.1:7000 or [::1]:7000`)
  }
  return { host, port }
}

function formatAddress(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
