import { connect, createServer, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { type Listener, type OpenOptions, SeamError } from '@seamline/core'
import { type Address, formatAddress, parseListened } from './address.ts'
import { opening } from './endpoint.ts'
import {
  clientOptions,
  createLobby,
  handshakeError,
  type Security,
  secureServer,
  startProof,
} from './security.ts'

/** Where the bytes of a dialled socket go. */
export interface Sink {
  /** Memory for the next read; `undefined`: the bytes go to {@link take}. */
  nextBuffer(): Uint8Array | undefined
  /** `bytes` bytes were read into the last {@link nextBuffer}. */
  filled(bytes: number): void
  /** The chunk is valid during the call only. */
  take(chunk: Uint8Array): void
}

export interface SocketOptions {
  readonly security: Security | undefined
  readonly noDelay: boolean
  /** Idle time before the probes of the operating system, rounded up to seconds; 0 for none. */
  readonly keepAliveMs: number
}

// Takes what arrives while nobody names memory. Shared: its bytes are used up before the next read of any socket.
const stage = new Uint8Array(1 << 16)

/**
 * Dials, with TLS and both proofs where there is `security`. `opened` is called once the stream is ready, before its
 * first byte, and says where they go. Returns what undoes the dial. After `opened` errors are the caller's to hear.
 */
export function dialSocket(
  address: string,
  { host, port, fingerprint }: Address,
  options: SocketOptions,
  reject: (error: unknown) => void,
  opened: (socket: Socket) => Sink,
): () => void {
  let sink: Sink | undefined
  let answer: ((chunk: Uint8Array) => Uint8Array | undefined) | undefined
  let named: Uint8Array | undefined
  let connected = false
  const onread: OnReadOpts = {
    buffer() {
      named = sink?.nextBuffer()
      return named ?? stage
    },
    callback(bytes, buffer) {
      if (sink === undefined) proved(buffer.subarray(0, bytes))
      // TLS has decrypted more than one record when a pause comes in between.
      else if (named === undefined || socket.isPaused()) sink.take(buffer.subarray(0, bytes))
      else sink.filled(bytes)
      return true
    },
  }
  const target = { host, port, allowHalfOpen: true, onread }
  const socket = fingerprint === undefined ? connect(target) : connectTls({ ...clientOptions, ...target })
  const give = (error: unknown) => {
    reject(error)
    socket.destroy()
  }
  const onError = (error: NodeJS.ErrnoException) => {
    if (connected) return give(handshakeError(error, address))
    const cause = error.code === 'ECONNREFUSED' ? 'nobody listens at' : 'cannot reach'
    give(new SeamError('RESET', `${cause} ${address} (${error.code ?? error.message})`, { cause: error }))
  }
  const onEnd = () => give(handshakeError(undefined, address))
  socket.on('error', onError)
  socket.on('end', onEnd)
  socket.on('close', onEnd)
  socket.once('connect', () => {
    connected = true
    tune(socket, options)
    if (fingerprint === undefined) open()
  })
  socket.once('secureConnect', () => {
    try {
      answer = startProof(socket as TLSSocket, fingerprint ?? '', options.security?.secret ?? '', address)
    } catch (error) {
      give(error)
    }
  })

  function proved(chunk: Uint8Array): void {
    try {
      const rest = answer?.(chunk)
      if (rest === undefined) return
      const sink = open()
      if (rest.length > 0) sink.take(rest)
    } catch (error) {
      give(error)
    }
  }

  function open(): Sink {
    socket.off('error', onError)
    socket.off('end', onEnd)
    socket.off('close', onEnd)
    // A socket reads one tick later than it connects, even when it is paused by then; this starts it now.
    socket.read(0)
    sink = opened(socket)
    return sink
  }

  return () => socket.destroy()
}

export interface ListenOptions extends SocketOptions {
  readonly handshakeTimeoutMs: number
  readonly maxConnections?: number
  /** More than one handshake after the other, so `leave` ends the time that a peer has. */
  readonly more?: boolean
}

/**
 * Listens, and gives each stream to `serve` once TLS and both proofs are done where there is `security`. A peer that
 * fails is destroyed and never seen, one that takes over `handshakeTimeoutMs` as well; with `more` that time runs
 * until `serve` calls `leave`.
 */
export function listenSocket(
  address: string,
  options: ListenOptions,
  openOptions: OpenOptions,
  serve: (socket: Socket, remote: string, leave: () => void) => void,
): Promise<Listener> {
  const { security, handshakeTimeoutMs: timeoutMs, more = false } = options
  const { host, port } = parseListened(address, security)
  return opening(`bind of ${address}`, openOptions, (resolve, reject) => {
    const lobby = createLobby()
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const remote = formatAddress(socket.remoteAddress ?? 'unknown', socket.remotePort ?? 0)
      tune(socket, options)
      if (security === undefined && !more) return serve(socket, remote, () => {})
      const leave = lobby.enter(socket, timeoutMs)
      socket.on('error', () => {})
      if (security === undefined) return serve(socket, remote, leave)
      secureServer(socket, security, { remote, timeoutMs }).then(
        (secured) => {
          if (!more) leave()
          if (!secured.destroyed) serve(secured, remote, leave)
        },
        // Who fails the handshake is no connection: the dialling side learns why.
        () => {},
      )
    })
    if (options.maxConnections !== undefined) server.maxConnections = options.maxConnections
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
}

/** Ends both directions of `socket` now. `flushed`: nothing is unsent. */
export function destroySocket(socket: Socket, flushed: boolean): void {
  // A reset drops what the two kernels hold; TLS has none. After the end it is not needed, and refused while the
  // shutdown is under way: the socket would never close.
  if (flushed || socket.writableEnded || isSecure(socket)) socket.destroy()
  else socket.resetAndDestroy()
}

/** What the error of a socket says about the stream on it. */
export function brokenSocket(error: NodeJS.ErrnoException, remote: string): SeamError {
  const code = error.code ?? error.message
  if (code.startsWith('ERR_SSL')) {
    const text = `bytes from or to ${remote} were altered on the way (${code})`
    return new SeamError('PROTOCOL', text, { cause: error })
  }
  return new SeamError('RESET', `${remote} ended without warning (${code})`, { cause: error })
}

/** TLS encrypts a write as a whole into memory of its own before the first byte leaves. */
export const tlsPieceBytes = 1 << 17

export function isSecure(socket: Socket): boolean {
  return (socket as Partial<TLSSocket>).encrypted === true
}

function tune(socket: Socket, { noDelay, keepAliveMs }: SocketOptions): void {
  socket.setNoDelay(noDelay)
  if (keepAliveMs > 0) socket.setKeepAlive(true, Math.ceil(keepAliveMs / 1000) * 1000)
}
