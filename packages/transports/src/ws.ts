import { createServer as createHttpServer, type IncomingMessage, STATUS_CODES } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Accept, type Connection, SeamError, type Transport } from '@seamline/core'
import { type ClientOptions, type ServerOptions, WebSocket, WebSocketServer } from 'ws'
import { formatAddress, parseDialled, parseListened } from './address.ts'
import { createEndpoint, defaultHighWaterMarkBytes, type Endpoint, opening } from './endpoint.ts'
import { createInbox, createSlicer } from './flow.ts'
import { watchLiveness } from './liveness.ts'
import { checkSecurity, createLobby, type Security, secureClient, secureServer } from './security.ts'

export interface WsOptions {
  /**
   * TLS 1.3 with a pinned certificate and a shared secret below the WebSocket, on both sides. Addresses are then
   * `host:port#fingerprint`, and listening beyond loopback is allowed.
   */
  readonly security?: Security
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
  /**
   * A peer that is silent for this long is dead: the reason is `TIMEOUT`. Each side sends a ping every quarter of it,
   * so give both sides the same; 0 turns both off. A paused side does not judge, and is not judged for its pause.
   * @default 20000
   */
  readonly keepAliveMs?: number
  /** Time that an accepted peer has until its upgrade is complete, TLS included. @default 5000 */
  readonly handshakeTimeoutMs?: number
  /** Connections of one listener, those in their handshake included; more are closed at once. @default 1024 */
  readonly maxConnections?: number
}

/** Longest binary message, in either direction: longer sends are cut. */
export const maxMessageBytes = 1 << 18

const maxHeaderBytes = 8192
// What a closing handshake may take before the socket is destroyed.
const closeTimeout = 1000
const normalClosure = 1000
const endOfDirection = new Uint8Array(0)

// Masking guards caches of old proxies against chosen bytes from browsers; a key of zeros is valid and costs nothing.
const messageOptions = { binary: true, compress: false }
const clientLimits = {
  perMessageDeflate: false,
  maxPayload: maxMessageBytes,
  closeTimeout,
  generateMask: (mask: Buffer) => void mask.fill(0),
} as ClientOptions
const serverLimits = {
  noServer: true,
  clientTracking: false,
  path: '/',
  perMessageDeflate: false,
  maxPayload: maxMessageBytes,
  closeTimeout,
} as ServerOptions

/**
 * WebSocket (RFC 6455) over TCP, or with `security` over TLS 1.3, for networks that let HTTP through only. Addresses
 * are `host:port` as for `tcp`; the path is `/`. The stream is cut into binary messages of 1 to 262144 bytes whose
 * borders mean nothing. An empty binary message ends a direction, which WebSocket itself cannot; when both have ended,
 * the closing handshake follows, with code 1000. A connection that goes away before that is `RESET`.
 *
 * A longer message is `LIMIT`; a text message, one behind the end, or a frame that RFC 6455 forbids is `PROTOCOL`. What
 * arrives is copied into the memory of the handler on both sides. A listener answers anything but an upgrade with a
 * short HTTP status and closes; it refuses browsers, which tell themselves by an `Origin`.
 */
export function ws(options: WsOptions = {}): Transport {
  const {
    security,
    highWaterMarkBytes = defaultHighWaterMarkBytes,
    keepAliveMs = 20_000,
    handshakeTimeoutMs = 5000,
    maxConnections = 1024,
  } = options
  if (security !== undefined) checkSecurity(security)
  const open = (client: WebSocket, socket: Socket, remote: string, accept: Accept) =>
    openEndpoint(client, socket, remote, accept, highWaterMarkBytes, keepAliveMs)

  return {
    id: 'ws',
    authenticates: security !== undefined,
    async dial(address, accept, openOptions = {}) {
      const { host, port, fingerprint } = parseDialled(address, security)
      return opening(`dial of ${address}`, openOptions, (resolve, reject) => {
        const raw = connect({ host, port, noDelay: true, allowHalfOpen: true })
        const give = (error: unknown) => {
          reject(error)
          raw.destroy()
        }
        raw.on('error', (error: NodeJS.ErrnoException) => {
          const cause = error.code === 'ECONNREFUSED' ? 'nobody listens at' : 'cannot reach'
          const text = `${cause} ${address} (${error.code ?? error.message})`
          give(new SeamError('RESET', text, { cause: error }))
        })
        raw.once('connect', () => {
          if (fingerprint === undefined || security === undefined) return upgrade(raw)
          secureClient(raw, fingerprint, security, { ...openOptions, remote: address }).then(upgrade, give)
        })

        function upgrade(socket: Socket): void {
          const client = new WebSocket(`ws://${formatAddress(host, port)}/`, {
            ...clientLimits,
            createConnection: () => socket,
          })
          client.on('error', (error) => give(upgradeError(error, address)))
          client.once('open', () => {
            client.removeAllListeners('error')
            try {
              resolve(open(client, socket, address, accept))
            } catch (error) {
              reject(error)
            }
          })
        }

        return () => raw.destroy()
      })
    },
    async listen(address, accept, openOptions = {}) {
      const { host, port } = parseListened(address, security)
      return opening(`bind of ${address}`, openOptions, (resolve, reject) => {
        const lobby = createLobby()
        const sockets = new WebSocketServer(serverLimits)
        const http = createHttpServer({ maxHeaderSize: maxHeaderBytes })
        const leaves = new WeakMap<Duplex, () => void>()
        http.on('request', (_request, response) => {
          response.writeHead(426, { connection: 'close', upgrade: 'websocket' }).end()
        })
        http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
          const { origin } = request.headers
          if (origin !== undefined) return refuse(socket, 403)
          sockets.handleUpgrade(request, socket, head, (client) => {
            leaves.get(socket)?.()
            try {
              const remote = formatAddress(socket.remoteAddress ?? 'unknown', socket.remotePort ?? 0)
              open(client, socket, remote, accept)
            } catch {
              // The connection is aborted, which tells the peer; the listener serves the others.
            }
          })
        })
        const serve = (socket: Socket, leave: () => void) => {
          if (socket.destroyed) return
          leaves.set(socket, leave)
          http.emit('connection', socket)
        }
        const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
          const out = lobby.enter(socket)
          const timer = setTimeout(() => socket.destroy(), handshakeTimeoutMs)
          const leave = () => {
            clearTimeout(timer)
            out()
          }
          socket.once('close', leave)
          socket.on('error', () => {})
          if (security === undefined) return serve(socket, leave)
          secureServer(socket, security, { timeoutMs: handshakeTimeoutMs }).then(
            (secured) => serve(secured, leave),
            // Who fails the handshake is no connection: the dialling side learns why.
            () => {},
          )
        })
        server.maxConnections = maxConnections
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

/** Joins an open WebSocket on `socket` to a new endpoint. Throws what `accept` throws. */
function openEndpoint(
  client: WebSocket,
  socket: Socket,
  remote: string,
  accept: Accept,
  highWaterMarkBytes: number,
  keepAliveMs: number,
): Connection {
  let paused = false
  let endSent = false
  let endReceived = false
  let broken: NodeJS.ErrnoException | undefined
  let sentEnough = () => {}
  const slicer = createSlicer(maxMessageBytes, (piece, next) => {
    client.send(piece, messageOptions, (error) => {
      if (!error) next()
    })
  })
  const endpoint: Endpoint = createEndpoint(
    {
      remote,
      write: slicer.write,
      end() {
        slicer.end(() => {
          client.send(endOfDirection, messageOptions, (error) => {
            if (error) return
            endSent = true
            finish()
          })
        })
      },
      destroy(flushed) {
        inbox.drop()
        // A reset drops what the two kernels hold. There is none for TLS.
        if (flushed || socket.writableEnded || 'encrypted' in socket) client.terminate()
        else socket.resetAndDestroy()
      },
      pause() {
        paused = true
        client.pause()
      },
      resume() {
        paused = false
        inbox.resume(() => client.resume())
      },
    },
    highWaterMarkBytes,
  )
  const inbox = createInbox(endpoint)

  function finish(): void {
    if (!endSent || !endReceived) return
    client.close(normalClosure)
    // Only the closing handshake is still to come, which a paused side must see too.
    client.resume()
  }

  client.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary && !endReceived) {
      if (data.length > 0) return inbox.take(data)
      endReceived = true
      inbox.end()
      finish()
      return
    }
    const what = isBinary ? `${data.length} B behind its end` : `a text message of ${data.length} B`
    endpoint.connection.abort(
      new SeamError('PROTOCOL', `${remote} sent ${what}, expected binary messages up to an empty one`),
    )
  })
  client.on('error', (error) => {
    endpoint.failed(messageError(error, remote))
    inbox.drop()
  })
  socket.on('error', (error) => {
    broken = error
  })
  client.on('close', (code) => {
    sentEnough()
    if (!endSent || !endReceived) {
      endpoint.failed(brokenError(broken, code, remote))
      inbox.drop()
    }
    inbox.close()
  })
  sentEnough = watchLiveness({
    keepAliveMs,
    bytesRead: () => socket.bytesRead,
    isPaused: () => paused,
    beat() {
      // What is queued already will tell the peer, and a peer that takes nothing is not to be buried in pings.
      if (client.bufferedAmount === 0 && client.readyState === WebSocket.OPEN) client.ping()
    },
    onSilence() {
      endpoint.connection.abort(
        new SeamError('TIMEOUT', `${remote} was silent for ${keepAliveMs} ms, not even a ping came`),
      )
    },
  })
  endpoint.open(accept)
  return endpoint.connection
}

function refuse(socket: Duplex, status: number): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}

function upgradeError(error: NodeJS.ErrnoException, address: string): SeamError {
  if (/^Unexpected server response|Sec-WebSocket|Parse Error/.test(error.message)) {
    return new SeamError('PROTOCOL', `${address} answers HTTP, but no WebSocket upgrade (${error.message})`, {
      cause: error,
    })
  }
  return new SeamError('RESET', `${address} left during the WebSocket upgrade (${error.message})`, {
    cause: error,
  })
}

function messageError(error: NodeJS.ErrnoException, remote: string): SeamError {
  if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') {
    const text = `${remote} sent a message over ${maxMessageBytes} B, the longest that is read`
    return new SeamError('LIMIT', text, { cause: error })
  }
  return new SeamError('PROTOCOL', `${remote} broke RFC 6455: ${error.message}`, { cause: error })
}

function brokenError(error: NodeJS.ErrnoException | undefined, code: number, remote: string): SeamError {
  const options = error === undefined ? {} : { cause: error }
  if (error?.code?.startsWith('ERR_SSL')) {
    return new SeamError('PROTOCOL', `bytes from or to ${remote} were altered (${error.code})`, options)
  }
  return new SeamError('RESET', `${remote} ended without warning (${error?.code ?? `code ${code}`})`, options)
}
