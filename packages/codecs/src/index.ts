/**
 * Tensor codecs: rows of f32 to the bytes of a payload and back.
 *
 * @packageDocumentation
 */
export { f16 } from './f16.ts'
export { f32 } from './f32.ts'
