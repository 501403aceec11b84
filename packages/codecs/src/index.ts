/**
 * Tensor codecs: rows of f32 to the bytes of a payload and back.
 *
 * @packageDocumentation
 */
export { bf16 } from './bf16.ts'
export { f16 } from './f16.ts'
export { f32 } from './f32.ts'
export { q8_0 } from './q8_0.ts'
