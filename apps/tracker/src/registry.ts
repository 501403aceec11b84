import { type Clock, type HelloMessage, SeamError } from '@seamline/core'
import { parseAnnouncement } from './announcement.ts'

export interface RegistryOptions {
  /** An announcement is forgotten when it was not renewed for this long. @default 15000 */
  readonly expiryMs?: number
  /** @default 256 */
  readonly maxWorkers?: number
}

/** What a worker learns when it announces itself. */
export interface Receipt {
  readonly name: string
  /** It is forgotten after this time unless it announces itself again. */
  readonly expiresInMs: number
  /**
   * True when an announcement of the same name said something else: the worker was started anew, or two share a name and take
   * turns in replacing each other.
   */
  readonly replaced: boolean
}

export interface KnownWorker {
  readonly announcement: HelloMessage
  readonly expiresInMs: number
}

export interface Registry {
  /** Throws `PROTOCOL` or `LIMIT` for a bad one, `BUSY` when there is no room; what was known stays. */
  announce(announcement: unknown): Receipt
  /** False when nobody of that name is known. */
  withdraw(name: string): boolean
  /** Those not expired, in the order in which their names first came. */
  workers(): readonly KnownWorker[]
}

const DEFAULT_EXPIRY_MS = 15_000
const DEFAULT_MAX_WORKERS = 256
const MAX_EXPIRY_MS = 86_400_000
const MAX_WORKERS = 4096

/** Announcements by name, each for a limited time. Keeps no timer: what has expired goes when somebody looks. */
export function createRegistry(options: RegistryOptions, clock: Clock): Registry {
  const expiryMs = within('expiryMs', options.expiryMs ?? DEFAULT_EXPIRY_MS, MAX_EXPIRY_MS)
  const maxWorkers = within('maxWorkers', options.maxWorkers ?? DEFAULT_MAX_WORKERS, MAX_WORKERS)
  const known = new Map<string, { readonly announcement: HelloMessage; readonly expiresNs: number }>()

  function forgetExpired(): void {
    const nowNs = clock.nowNs()
    for (const [name, { expiresNs }] of known) if (expiresNs <= nowNs) known.delete(name)
  }

  return {
    announce(value) {
      const announcement = parseAnnouncement(value)
      const { name } = announcement
      forgetExpired()
      const before = known.get(name)
      if (before === undefined && known.size >= maxWorkers) {
        const text = `no room for ${name}: ${known.size} workers are known, at most ${maxWorkers}; 0 places are free`
        throw new SeamError('BUSY', text, { worker: name })
      }
      known.set(name, { announcement, expiresNs: clock.nowNs() + expiryMs * 1e6 })
      const replaced =
        before !== undefined && JSON.stringify(before.announcement) !== JSON.stringify(announcement)
      return { name, expiresInMs: expiryMs, replaced }
    },
    withdraw(name) {
      forgetExpired()
      return known.delete(name)
    },
    workers() {
      forgetExpired()
      const nowNs = clock.nowNs()
      return [...known.values()].map(({ announcement, expiresNs }) => ({
        announcement,
        expiresInMs: Math.ceil((expiresNs - nowNs) / 1e6),
      }))
    },
  }
}

function within(name: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value
  throw new SeamError('USAGE', `${name} is ${value}, a whole number from 1 to ${most} is due`)
}
