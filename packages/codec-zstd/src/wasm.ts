import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { SeamError } from '@seamline/core'

// Neither es2023 nor @types/node 20 declare it.
declare const WebAssembly: {
  Module: new (binary: Uint8Array) => object
  Instance: new (module: object, imports: object) => { readonly exports: object }
}

/** The C functions of `@foxglove/wasm-zstd`; sizes in bytes, addresses in its memory. */
interface Library {
  readonly HEAPU8: Uint8Array
  _malloc(bytes: number): number
  _free(address: number): void
  /** `ZSTD_compress`; -1 for an error. */
  _compress(dst: number, dstBytes: number, src: number, srcBytes: number, level: number): number
  /** `ZSTD_decompress`; -1 for an error, among them content longer than `dstBytes`. */
  _decompress(dst: number, dstBytes: number, src: number, srcBytes: number): number
}

interface WasmZstd {
  /** Calls `take` with the frame, which is borrowed, and returns its result. */
  compress<T>(src: Uint8Array, level: number, maxBytes: number, take: (frame: Uint8Array) => T): T
  /** Returns the bytes written to `dst`, or -1. */
  decompress(src: Uint8Array, dst: Uint8Array): number
}

let shared: WasmZstd | undefined

/**
 * libzstd in a WebAssembly memory of its own, one for the process, compiled at the first call. The memory grows to what the largest
 * call takes (at most 2 GiB, then `LIMIT`) and is used again by all others.
 */
export function wasmZstd(): WasmZstd {
  shared ??= bind(load())
  return shared
}

/** Instantiates at once rather than behind the promise of the package's entry, so that no codec can be made too early. */
function load(): Library {
  const require = createRequire(import.meta.url)
  const create = require('@foxglove/wasm-zstd/dist/wasm-zstd.js') as (module: object) => Promise<unknown>
  const binary = readFileSync(require.resolve('@foxglove/wasm-zstd/dist/wasm-zstd.wasm'))
  const library = {
    instantiateWasm(imports: object, receive: (instance: object) => void) {
      const instance = new WebAssembly.Instance(new WebAssembly.Module(binary), imports)
      receive(instance)
      return instance.exports
    },
  }
  create(library)
  return library as unknown as Library
}

function bind(library: Library): WasmZstd {
  /** Runs `body` with `src` copied in and `dstBytes` behind it. */
  function within<T>(src: Uint8Array, dstBytes: number, body: (from: number, to: number) => T): T {
    const bytes = src.byteLength + dstBytes
    const from = library._malloc(bytes)
    if (from === 0)
      throw new SeamError('LIMIT', `zstd: ${bytes} B exceed what is left of the 2 GiB of WebAssembly memory`)
    try {
      library.HEAPU8.set(src, from)
      return body(from, from + src.byteLength)
    } finally {
      library._free(from)
    }
  }
  return {
    compress: (src, level, maxBytes, take) =>
      within(src, maxBytes, (from, to) => {
        const written = library._compress(to, maxBytes, from, src.byteLength, level)
        if (written < 0)
          throw new SeamError('LIMIT', `zstd: no memory to compress ${src.byteLength} B at level ${level}`)
        return take(library.HEAPU8.subarray(to, to + written))
      }),
    decompress: (src, dst) =>
      within(src, dst.byteLength, (from, to) => {
        const written = library._decompress(to, dst.byteLength, from, src.byteLength)
        if (written === dst.byteLength) dst.set(library.HEAPU8.subarray(to, to + written))
        return written
      }),
  }
}
