import { execFileSync } from 'node:child_process'

/** What the kernel has sent so far over TCP connections of this host that begin or end at some ports. */
export interface WireCount {
  /** Payload of TCP, retransmissions among it: with the framing and the encryption of whatever is above. */
  readonly bytes: number
  readonly segments: number
}

/** IPv4 and TCP with timestamps: what a segment carries before its payload, without the link below. */
export const SEGMENT_HEADER_BYTES = 52

/** Undefined where `ss` of iproute2 is missing or says nothing. */
export function countWire(ports: ReadonlySet<number>): WireCount | undefined {
  try {
    const text = execFileSync('ss', ['-tinOH'], {
      encoding: 'utf8',
      timeout: 2000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return parseCounters(text, ports)
  } catch {
    return undefined
  }
}

/** Adds up the lines of `ss -tinOH` whose local or remote port is one of `ports`. */
export function parseCounters(text: string, ports: ReadonlySet<number>): WireCount | undefined {
  let bytes = 0
  let segments = 0
  let found = false
  for (const line of text.split('\n')) {
    const ends = [...line.matchAll(/:(\d+)\s/g)].slice(0, 2).map(([, port]) => Number(port))
    if (!ends.some((port) => ports.has(port))) continue
    found = true
    bytes += Number(/\bbytes_sent:(\d+)/.exec(line)?.[1] ?? 0)
    segments += Number(/\bsegs_out:(\d+)/.exec(line)?.[1] ?? 0)
  }
  return found ? { bytes, segments } : undefined
}
