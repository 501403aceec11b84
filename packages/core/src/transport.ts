import type { SeamError } from './errors.ts'

/** Decides what to do with a new connection; called before its first byte is read. */
export type Accept = (connection: Connection) => ConnectionHandler

/** The receiving side of a connection. Calls are synchronous and never overlap. A throw aborts the connection. */
export interface ConnectionHandler {
  /**
   * Names the memory that the next bytes go to. Called before each read, not while paused; must not return an empty view. What was
   * named before a pause stays promised to the bytes after it.
   */
  nextBuffer(): Uint8Array
  /** `bytes` bytes (at least 1) were written to the front of the last {@link nextBuffer}. */
  onData(bytes: number): void
  /** {@link Connection.send} may be used again after it returned false. */
  onDrain(): void
  /**
   * Exactly once and last. `undefined` means that both sides ended in good order, as far as the transport can tell: the death of a
   * peer may look like that, and only the messages inside the stream tell that it was complete.
   */
  onClose(reason: SeamError | undefined): void
}

/** One ordered, reliable byte stream in both directions. */
export interface Connection {
  /** Address of the peer for people to read. */
  readonly remote: string
  /** Bytes accepted by {@link send} and not yet handed to the operating system. */
  readonly queuedBytes: number
  /**
   * Queues `bytes`. The memory must stay unchanged until `released` is called, which happens exactly once, also when
   * the connection fails, and never during this call: the transport is done with the memory, which says nothing of
   * what the peer has received. Returns false at the high-water mark: the bytes are queued all the same, and
   * `onDrain` follows. Throws `CLOSED` after {@link close} or {@link abort}, and once
   * this side has answered the end of the peer, which may be before `onClose`.
   */
  send(bytes: Uint8Array, released?: () => void): boolean
  /** Stops delivery: no further `onData` until {@link resume}. */
  pause(): void
  resume(): void
  /**
   * Ends this direction after everything queued has been sent; data of the peer is delivered until it ends too.
   * A peer that sees the end flushes and ends its own direction by itself. Resolves once the connection is gone; aborts by itself
   * with `TIMEOUT` after `timeoutMs`.
   */
  close(options?: CloseOptions): Promise<void>
  /** Drops what is queued and ends both directions now. `onClose` receives `reason`. The peer sees `RESET` or an end. */
  abort(reason: SeamError): void
}

export interface CloseOptions {
  /** @default 5000 */
  readonly timeoutMs?: number
}

export interface OpenOptions {
  readonly signal?: AbortSignal
  /** Deadline of the dial or the bind; `TIMEOUT` after that. @default 5000 */
  readonly timeoutMs?: number
}

export interface Listener {
  /** Address to dial, with the actual port. */
  readonly address: string
  /** Stops accepting. Connections that exist are not touched. Idempotent. */
  close(): Promise<void>
}

/** Carries bytes between two addresses of its own kind. Implementations are values made by a factory. */
export interface Transport {
  /** `tcp`, `memory`, … */
  readonly id: string
  /** True when altered bytes cannot arrive, as under TLS: checksums above it are then left out. */
  readonly authenticates: boolean
  /** A throw in `accept` aborts that one connection. Throws `TIMEOUT`, `ABORTED`, or `RESET` with the address and the cause when nobody answers. */
  dial(address: string, accept: Accept, options?: OpenOptions): Promise<Connection>
  /** Throws `USAGE` with the address when it cannot be bound, for example because the port is taken. */
  listen(address: string, accept: Accept, options?: OpenOptions): Promise<Listener>
}
