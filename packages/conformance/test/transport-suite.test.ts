import { describe, expect, it } from 'vitest'
import { type KeepAlive, type TransportSuiteOptions, transportSoak, transportSuite } from '../src/index.ts'
import { collect } from './collect.ts'
import { type PlainTransport, plainTransport, type TransportFault } from './plain-transport.ts'

/** Options of the suite over plain transports with `fault`. */
function over(fault?: TransportFault) {
  let latest: PlainTransport | undefined
  const create = () => {
    latest = plainTransport(fault)
    return { transport: latest, address: 'stage:0' }
  }
  const keepAlive: KeepAlive = {
    ms: plainTransport().keepAliveMs,
    through: async (address) => ({ address, stall: () => latest?.stall(address), async close() {} }),
  }
  return { create, keepAlive } satisfies Partial<TransportSuiteOptions>
}

transportSuite({ describe, it, ...over() })
transportSoak({ describe, it, ...over(), totalBytes: 2 ** 28, sendBytes: 2 ** 26 + 1 })

const drained = 'send returns false, onDrain follows once, and every byte arrives; four times over'
const released = 'calls released once for each send, in order, and memory may change from then on'
const paused = 'pause stops delivery and stalls the sender; resume delivers everything'
const inside = 'nothing is delivered after an abort from inside onData, accepting side'

const faults: Record<Exclude<TransportFault, SoakFault>, string> = {
  'drops a byte at drain': drained,
  'never drains': drained,
  'no backpressure': paused,
  'delivers while paused': paused,
  'releases never': released,
  'releases early': released,
  'releases twice': released,
  'releases out of order': released,
  'closes twice': 'both sides may close at once, and twice',
  'takes sends after close': 'send throws CLOSED after close, after abort and after onClose',
  'loses what it has at the end of the peer':
    'one side closes and still receives the 8 MiB that the other goes on to send',
  'loses what is queued on close': 'close delivers 8 MiB that are queued, then both sides end in good order',
  'leaks a handle for each dial': '20 cycles of dial, send and close leave nothing open',
  'delivers after an abort': inside,
  'cuts sends above 4 MiB': `carries one send of ${(1 << 22) + 1} B`,
  'ignores the signal':
    'a dial under a signal that was aborted before or is aborted meanwhile throws ABORTED',
  'no statement about authentication': 'states its id and whether it authenticates',
  'never notices silence': 'a peer whose packets just stop is given up on both sides',
  'gives up an idle peer': 'a connection that is idle for twice the keep-alive time stays open',
}

type SoakFault = 'keeps what it carried' | 'refuses a large send with no code'
const soakFaults: Record<SoakFault, string> = {
  'keeps what it carried': `streams ${2 ** 28} B through one connection to a slow reader in flat memory`,
  'refuses a large send with no code': `carries one send of ${2 ** 26 + 1} B, or refuses it with LIMIT and goes on`,
}

describe('the transport suite fails a transport with the fault', () => {
  for (const [fault, name] of Object.entries(faults)) {
    it(fault, async () => {
      const options = over(fault as TransportFault)
      const cases = collect((runner) =>
        transportSuite({ ...runner, ...options, cycles: 20, deadlineMs: 600 }),
      )
      expect([...cases.keys()]).toContain(name)
      await expect(cases.get(name)?.()).rejects.toThrow()
    })
  }
  for (const [fault, name] of Object.entries(soakFaults)) {
    it(fault, async () => {
      const options = { ...over(fault as TransportFault), totalBytes: 2 ** 28, sendBytes: 2 ** 26 + 1 }
      const cases = collect((runner) => transportSoak({ ...runner, ...options }))
      expect([...cases.keys()]).toContain(name)
      await expect(cases.get(name)?.()).rejects.toThrow()
    })
  }
})
