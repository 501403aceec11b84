import type { Socket } from 'node:net'
import type { Transport } from '@seamline/core'
import { parseDialled } from './address.ts'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening, type Wire } from './endpoint.ts'
import { createInbox, createSlicer, type Inbox } from './flow.ts'
import { checkSecurity, type Security } from './security.ts'
import { brokenSocket, destroySocket, dialSocket, isSecure, listenSocket, tlsPieceBytes } from './socket.ts'

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

/**
 * TCP, or with `security` TLS 1.3 on TCP. Addresses are `host:port`, with an IPv6 host in brackets; port 0 listens at
 * a free port. Without `security` it listens on loopback only. On the dialling side bytes are read straight into the
 * memory of the handler, under TLS in pieces of at most 16 KiB; an accepted connection copies once, so bulk data is
 * cheapest when its receiver dials. The listener is the TLS server.
 */
export function tcp(options: TcpOptions = {}): Transport {
  const { security, highWaterMarkBytes = defaultHighWaterMarkBytes } = options
  const { noDelay = true, keepAliveMs = 30_000, handshakeTimeoutMs = 5000 } = options
  const socketOptions = { security, noDelay, keepAliveMs, handshakeTimeoutMs }
  if (security !== undefined) checkSecurity(security)
  return {
    id: 'tcp',
    authenticates: security !== undefined,
    async dial(address, accept, openOptions = {}) {
      const parsed = parseDialled(address, security)
      return opening(`dial of ${address}`, openOptions, (resolve, reject) =>
        dialSocket(address, parsed, socketOptions, reject, (socket) => {
          const { endpoint, inbox } = attach(socket, address, highWaterMarkBytes)
          try {
            endpoint.open(accept)
            resolve(endpoint.connection)
          } catch (error) {
            reject(error)
          }
          return {
            nextBuffer: () => (inbox.holds ? undefined : endpoint.nextBuffer()),
            filled: endpoint.filled,
            take: inbox.take,
          }
        }),
      )
    },
    async listen(address, accept, openOptions = {}) {
      return listenSocket(address, socketOptions, openOptions, (socket, remote) => {
        try {
          attach(socket, remote, highWaterMarkBytes).endpoint.open(accept)
        } catch {
          // The connection is aborted, which tells the peer; the listener serves the others.
        }
      })
    },
  }
}

/** Connects the events of an open socket to a new endpoint. */
function attach(
  socket: Socket,
  remote: string,
  highWaterMarkBytes: number,
): { endpoint: Endpoint; inbox: Inbox } {
  const endpoint = createEndpoint(
    {
      remote,
      ...writing(socket),
      destroy(flushed) {
        destroySocket(socket, flushed)
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
    // After a bad record TLS leaves the socket open.
    socket.destroy()
  })
  return { endpoint, inbox }
}

function writing(socket: Socket): Pick<Wire, 'write' | 'end'> {
  const put = (bytes: Uint8Array, done: () => void) => {
    socket.write(bytes, (error) => {
      if (!error) done()
    })
  }
  if (!isSecure(socket)) return { write: put, end: () => socket.end() }
  const slicer = createSlicer(tlsPieceBytes, put)
  return { write: slicer.write, end: () => slicer.end(() => socket.end()) }
}
