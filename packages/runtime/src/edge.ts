import type { Codec } from '@seamline/core'
import type { Slot, SlotPool } from './buffers.ts'

/** Flow control of one edge: the sender's slots and permission, or the receiver's slots and what it has granted. */
export interface Edge {
  readonly codec: Codec
  canSend(): boolean
  take(): Slot
  give(slot: Slot): void
  /** Sender: gives back a slot whose tensor will not be sent. */
  giveUnsent(slot: Slot): void
  /** Sender: tensors up to, not including, this one may be sent. */
  credit(limit: number): void
  /** Receiver: the new limit worth telling the sender, or 0 while too little has changed. */
  grant(): number
}

export function edgeWith(pool: SlotPool, codec: Codec): Edge {
  let limit = 0
  let taken = 0
  let granted = 0
  return {
    codec,
    canSend: () => pool.free > 0 && taken < limit,
    take() {
      const slot = pool.take()
      taken++
      return slot
    },
    give: (slot) => pool.give(slot),
    giveUnsent(slot) {
      taken--
      pool.give(slot)
    },
    credit(next) {
      limit = Math.max(limit, next)
    },
    grant() {
      const possible = taken + pool.free
      // Half of the window at a time: one credit message for several tensors.
      if (granted > 0 && possible - granted < Math.max(1, pool.capacity >> 1)) return 0
      granted = possible
      return possible
    },
  }
}
