import * as zlib from 'node:zlib'
import { MAX_WINDOW_BYTES } from './frame.ts'

/** What node:zlib has from Node 22.15 on. */
interface ZstdOptions {
  readonly chunkSize: number
  readonly maxOutputLength?: number
  readonly params: Readonly<Record<number, number>>
}
interface ZlibWithZstd {
  zstdCompressSync(src: Uint8Array, options: ZstdOptions): Uint8Array
  zstdDecompressSync(src: Uint8Array, options: ZstdOptions): Uint8Array
  readonly constants: { readonly ZSTD_c_compressionLevel: number; readonly ZSTD_d_windowLogMax: number }
}

interface NativeZstd {
  compress(src: Uint8Array, level: number, maxBytes: number): Uint8Array
  /** Throws when the content is longer than `maxBytes`, or corrupt. */
  decompress(src: Uint8Array, maxBytes: number): Uint8Array
}

/** zstd of node:zlib; undefined where this Node has none. */
export const nativeZstd: NativeZstd | undefined = bind(zlib as unknown as Partial<ZlibWithZstd>)

function bind({
  zstdCompressSync,
  zstdDecompressSync,
  constants,
}: Partial<ZlibWithZstd>): NativeZstd | undefined {
  if (zstdCompressSync === undefined || zstdDecompressSync === undefined || constants === undefined)
    return undefined
  const { ZSTD_c_compressionLevel: levelParameter, ZSTD_d_windowLogMax: windowParameter } = constants
  // One byte more than can come makes one chunk enough: zlib takes another as soon as one is full.
  const chunkSize = (bytes: number): number => Math.max(64, bytes + 1)
  return {
    compress: (src, level, maxBytes) =>
      zstdCompressSync(src, { chunkSize: chunkSize(maxBytes), params: { [levelParameter]: level } }),
    decompress: (src, maxBytes) =>
      zstdDecompressSync(src, {
        chunkSize: chunkSize(maxBytes),
        maxOutputLength: Math.max(1, maxBytes),
        params: { [windowParameter]: Math.log2(MAX_WINDOW_BYTES) },
      }),
  }
}
