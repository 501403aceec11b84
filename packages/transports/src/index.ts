/**
 * The transports that ship with Seamline. Each is also a subpath of its own, so that a program loads only the one it
 * uses.
 *
 * @example
 * ```ts
 * import { tcp } from '@seamline/transports/tcp'
 *
 * const transport = tcp()
 * const listener = await transport.listen('127.0.0.1:0', (connection) => echo(connection))
 * const connection = await transport.dial(listener.address, (connection) => print(connection))
 * ```
 *
 * @packageDocumentation
 */
export { type EmulatedOptions, emulated } from './emulated.ts'
export { type MemoryOptions, memory } from './memory.ts'
export { type RelayOptions, relay } from './relay.ts'
export { createRelay, type Relay, type RelayServerOptions } from './relay-server.ts'
export {
  createIdentity,
  createSecret,
  type HandshakeOptions,
  type Identity,
  type Security,
  secureClient,
  secureServer,
} from './security.ts'
export { type TcpOptions, tcp } from './tcp.ts'
export { type WsOptions, ws } from './ws.ts'
