import { createServer, type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Accept, type Connection, SeamError, type Transport } from '@seamline/core'
import { type ClientOptions, type ServerOptions, WebSocket, WebSocketServer } from 'ws'
import { formatAddress, parseDialled } from './address.ts'
import { createEndpoint, defaultHighWaterMarkBytes, opening } from './endpoint.ts'
import { createInbox, createSlicer, type Slicer } from './flow.ts'
import { watchLiveness } from './liveness.ts'
import { checkSecurity, type Security } from './security.ts'
import {
  brokenSocket,
  destroySocket,
  dialSocket,
  isSecure,
  listenSocket,
  type Sink,
  tlsPieceBytes,
} from './socket.ts'
import { createFrameReader, createShell, maxMessageBytes, messageHead } from './ws-frames.ts'

export { maxMessageBytes }

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

const maxHeaderBytes = 8192
// What a closing handshake may take before the socket is destroyed.
const closeTimeout = 1000
const normalClosure = 1000
// Below this one write of head and payload is cheaper than a gathered one.
const copiedBytes = 1 << 14
const nothing = Buffer.alloc(0)

const limits = { perMessageDeflate: false, maxPayload: maxMessageBytes, closeTimeout }
const clientLimits = { ...limits, generateMask: (mask: Buffer) => void mask.fill(0) } as ClientOptions
const serverLimits = { ...limits, noServer: true, clientTracking: false, path: '/' } as ServerOptions

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
  const socketOptions = {
    security,
    noDelay: true,
    keepAliveMs: 0,
    handshakeTimeoutMs,
    maxConnections,
    more: true,
  }
  const join = (socket: Socket, isClient: boolean, remote: string) =>
    createJoint(socket, isClient, remote, highWaterMarkBytes, keepAliveMs)

  return {
    id: 'ws',
    authenticates: security !== undefined,
    async dial(address, accept, openOptions = {}) {
      const parsed = parseDialled(address, security)
      return opening(`dial of ${address}`, openOptions, (resolve, reject) =>
        dialSocket(address, parsed, socketOptions, reject, (socket) => {
          const joint = join(socket, true, address)
          const client = new WebSocket(`ws://${formatAddress(parsed.host, parsed.port)}/`, {
            ...clientLimits,
            createConnection: () => joint.shell as Socket,
          })
          const onError = (error: Error) => {
            reject(upgradeError(error, address))
            socket.destroy()
          }
          socket.on('error', () => {})
          client.on('error', onError)
          client.once('open', () => {
            client.off('error', onError)
            try {
              resolve(joint.open(client, accept))
            } catch (error) {
              reject(error)
            }
          })
          const upgrade = createHeadReader(joint.other, joint.reader.take)
          return {
            nextBuffer: () => (upgrade.done ? joint.reader.nextBuffer() : undefined),
            filled: joint.reader.filled,
            take: (chunk) => (upgrade.done ? joint.reader : upgrade).take(chunk),
          }
        }),
      )
    },
    async listen(address, accept, openOptions = {}) {
      const sockets = new WebSocketServer(serverLimits)
      const http = createServer({ maxHeaderSize: maxHeaderBytes })
      const leaves = new WeakMap<Duplex, { remote: string; leave: () => void }>()
      http.on('request', (_request, response) => {
        response.writeHead(426, { connection: 'close', upgrade: 'websocket' }).end()
      })
      http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
        if (request.headers.origin !== undefined) return refuse(socket, 403)
        const { remote, leave } = leaves.get(socket) ?? { remote: 'unknown', leave() {} }
        const joint = join(socket, false, remote)
        sockets.handleUpgrade(request, joint.shell, nothing, (client) => {
          leave()
          socket.on('data', joint.reader.take)
          try {
            joint.open(client, accept)
          } catch {
            // The connection is aborted, which tells the peer; the listener serves the others.
          }
          if (head.length > 0) joint.reader.take(head)
        })
      })
      return listenSocket(address, socketOptions, openOptions, (socket, remote, leave) => {
        leaves.set(socket, { remote, leave })
        http.emit('connection', socket)
      })
    },
  }
}

/** A socket, the library's view of it and an endpoint. */
interface Joint {
  /** What the library is given in place of the socket. */
  readonly shell: Duplex
  readonly reader: Sink
  /** Gives bytes to the library. */
  other(chunk: Uint8Array): void
  /** Throws what `accept` throws. */
  open(client: WebSocket, accept: Accept): Connection
}

function createJoint(
  socket: Socket,
  isClient: boolean,
  remote: string,
  highWaterMarkBytes: number,
  keepAliveMs: number,
): Joint {
  const shell = createShell(socket)
  let client: WebSocket | undefined
  let paused = false
  let endSent = false
  let endReceived = false
  let broken: SeamError | undefined

  function put(bytes: Uint8Array, done: () => void): void {
    const head = messageHead(bytes.length, isClient)
    const written = (error?: Error | null) => {
      if (!error) done()
    }
    if (bytes.length <= copiedBytes) {
      socket.write(Buffer.concat([head, bytes]), written)
      return
    }
    socket.cork()
    socket.write(head)
    socket.write(bytes, written)
    socket.uncork()
  }

  function flush(done: () => void): void {
    socket.write(nothing, (error) => {
      if (!error) done()
    })
  }

  const pieces = isSecure(socket)
    ? createSlicer(tlsPieceBytes, put)
    : createStraight(maxMessageBytes, put, flush)
  const endpoint = createEndpoint(
    {
      remote,
      write: pieces.write,
      end() {
        pieces.end(() => {
          put(nothing, () => {
            endSent = true
            finish()
          })
        })
      },
      destroy(flushed) {
        inbox.drop()
        destroySocket(socket, flushed)
      },
      pause() {
        paused = true
        socket.pause()
      },
      resume() {
        paused = false
        inbox.resume(() => socket.resume())
      },
    },
    highWaterMarkBytes,
  )
  const inbox = createInbox(endpoint)

  function ended(): void {
    endReceived = true
    inbox.end()
    finish()
  }

  function finish(): void {
    if (!endSent || !endReceived) return
    client?.close(normalClosure)
    // Only the closing handshake is still to come, which a paused side must see too.
    socket.resume()
  }

  function take(chunk: Uint8Array): void {
    if (endReceived) misplaced(`${chunk.length} B behind its end`)
    else inbox.take(chunk)
  }

  function misplaced(what: string): void {
    const text = `${remote} sent ${what}, expected binary messages up to an empty one`
    endpoint.connection.abort(new SeamError('PROTOCOL', text))
  }

  function other(chunk: Uint8Array): void {
    if (!shell.destroyed && !shell.readableEnded) shell.push(chunk)
  }

  const reader = createFrameReader(
    !isClient,
    {
      nextBuffer: () => (inbox.holds || endReceived ? undefined : endpoint.nextBuffer()),
      filled: endpoint.filled,
      take,
      end: ended,
    },
    other,
  )

  return {
    shell,
    reader,
    other,
    open(opened, accept) {
      client = opened
      opened.on('message', (data: Buffer, isBinary: boolean) => {
        if (!isBinary) misplaced(`a text message of ${data.length} B`)
        else if (data.length === 0) ended()
        else take(data)
      })
      opened.on('error', (error) => {
        endpoint.failed(messageError(error, remote))
        inbox.drop()
      })
      socket.on('error', (error) => {
        broken = brokenSocket(error, remote)
        // After a bad record TLS leaves the socket open.
        socket.destroy()
      })
      const stop = watchLiveness({
        keepAliveMs,
        bytesRead: () => socket.bytesRead,
        isPaused: () => paused,
        beat() {
          // What is queued already will tell the peer, and one that takes nothing is not to be buried in pings.
          if (socket.writableLength === 0 && opened.readyState === WebSocket.OPEN) opened.ping()
        },
        onSilence() {
          const text = `${remote} was silent for ${keepAliveMs} ms, not even a ping came`
          endpoint.connection.abort(new SeamError('TIMEOUT', text))
        },
      })
      opened.on('close', (code) => {
        stop()
        if (!endSent || !endReceived) {
          endpoint.failed(
            broken ?? new SeamError('RESET', `${remote} ended without warning (WebSocket code ${code})`),
          )
          inbox.drop()
        }
        inbox.close()
      })
      endpoint.open(accept)
      return endpoint.connection
    },
  }
}

/** Like a slicer, for a wire that copies nothing: all pieces at once. */
function createStraight(
  pieceBytes: number,
  put: (piece: Uint8Array, next: () => void) => void,
  flush: (done: () => void) => void,
): Slicer {
  return {
    write(bytes, done) {
      // In order with the others, and no message: an empty one is the end.
      if (bytes.length === 0) flush(done)
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        put(bytes.subarray(at, at + pieceBytes), at + pieceBytes < bytes.length ? () => {} : done)
      }
    },
    end: (action) => action(),
  }
}

/** Gives the head of an HTTP response to `head`, and what is behind its empty line to `rest`. */
function createHeadReader(
  head: (chunk: Uint8Array) => void,
  rest: (chunk: Uint8Array) => void,
): { readonly done: boolean; take(chunk: Uint8Array): void } {
  const emptyLine = Buffer.from('\r\n\r\n')
  let matched = 0
  return {
    get done() {
      return matched === emptyLine.length
    },
    take(chunk) {
      let at = 0
      while (at < chunk.length && matched < emptyLine.length) {
        const byte = chunk[at]
        matched = byte === emptyLine[matched] ? matched + 1 : byte === emptyLine[0] ? 1 : 0
        at += 1
      }
      head(chunk.slice(0, at))
      if (at < chunk.length) rest(chunk.subarray(at))
    },
  }
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
  if (/UNSUPPORTED.*LENGTH$/.test(error.code ?? '')) {
    const text = `${remote} sent a message over ${maxMessageBytes} B, the longest that is read`
    return new SeamError('LIMIT', text, { cause: error })
  }
  return new SeamError('PROTOCOL', `${remote} broke RFC 6455: ${error.message}`, { cause: error })
}
