import { relay } from '@seamline/transports/relay'
import { createRelay } from '@seamline/transports/relay-server'
import { createIdentity, createSecret } from '@seamline/transports/security'
import { tcp } from '@seamline/transports/tcp'
import { describe, expect, it } from 'vitest'
import { blackHole } from './support/silent.ts'
import { GREEDY, mapOf, PROMPT, read, stagesTo, unsplit, withFakes } from './support/workers.ts'

const request = { prompt: PROMPT, maxTokens: 12, sampler: GREEDY, stopTokens: [] }

/** Where nobody listens: a dial is refused. */
async function refusing() {
  return { address: '127.0.0.1:1', close: async () => {} }
}

describe.each([
  ['refuses', refusing],
  ['swallows dials', blackHole],
])('a direct address that %s', (_, create) => {
  it.each([false, true])('makes everybody fall back to the relay (TLS: %s)', async (isSecure) => {
    const server = await createRelay({ address: '127.0.0.1:0' })
    const direct = await create()
    const security = { identity: createIdentity(), secret: createSecret() }
    const through = relay(isSecure ? { security } : {})
    const plain = tcp()
    const stages = stagesTo([2, 4, 6]).map((stage) => ({
      ...stage,
      transports: [plain, through],
      listen: [
        { transport: 'relay', address: `${server.address}/` },
        { transport: 'tcp', address: '127.0.0.1:0' },
      ],
    }))
    try {
      await withFakes(stages, async ({ workers, tracker }) => {
        const mine = tracker({ transports: mapOf(plain, through) })
        for (const { announcement } of workers) {
          const unreachable = { transport: 'tcp', address: direct.address }
          mine.announce({ ...announcement, addresses: [announcement.addresses[0]!, unreachable] })
        }
        const plan = mine.plan()
        for (const { addresses } of [...plan.stages, ...plan.links]) {
          expect(addresses.map(({ transport }) => transport)).toEqual(['tcp', 'relay'])
        }
        const pipeline = await mine.connect(plan, { livenessMs: 400 })
        const rooms = workers.map(({ addresses }) => addresses[0]!)
        expect(pipeline.stages.map(({ transport, address }) => ({ transport, address }))).toEqual(rooms)
        expect(pipeline.links.map(({ transport, address }) => ({ transport, address }))).toEqual(rooms)
        expect(await read(pipeline.generate(request))).toEqual(await unsplit(PROMPT, 12))
        await pipeline.close()
      })
    } finally {
      await direct.close()
      await server.close({ timeoutMs: 100 })
    }
  })
})

describe('a direct address that answers', () => {
  it('leaves the relay alone', async () => {
    const server = await createRelay({ address: '127.0.0.1:0' })
    const [plain, through] = [tcp(), relay()]
    const stages = stagesTo([3, 6]).map((stage) => ({
      ...stage,
      transports: [plain, through],
      listen: [
        { transport: 'relay', address: `${server.address}/` },
        { transport: 'tcp', address: '127.0.0.1:0' },
      ],
    }))
    try {
      await withFakes(stages, async ({ tracker }) => {
        const mine = tracker({ transports: mapOf(plain, through) })
        const pipeline = await mine.connect(mine.plan(), { livenessMs: 1000 })
        expect([...pipeline.stages, ...pipeline.links].map(({ transport }) => transport)).toEqual([
          ...['tcp', 'tcp', 'tcp', 'tcp'],
        ])
        expect(await read(pipeline.generate(request))).toEqual(await unsplit(PROMPT, 12))
        await pipeline.close()
      })
    } finally {
      await server.close({ timeoutMs: 100 })
    }
  })
})
