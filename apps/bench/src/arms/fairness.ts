import { type BenchCase, sizeName, transportCases } from '@seamline/conformance'
import type { Traffic } from '../neighbour.ts'
import type { Peer, Peers } from '../peers.ts'
import { createTransport, type TransportSettings } from '../transports.ts'

/**
 * Round trips of a quiet room of one relay: alone, while another room carries as much as it can, and while another room's
 * reader has stopped. Four processes beside this one: the relay, and both far ends and the dialling end of the other room.
 */
export function fairnessCases(
  peers: Peers,
  settings: () => Promise<TransportSettings>,
  bytes: number,
): BenchCase[] {
  let open:
    | Promise<{ readonly quiet: BenchCase; readonly other: Peer; readonly started: readonly Peer[] }>
    | undefined
  let users = 0
  let now: Traffic = 'idle'

  async function start() {
    const made = await settings()
    const [near, far] = await Promise.all([
      peers.start({ kind: 'transport', settings: made }),
      peers.start({ kind: 'transport', settings: made }),
    ])
    const other = await peers.start({ kind: 'neighbour', settings: made, address: far.address })
    const cases = transportCases(
      { name: 'quiet', transport: async () => createTransport(made), start: async () => near.address },
      { sizes: [bytes], echoOnly: true },
    )
    const quiet = cases.find(({ id }) => id.includes('/rtt/'))!
    await quiet.setup?.()
    now = 'idle'
    return { quiet, other, started: [near, far, other] }
  }

  /** Does something in the quiet room while the other one carries `traffic`. */
  async function beside(traffic: Traffic, work: (quiet: BenchCase) => void | Promise<void>): Promise<void> {
    const { quiet, other } = await open!
    if (now !== traffic) {
      await other.tell(traffic)
      now = traffic
    }
    await work(quiet)
  }

  const names = { idle: 'alone', flood: 'beside-flood', stall: 'beside-stall' }
  return (['idle', 'flood', 'stall'] as const).map((traffic) => ({
    id: `relay/raw/${names[traffic]}/${sizeName(bytes)}`,
    bytes: 2 * bytes,
    async setup() {
      users += 1
      open ??= start()
      await open
    },
    run: () => beside(traffic, (quiet) => quiet.run()),
    validate: () => beside(traffic, (quiet) => quiet.validate()),
    async teardown() {
      users -= 1
      if (users > 0 || open === undefined) return
      const { quiet, started } = await open
      open = undefined
      await quiet.teardown?.()
      await Promise.all(started.map((peer) => peer.stop()))
    },
  }))
}
