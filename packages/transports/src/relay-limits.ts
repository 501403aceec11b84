import { SeamError } from '@seamline/core'

/** What one relay takes on at most. Each is checked before anything is allocated for it, and counted when it is met. */
export interface RelayLimits {
  /** @default 1024 */
  readonly maxRooms: number
  /** Connections in all whose upgrade was granted, control connections among them. @default 4096 */
  readonly maxPeers: number
  /** The same in one room. @default 256 */
  readonly maxPeersPerRoom: number
  /** Connections in all whose upgrade request is not complete; the oldest gives way. @default 256 */
  readonly maxHandshakes: number
  /** Bytes read from one side of a pair and not yet handed on to the other, both directions together. @default 2097152 */
  readonly maxQueuedBytesPerPair: number
  /** Bytes of one message, in mode `ws`. @default 1048576 */
  readonly maxMessageBytes: number
  /** Bytes of the headers of an upgrade request. @default 8192 */
  readonly maxHeaderBytes: number
  /** From the connect to a complete upgrade request. @default 5000 */
  readonly maxHandshakeMs: number
  /** From a dial to the data connection of the listener. @default 5000 */
  readonly maxJoinMs: number
  /** A pair that moves nothing for so long is cut. @default 600000 */
  readonly maxIdleMs: number
}

export const defaultLimits: RelayLimits = {
  maxRooms: 1024,
  maxPeers: 4096,
  maxPeersPerRoom: 256,
  maxHandshakes: 256,
  maxQueuedBytesPerPair: 1 << 21,
  maxMessageBytes: 1 << 20,
  maxHeaderBytes: 1 << 13,
  maxHandshakeMs: 5000,
  maxJoinMs: 5000,
  maxIdleMs: 600_000,
}

/** The defaults with `limits` over them. Throws `USAGE` for what is not a positive integer. */
export function checkLimits(limits: Partial<RelayLimits>): RelayLimits {
  const checked = { ...defaultLimits }
  for (const [name, value] of Object.entries(limits)) {
    if (value === undefined) continue
    if (!(name in defaultLimits) || !Number.isInteger(value) || value < 1 || value > 0x7fffffff) {
      throw new SeamError(
        'USAGE',
        `limits.${name} is ${value}, expected a known limit and an integer above 0`,
      )
    }
    checked[name as keyof RelayLimits] = value
  }
  return checked
}
