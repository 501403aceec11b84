import { createHmac, createPrivateKey, randomBytes, timingSafeEqual, X509Certificate } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { type ConnectionOptions, connect, createServer, type TLSSocket } from 'node:tls'
import { type OpenOptions, SeamError } from '@seamline/core'
import { opening } from './endpoint.ts'
import { fingerprintOf, type Identity } from './identity.ts'

export { createIdentity, fingerprintOf, type Identity } from './identity.ts'

/**
 * What makes a link safe to use beyond loopback: the identity of the listening side, which diallers pin, and a secret
 * that both sides share. There are no client certificates: the secret authenticates the dialling side.
 */
export interface Security {
  /** Presented by this side when it listens. */
  readonly identity: Identity
  /** At least 16 bytes in UTF-8. It never travels and is part of no error. */
  readonly secret: string
}

export interface HandshakeOptions extends OpenOptions {
  /** Name of the peer in errors. @default 'the peer' */
  readonly remote?: string
}

/** Bytes of UTF-8 that a secret has at least. */
export const minSecretBytes = 16

/** Handshakes that one listener has in progress at most; the oldest gives way. */
export const maxHandshakes = 256

// RFC 5705 and RFC 8446 7.5: the same 32 bytes at both ends of one TLS connection, and of no other.
const exporterLabel = 'EXPORTER-seamline-secret'
const proofBytes = 32
const replyBytes = 1 + proofBytes
const accepted = 0
const refused = 1
const refusalMs = 1000

/** 256 random bits in base64url. */
export function createSecret(): string {
  return randomBytes(32).toString('base64url')
}

const checked = new WeakSet<Security>()

/** Throws `USAGE` for a secret that is too short, or an identity whose parts do not belong together. Returns `security`. */
export function checkSecurity(security: Security): Security {
  if (checked.has(security)) return security
  checkSecret(security.secret)
  const { key, certificate, fingerprint } = security.identity
  let found: string
  try {
    const parsed = new X509Certificate(certificate)
    found = parsed.checkPrivateKey(createPrivateKey(key)) ? fingerprintOf(parsed.raw) : 'another key'
  } catch (error) {
    const text =
      'security.identity has no key and certificate in PEM: make one with createIdentity() and keep it'
    // OpenSSL's words on a key that it cannot read are no part of this: they may quote it.
    throw new SeamError('USAGE', text, { cause: (error as NodeJS.ErrnoException).code })
  }
  if (found !== fingerprint) {
    const text = `the certificate of security.identity has ${found}, expected ${fingerprint}: its parts are mixed up`
    throw new SeamError('USAGE', text)
  }
  checked.add(security)
  return security
}

/** Throws `USAGE` unless `fingerprint` has the form of one. Returns it. */
export function checkFingerprint(fingerprint: string): string {
  if (/^[\w-]{43}$/.test(fingerprint)) return fingerprint
  throw new SeamError(
    'USAGE',
    `${JSON.stringify(fingerprint)} is no fingerprint: it has ${fingerprint.length} characters, ` +
      'base64url of a SHA-256 has 43; copy the one that the listener prints',
  )
}

/**
 * Puts TLS 1.3 on a connected `stream`, on the listening side. Resolves once both ends have proved that they know the
 * secret; until then nothing of the peer is handed out, and nothing is sent but the handshake. What the peer sent
 * behind its proof stays unread in the socket, which may be `destroyed` already. The socket owns `stream` from the call on: on failure both are destroyed.
 *
 * After the TLS handshake the dialling side sends HMAC-SHA256(secret, "seamline client" || channel), where `channel`
 * is 32 bytes exported from this TLS connection (RFC 5705, label `EXPORTER-seamline-secret`); the listening side
 * answers with a byte 0 and the HMAC over "seamline server" || channel, or with a byte 1 and 32 zeros when it refuses.
 * Bound to the channel, neither can be replayed or relayed. The answer is also what tells a dialling side that it was
 * accepted, which the handshake of TLS 1.3 does not.
 *
 * Throws `MISMATCH` (another secret, an older TLS), `PROTOCOL` (no TLS at all), `RESET` (the peer left), `TIMEOUT`
 * or `ABORTED`.
 */
export function secureServer(
  stream: Duplex,
  security: Security,
  options: HandshakeOptions = {},
): Promise<TLSSocket> {
  const { remote = 'the peer' } = options
  const { key, certificate } = checkSecurity(security).identity
  return opening(`TLS handshake with ${remote}`, options, (resolve, fail) => {
    const reject = (error: unknown) => {
      stream.destroy()
      fail(error)
    }
    const lost = () => reject(handshakeError(undefined, remote))
    stream.on('error', ignore)
    stream.once('close', lost)
    // A server of one connection: a bare TLSSocket reports a bad record by a private event only.
    const server = createServer({ key, cert: certificate, minVersion: 'TLSv1.3' })
    server.once('tlsClientError', (error) => reject(handshakeError(error, remote)))
    server.once('secureConnection', (socket: TLSSocket) => {
      socket.allowHalfOpen = allowHalfOpen
      readExactly(socket, proofBytes, remote, reject, (proof) => {
        stream.off('close', lost)
        if (timingSafeEqual(proof, prove(socket, 'client', security.secret, remote))) {
          socket.write(Buffer.concat([Buffer.of(accepted), prove(socket, 'server', security.secret, remote)]))
          resolve(socket)
          return
        }
        fail(secretsDiffer(remote))
        // The answer tells the dialling side why; whoever does not take it is cut off all the same.
        const cut = setTimeout(() => socket.destroy(), refusalMs)
        socket.once('close', () => clearTimeout(cut))
        socket.end(Buffer.alloc(replyBytes).fill(refused, 0, 1), () => socket.destroy())
      })
    })
    // The TLS socket inherits it, and a peer that ends during the handshake would not be noticed.
    const { allowHalfOpen } = stream
    stream.allowHalfOpen = false
    server.emit('connection', stream)
    stream.allowHalfOpen = allowHalfOpen
    return () => stream.destroy()
  })
}

/**
 * The dialling side of {@link secureServer}. The certificate of the peer must have `fingerprint`, or nothing is sent
 * to it. Only the secret of `security` is used.
 */
export function secureClient(
  stream: Duplex,
  fingerprint: string,
  security: Pick<Security, 'secret'>,
  options: HandshakeOptions = {},
): Promise<TLSSocket> {
  const { remote = 'the peer' } = options
  const secret = checkSecret(security.secret)
  checkFingerprint(fingerprint)
  return opening(`TLS handshake with ${remote}`, options, (resolve, fail) => {
    const socket = connect({ ...clientOptions, socket: stream })
    const reject = (error: unknown) => {
      socket.destroy()
      stream.destroy()
      fail(error)
    }
    stream.on('error', ignore)
    const unwatch = watch(socket, remote, reject)
    socket.once('secureConnect', () => {
      unwatch()
      try {
        const answer = startProof(socket, fingerprint, secret, remote)
        readExactly(socket, replyBytes, remote, reject, (reply) => {
          answer(reply)
          resolve(socket)
        })
      } catch (error) {
        reject(error)
      }
    })
    return () => {
      socket.on('error', ignore)
      socket.destroy()
      stream.destroy()
    }
  })
}

/** For `tls.connect` on the dialling side, before {@link startProof}. */
export const clientOptions: ConnectionOptions = {
  minVersion: 'TLSv1.3',
  // The pin decides instead, before anything is sent.
  rejectUnauthorized: false,
  servername: '',
}

/**
 * The first thing on a dialled TLS connection, for a caller that reads by itself: checks the pin and sends the proof.
 * What the peer sends goes to the function returned, which gives `undefined` until the answer is complete and right,
 * then what came behind it. Both throw `MISMATCH`.
 */
export function startProof(
  socket: TLSSocket,
  fingerprint: string,
  secret: string,
  remote: string,
): (chunk: Uint8Array) => Uint8Array | undefined {
  const found = fingerprintOf(socket.getPeerX509Certificate()?.raw ?? Buffer.alloc(0))
  if (found !== fingerprint) {
    throw new SeamError(
      'MISMATCH',
      `${remote} has the certificate ${found}, expected ${fingerprint}: somebody else answers at this address, or ` +
        'its identity was made anew; then take the fingerprint that it prints now',
    )
  }
  socket.write(prove(socket, 'client', secret, remote))
  const reply = Buffer.alloc(replyBytes)
  let filled = 0
  return (chunk) => {
    const part = chunk.subarray(0, replyBytes - filled)
    reply.set(part, filled)
    filled += part.length
    if (filled < replyBytes) return undefined
    if (
      reply[0] !== accepted ||
      !timingSafeEqual(reply.subarray(1), prove(socket, 'server', secret, remote))
    ) {
      throw secretsDiffer(remote)
    }
    return chunk.subarray(part.length)
  }
}

/** What the failed handshake of a socket says about the peer. */
export function handshakeError(error: NodeJS.ErrnoException | undefined, remote: string): SeamError {
  const code = error?.code ?? ''
  const options = error === undefined ? {} : { cause: error }
  if (/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/.test(code)) {
    return new SeamError('MISMATCH', `${remote} offers an older TLS, expected 1.3 (${code})`, options)
  }
  if (/^ERR_SSL|^ERR_TLS|^EPROTO/.test(code)) {
    return new SeamError('PROTOCOL', `${remote} does not speak TLS 1.3 as expected (${code})`, options)
  }
  const what = code === '' ? 'closed' : code
  return new SeamError(
    'RESET',
    `${remote} left during the TLS handshake (${what}): it may expect no TLS, or be overloaded`,
    options,
  )
}

/** Counts the handshakes in progress of one listener and keeps them few and short. */
export interface Lobby {
  /**
   * Takes `stream` in; at the limit the oldest is destroyed, as is one that stays over `timeoutMs`. The function
   * returned lets it out; its close does too.
   */
  enter(stream: Duplex, timeoutMs: number): () => void
  /** Destroys all that are in, as when the listener closes. */
  clear(): void
}

/** Whoever stays longest is the least likely to finish, so a peer that connects and says nothing keeps nobody out. */
export function createLobby(limit: number = maxHandshakes): Lobby {
  const inside = new Set<Duplex>()
  return {
    enter(stream, timeoutMs) {
      const timer = setTimeout(() => stream.destroy(), timeoutMs)
      const leave = () => {
        clearTimeout(timer)
        inside.delete(stream)
      }
      stream.once('close', leave)
      inside.add(stream)
      const [oldest] = inside
      if (inside.size > limit && oldest !== undefined) {
        inside.delete(oldest)
        oldest.destroy()
      }
      return leave
    },
    clear() {
      for (const stream of inside) stream.destroy()
    },
  }
}

function checkSecret(secret: string): string {
  const bytes = Buffer.byteLength(secret)
  if (bytes >= minSecretBytes) return secret
  throw new SeamError(
    'USAGE',
    `the secret has ${bytes} B, at least ${minSecretBytes} B are needed; createSecret() makes a good one`,
  )
}

function prove(socket: TLSSocket, role: 'client' | 'server', secret: string, remote: string): Buffer {
  if (socket.destroyed) throw handshakeError(undefined, remote)
  const channel = socket.exportKeyingMaterial(32, exporterLabel, Buffer.alloc(0))
  return createHmac('sha256', secret).update(`seamline ${role}`).update(channel).digest()
}

function secretsDiffer(remote: string): SeamError {
  return new SeamError('MISMATCH', `${remote} has another secret than this side: give both the same one`)
}

/** Reports the first error or close of `socket` until the function returned is called. */
function watch(socket: TLSSocket, remote: string, reject: (error: SeamError) => void): () => void {
  const onError = (error: Error) => reject(handshakeError(error, remote))
  const onClose = () => reject(handshakeError(undefined, remote))
  socket.once('error', onError)
  socket.once('close', onClose)
  socket.once('end', onClose)
  return () => {
    socket.off('error', onError)
    socket.off('close', onClose)
    socket.off('end', onClose)
  }
}

/** Hands over the first `bytes` bytes and leaves the rest in the socket, without any listener of this file. */
function readExactly(
  socket: TLSSocket,
  bytes: number,
  remote: string,
  reject: (error: unknown) => void,
  done: (read: Buffer) => void,
): void {
  const unwatch = watch(socket, remote, reject)
  const onReadable = () => {
    const read: Buffer | null = socket.read(bytes)
    if (read === null || read.length < bytes) return
    socket.off('readable', onReadable)
    // An end may come with the last byte, as behind a refusal.
    unwatch()
    socket.on('error', ignore)
    // The stream notes one tick later that nobody waits for `readable`, and would undo a pause made before that.
    process.nextTick(() => {
      try {
        done(read)
      } catch (error) {
        reject(error)
      }
    })
  }
  socket.on('readable', onReadable)
}

// A failure between the proof and the next listener must not end the process; `destroyed` and `errored` tell of it.
function ignore(): void {}
