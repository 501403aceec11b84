import { asFloat32, type Codec } from '@seamline/core'

/** `length` zeros in the arena of `codec`. */
export function arenaValues(codec: Codec, length: number): Float32Array {
  return asFloat32(arenaBytes(codec, length * 4))
}

/** `length` zeroed bytes in the arena of `codec`. */
export function arenaBytes(codec: Codec, length: number): Uint8Array {
  const bytes = codec.allocate?.(length)
  if (bytes === undefined) throw new Error(`no ${length} B are left in the arena`)
  return bytes
}

/** Encodes `values` as one row. */
export function encoded(codec: Codec, values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(codec.maxEncodedBytes(1, values.length))
  return bytes.subarray(0, codec.encodeInto(values, 1, values.length, bytes))
}

/** Decodes one row. */
export function decoded(codec: Codec, bytes: Uint8Array, elements: number): Float32Array {
  const values = new Float32Array(elements)
  codec.decodeInto(bytes, 1, elements, values)
  return values
}
