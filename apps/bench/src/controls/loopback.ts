import { once } from 'node:events'
import type { Server } from 'node:net'

/** Binds `server` to loopback at a free port. */
export async function listening<T extends Server>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

export function addressOf(server: Server): string {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new TypeError('a TCP server has an address')
  return `127.0.0.1:${bound.port}`
}

export function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1))
}
