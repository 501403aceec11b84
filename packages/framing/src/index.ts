/**
 * Framings: messages and payloads to bytes and back.
 *
 * @packageDocumentation
 */
export { protobuf } from './protobuf.ts'
