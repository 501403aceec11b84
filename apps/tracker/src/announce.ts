import type { HelloMessage } from '@seamline/core'
import { SeamError } from '@seamline/core'
import { type ClientOptions, trackerClient } from './client.ts'

export interface AnnounceOptions extends ClientOptions {
  /** A renewal failed, with the reason; it is tried again until {@link Announced.close}. Called with undefined when one succeeds again. */
  readonly onTrouble?: (reason: SeamError | undefined) => void
}

export interface Announced {
  /** Stops renewing and withdraws the worker, as far as the tracker can be reached. Idempotent. */
  close(): Promise<void>
}

/** Renewals in the time until an announcement expires: two may be lost. */
const RENEWALS = 3
const RETRY_MS = 1000

/**
 * Announces a worker and renews that until closed; keeps no process alive. Rejects when the tracker cannot be reached or refuses
 * the first announcement; later a tracker that comes back learns of the worker again by itself.
 */
export async function announceTo(
  url: string,
  worker: { readonly announcement: HelloMessage },
  options: AnnounceOptions = {},
): Promise<Announced> {
  const { announcement } = worker
  const client = trackerClient(url, options)
  let renewing: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let troubled = false
  let closing: Promise<void> | undefined

  function renewAfter(ms: number): void {
    timer = setTimeout(() => {
      renewing = renew()
    }, ms)
    timer.unref()
  }

  async function renew(): Promise<void> {
    try {
      const { expiresInMs } = await client.announce(announcement)
      if (troubled) options.onTrouble?.(undefined)
      troubled = false
      if (closing === undefined) renewAfter(expiresInMs / RENEWALS)
    } catch (error) {
      if (closing !== undefined) return
      troubled = true
      options.onTrouble?.(SeamError.from(error, 'RESET'))
      renewAfter(RETRY_MS)
    }
  }

  const { expiresInMs } = await client.announce(announcement)
  renewAfter(expiresInMs / RENEWALS)
  return {
    close() {
      closing ??= (async () => {
        clearTimeout(timer)
        // A renewal under way must not come after the withdrawal.
        await renewing
        await client.withdraw(announcement.name).catch(() => {}) // it expires by itself
      })()
      return closing
    },
  }
}
