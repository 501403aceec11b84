import { asFloat32, type Codec, type CodecFactory } from '@seamline/core'

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

/**
 * A factory whose codecs compute in their own arena alone: what callers pass is copied there before each call, and
 * back after it, also when it fails. For suites that bring memory of their own.
 */
export function arenaBacked(create: CodecFactory, bytesOfValues: number): CodecFactory {
  return () => {
    const codec = create({ arenaBytes: 2 * bytesOfValues })
    const values = arenaValues(codec, bytesOfValues / 4)
    const bytes = arenaBytes(codec, bytesOfValues)
    return {
      ...codec,
      encodeInto(src, rows, columns, dst) {
        values.set(src)
        bytes.set(dst)
        try {
          return codec.encodeInto(
            values.subarray(0, src.length),
            rows,
            columns,
            bytes.subarray(0, dst.length),
          )
        } finally {
          dst.set(bytes.subarray(0, dst.length))
          src.set(values.subarray(0, src.length))
        }
      },
      decodeInto(src, rows, columns, dst) {
        values.set(dst)
        bytes.set(src)
        try {
          codec.decodeInto(bytes.subarray(0, src.length), rows, columns, values.subarray(0, dst.length))
        } finally {
          src.set(bytes.subarray(0, src.length))
          dst.set(values.subarray(0, dst.length))
        }
      },
    }
  }
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
