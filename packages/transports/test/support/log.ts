import type { Accept, Connection, SeamError } from '@seamline/core'

/** One end of a connection that counts and keeps what happens to it. */
export interface Log {
  readonly accept: Accept
  readonly closes: Array<SeamError | undefined>
  connection: Connection | undefined
  bytes: number
  accepts: number
  /** What was received, as long as it is short. */
  text: string
  onData: ((bytes: Uint8Array) => void) | undefined
  onDrain: (() => void) | undefined
}

export function createLog(): Log {
  const buffer = new Uint8Array(1 << 16)
  const log: Log = {
    closes: [],
    connection: undefined,
    bytes: 0,
    accepts: 0,
    text: '',
    onData: undefined,
    onDrain: undefined,
    accept(connection) {
      log.connection = connection
      log.accepts += 1
      return {
        nextBuffer: () => buffer,
        onData(bytes) {
          log.bytes += bytes
          if (log.bytes < 1000) log.text += Buffer.from(buffer.subarray(0, bytes)).toString()
          log.onData?.(buffer.subarray(0, bytes))
        },
        onDrain: () => log.onDrain?.(),
        onClose: (reason) => void log.closes.push(reason),
      }
    },
  }
  return log
}

/** `[host, port]` of an address. */
export function hostAndPort(address: string): { host: string; port: number } {
  const match = /^\[?(.*?)\]?:(\d+)(#|$)/.exec(address)
  return { host: match?.[1] ?? '', port: Number(match?.[2]) }
}
