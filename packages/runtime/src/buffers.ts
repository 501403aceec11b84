import { alignedBytes, alignUp, asFloat32, type Codec, type CodecFactory, SeamError } from '@seamline/core'

/**
 * Memory for one tensor on an edge, allocated once and used again: the encoded payload with room for a header in
 * front of it, and the f32 rows. With an identity codec the rows are the payload, so that nothing is copied; a codec that computes
 * in a memory of its own has both there.
 */
export interface Slot {
  readonly room: Uint8Array
  readonly payloadStart: number
  /** From `payloadStart` to the end of `room`. */
  readonly payload: Uint8Array
  readonly hidden: Float32Array
}

export interface SlotPool {
  readonly free: number
  readonly capacity: number
  /** Throws `LIMIT` when none is free. */
  take(): Slot
  give(slot: Slot): void
}

/** A codec may address less than 4 GiB; slots beyond this take ordinary memory. */
const MAX_ARENA_BYTES = 2 ** 30

/** Makes a codec and `capacity` slots for tensors of up to `rows` by `columns` in its encoding. */
export function slotPool(
  make: CodecFactory,
  capacity: number,
  rows: number,
  columns: number,
  headroomBytes: number,
): { readonly codec: Codec; readonly pool: SlotPool } {
  const payloadBytes = make().maxEncodedBytes(rows, columns)
  const payloadStart = alignUp(headroomBytes)
  const roomBytes = payloadStart + payloadBytes
  const valueBytes = rows * columns * 4
  const arenaBytes = capacity * (alignUp(roomBytes) + alignUp(valueBytes))
  const codec = make({ arenaBytes: Math.min(arenaBytes, MAX_ARENA_BYTES) })
  const allocate = (bytes: number) => codec.allocate?.(bytes) ?? alignedBytes(bytes)
  const slots = Array.from({ length: capacity }, (): Slot => {
    const room = allocate(roomBytes)
    const payload = room.subarray(payloadStart)
    const hidden = asFloat32(codec.identity ? payload : allocate(valueBytes))
    return { room, payloadStart, payload, hidden }
  })
  return { codec, pool: poolOf(slots, payloadBytes) }
}

function poolOf(slots: Slot[], payloadBytes: number): SlotPool {
  const capacity = slots.length
  return {
    capacity,
    get free() {
      return slots.length
    },
    take() {
      const slot = slots.pop()
      if (slot === undefined) {
        throw new SeamError(
          'LIMIT',
          `all ${capacity} buffers of ${payloadBytes} B are in use: the sender ignored its credit`,
        )
      }
      return slot
    },
    give(slot) {
      slots.push(slot)
    },
  }
}
