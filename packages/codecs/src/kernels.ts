import { alignUp, SeamError } from '@seamline/core'

/**
 * Reads from address `src` and writes to `dst`; `elements` is a multiple of {@link GROUP_ELEMENTS}. Returns the index
 * of the first element of a group that it refused, or -1. Groups from there on are not written.
 */
export type Kernel = (src: number, dst: number, elements: number) => number

/** Kernels and the memory that they compute in, of a size that never changes. */
export interface Kernels {
  readonly encode: Kernel
  readonly decode: Kernel
  readonly memory: Uint8Array<ArrayBuffer>
  /** See `Codec.allocate`. */
  allocate(bytes: number): Uint8Array<ArrayBuffer> | undefined
}

/** Values that a kernel takes at a time. */
export const GROUP_ELEMENTS = 32
/**
 * Values that pass through the scratch memory at a time where a buffer is foreign: 64 KiB and at most half of that encoded,
 * which a second-level cache holds. A quarter of it takes a fifth longer, as calls weigh more; four times as much gains a twentieth.
 */
export const SCRATCH_ELEMENTS = 16384
/**
 * Addresses of the scratch memory: f32 values, and the encoded bytes of as many. Large buffers begin near the start of a page;
 * loads and stores whose addresses differ by whole pages hinder each other, so neither begins there.
 */
export const SCRATCH_VALUES = 2048
export const SCRATCH_ENCODED = 3072 + SCRATCH_ELEMENTS * 4
/** Where the arena begins; no codec of this package takes more than 3 encoded bytes a value. */
const ARENA = SCRATCH_ELEMENTS * 8

const PAGE_BYTES = 65536
/** One page below what 32-bit addresses reach, so that no end of a buffer wraps to 0. */
const MAX_ARENA_BYTES = 65535 * PAGE_BYTES - ARENA

/** The little of WebAssembly that is used; the types of Node 20 lack it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object
  readonly Instance: new (
    module: object,
    imports: { env: { memory: object } },
  ) => { readonly exports: { readonly encode: Kernel; readonly decode: Kernel } }
  readonly Memory: new (pages: { initial: number; maximum: number }) => { readonly buffer: ArrayBuffer }
}

/**
 * Returns a function that makes kernels of the base64 module `wasm`, with `arenaBytes` to allocate from. The module is compiled
 * at the first call. Kernels without an arena keep nothing between two calls, so there is one instance of them.
 */
export function kernelsOf(wasm: string): (arenaBytes: number) => Kernels {
  let module: object | undefined
  let shared: Kernels | undefined

  function create(arenaBytes: number): Kernels {
    module ??= new WebAssembly.Module(Uint8Array.from(atob(wasm), (char) => char.charCodeAt(0)))
    const memory = createMemory(arenaBytes)
    const { encode, decode } = new WebAssembly.Instance(module, { env: { memory } }).exports
    let used = 0
    return {
      encode,
      decode,
      memory: new Uint8Array(memory.buffer),
      allocate(bytes) {
        if (!(Number.isSafeInteger(bytes) && bytes >= 0))
          throw new SeamError('USAGE', `cannot allocate ${bytes} B: a whole number of bytes is needed`)
        if (used + bytes > arenaBytes) return undefined
        const view = new Uint8Array(memory.buffer, ARENA + used, bytes)
        used += alignUp(bytes)
        return view
      },
    }
  }

  return (arenaBytes) => {
    if (arenaBytes !== 0) return create(arenaBytes)
    shared ??= create(0)
    return shared
  }
}

function createMemory(arenaBytes: number): { readonly buffer: ArrayBuffer } {
  if (!(Number.isSafeInteger(arenaBytes) && arenaBytes >= 0))
    throw new SeamError('USAGE', `arenaBytes is ${arenaBytes}: a whole number of bytes is needed`)
  if (arenaBytes > MAX_ARENA_BYTES)
    throw new SeamError(
      'LIMIT',
      `an arena of ${arenaBytes} B exceeds the ${MAX_ARENA_BYTES} B that kernels reach`,
    )
  const pages = Math.ceil((ARENA + alignUp(arenaBytes)) / PAGE_BYTES)
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages })
  } catch (error) {
    throw new SeamError('LIMIT', `no memory for an arena of ${arenaBytes} B`, { cause: error })
  }
}
