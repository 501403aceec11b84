import type { PipelineLink } from '@seamline/runtime'
import { expect, it } from 'vitest'
import { parseSockets, wireBytes } from '../src/socket-counters.ts'

// Lines as `ss -tinOH` of iproute2 6.1 prints them, shortened.
const line = (local: string, peer: string, rest: string) =>
  `0      0               ${local}            ${peer}  cubic wscale:7,7 rto:204 ${rest}`

it('reads the counters of each socket', () => {
  const text = [
    line(
      '127.0.0.1:4100',
      '127.0.0.1:5000',
      'ts mss:32768 bytes_sent:1000 bytes_acked:1001 segs_out:9 segs_in:4',
    ),
    line('[::1]:4100', '[::1]:5001', 'mss:1440 bytes_sent:2000 bytes_retrans:1440 segs_out:3'),
    line('[::ffff:127.0.0.1]:4100', '[::ffff:127.0.0.1]:5002', 'ts segs_out:2'),
    'no socket at all',
    '',
  ].join('\n')
  expect(parseSockets(text)).toEqual([
    { localPort: 4100, peerPort: 5000, bytes: 1000, segments: 9, headerBytes: 52 },
    { localPort: 4100, peerPort: 5001, bytes: 2000, segments: 3, headerBytes: 60 },
    { localPort: 4100, peerPort: 5002, bytes: 0, segments: 2, headerBytes: 52 },
  ])
})

it('takes the socket of the sending stage that sent most, with the headers of its segments', () => {
  const link = { from: 'a', to: 'b', carries: 'hidden rows', transport: 'tcp', address: '127.0.0.1:4100' }
  const links = [{ ...link, carries: 'tokens' }, link, { ...link, transport: 'relay' }] as PipelineLink[]
  const count = (peerPort: number, bytes: number, segments: number) => ({
    ...{ localPort: 4100, peerPort, bytes, segments, headerBytes: 52 },
  })
  const before = [count(5000, 100, 10), count(5001, 0, 1)]
  const after = [count(5000, 5100, 20), count(5001, 90, 3), count(5002, 9e6, 1)]
  expect(wireBytes(links, before, after)).toEqual([5000 + 10 * 52, null])
})
