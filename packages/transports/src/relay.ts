import { randomBytes } from 'node:crypto'
import { Socket } from 'node:net'
import { type Accept, type OpenOptions, SeamError, type Transport } from '@seamline/core'
import { defaultHighWaterMarkBytes, type Endpoint, opening } from './endpoint.ts'
import { upgrade } from './relay-client.ts'
import { type Control, createControl } from './relay-control.ts'
import { attachFramed } from './relay-framed.ts'
import {
  accessKey,
  formatRelay,
  isLoopbackHost,
  maxKeepAliveMs,
  minKeepAliveMs,
  parseRelayAddress,
  type RelayAddress,
  type RelayMode,
  type RelayRequest,
  type RelayRole,
  roomKey,
} from './relay-protocol.ts'
import { attach, createReads } from './relay-stream.ts'
import { checkSecurity, type Security, secureClient, secureServer } from './security.ts'

export type { RelayMode } from './relay-protocol.ts'

export interface RelayOptions {
  /**
   * Shared by the peers, never by the relay, which sees a key made from it for each room; peers with another one are
   * refused. @default the secret of `security`; without that a room is open to whoever reaches the relay
   */
  readonly secret?: string
  /** What the operator of the relay gives to those who may use it. Needed where the relay has one. */
  readonly access?: string
  /** TLS 1.3 between the two peers, through the relay, which then sees ciphertext only. The listener is the server. */
  readonly security?: Security
  /** `raw` is faster; `ws` passes proxies that look into WebSocket frames. Both peers choose the same. @default 'raw' */
  readonly mode?: RelayMode
  /** `send` returns false while this many bytes or more are queued on a connection. @default 1048576 */
  readonly highWaterMarkBytes?: number
  /**
   * Silence on a listener's control connection after which either side counts the other as lost, 50 ms to one hour. In mode
   * `ws` it holds for each connection too, whose reason is then `TIMEOUT`: both peers take the same. In mode `raw` a peer or
   * a relay that is stopped shows only to beats in the stream. @default 10000
   */
  readonly keepAliveMs?: number
  /**
   * Called when a listener loses its place at the relay, with the reason, and with `undefined` when it has one again.
   * Between the two nobody can dial it; connections that exist go on.
   */
  readonly onRegistration?: (address: string, lost: SeamError | undefined) => void
}

const joinMs = 5000
const maxJoins = 256
const minBackOffMs = 100
const maxBackOffMs = 5000
const leaveMs = 1000

/**
 * Two peers that can only dial out meet in a room of a relay (`createRelay`). Addresses are `host:port/room`: with
 * `~FINGERPRINT` after the port where the relay is behind TLS, as in the address that it prints, and with
 * `#FINGERPRINT` of the listening peer at the end under `security`, as in the address of its listener. A listener
 * without a room (`host:port/`) takes a free one. A relay beyond loopback needs its pin, `security` and the secret.
 *
 * `listen` keeps a control connection to the relay and makes it anew, with back-off, when it is lost. Each connection is
 * one of its own at both peers. Without `security`, in mode `raw`, the kernel reads straight into the handler's memory at
 * both, since both dialled. Besides the errors of the contract `dial` throws what the relay answers: `MISMATCH` (another
 * secret, access or mode), `BUSY` (the relay or the room is full), `TIMEOUT` (the listener did not come).
 */
export function relay(options: RelayOptions = {}): Transport {
  const {
    security,
    mode = 'raw',
    highWaterMarkBytes = defaultHighWaterMarkBytes,
    keepAliveMs = 10_000,
  } = options
  const secret = options.secret ?? security?.secret ?? ''
  if (security !== undefined) checkSecurity(security)
  if (!Number.isInteger(keepAliveMs) || keepAliveMs < minKeepAliveMs || keepAliveMs > maxKeepAliveMs) {
    throw new SeamError(
      'USAGE',
      `keepAliveMs is ${keepAliveMs}, expected an integer from ${minKeepAliveMs} to ${maxKeepAliveMs}`,
    )
  }

  function parse(address: string): RelayAddress {
    const target = parseRelayAddress(address)
    if (isLoopbackHost(target.host)) return target
    const missing = [
      ...(target.relayFingerprint === undefined ? ['the ~FINGERPRINT of the relay in the address'] : []),
      ...(security === undefined ? ['security'] : []),
    ]
    if (missing.length === 0) return target
    throw new SeamError('USAGE', `${address} is beyond loopback: that needs ${missing.join(' and ')}`)
  }

  function requestOf(target: RelayAddress, role: RelayRole, token = ''): RelayRequest {
    const { room } = target
    const access = options.access === undefined ? '' : accessKey(options.access, room)
    return { room, role, mode, key: roomKey(secret, room), access, token, keepAliveMs }
  }

  /** A data connection, joined to the other peer and with its endpoint open. */
  async function join(
    target: RelayAddress,
    request: RelayRequest,
    remote: string,
    what: string,
    accept: Accept,
    signal: AbortSignal,
  ): Promise<Endpoint> {
    const reads = security === undefined ? createReads() : undefined
    const stream = await upgrade({ target, request, what, signal, ...(reads ? { pooled: reads } : {}) })
    const handshake = { remote, signal, timeoutMs: 1 << 30 }
    const { peerFingerprint = '' } = target
    let carrier = stream
    if (security !== undefined) {
      carrier =
        request.role === 'dial'
          ? await secureClient(stream, peerFingerprint, security, handshake)
          : await secureServer(stream, security, handshake)
    }
    if (signal.aborted || carrier.destroyed) {
      carrier.on('error', () => {})
      carrier.destroy()
      throw new SeamError('RESET', `${what}: ${remote} left at once`)
    }
    const attached =
      mode === 'ws' && carrier instanceof Socket && security === undefined
        ? attachFramed(carrier, remote, highWaterMarkBytes, keepAliveMs)
        : attach(carrier, remote, highWaterMarkBytes)
    reads?.bind(attached)
    attached.endpoint.open(accept)
    return attached.endpoint
  }

  return {
    id: 'relay',
    authenticates: security !== undefined,
    async dial(address, accept, openOptions = {}) {
      const target = parse(address)
      if (target.room === '') throw new SeamError('USAGE', `${address} names no room: host:port/room`)
      if ((target.peerFingerprint === undefined) !== (security === undefined)) {
        throw new SeamError(
          'USAGE',
          security === undefined
            ? `${address} pins the listening peer, so \`security\` with the shared secret is needed`
            : `${address} lacks the #FINGERPRINT of the listening peer: take the address that it prints`,
        )
      }
      const what = `dial of ${address}`
      return within(what, openOptions, async (signal) => {
        const request = requestOf(target, 'dial')
        return (await join(target, request, address, what, accept, signal)).connection
      })
    },
    async listen(address, accept, openOptions = {}) {
      const parsed = parse(address)
      const own = security?.identity.fingerprint
      if (parsed.peerFingerprint !== undefined && parsed.peerFingerprint !== own) {
        throw new SeamError(
          'USAGE',
          `cannot listen at ${address}: the identity of this peer has the fingerprint ${own ?? '(none: no security)'}`,
        )
      }
      const room = parsed.room === '' ? randomBytes(16).toString('base64url') : parsed.room
      const target = { ...parsed, room }
      const place = `${formatRelay(target)}/${room}${own === undefined ? '' : `#${own}`}`
      const what = `listen at ${place}`
      // The relay lets this registration take its own place again, and no other.
      const token = randomBytes(16).toString('base64url')
      const stop = new AbortController()
      let joins = 0
      let control: Control | undefined
      let gone: () => void = () => {}

      async function register(signal: AbortSignal): Promise<void> {
        const stream = await upgrade({ target, request: requestOf(target, 'listen', token), what, signal })
        if (signal.aborted) {
          stream.destroy()
          return
        }
        control = createControl(stream, {
          remote: `the relay ${formatRelay(target)}`,
          keepAliveMs,
          onLine: (line) => void answer(line),
          onLost(error) {
            control = undefined
            gone()
            if (stop.signal.aborted) return
            const lost =
              error ?? new SeamError('CLOSED', `the relay of ${place} closed the control connection`)
            options.onRegistration?.(place, lost)
            void registerAgain()
          },
        })
      }

      async function registerAgain(): Promise<void> {
        let backOffMs = minBackOffMs
        while (!stop.signal.aborted) {
          // Half of it by chance, so that the listeners of a relay that comes back do not come all at once.
          await pause(backOffMs * (0.5 + Math.random() / 2), stop.signal)
          if (stop.signal.aborted) return
          backOffMs = Math.min(2 * backOffMs, maxBackOffMs)
          try {
            await within(what, { signal: stop.signal, timeoutMs: joinMs }, register)
            if (control !== undefined) options.onRegistration?.(place, undefined)
            return
          } catch {
            // Whatever it was, the next try may go better; that nobody can dial meanwhile was told above.
          }
        }
      }

      /** Serves `dial TICKET REMOTE`: another data connection, which the relay joins to the one that waits. */
      async function answer(line: string): Promise<void> {
        const [verb, ticket = '', from = 'unknown'] = line.split(' ')
        if (verb !== 'dial' || !/^[\w-]{22}$/.test(ticket)) return
        if (joins >= maxJoins) {
          control?.send(`refuse ${ticket}`)
          return
        }
        joins += 1
        const remote = `${from} through ${formatRelay(target)}/${room}`
        try {
          await within(`join with ${remote}`, { signal: stop.signal, timeoutMs: joinMs }, (signal) => {
            const request = requestOf(target, 'accept', ticket)
            return join(target, request, remote, `join with ${remote}`, accept, signal)
          })
        } catch {
          // The other side learns of it by the refusal or by the end of the connection; the listener serves the others.
          control?.send(`refuse ${ticket}`)
        } finally {
          joins -= 1
        }
      }

      await within(what, openOptions, register)
      return {
        address: place,
        async close() {
          stop.abort()
          const leaving = control
          if (leaving === undefined) return
          await new Promise<void>((resolve) => {
            const timer = setTimeout(() => {
              leaving.destroy(new SeamError('TIMEOUT', `the relay did not let go of ${place}`))
            }, leaveMs)
            const before = gone
            gone = () => {
              clearTimeout(timer)
              before()
              resolve()
            }
            leaving.end()
          })
        },
      }
    },
  }
}

/** Runs `work` under the deadline and the signal of `options`; its own signal is raised when it has to stop. */
function within<T>(
  what: string,
  options: OpenOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return opening(what, options, (resolve, reject) => {
    const controller = new AbortController()
    work(controller.signal).then(resolve, reject)
    return () => controller.abort()
  })
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
  })
}
