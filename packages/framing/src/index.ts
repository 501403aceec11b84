/**
 * Framings: messages and payloads to bytes and back.
 *
 * @packageDocumentation
 */
export { msgpack } from './msgpack.ts'
export { protobuf } from './protobuf.ts'
