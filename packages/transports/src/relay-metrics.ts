import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { asBytes, SeamError, type SpanRecorder } from '@seamline/core'
import { isLoopbackHost, parseRelayAddress } from './relay-protocol.ts'

/** Why the relay turned a peer away or cut it off. */
export type DropReason =
  /** The upgrade request was not complete in time, or too many others were under way. */
  | 'handshake'
  /** Over `maxHeaderBytes`. */
  | 'header_bytes'
  /** Not a request of a peer, or data before the answer. */
  | 'request'
  | 'access'
  | 'key'
  | 'mode'
  /** Nobody listens in the room. */
  | 'no_listener'
  /** Another listener has the room. */
  | 'taken'
  | 'rooms'
  | 'peers'
  | 'room_peers'
  /** The listener did not come, or refused. */
  | 'join'
  /** A pair that moved nothing for too long. */
  | 'idle'
  /** A listener without a sign of life. */
  | 'silent'
  /** One side of a pair left without an end. */
  | 'reset'
  | 'message_bytes'
  /** A frame that RFC 6455 forbids, in mode `ws`. */
  | 'frames'
  /** The relay is closing. */
  | 'closing'

export type Drops = Partial<Record<DropReason, number>>

export interface RoomMetrics {
  readonly room: string
  readonly listening: boolean
  /** Joined pairs at present. */
  readonly pairs: number
  /** Connections at present. */
  readonly peers: number
  /** Bytes carried since the room exists. */
  readonly toListenerBytes: number
  readonly toDiallerBytes: number
  /** Bytes read and not yet handed on, over all pairs. */
  readonly queuedBytes: number
  /** Times that a side was made to wait because the other did not take its bytes. */
  readonly stalls: number
  readonly drops: Drops
}

export interface RelayMetrics {
  readonly rooms: readonly RoomMetrics[]
  /** Connections at present whose upgrade was granted. */
  readonly peers: number
  /** Connections at present whose upgrade request is not complete. */
  readonly handshakes: number
  /** Since the relay exists, those of rooms included. */
  readonly drops: Drops
  readonly joins: number
  readonly toListenerBytes: number
  readonly toDiallerBytes: number
}

/** Counts one drop. */
export function countDrop(drops: Drops, reason: DropReason): void {
  drops[reason] = (drops[reason] ?? 0) + 1
}

/** Text format 0.0.4 of Prometheus. Names of rooms need no escapes. */
export function formatMetrics(metrics: RelayMetrics): string {
  const { rooms } = metrics
  const lines: string[] = []
  const family = (
    name: string,
    type: 'counter' | 'gauge',
    help: string,
    samples: Array<[string, number]>,
  ) => {
    lines.push(`# HELP seamline_relay_${name} ${help}`, `# TYPE seamline_relay_${name} ${type}`)
    for (const [labels, value] of samples) lines.push(`seamline_relay_${name}${labels} ${value}`)
  }
  const single = (value: number): Array<[string, number]> => [['', value]]
  const each = (value: (room: RoomMetrics) => number) =>
    rooms.map((room): [string, number] => [`{room="${room.room}"}`, value(room)])
  family('rooms', 'gauge', 'Rooms that exist.', single(rooms.length))
  family('peers', 'gauge', 'Connections whose upgrade was granted.', single(metrics.peers))
  family('handshakes', 'gauge', 'Connections whose upgrade is not complete.', single(metrics.handshakes))
  family('joins_total', 'counter', 'Pairs joined.', single(metrics.joins))
  family('bytes_total', 'counter', 'Bytes carried.', [
    ['{direction="to_listener"}', metrics.toListenerBytes],
    ['{direction="to_dialler"}', metrics.toDiallerBytes],
  ])
  family(
    'drops_total',
    'counter',
    'Peers turned away or cut off.',
    Object.entries(metrics.drops).map(([reason, count]) => [`{reason="${reason}"}`, count]),
  )
  family(
    'room_listening',
    'gauge',
    'Whether the room has a listener.',
    each((room) => Number(room.listening)),
  )
  family(
    'room_pairs',
    'gauge',
    'Joined pairs.',
    each((room) => room.pairs),
  )
  family(
    'room_peers',
    'gauge',
    'Connections in the room.',
    each((room) => room.peers),
  )
  family(
    'room_queued_bytes',
    'gauge',
    'Bytes read and not yet handed on.',
    each((room) => room.queuedBytes),
  )
  family(
    'room_stalls_total',
    'counter',
    'Times a side had to wait for the other.',
    each((room) => room.stalls),
  )
  family(
    'room_bytes_total',
    'counter',
    'Bytes carried in the room.',
    rooms.flatMap(
      ({ room, toListenerBytes, toDiallerBytes }): Array<[string, number]> => [
        [`{room="${room}",direction="to_listener"}`, toListenerBytes],
        [`{room="${room}",direction="to_dialler"}`, toDiallerBytes],
      ],
    ),
  )
  family(
    'room_drops_total',
    'counter',
    'Peers turned away or cut off in the room.',
    rooms.flatMap(({ room, drops }) =>
      Object.entries(drops).map(([reason, count]): [string, number] => [
        `{room="${room}",reason="${reason}"}`,
        count,
      ]),
    ),
  )
  return `${lines.join('\n')}\n`
}

export interface MetricsEndpoint {
  readonly address: string
  close(): void
}

/**
 * Serves `GET /metrics` on loopback, and with a recorder `GET /spans`, which empties it. Throws `USAGE` for another address,
 * or one that is taken.
 */
export async function serveMetrics(
  address: string,
  metrics: () => RelayMetrics,
  recorder?: SpanRecorder,
): Promise<MetricsEndpoint> {
  const { host, port } = parseRelayAddress(address)
  if (!isLoopbackHost(host)) {
    throw new SeamError('USAGE', `metrics at ${address}: they name rooms and need a loopback address`)
  }
  const server = createServer({ requestTimeout: 5000, maxHeaderSize: 4096 }, (request, response) => {
    if (recorder !== undefined && request.method === 'GET' && request.url === '/spans') {
      const { dropped } = recorder
      response.writeHead(200, {
        'Content-Type': 'application/octet-stream',
        'X-Dropped-Spans': dropped,
        Connection: 'close',
      })
      response.end(asBytes(recorder.drain()))
      return
    }
    const found = request.method === 'GET' && request.url === '/metrics'
    response.writeHead(found ? 200 : 404, {
      'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      Connection: 'close',
    })
    response.end(found ? formatMetrics(metrics()) : 'GET /metrics\n')
  })
  server.maxConnections = 16
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(new SeamError('USAGE', `metrics at ${address}: ${error.message}`, { cause: error }))
    })
    server.listen(port, host, () => {
      const bound = server.address() as AddressInfo
      const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
      resolve({
        address: `${name}:${bound.port}`,
        close() {
          server.close()
          server.closeAllConnections()
        },
      })
    })
  })
}
