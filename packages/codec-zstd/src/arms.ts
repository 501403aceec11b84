import { SeamError } from '@seamline/core'
import { decompress as fzstdDecompress } from 'fzstd'
import { checkBlocks } from './blocks.ts'
import { compressBound, type Frame, malformed } from './frame.ts'
import { nativeZstd } from './native.ts'
import { wasmZstd } from './wasm.ts'

/** One implementation of zstd. Synchronous; keeps no argument. */
export interface ZstdArm {
  readonly name: ZstdArmName
  /**
   * Compresses into the start of `dst` as one frame with its content size and returns the bytes written. Throws `LIMIT` when `dst` is
   * too small. Absent where the implementation only decompresses.
   */
  readonly compress?: (src: Uint8Array, level: number, dst: Uint8Array) => number
  /**
   * Decompresses `src`, of which `frame` was parsed, into `dst` of exactly `frame.contentBytes`. Throws `CODEC` unless the frame is
   * well-formed and fills `dst` exactly; `dst` is undefined then. Takes memory in proportion to `src` and `dst`.
   */
  readonly decompress: (src: Uint8Array, dst: Uint8Array, frame: Frame) => void
}

/**
 * `native`: node:zlib, from Node 22.15 on; `wasm`: libzstd as WebAssembly, everywhere; `fzstd`: JavaScript,
 * decompresses only.
 */
export type ZstdArmName = 'native' | 'wasm' | 'fzstd'

/** Names of what this host has, best first. */
export function zstdArms(): ZstdArmName[] {
  return nativeZstd === undefined ? ['wasm', 'fzstd'] : ['native', 'wasm', 'fzstd']
}

/**
 * The implementation of that name; by default the first of {@link zstdArms}. WebAssembly is compiled at the first
 * call, within it. Throws `UNSUPPORTED` when this host does not have it, `USAGE` for a name that is none.
 */
export function zstdArm(name: ZstdArmName = zstdArms()[0]!): ZstdArm {
  if (name === 'native') {
    if (nativeZstd === undefined)
      throw new SeamError(
        'UNSUPPORTED',
        `zstd: node:zlib of Node ${process.versions.node} has no zstd, from 22.15 on it has; 'wasm' runs everywhere`,
      )
    return native(nativeZstd)
  }
  if (name === 'wasm') return wasm()
  if (name === 'fzstd') return fzstd
  throw new SeamError(
    'USAGE',
    `zstd: no implementation '${String(name)}', there are ${zstdArms().join(', ')}`,
  )
}

const native = (zlib: NonNullable<typeof nativeZstd>): ZstdArm => ({
  name: 'native',
  compress: (src, level, dst) => copyOut(zlib.compress(src, level, compressBound(src.byteLength)), dst),
  decompress(src, dst) {
    let content: Uint8Array
    try {
      content = zlib.decompress(src, dst.byteLength)
    } catch (error) {
      throw malformed(
        `the frame is corrupt or holds more than the ${dst.byteLength} B that it declares`,
        error,
      )
    }
    checkFilled(content.byteLength, dst)
    dst.set(content)
  },
})

const wasm = (): ZstdArm => {
  const library = wasmZstd()
  return {
    name: 'wasm',
    compress: (src, level, dst) =>
      library.compress(src, level, compressBound(src.byteLength), (frame) => copyOut(frame, dst)),
    decompress(src, dst) {
      const filled = library.decompress(src, dst)
      if (filled < 0)
        throw malformed(`the frame is corrupt or holds more than the ${dst.byteLength} B that it declares`)
      checkFilled(filled, dst)
    },
  }
}

/** Without {@link checkBlocks} fzstd fills up with zeros, drops what is too much, and has endless loops. */
const fzstd: ZstdArm = {
  name: 'fzstd',
  decompress(src, dst, frame) {
    checkBlocks(src, frame)
    let content: Uint8Array
    try {
      content = fzstdDecompress(src)
    } catch (error) {
      throw malformed('the frame is corrupt', error)
    }
    checkFilled(content.byteLength, dst)
    dst.set(content)
  },
}

function copyOut(frame: Uint8Array, dst: Uint8Array): number {
  if (frame.byteLength > dst.byteLength)
    throw new SeamError(
      'LIMIT',
      `the encoding takes ${frame.byteLength} B, the destination holds ${dst.byteLength} B`,
    )
  dst.set(frame)
  return frame.byteLength
}

function checkFilled(bytes: number, dst: Uint8Array): void {
  if (bytes !== dst.byteLength) throw malformed(`the frame declares ${dst.byteLength} B and holds ${bytes} B`)
}
