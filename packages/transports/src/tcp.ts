import { connect, createServer, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { SeamError, type Transport } from '@seamline/core'
import { formatAddress, parseDialled, parseListened } from './address.ts'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening, type Wire } from './endpoint.ts'
import { createInbox, createSlicer, type Inbox } from './flow.ts'
import {
  checkSecurity,
  clientOptions,
  createLobby,
  handshakeError,
  type Security,
  secureServer,
  startProof,
} from './security.ts'

export interface TcpOptions {
  /**
   * TLS 1.3 with a pinned certificate and a shared secret, on both sides. Addresses are then `host:port#fingerprint`,
   * and listening beyond loopback is allowed.
   */
  readonly security?: Security
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
  /** Sends small frames at once instead of waiting for more (turns Nagle's algorithm off). @default true */
  readonly noDelay?: boolean
  /**
   * Silence after which the operating system asks whether the host of the peer is there, in whole seconds (rounded
   * up); 0 turns it off. A host that is gone is found about 10 s later (ten probes, one a second) and the reason is
   * `RESET`. That finds dead hosts and cut cables while nothing is being sent. The kernel of a stopped or hung process
   * answers as ever: that, and anything sooner, takes a heartbeat in the stream. @default 30000
   */
  readonly keepAliveMs?: number
  /** Time that an accepted peer has for the TLS handshake and its proof. @default 5000 */
  readonly handshakeTimeoutMs?: number
}

// Takes what arrives while no handler names memory: the first read and the one after a pause.
const stageBytes = 1 << 16

// TLS encrypts a write as a whole into memory of its own before the first byte leaves.
const tlsPieceBytes = 1 << 17

/**
 * TCP, or with `security` TLS 1.3 on TCP. Addresses are `host:port`, with an IPv6 host in brackets; port 0 listens at
 * a free port. Without `security` it listens on loopback only. On the dialling side bytes are read straight into the
 * memory of the handler, under TLS in pieces of at most 16 KiB; an accepted connection copies once, so bulk data is
 * cheapest when its receiver dials. The listener is the TLS server.
 */
export function tcp(options: TcpOptions = {}): Transport {
  const {
    security,
    highWaterMarkBytes = defaultHighWaterMarkBytes,
    noDelay = true,
    keepAliveMs = 30_000,
    handshakeTimeoutMs = 5000,
  } = options
  if (security !== undefined) checkSecurity(security)
  const stage = new Uint8Array(stageBytes)

  /** A socket joined to an endpoint; `secure` is known to be so. */
  function attach(socket: Socket, remote: string): { endpoint: Endpoint; inbox: Inbox } {
    const secure = security !== undefined
    const wire = secure ? tlsWire(socket, remote) : plainWire(socket, remote)
    const endpoint = createEndpoint(
      {
        ...wire,
        destroy(flushed) {
          wire.destroy(flushed)
          inbox.drop()
        },
        pause: () => socket.pause(),
        resume: () => inbox.resume(() => socket.resume()),
      },
      highWaterMarkBytes,
    )
    const inbox = createInbox(endpoint)
    socket.on('data', inbox.take)
    socket.on('end', inbox.end)
    socket.on('close', inbox.close)
    socket.on('error', (error: NodeJS.ErrnoException) => {
      endpoint.failed(brokenSocket(error, remote))
      inbox.drop()
      socket.destroy()
    })
    return { endpoint, inbox }
  }

  function tune(socket: Socket): void {
    socket.setNoDelay(noDelay)
    if (keepAliveMs > 0) socket.setKeepAlive(true, Math.ceil(keepAliveMs / 1000) * 1000)
  }

  return {
    id: 'tcp',
    authenticates: security !== undefined,
    async dial(address, accept, openOptions = {}) {
      const { host, port, fingerprint } = parseDialled(address, security)
      return opening(`dial of ${address}`, openOptions, (resolve, reject) => {
        let attached: ReturnType<typeof attach> | undefined
        let answer: ((chunk: Uint8Array) => Uint8Array | undefined) | undefined
        let named: Uint8Array | undefined
        const onread: OnReadOpts = {
          buffer() {
            named =
              attached === undefined || attached.inbox.holds ? undefined : attached.endpoint.nextBuffer()
            return named ?? stage
          },
          callback(bytes, buffer) {
            const chunk = buffer.subarray(0, bytes)
            if (attached === undefined) proved(chunk)
            else if (named === undefined || socket.isPaused()) attached.inbox.take(chunk)
            else attached.endpoint.filled(bytes)
            return true
          },
        }
        const target = { host, port, allowHalfOpen: true, onread }
        const socket =
          fingerprint === undefined ? connect(target) : connectTls({ ...clientOptions, ...target })
        const give = (error: unknown) => {
          reject(error)
          socket.destroy()
        }
        let connected = false
        const onError = (error: NodeJS.ErrnoException) => {
          if (connected) return give(handshakeError(error, address))
          const cause = error.code === 'ECONNREFUSED' ? 'nobody listens at' : 'cannot reach'
          give(
            new SeamError('RESET', `${cause} ${address} (${error.code ?? error.message})`, { cause: error }),
          )
        }
        const onEnd = () => give(handshakeError(undefined, address))
        socket.on('error', onError)
        socket.on('end', onEnd)
        socket.on('close', onEnd)
        socket.once('connect', () => {
          connected = true
          tune(socket)
          if (fingerprint === undefined) open()
        })
        socket.once('secureConnect', () => {
          try {
            answer = startProof(socket as TLSSocket, fingerprint ?? '', security?.secret ?? '', address)
          } catch (error) {
            give(error)
          }
        })

        function proved(chunk: Uint8Array): void {
          try {
            const rest = answer?.(chunk)
            if (rest === undefined) return
            open()?.inbox.take(rest)
          } catch (error) {
            give(error)
          }
        }

        function open(): typeof attached {
          socket.off('error', onError)
          socket.off('end', onEnd)
          socket.off('close', onEnd)
          attached = attach(socket, address)
          // Without this the socket starts to read one tick later, even when `accept` has paused it by then.
          socket.read(0)
          try {
            attached.endpoint.open(accept)
            resolve(attached.endpoint.connection)
          } catch (error) {
            reject(error)
          }
          return attached
        }

        return () => socket.destroy()
      })
    },
    async listen(address, accept, openOptions = {}) {
      const { host, port } = parseListened(address, security)
      return opening(`bind of ${address}`, openOptions, (resolve, reject) => {
        const lobby = createLobby()
        const serve = (socket: Socket, remote: string) => {
          try {
            attach(socket, remote).endpoint.open(accept)
          } catch {
            // The connection is aborted, which tells the peer; the listener serves the others.
          }
        }
        const server = createServer({ allowHalfOpen: true }, (socket) => {
          const remote = formatAddress(socket.remoteAddress ?? 'unknown', socket.remotePort ?? 0)
          tune(socket)
          if (security === undefined) return serve(socket, remote)
          const leave = lobby.enter(socket)
          secureServer(socket, security, { remote, timeoutMs: handshakeTimeoutMs })
            .then((secured) => {
              if (!secured.destroyed) serve(secured, remote)
            })
            // Who fails the handshake is no connection: the dialling side learns why.
            .catch(() => {})
            .finally(leave)
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
            address: formatAddress(bound.address, bound.port, security?.identity.fingerprint),
            async close() {
              server.close()
              lobby.clear()
            },
          })
        })
        return () => server.close()
      })
    },
  }
}

type Sending = Pick<Wire, 'remote' | 'write' | 'end' | 'destroy'>

function plainWire(socket: Socket, remote: string): Sending {
  return {
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
  }
}

function tlsWire(socket: Socket, remote: string): Sending {
  const slicer = createSlicer(tlsPieceBytes, (piece, next) => {
    socket.write(piece, (error) => {
      if (!error) next()
    })
  })
  return {
    remote,
    write: slicer.write,
    end: () => slicer.end(() => socket.end()),
    destroy: () => socket.destroy(),
  }
}

function brokenSocket(error: NodeJS.ErrnoException, remote: string): SeamError {
  const code = error.code ?? error.message
  if (code.startsWith('ERR_SSL')) {
    return new SeamError('PROTOCOL', `bytes from or to ${remote} were altered on the way (${code})`, {
      cause: error,
    })
  }
  return new SeamError('RESET', `${remote} ended without warning (${code})`, { cause: error })
}
