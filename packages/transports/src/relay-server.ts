import { createServer, type IncomingMessage } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { isSeamError, monotonicClock, SeamError, type SpanRecorder } from '@seamline/core'
import { WebSocketServer } from 'ws'
import type { Identity } from './identity.ts'
import { checkLimits, type RelayLimits } from './relay-limits.ts'
import { type DropReason, type MetricsEndpoint, type RelayMetrics, serveMetrics } from './relay-metrics.ts'
import {
  accessKey,
  formatRelay,
  isLoopbackHost,
  parseRelayAddress,
  parseRequest,
  sameKey,
} from './relay-protocol.ts'
import { createRooms } from './relay-rooms.ts'
import { createVisitor, refuseSocket } from './relay-visitor.ts'
import { minSecretBytes } from './security.ts'

export { defaultLimits, type RelayLimits } from './relay-limits.ts'
export {
  type DropReason,
  type Drops,
  formatMetrics,
  type RelayMetrics,
  type RoomMetrics,
} from './relay-metrics.ts'

export interface RelayServerOptions {
  /** `host:port`; port 0 is any free port. Beyond loopback `access` and `tls` are needed. */
  readonly address: string
  /** Peers must know it, at least 16 bytes; it never travels. @default whoever reaches the relay may use it */
  readonly access?: string
  /** Puts the relay behind TLS 1.3; peers pin its fingerprint. */
  readonly tls?: Identity
  readonly limits?: Partial<RelayLimits>
  /** Serves `GET /metrics` (Prometheus text) there, loopback only. @default nowhere */
  readonly metricsAddress?: string
  /** Records what each chunk of a pair in mode `raw` spends here; taken out by `GET /spans` beside the metrics, as float64. */
  readonly recorder?: SpanRecorder
  /** For experiments: every chunk waits at least so long; needs a recorder. @default 0 */
  readonly holdMs?: number
}

export interface Relay {
  /** `host:port`, with `~FINGERPRINT` under TLS: peers append `/room`. */
  readonly address: string
  /** Where the metrics are served. */
  readonly metricsAddress: string | undefined
  metrics(): RelayMetrics
  /**
   * Refuses newcomers, tells the listeners, waits up to `timeoutMs` for the pairs to end by themselves, then cuts what is
   * left with a reset. Idempotent. @default timeoutMs 5000
   */
  close(options?: { readonly timeoutMs?: number }): Promise<void>
}

/**
 * A relay, where peers that can only dial out meet in rooms. It passes bytes on, unseen where the peers have `security`,
 * and remembers nothing. Throws `USAGE` for an address that is taken, or one beyond loopback without `access` and `tls`.
 */
export async function createRelay(options: RelayServerOptions): Promise<Relay> {
  const { address, access, tls, metricsAddress } = options
  const limits = checkLimits(options.limits ?? {})
  const { host, port } = parseRelayAddress(address)
  if (access !== undefined && Buffer.byteLength(access) < minSecretBytes) {
    throw new SeamError(
      'USAGE',
      `the access secret has ${Buffer.byteLength(access)} B, at least ${minSecretBytes} B are needed`,
    )
  }
  if (!isLoopbackHost(host) && (access === undefined || tls === undefined)) {
    throw new SeamError(
      'USAGE',
      `cannot relay at ${address}: beyond loopback a relay needs an access secret and TLS ` +
        `(missing: ${[access === undefined ? 'access' : '', tls === undefined ? 'tls' : ''].filter(Boolean).join(', ')})`,
    )
  }

  const { recorder, holdMs = 0 } = options
  const rooms = createRooms(limits, recorder && { sink: recorder, clock: monotonicClock, holdMs })
  const upgrades = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    clientTracking: false,
    maxPayload: limits.maxMessageBytes,
  })
  /** Connections whose upgrade is not complete, oldest first. Under TLS two sockets have one name. */
  const handshakes = new Map<string, () => void>()
  const nameOf = (socket: Socket) => `${socket.remoteAddress}:${socket.remotePort}`

  function refuse(socket: Socket, reason: DropReason, error: SeamError): void {
    rooms.drop(reason)
    handshakes.delete(nameOf(socket))
    refuseSocket(socket, error)
  }

  const httpOptions = {
    maxHeaderSize: limits.maxHeaderBytes,
    // The deadline below covers every connection, also one that sends nothing.
    headersTimeout: 0,
    requestTimeout: 0,
    noDelay: true,
  }
  const server =
    tls === undefined
      ? createServer(httpOptions)
      : createTlsServer({
          ...httpOptions,
          key: tls.key,
          cert: tls.certificate,
          minVersion: 'TLSv1.3',
          handshakeTimeout: limits.maxHandshakeMs,
          ...{ allowHalfOpen: true },
        })
  // Beyond what the limits admit there is not even an answer.
  server.maxConnections = limits.maxPeers + limits.maxHandshakes + 64

  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket)
    const drop = () => {
      handshakes.delete(name)
      rooms.drop('handshake')
      socket.destroy()
    }
    const timer = setTimeout(() => {
      if (handshakes.get(name) === drop) drop()
    }, limits.maxHandshakeMs)
    handshakes.set(name, drop)
    socket.once('close', () => {
      clearTimeout(timer)
      if (handshakes.get(name) === drop) handshakes.delete(name)
    })
    if (handshakes.size > limits.maxHandshakes) {
      for (const dropOldest of handshakes.values()) {
        dropOldest()
        break
      }
    }
  })
  server.on('upgrade', (message: IncomingMessage, duplex: Duplex, head: Buffer) => {
    const socket = duplex as Socket
    handshakes.delete(nameOf(socket))
    try {
      const request = parseRequest(message.method, message.url, message.headers)
      if (access !== undefined && !sameKey(request.access, accessKey(access, request.room))) {
        const found = request.access === '' ? 'none was given' : 'another one was given'
        const error = new SeamError(
          'MISMATCH',
          `the relay asks for the access secret of its operator, ${found}`,
        )
        refuse(socket, 'access', error)
        return
      }
      rooms.admit(createVisitor(request, message, socket, head, upgrades))
    } catch (error) {
      if (!isSeamError(error)) throw error
      refuse(socket, 'request', error)
    }
  })
  server.on('request', (message, response) => {
    handshakes.delete(nameOf(message.socket))
    response.shouldKeepAlive = false
    refuse(
      message.socket,
      'request',
      new SeamError('PROTOCOL', 'this is a Seamline relay, which only upgrades'),
    )
  })
  server.on('clientError', (error: NodeJS.ErrnoException, duplex: Duplex) => {
    const socket = duplex as Socket
    if (!handshakes.has(nameOf(socket)) || !socket.writable) {
      socket.destroy()
      return
    }
    if (error.code === 'HPE_HEADER_OVERFLOW') {
      const most = `${limits.maxHeaderBytes} B`
      refuse(socket, 'header_bytes', new SeamError('LIMIT', `the request has over ${most} of headers`))
    } else if (error.code === 'ECONNRESET') {
      socket.destroy()
    } else refuse(socket, 'request', new SeamError('PROTOCOL', 'this is no HTTP/1.1 request'))
  })
  server.on('tlsClientError', (_error: Error, socket: Socket) => {
    if (handshakes.delete(nameOf(socket))) rooms.drop('request')
    socket.destroy()
  })

  const metrics = (): RelayMetrics => ({ ...rooms.metrics(), handshakes: handshakes.size })
  const bound = await new Promise<AddressInfo>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      rooms.destroy()
      const cause = error.code === 'EADDRINUSE' ? 'the port is taken, choose another or 0' : error.message
      reject(new SeamError('USAGE', `cannot relay at ${address}: ${cause}`, { cause: error }))
    })
    server.listen(port, host, () => resolve(server.address() as AddressInfo))
  })
  // Running out of descriptors must cost one connection, not the process.
  server.on('error', () => {})
  let endpoint: MetricsEndpoint | undefined
  try {
    endpoint =
      metricsAddress === undefined ? undefined : await serveMetrics(metricsAddress, metrics, recorder)
  } catch (error) {
    server.close()
    rooms.destroy()
    throw error
  }

  async function close(timeoutMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const drop of handshakes.values()) drop()
    await Promise.race([rooms.retire(), new Promise((resolve) => setTimeout(resolve, timeoutMs).unref())])
    rooms.destroy()
    endpoint?.close()
    await closed
  }
  let closing: Promise<void> | undefined

  return {
    address: formatRelay({ host: bound.address, port: bound.port, relayFingerprint: tls?.fingerprint }),
    metricsAddress: endpoint?.address,
    metrics,
    close: ({ timeoutMs = 5000 } = {}) => {
      closing ??= close(timeoutMs)
      return closing
    },
  }
}
