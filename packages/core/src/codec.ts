import type { DType } from './tensor.ts'

export interface CodecOptions {
  /** Memory in bytes that {@link Codec.allocate} is to have ready, where the codec has it. @default 0 */
  readonly arenaBytes?: number
}

/** Makes one codec instance; each link direction has its own, so an instance may keep state. */
export type CodecFactory = (options?: CodecOptions) => Codec

/**
 * Turns rows of f32 into bytes and back. Synchronous; the caller owns all memory and an implementation keeps
 * no reference to an argument after it returns.
 */
export interface Codec {
  /** Short kebab-case name with parameters, exchanged in the handshake: `f32`, `f16`, `q8_0`. */
  readonly id: string
  /** True when decode(encode(x)) may differ from x. A lossy codec is used only when asked for by name. */
  readonly lossy: boolean
  /** Element types that {@link encodeInto} accepts. */
  readonly dtypes: readonly DType[]
  /** Element type of the encoded bytes. */
  readonly wireDType: DType
  /** Columns must be a multiple of this. */
  readonly blockElements: number
  /**
   * True when the encoded bytes are the tensor's own little-endian bytes: a link may then let the executor
   * write straight into the frame and skip {@link encodeInto} and {@link decodeInto} altogether.
   */
  readonly identity: boolean
  /**
   * Present where the codec computes in a memory of its own: returns zeroed bytes in it, aligned to
   * {@link PAYLOAD_ALIGNMENT} and good for the life of the codec, or undefined when the `arenaBytes` it was made with are used up.
   * Buffers from here save a copy; any other memory is accepted just the same.
   */
  allocate?(bytes: number): Uint8Array<ArrayBuffer> | undefined
  /** Upper bound of the encoded size in bytes; pure. Throws `CODEC` when columns does not fit the block size. */
  maxEncodedBytes(rows: number, columns: number): number
  /**
   * Encodes `rows * columns` values row-major into the start of `dst` and returns the bytes written.
   * Throws `CODEC` for values outside the codec's stated policy and `LIMIT` when `dst` is too small.
   */
  encodeInto(src: Float32Array, rows: number, columns: number, dst: Uint8Array): number
  /** Decodes into the start of `dst`. Throws `CODEC` unless `src` is exactly what `rows * columns` values take. */
  decodeInto(src: Uint8Array, rows: number, columns: number, dst: Float32Array): void
}
