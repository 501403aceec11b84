import type { RatioSpec } from './ratios.ts'

const sizes = ['16KiB', '256KiB', '8MiB'] as const
type PerSize = readonly [at16KiB: number, at256KiB: number, at8MiB: number]

/** Candidate and control are the ids without the size behind them. */
function atMost(candidate: string, control: string, values: PerSize): RatioSpec[] {
  return sizes.map((size, i) => ({
    candidate: `${candidate}/${size}`,
    control: `${control}/${size}`,
    of: 'time',
    target: { relation: '<=', value: values[i]! },
  }))
}

function speedAtLeast(candidate: string, control: string, value: number): RatioSpec {
  return { candidate, control, of: 'speed', target: { relation: '>=', value } }
}

function shown(candidate: string, control: string): RatioSpec[] {
  return sizes.map((size) => ({
    candidate: `${candidate}/${size}`,
    control: `${control}/${size}`,
    of: 'time',
  }))
}

const codec: readonly RatioSpec[] = (
  [
    ['f16/encode', 0.5],
    ['f16/decode', 0.5],
    ['bf16/encode', 0.5],
    ['bf16/decode', 0.5],
    ['q8_0/encode', 0.35],
    ['q8_0/decode', 0.25],
  ] as const
).flatMap(([path, value]) =>
  sizes.map((size): RatioSpec => {
    const pair = { candidate: `codec/${path}/${size}`, control: `control/memcpy/${size}` }
    return size === '8MiB' ? speedAtLeast(pair.candidate, pair.control, value) : { ...pair, of: 'speed' }
  }),
)

const wholeMessages: readonly RatioSpec[] = [
  'protobuf',
  'msgpack',
  'protobuf+checksum',
  'msgpack+checksum',
].flatMap((name) =>
  sizes.map((size) => {
    const value = name.includes('+') ? undefined : { '16KiB': 0.15, '256KiB': undefined, '8MiB': 0.01 }[size]
    return {
      candidate: `framing/${name}/encode+decode/${size}`,
      control: `control/protobufjs/encode+decode/${size}`,
      of: 'time' as const,
      ...(value !== undefined && { target: { relation: '<=' as const, value } }),
    }
  }),
)

const framing: readonly RatioSpec[] = [
  ...wholeMessages,
  ...shown('framing/protobuf/encode+decode', 'control/bufbuild/encode+decode'),
]

const transport: readonly RatioSpec[] = [
  ...atMost('transport/tcp/rtt', 'control/net-pooled/rtt', [1.15, 1.15, 1.15]),
  {
    candidate: 'control/net-pooled/rtt/8MiB',
    control: 'control/net-concat/rtt/8MiB',
    of: 'time',
    target: { relation: '<=', value: 0.4 },
  },
  ...atMost('transport/tcp/rtt', 'control/grpc-js/rtt', [0.6, 0.25, 0.2]),
  ...shown('transport/tcp/rtt', 'control/net-public/rtt'),
  ...shown('transport/tcp/rtt', 'control/zeromq/rtt'),
  ...shown('transport/ws/rtt', 'control/ws-messages/rtt'),
  speedAtLeast('transport/tcp/one-way/8MiB', 'control/net-pooled/one-way/8MiB', 0.9),
  ...['rtt', 'to-dialler', 'to-listener'].flatMap((way) =>
    atMost(`transport/ws/${way}`, `transport/tcp/${way}`, [2.5, 2.2, 1.3]),
  ),
  ...atMost('transport/tcp+tls/rtt', 'transport/tcp/rtt', [2, 4, 4]),
]

const relay: readonly RatioSpec[] = [
  ...(
    [
      ['raw', 'tcp'],
      ['raw+tls', 'tcp+tls'],
      ['ws', 'ws'],
      ['ws+tls', 'wss'],
    ] as const
  ).flatMap(([through, direct]) =>
    atMost(`relay/${through}/rtt`, `transport/${direct}/rtt`, [2.5, 2.5, 2.5]),
  ),
  ...['beside-flood', 'beside-stall'].map(
    (beside): RatioSpec => ({
      candidate: `relay/raw/${beside}/16KiB`,
      control: 'relay/raw/alone/16KiB',
      of: 'time',
      statistic: 'p99',
      target: { relation: '<=', value: 3 },
    }),
  ),
]

/** Every comparison that a run prints, with the target of those that have one. */
export const ratioSpecs: readonly RatioSpec[] = [...codec, ...framing, ...transport, ...relay]
