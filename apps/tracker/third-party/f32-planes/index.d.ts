import type { CodecFactory } from '@seamline/core'

/**
 * The bytes of the values in four planes: first the lowest byte of each value, then the next ones, 4 bytes a value in all. Bytes
 * that are alike then lie together, as compressors and delta coders like it. Every bit pattern passes unchanged.
 */
export declare const f32Planes: CodecFactory
