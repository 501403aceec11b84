import { SeamError, type Transport, type TransportAddress } from '@seamline/core'

/** Tried with the next address: nobody answered at this one, or this side has no such transport, or not the settings it needs. */
const UNREACHABLE: readonly string[] = ['RESET', 'TIMEOUT', 'UNSUPPORTED', 'USAGE']

/**
 * Runs `dial` on one address after the other until one can be reached; a refusal by who answers is final. Rejects with what went
 * wrong at each address, under the code of the last.
 */
export async function reach<T>(
  transports: ReadonlyMap<string, Transport>,
  addresses: readonly TransportAddress[],
  dial: (transport: Transport, at: TransportAddress) => Promise<T>,
): Promise<{ readonly reached: T; readonly at: TransportAddress }> {
  const failures: SeamError[] = []
  for (const at of addresses) {
    try {
      const transport = transports.get(at.transport)
      if (transport === undefined) {
        const known = [...transports.keys()].join(', ')
        throw new SeamError('UNSUPPORTED', `no transport ${at.transport} here, only ${known}`)
      }
      return { reached: await dial(transport, at), at }
    } catch (error) {
      const failure = SeamError.from(error, 'WORKER')
      if (!UNREACHABLE.includes(failure.code)) throw failure
      failures.push(failure)
    }
  }
  const last = failures.at(-1)
  if (last === undefined) throw new SeamError('USAGE', 'no address to dial')
  if (failures.length === 1) throw last
  const tried = failures.map(({ message }, i) => `${addresses[i]!.transport}: ${message}`)
  throw new SeamError(last.code, tried.join('; '), {
    cause: last,
    ...(last.worker === undefined ? {} : { worker: last.worker }),
  })
}
