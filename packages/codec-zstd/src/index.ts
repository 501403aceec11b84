/**
 * Zstandard behind any tensor codec, with a byte shuffle for 16-bit floats.
 *
 * @packageDocumentation
 */
export { type ZstdArm, type ZstdArmName, zstdArm, zstdArms } from './arms.ts'
export { type ZstdOptions, zstd } from './zstd.ts'
