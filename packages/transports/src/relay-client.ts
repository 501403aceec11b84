import { randomBytes } from 'node:crypto'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import { connect, type OnReadOpts, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { SeamError } from '@seamline/core'
import { WebSocket } from 'ws'
import { fingerprintOf } from './identity.ts'
import { watchLiveness } from './liveness.ts'
import {
  formatRelay,
  pathPrefix,
  type RelayAddress,
  type RelayRequest,
  refusalError,
  requestHeaders,
  websocketAccept,
} from './relay-protocol.ts'
import { wsStream } from './relay-ws-stream.ts'

/** Reads of a socket whose memory its user names once the relay has joined it; before that they belong here. */
export interface PooledReads {
  nextBuffer(): Uint8Array
  /** Returns false to stop reading. */
  onRead(bytes: number, buffer: Uint8Array): boolean
}

export interface UpgradeOptions {
  readonly target: RelayAddress
  readonly request: RelayRequest
  /** What is being done, for errors. */
  readonly what: string
  /** Ends the attempt. The caller keeps the deadline. */
  readonly signal: AbortSignal
  /** Lets the kernel read into memory of the caller from the upgrade on. The stream is then a bare socket in mode `ws` too. */
  readonly pooled?: PooledReads
}

const maxAnswerBytes = 1 << 14
const stageBytes = 1 << 16

/**
 * Dials the relay, checks its pin and asks for `request`. Resolves with a paused stream that carries the bytes of the
 * other side from the first one on; bytes that came with the answer are at its front. Throws what the relay
 * answered, `MISMATCH` for another certificate, or `RESET` when the relay cannot be reached or leaves.
 */
export async function upgrade(options: UpgradeOptions): Promise<Duplex> {
  const { target, request, what, signal } = options
  const answer = createAnswer(options)
  // Without a reader of its own a socket hands its bytes out as events, which TLS and `ws` need.
  const socket = openSocket(options, options.pooled ? answer.onread : undefined)
  const onAbort = () => socket.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await connected(socket, target, what)
    if (signal.aborted) throw new SeamError('ABORTED', `${what} was given up`)
    return request.mode === 'raw' || options.pooled
      ? await answer.from(socket)
      : await overWs(socket, options)
  } catch (error) {
    socket.on('error', () => {})
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function openSocket({ target }: UpgradeOptions, onread: OnReadOpts | undefined): Socket {
  const { host, port, relayFingerprint } = target
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: 30_000 }
  const common = {
    host,
    port,
    allowHalfOpen: true,
    ...keepAlive,
    ...(onread === undefined ? {} : { onread }),
  }
  if (relayFingerprint === undefined) return connect({ ...common, noDelay: true })
  // The pin decides instead of an authority, before anything is sent.
  const socket = connectTls({ ...common, minVersion: 'TLSv1.3', rejectUnauthorized: false, servername: '' })
  socket.allowHalfOpen = true
  socket.setNoDelay(true)
  return socket
}

function connected(socket: Socket, target: RelayAddress, what: string): Promise<void> {
  const { relayFingerprint } = target
  const relay = formatRelay(target)
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      const code = error.code ?? error.message
      const cause = code === 'ECONNREFUSED' ? 'nobody listens at the relay' : 'cannot reach the relay'
      done(new SeamError('RESET', `${what}: ${cause} ${relay} (${code})`, { cause: error }))
    }
    const onClose = () => done(new SeamError('RESET', `${what}: the relay ${relay} closed the connection`))
    const onConnect = () => {
      if (relayFingerprint === undefined) return done()
      const found = fingerprintOf((socket as TLSSocket).getPeerX509Certificate()?.raw ?? Buffer.alloc(0))
      if (found === relayFingerprint) return done()
      done(
        new SeamError(
          'MISMATCH',
          `${what}: the relay has the certificate ${found}, expected ${relayFingerprint}: somebody else answers there, ` +
            'or its identity was made anew; then take the address that it prints now',
        ),
      )
    }
    const event = relayFingerprint === undefined ? 'connect' : 'secureConnect'
    function done(error?: SeamError): void {
      socket.off(event, onConnect).off('error', onError).off('close', onClose)
      if (error === undefined) resolve()
      else reject(error)
    }
    socket.on(event, onConnect).on('error', onError).on('close', onClose)
  })
}

/** Writes the upgrade request by hand and reads the answer to it. */
function createAnswer({ target, request, what, pooled }: UpgradeOptions) {
  const relay = formatRelay(target)
  const stage = new Uint8Array(pooled === undefined ? 0 : stageBytes)
  const key = randomBytes(16).toString('base64')
  let head = Buffer.alloc(0)
  let waiting: { resolve: (rest: Buffer) => void; reject: (error: SeamError) => void } | undefined

  /** Returns false once enough is here. */
  function take(chunk: Uint8Array): boolean {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) {
      if (head.length <= maxAnswerBytes) return true
      settle(
        new SeamError('PROTOCOL', `${what}: the answer of ${relay} has over ${maxAnswerBytes} B of headers`),
      )
      return false
    }
    const [first = '', ...lines] = head.toString('latin1', 0, end).split('\r\n')
    const headers = new Map(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    const status = Number(/^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1] ?? 0)
    const body = head.subarray(end + 4)
    if (status === 101) {
      const accepted = headers.get('sec-websocket-accept') === websocketAccept(key)
      settle(accepted ? body : new SeamError('PROTOCOL', `${what}: ${relay} answers without a handshake`))
      return false
    }
    const bodyBytes = Math.min(Number(headers.get('content-length') ?? 0) || 0, maxAnswerBytes)
    if (body.length < bodyBytes) return true
    settle(refusalError(what, status, headers.get('seamline-code'), body.toString('utf8', 0, bodyBytes)))
    return false
  }

  function settle(result: Buffer | SeamError): void {
    const now = waiting
    waiting = undefined
    if (result instanceof SeamError) now?.reject(result)
    else now?.resolve(result)
  }

  return {
    onread: {
      buffer: () => (waiting === undefined && pooled ? pooled.nextBuffer() : stage),
      callback: (bytes: number, buffer: Uint8Array) =>
        waiting === undefined && pooled ? pooled.onRead(bytes, buffer) : take(buffer.subarray(0, bytes)),
    },
    async from(socket: Socket): Promise<Socket> {
      const onData = (chunk: Buffer) => void (take(chunk) || socket.pause())
      const onGone = () =>
        settle(new SeamError('RESET', `${what}: the relay ${relay} left without an answer`))
      const rest = new Promise<Buffer>((resolve, reject) => {
        waiting = { resolve, reject }
      })
      socket.on('data', onData).on('end', onGone).on('error', onGone).on('close', onGone)
      const fields = Object.entries({
        Host: relay.replace(/~.*$/, ''),
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': key,
        ...requestHeaders(request),
      })
      const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`GET ${pathPrefix}${request.room} HTTP/1.1\r\n${lines}\r\n`)
      try {
        const bytes = await rest
        socket.pause()
        if (bytes.length > 0) socket.unshift(bytes)
        return socket
      } finally {
        socket.off('data', onData).off('end', onGone).off('error', onGone).off('close', onGone)
      }
    },
  }
}

/** The same in mode `ws`, where the `ws` library speaks on the socket that is open already. */
function overWs(socket: Socket, { target, request, what }: UpgradeOptions): Promise<Duplex> {
  const relay = formatRelay(target).replace(/~.*$/, '')
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(`ws://${relay}${pathPrefix}${request.room}`, {
      createConnection: () => socket,
      headers: requestHeaders(request),
      perMessageDeflate: false,
      // A zero key is valid and spares both ends the pass over the bytes: the mask is no protection here.
      generateMask: (mask: Buffer) => mask.fill(0),
    } as ConstructorParameters<typeof WebSocket>[2])
    ws.on('error', (error) => {
      reject(new SeamError('RESET', `${what}: the relay ${relay} left (${error.message})`, { cause: error }))
    })
    ws.on('unexpected-response', (_request, response: IncomingMessage) => {
      const { statusCode = 0, headers } = response
      let text = ''
      const code = headers['seamline-code']
      const finish = () => {
        const body = text === '' ? (STATUS_CODES[statusCode] ?? '') : text
        reject(refusalError(what, statusCode, typeof code === 'string' ? code : undefined, body))
        socket.destroy()
      }
      response.setEncoding('utf8').on('data', (chunk: string) => {
        if (text.length < maxAnswerBytes) text += chunk
      })
      response.on('end', finish).on('error', finish).on('close', finish)
    })
    ws.on('open', () => {
      const stream = wsStream(ws).pause()
      if (request.role !== 'listen') watch(ws, socket, stream, request.keepAliveMs)
      resolve(stream)
    })
  })
}

/** Ends `stream` with `TIMEOUT` when the other peer, or the relay between, gives no sign of life. */
function watch(ws: WebSocket, socket: Socket, stream: Duplex, keepAliveMs: number): void {
  const stop = watchLiveness({
    keepAliveMs,
    bytesRead: () => socket.bytesRead,
    isPaused: () => ws.isPaused,
    beat() {
      if (ws.bufferedAmount === 0 && ws.readyState === ws.OPEN) ws.ping()
    },
    onSilence: () =>
      void stream.destroy(new SeamError('TIMEOUT', `silent for ${keepAliveMs} ms, not even a ping came`)),
  })
  ws.once('close', stop)
}
