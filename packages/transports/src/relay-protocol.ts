import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import { type ErrorCode, isErrorCode, SeamError } from '@seamline/core'

/** How bytes travel between a peer and the relay: bare after the upgrade, or as WebSocket messages throughout. */
export type RelayMode = 'raw' | 'ws'

/** `listen` keeps a control connection; `dial` and `accept` are the two data connections of one pair. */
export type RelayRole = 'listen' | 'dial' | 'accept'

/** Where a relay is, and what is pinned: `host:port[~relayFingerprint][/room][#peerFingerprint]`. */
export interface RelayAddress {
  readonly host: string
  readonly port: number
  /** Fingerprint of the relay's own certificate, where the relay is behind TLS. */
  readonly relayFingerprint: string | undefined
  readonly room: string
  /** Fingerprint of the listening peer, where the peers speak TLS end to end. */
  readonly peerFingerprint: string | undefined
}

/** What a peer asks of the relay, carried by the headers of its upgrade request. */
export interface RelayRequest {
  readonly room: string
  readonly role: RelayRole
  readonly mode: RelayMode
  /** {@link roomKey}. */
  readonly key: string
  /** {@link accessKey}; empty where the relay has no access secret. */
  readonly access: string
  /** `listen`: the registration, kept when it is made again. `accept`: the ticket of the dial. `dial`: empty. */
  readonly token: string
  /** Silence on the control connection after which either side counts the other as lost. */
  readonly keepAliveMs: number
}

/** Bytes of one WebSocket message at most, in mode `ws`. */
export const maxChunkBytes = 1 << 18

export const minKeepAliveMs = 50
export const maxKeepAliveMs = 3_600_000

export const pathPrefix = '/seamline/relay/1/'
const roomPattern = /^[A-Za-z0-9_-]{1,64}$/
const addressPattern =
  /^(?:\[([^\]]+)\]|([^:[\]/~#]+)):(\d{1,5})(?:~([\w-]{43}))?(?:\/([\w-]{0,64}))?(?:#([\w-]{43}))?$/

/** Throws `USAGE`. The room may be empty: the caller decides what that means. */
export function parseRelayAddress(address: string): RelayAddress {
  const match = addressPattern.exec(address)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port > 65535 || (match?.[1] !== undefined && isIP(host) !== 6)) {
    throw new SeamError(
      'USAGE',
      `${address} is not host:port/room, with ~FINGERPRINT of the relay after the port where it has TLS and ` +
        '#FINGERPRINT of the listening peer at the end where the peers have; a room has 1 to 64 of A-Z a-z 0-9 _ -',
    )
  }
  return { host, port, relayFingerprint: match?.[4], room: match?.[5] ?? '', peerFingerprint: match?.[6] }
}

/** The address of the relay itself. */
export function formatRelay({
  host,
  port,
  relayFingerprint,
}: Omit<RelayAddress, 'room' | 'peerFingerprint'>) {
  const pin = relayFingerprint === undefined ? '' : `~${relayFingerprint}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}${pin}`
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

export function isLoopbackHost(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** HMAC-SHA256(secret, "seamline room " + room) in hex: who knows it may dial the room; it tells nothing of the secret. */
export function roomKey(secret: string, room: string): string {
  return createHmac('sha256', secret).update(`seamline room ${room}`).digest('hex')
}

/** HMAC-SHA256(access, "seamline access " + room) in hex. */
export function accessKey(access: string, room: string): string {
  return createHmac('sha256', access).update(`seamline access ${room}`).digest('hex')
}

/** Takes the same time wherever the two differ. */
export function sameKey(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

export function requestHeaders(request: RelayRequest): Record<string, string> {
  return {
    'Seamline-Role': request.role,
    'Seamline-Mode': request.mode,
    'Seamline-Key': request.key,
    'Seamline-Keep-Alive': String(request.keepAliveMs),
    ...(request.access === '' ? {} : { 'Seamline-Access': request.access }),
    ...(request.token === '' ? {} : { 'Seamline-Token': request.token }),
  }
}

/** Throws `PROTOCOL` for what no peer sends. */
export function parseRequest(
  method: string | undefined,
  url: string | undefined,
  headers: Readonly<Record<string, string | string[] | undefined>>,
): RelayRequest {
  const header = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' ? value : ''
  }
  const room = url?.startsWith(pathPrefix) ? url.slice(pathPrefix.length) : ''
  const role = header('seamline-role')
  const mode = header('seamline-mode')
  const key = header('seamline-key')
  const token = header('seamline-token')
  const keepAliveMs = Number(header('seamline-keep-alive'))
  if (
    method !== 'GET' ||
    !roomPattern.test(room) ||
    (role !== 'listen' && role !== 'dial' && role !== 'accept') ||
    (mode !== 'raw' && mode !== 'ws') ||
    !/^[0-9a-f]{64}$/.test(key) ||
    !(role === 'dial' ? token === '' : /^[\w-]{22}$/.test(token)) ||
    !(Number.isInteger(keepAliveMs) && keepAliveMs >= minKeepAliveMs && keepAliveMs <= maxKeepAliveMs) ||
    header('upgrade').toLowerCase() !== 'websocket' ||
    header('sec-websocket-version') !== '13' ||
    !/^[A-Za-z0-9+/]{22}==$/.test(header('sec-websocket-key'))
  ) {
    throw new SeamError('PROTOCOL', `this is a Seamline relay; peers upgrade at GET ${pathPrefix}ROOM`)
  }
  return { room, role, mode, key, access: header('seamline-access'), token, keepAliveMs }
}

/** RFC 6455 section 4.2.2: the answer to a `Sec-WebSocket-Key`. */
export function websocketAccept(key: string): string {
  return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
}

const statusOf: Partial<Record<ErrorCode, string>> = {
  PROTOCOL: '400 Bad Request',
  MISMATCH: '403 Forbidden',
  RESET: '404 Not Found',
  USAGE: '409 Conflict',
  LIMIT: '431 Request Header Fields Too Large',
  TIMEOUT: '504 Gateway Timeout',
}

/** The whole answer that refuses a request. */
export function refusal(error: SeamError): string {
  const lines = [
    `HTTP/1.1 ${statusOf[error.code] ?? '503 Service Unavailable'}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(error.message)}`,
    `Seamline-Code: ${error.code}`,
  ]
  return `${lines.join('\r\n')}\r\n\r\n${error.message}`
}

/** What an answer other than 101 says. `text` is not trusted: it is cut and stripped of control characters. */
export function refusalError(
  what: string,
  status: number,
  code: string | undefined,
  text: string,
): SeamError {
  const clean = text
    .slice(0, 500)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
    .replace(/[\x00-\x1f\x7f]+/g, ' ')
    .trim()
  if (isErrorCode(code)) return new SeamError(code, `${what} was refused by the relay: ${clean}`)
  return new SeamError('RESET', `${what} failed: HTTP status ${status}, which is not the answer of a relay`)
}
