import { SeamError } from '@seamline/core'

// Numbers of sections refer to RFC 8878, "Zstandard Compression and the 'application/zstd' Media Type".

/** Largest regenerated size of one block in bytes, section 3.1.1.2.4. */
export const MAX_BLOCK_BYTES = 128 * 1024

/** Largest window in bytes that a frame may ask for: what levels up to 19 use, and section 3.1.1.1.2 recommends to support. */
export const MAX_WINDOW_BYTES = 8 * 1024 * 1024

const MAGIC = 0xfd2fb528
const SKIPPABLE_MAGIC = 0x184d2a50

/** What the header of a frame says, section 3.1.1.1. */
export interface Frame {
  /** Size after decompression in bytes, as declared. */
  readonly contentBytes: number
  /** No block regenerates more than this, in bytes. */
  readonly maxBlockBytes: number
  readonly blocks: readonly Block[]
}

/** One block, section 3.1.1.2. */
export interface Block {
  readonly type: 'raw' | 'rle' | 'compressed'
  /** Offset of its content in the frame in bytes. */
  readonly start: number
  /** Offset of the byte behind its content. */
  readonly end: number
  /** Size after decompression in bytes; undefined for a compressed block, which does not say. */
  readonly contentBytes: number | undefined
}

/**
 * Upper bound of a frame in bytes for `bytes` of input: `ZSTD_COMPRESSBOUND` of zstd.h, libzstd 1.5.
 */
export function compressBound(bytes: number): number {
  const margin = bytes < MAX_BLOCK_BYTES ? Math.floor((MAX_BLOCK_BYTES - bytes) / 2 ** 11) : 0
  return bytes + Math.floor(bytes / 2 ** 8) + margin
}

/** A `CODEC` error about a frame. */
export function malformed(message: string, cause?: unknown): SeamError {
  return new SeamError('CODEC', `zstd: ${message}`, cause === undefined ? {} : { cause })
}

/**
 * Reads the header and the block headers of `src` without decompressing or copying anything. Throws `CODEC` unless `src` is one frame
 * from its first byte to its last, declares a size of at most `maxContentBytes` that its blocks can have, and
 * uses neither a dictionary nor a checksum (links have their own) nor a window above {@link MAX_WINDOW_BYTES}.
 */
export function parseFrame(src: Uint8Array, maxContentBytes: number): Frame {
  const view = new DataView(src.buffer, src.byteOffset, src.byteLength)
  const need = (end: number, what: string): void => {
    if (end > src.byteLength)
      throw malformed(`${src.byteLength} B end inside ${what}, which reaches to ${end} B`)
  }
  need(5, 'the frame header')
  const magic = view.getUint32(0, true)
  if ((magic & ~0xf) >>> 0 === SKIPPABLE_MAGIC)
    throw malformed('a skippable frame; exactly one frame with content is taken')
  if (magic !== MAGIC) throw malformed(`magic number 0x${magic.toString(16)}, not 0x${MAGIC.toString(16)}`)

  const descriptor = view.getUint8(4)
  const single = (descriptor & 0x20) !== 0
  if (descriptor & 0x08) throw malformed('the reserved bit of the frame header is set')
  if (descriptor & 0x04) throw malformed('the frame has a checksum; frames without are taken')
  if (descriptor & 0x03) throw malformed('the frame needs a dictionary; frames without are taken')
  const sizeBytes = [single ? 1 : 0, 2, 4, 8][descriptor >> 6]!
  if (sizeBytes === 0) throw malformed('the frame does not declare its decompressed size')
  let offset = single ? 5 : 6
  need(offset + sizeBytes, 'the frame header')
  const contentBytes = readSize(view, offset, sizeBytes)
  if (contentBytes > maxContentBytes)
    throw malformed(`the frame declares ${contentBytes} B, the shape takes at most ${maxContentBytes} B`)
  const windowBytes = single ? contentBytes : readWindow(view.getUint8(5))
  if (!single && windowBytes > MAX_WINDOW_BYTES)
    throw malformed(
      `the frame asks for a window of ${windowBytes} B, at most ${MAX_WINDOW_BYTES} B are given`,
    )
  offset += sizeBytes

  const maxBlockBytes = Math.min(windowBytes, MAX_BLOCK_BYTES)
  const blocks: Block[] = []
  let [least, most] = [0, 0]
  for (let last = false; !last; ) {
    need(offset + 3, 'a block header')
    const header = view.getUint16(offset, true) | (view.getUint8(offset + 2) << 16)
    last = (header & 1) !== 0
    const type = (['raw', 'rle', 'compressed'] as const)[(header >> 1) & 3]
    if (type === undefined) throw malformed(`the block at byte ${offset} has the reserved type`)
    const size = header >> 3
    if (size > maxBlockBytes)
      throw malformed(
        `the block at byte ${offset} has ${size} B, blocks of this frame have at most ${maxBlockBytes} B`,
      )
    const start = offset + 3
    const end = start + (type === 'rle' ? 1 : size)
    need(end, 'a block')
    const regenerated = type === 'compressed' ? undefined : size
    blocks.push({ type, start, end, contentBytes: regenerated })
    least += regenerated ?? 0
    most += regenerated ?? maxBlockBytes
    offset = end
  }
  if (offset !== src.byteLength)
    throw malformed(
      `the frame ends at byte ${offset}, ${src.byteLength - offset} B follow; exactly one frame is taken`,
    )
  if (contentBytes < least || contentBytes > most)
    throw malformed(`the frame declares ${contentBytes} B, its blocks have ${least} to ${most} B`)
  return { contentBytes, maxBlockBytes, blocks }
}

function readSize(view: DataView, offset: number, bytes: number): number {
  if (bytes === 1) return view.getUint8(offset)
  if (bytes === 2) return view.getUint16(offset, true) + 256
  const low = view.getUint32(offset, true)
  return bytes === 4 ? low : low + view.getUint32(offset + 4, true) * 2 ** 32
}

function readWindow(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3))
  return base + (base / 8) * (descriptor & 7)
}
