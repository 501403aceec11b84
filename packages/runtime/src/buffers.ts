import { alignedBytes, alignUp, asFloat32, type Codec, SeamError } from '@seamline/core'

/**
 * Memory for one tensor on an edge, allocated once and used again: the encoded payload with room for a header in
 * front of it, and the f32 rows. With an identity codec the rows are the payload, so that nothing is copied.
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

/** Allocates `capacity` slots for tensors of up to `rows` by `columns` in the encoding of `codec`. */
export function slotPool(
  capacity: number,
  codec: Codec,
  rows: number,
  columns: number,
  headroomBytes: number,
): SlotPool {
  const payloadBytes = codec.maxEncodedBytes(rows, columns)
  const payloadStart = alignUp(headroomBytes)
  const slots = Array.from({ length: capacity }, (): Slot => {
    const room = alignedBytes(payloadStart + payloadBytes)
    const payload = room.subarray(payloadStart)
    const hidden = codec.identity ? asFloat32(payload) : new Float32Array(rows * columns)
    return { room, payloadStart, payload, hidden }
  })
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
