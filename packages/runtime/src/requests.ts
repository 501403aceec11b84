import type { Message, SeamError } from '@seamline/core'
import { type Deferred, deferred, within } from './deferred.ts'
import type { Link } from './link.ts'

export interface Answer {
  readonly message: Message
  readonly payload: Uint8Array
}

/** Where a request goes. */
export interface Peer {
  readonly name: string
  readonly link: Link
}

/** Requests that wait for their answers, each with a deadline. */
export interface Requests {
  /** Sends what `message` makes of a fresh request number. Rejects with the peer's refusal, or `TIMEOUT` naming it. */
  ask(peer: Peer, message: (request: number) => Message, what: string, payload?: Uint8Array): Promise<Answer>
  /** True while `request` waits: only then may its answer have a payload. */
  has(request: number): boolean
  answer(request: number, message: Message, payload: Uint8Array): void
  refuse(request: number, error: SeamError): void
  /** Rejects all that wait and all that will be asked. */
  fail(reason: SeamError): void
}

export function requestTable(timeoutMs: number): Requests {
  const waiting = new Map<number, Deferred<Answer>>()
  let last = 0
  let failure: SeamError | undefined
  return {
    async ask({ name, link }, message, what, payload) {
      if (failure !== undefined) throw failure
      const request = ++last
      const answer = deferred<Answer>()
      waiting.set(request, answer)
      link.send(message(request), payload)
      try {
        return await within(answer.promise, timeoutMs, `${what} on ${name}`, name)
      } finally {
        waiting.delete(request)
      }
    },
    has: (request) => waiting.has(request),
    answer(request, message, payload) {
      waiting.get(request)?.resolve({ message, payload })
    },
    refuse(request, error) {
      waiting.get(request)?.reject(error)
    },
    fail(reason) {
      failure = reason
      for (const answer of waiting.values()) answer.reject(reason)
    },
  }
}

/** Waits for all, then throws the first rejection: nobody is left to answer into the void. */
export async function settleAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(promises)
  const rejected = results.find((result) => result.status === 'rejected')
  if (rejected !== undefined) throw rejected.reason
  return results.map((result) => (result as PromiseFulfilledResult<T>).value)
}
