/** Element types of tensors in host memory; little-endian on the wire. */
export const DType = { f32: 'f32', f16: 'f16', bf16: 'bf16', q8_0: 'q8_0', i32: 'i32' } as const
export type DType = (typeof DType)[keyof typeof DType]

/**
 * Alignment of every payload in bytes, a cache line. Copies between buffers that lie a few bytes apart modulo a page fall into
 * a slow path of some processors (`rep movsb` on Zen 3), so headers are right-justified in front of an aligned payload.
 */
export const PAYLOAD_ALIGNMENT = 64

/** Rounds `bytes` up to a multiple of {@link PAYLOAD_ALIGNMENT}. */
export function alignUp(bytes: number): number {
  return Math.ceil(bytes / PAYLOAD_ALIGNMENT) * PAYLOAD_ALIGNMENT
}

/**
 * Allocates `bytes` of zeroed memory in a buffer of its own, so that `byteOffset` is 0 and typed-array views of
 * any element size can be laid over it.
 */
export function alignedBytes(bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new ArrayBuffer(alignUp(bytes)), 0, bytes)
}

/** Views `bytes` as f32 without a copy. Throws a RangeError when the offset or length is not a multiple of 4. */
export function asFloat32(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.buffer, bytes.byteOffset, checkedElements(bytes))
}

/** Views `bytes` as i32 without a copy. Throws a RangeError when the offset or length is not a multiple of 4. */
export function asInt32(bytes: Uint8Array): Int32Array {
  return new Int32Array(bytes.buffer, bytes.byteOffset, checkedElements(bytes))
}

/** Views the memory of any typed array as bytes without a copy. */
export function asBytes(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

function checkedElements(bytes: Uint8Array): number {
  if (bytes.byteLength % 4 !== 0) {
    throw new RangeError(`${bytes.byteLength} B is not a whole number of 4-byte elements`)
  }
  return bytes.byteLength / 4
}
