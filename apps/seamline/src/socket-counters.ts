import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { PipelineLink } from '@seamline/runtime'

/** What the kernel has counted of one TCP socket's sending so far. */
export interface SocketCount {
  readonly localPort: number
  readonly peerPort: number
  /** Of the stream, again where it was sent again. */
  readonly bytes: number
  readonly segments: number
  /** In front of each segment: IP, TCP and the time stamps option. */
  readonly headerBytes: number
}

const limitMs = 2000
const mostOutput = 16 << 20

/** Reads the kernel's counters of this host's TCP sockets (`ss`, Linux). Undefined where that is not to be had. */
export async function socketCounts(): Promise<readonly SocketCount[] | undefined> {
  try {
    const options = { timeout: limitMs, maxBuffer: mostOutput }
    return parseSockets((await promisify(execFile)('ss', ['-tinOH', 'state', 'established'], options)).stdout)
  } catch {
    return undefined
  }
}

/** Reads the output of `ss -tinOH`: one socket a line. Lines without counters are passed over. */
export function parseSockets(text: string): SocketCount[] {
  return text.split('\n').flatMap((line) => {
    const [, local, peer] = /^\S*\s*\d+\s+\d+\s+(\S+)\s+(\S+)/.exec(line) ?? []
    const count = (name: string) => Number(new RegExp(`\\b${name}:(\\d+)`).exec(line)?.[1] ?? Number.NaN)
    const [sent, segments] = [count('bytes_sent'), count('segs_out')]
    if (local === undefined || peer === undefined || !Number.isFinite(segments)) return []
    const ip = local.startsWith('[') && !local.startsWith('[::ffff:') ? 40 : 20
    const stamps = /\bts\b/.test(line) ? 12 : 0
    return {
      ...{ localPort: portOf(local), peerPort: portOf(peer), segments },
      // A socket that has sent nothing says nothing of bytes.
      bytes: Number.isFinite(sent) ? sent : 0,
      headerBytes: ip + 20 + stamps,
    }
  })
}

/**
 * What each link for hidden rows put on the wire between two readings: of the sockets that the sending stage accepted, the one that sent
 * most. Null for a link that is not direct.
 */
export function wireBytes(
  links: readonly PipelineLink[],
  before: readonly SocketCount[],
  after: readonly SocketCount[],
): readonly (number | null)[] {
  return links
    .filter(({ carries }) => carries === 'hidden rows')
    .map(({ transport, address }) => {
      const port = transport === 'relay' ? Number.NaN : portOf(address.split(/[/#]/)[0]!)
      const sent = after.flatMap((now) => {
        const then = before.find((each) => each.localPort === now.localPort && each.peerPort === now.peerPort)
        if (now.localPort !== port || then === undefined) return []
        return now.bytes - then.bytes + (now.segments - then.segments) * now.headerBytes
      })
      return sent.length === 0 ? null : Math.max(...sent)
    })
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1))
}
