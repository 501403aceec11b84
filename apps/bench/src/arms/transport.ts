import { type BenchCase, benchPeer, exchangeCases, transportCases } from '@seamline/conformance'
import { memory } from '@seamline/transports/memory'
import { createIdentity, createSecret, type Security } from '@seamline/transports/security'
import { controls, type NamedControl } from '../controls/index.ts'
import type { PeerJob, Peers } from '../peers.ts'
import { type Dropped, type Entry, entriesOf } from '../selection.ts'
import { createTransport, type TransportSettings } from '../transports.ts'
import { fairnessCases } from './fairness.ts'
import { whyMissing } from './installed.ts'

const loopback = '127.0.0.1:0'
const smallBytes = 16 << 10

/** Direct transports, transports through a relay, and what other programs use; the far end of each in a process of its own. */
export function transportEntries(
  peers: Peers,
  missing: (needs: string | undefined) => string | undefined = whyMissing,
): { readonly entries: readonly Entry[]; readonly dropped: readonly Dropped[] } {
  const security = once<Security>(() => ({ identity: createIdentity(), secret: createSecret() }))
  const relay = once(async () => `${(await peers.start({ kind: 'relay' })).address}/`)
  const dropped: Dropped[] = []

  function direct(name: string, base: 'tcp' | 'ws', secure: boolean): BenchCase[] {
    const settings = () => ({ name: base, listenAt: loopback, ...(secure && { security: security() }) })
    return transportCases(fixture(peers, name, settings))
  }
  const relayed = (mode: 'raw' | 'ws', secure: boolean) => async (): Promise<TransportSettings> => ({
    name: 'relay',
    mode,
    listenAt: await relay(),
    ...(secure && { security: security() }),
  })

  const cases = [...controls].flatMap(([name, control]) => {
    const reason = missing(control.needs)
    if (reason === undefined) return controlCases(peers, name, control)
    dropped.push({ arm: `control/${name}`, reason })
    return []
  })
  cases.push(
    ...direct('tcp', 'tcp', false),
    ...direct('tcp+tls', 'tcp', true),
    ...direct('ws', 'ws', false),
    ...direct('wss', 'ws', true),
    ...memoryCases(),
  )
  const relayCases = (['raw', 'ws'] as const).flatMap((mode) =>
    [false, true].flatMap((secure) =>
      transportCases(fixture(peers, `${mode}${secure ? '+tls' : ''}`, relayed(mode, secure)), {
        group: 'relay',
        echoOnly: true,
      }),
    ),
  )
  // Direct or through a relay: what does the same with the same size runs side by side.
  const block = (path: readonly string[]) => `transport ${path.slice(-2).join('/')}`
  const entries = [
    ...entriesOf('transport', cases, block),
    ...entriesOf('relay', relayCases, block),
    ...entriesOf('relay', fairnessCases(peers, relayed('raw', false), smallBytes), () => 'fairness'),
  ]
  return { entries, dropped }
}

/** A transport whose far end starts with the first case that needs it. */
function fixture(
  peers: Peers,
  name: string,
  settings: () => TransportSettings | Promise<TransportSettings>,
): Parameters<typeof transportCases>[0] {
  const ready = once(async () => {
    const made = await settings()
    const peer = await peers.start({ kind: 'transport', settings: made })
    return { transport: createTransport(made), address: peer.address }
  })
  return {
    name,
    start: async () => (await ready()).address,
    transport: async () => (await ready()).transport,
  }
}

function memoryCases(): BenchCase[] {
  const transport = memory()
  const start = once(async () => (await transport.listen('bench:0', benchPeer)).address)
  return transportCases({ name: 'memory', transport: async () => transport, start })
}

function controlCases(peers: Peers, name: string, { control, single }: NamedControl): BenchCase[] {
  const job: PeerJob = { kind: 'control', name }
  const shared = once(() => peers.start(job))
  return exchangeCases(
    `control/${name}`,
    async (shape, onResponse) => {
      const peer = await (single === true ? peers.start(job) : shared())
      const exchange = await control.open(peer.address, shape, onResponse)
      if (single !== true) return exchange
      return {
        run: exchange.run,
        async close() {
          await exchange.close()
          await peer.stop()
        },
      }
    },
    { echoOnly: true },
  )
}

/** Calls `make` the first time only. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
