import { alignedBytes, type CodecFactory, SeamError } from '@seamline/core'
import { type ZstdArmName, zstdArm } from './arms.ts'
import { compressBound, parseFrame } from './frame.ts'
import { shuffle16, unshuffle16 } from './shuffle.ts'

export interface ZstdOptions {
  /** Compression level, 1 to 19. Higher ones cost much and gain little on activations. @default 1 */
  readonly level?: number
  /**
   * Puts the low bytes of 16-bit floats first and the high ones behind them. `USAGE` when true for another element type than f16 and bf16.
   * @default true for f16 and bf16
   */
  readonly shuffle?: boolean
  /** Which implementation compresses; the bytes differ, the format does not. @default the fastest this host has */
  readonly encoder?: Exclude<ZstdArmName, 'fzstd'>
  /** Which implementation decompresses. @default the fastest this host has */
  readonly decoder?: ZstdArmName
}

const MAX_LEVEL = 19

/**
 * Compresses what `inner` encodes into one zstd frame, whose declared size is checked against the shape before anything is decoded.
 * The id is that of the inner codec, `-shuffle` if so, and `-zstd` with the level: `f16-shuffle-zstd1`. Lossy as the inner codec is.
 * An instance keeps memory for the largest tensor it has seen. Throws `USAGE` for wrong options, `UNSUPPORTED` when
 * an implementation named is not there; the shuffle and the implementations are checked when a codec is made.
 */
export function zstd(inner: CodecFactory, options: ZstdOptions = {}): CodecFactory {
  const { level = 1 } = options
  if (!(Number.isInteger(level) && level >= 1 && level <= MAX_LEVEL))
    throw new SeamError('USAGE', `zstd: level ${level}, there are 1 to ${MAX_LEVEL}`)

  return (codecOptions) => {
    const codec = inner(codecOptions)
    const { wireDType } = codec
    const sixteenBit = wireDType === 'f16' || wireDType === 'bf16'
    const { shuffle = sixteenBit } = options
    if (shuffle && !sixteenBit)
      throw new SeamError(
        'USAGE',
        `zstd: the shuffle is for f16 and bf16, codec ${codec.id} encodes to ${wireDType}`,
      )
    const { compress, name } = zstdArm(options.encoder)
    if (compress === undefined)
      throw new SeamError('USAGE', `zstd: ${name} does not compress, native and wasm do`)
    const { decompress } = zstdArm(options.decoder)
    const plain = scratch()
    const shuffled = scratch()

    return {
      id: `${codec.id}${shuffle ? '-shuffle' : ''}-zstd${level}`,
      lossy: codec.lossy,
      dtypes: codec.dtypes,
      wireDType,
      blockElements: codec.blockElements,
      identity: false,
      ...(codec.allocate && { allocate: (bytes: number) => codec.allocate!(bytes) }),
      maxEncodedBytes: (rows, columns) => compressBound(codec.maxEncodedBytes(rows, columns)),
      encodeInto(src, rows, columns, dst) {
        const most = codec.maxEncodedBytes(rows, columns)
        if (src.length < rows * columns)
          throw new SeamError(
            'CODEC',
            `the shape takes ${rows * columns} values, the source holds ${src.length}`,
          )
        const room = plain(most)
        const encoded = room.subarray(0, codec.encodeInto(src, rows, columns, room))
        if (!shuffle) return compress(encoded, level, dst)
        const ordered = shuffled(encoded.byteLength)
        shuffle16(encoded, ordered)
        return compress(ordered, level, dst)
      },
      decodeInto(src, rows, columns, dst) {
        const most = codec.maxEncodedBytes(rows, columns)
        if (dst.length < rows * columns)
          throw new SeamError(
            'LIMIT',
            `the shape takes ${rows * columns} values, the destination holds ${dst.length}`,
          )
        const frame = parseFrame(src, most)
        const encoded = plain(frame.contentBytes)
        if (shuffle) {
          const ordered = shuffled(frame.contentBytes)
          decompress(src, ordered, frame)
          unshuffle16(ordered, encoded)
        } else decompress(src, encoded, frame)
        codec.decodeInto(encoded, rows, columns, dst)
      },
    }
  }
}

/** Memory that is used again by every call and replaced when a larger one is asked for. */
function scratch(): (bytes: number) => Uint8Array {
  let memory = alignedBytes(0)
  return (bytes) => {
    if (memory.byteLength < bytes) memory = alignedBytes(bytes)
    return memory.subarray(0, bytes)
  }
}
