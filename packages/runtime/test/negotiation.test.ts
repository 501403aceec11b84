import { f32 } from '@seamline/codecs/f32'
import { type CodecFactory, type FramingFactory, SeamError, type Transport } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { memory } from '@seamline/transports/memory'
import { tcp } from '@seamline/transports/tcp'
import { describe, expect, it } from 'vitest'
import { connectPipeline } from '../src/index.ts'
import { reach } from '../src/reach.ts'
import { GREEDY, mapOf, prompt, read, startWorkers, unsplit, type Workers, withCluster } from './support.ts'

const request = { prompt: prompt(70), maxTokens: 12, sampler: GREEDY, stopTokens: [] }

/** `codec` under another name. */
const renamed =
  (id: string, codec: CodecFactory): CodecFactory =>
  (options) => ({ ...codec(options), id })
const mapped = (...makes: CodecFactory[]) => new Map(makes.map((make) => [make().id, make]))

/** Protobuf under another name and other protocol ids. */
const speaking =
  (id: string): FramingFactory =>
  (options) => ({ ...protobuf(options), id, protocolIds: [id.repeat(64).slice(0, 64)] })

/** Says that it rounds, as far as negotiation goes. */
const rough: CodecFactory = (options) => ({ ...f32(options), id: 'rough', lossy: true })
const f32a = renamed('f32a', f32)
const f32b = renamed('f32b', f32)

describe('the codec of a link', () => {
  it('is the first in the order of the receiver that the sender has too', async () => {
    const stageCodecs = [mapped(f32, f32a, f32b), mapped(f32b, f32a, f32), mapped(f32a, f32b)]
    await withCluster({ ends: [2, 4, 6], stageCodecs }, async ({ pipeline }) => {
      const hidden = pipeline.links.filter(({ carries }) => carries === 'hidden rows')
      expect(hidden.map(({ from, to, codec }) => [from, to, codec])).toEqual([
        ['worker-0', 'worker-1', 'f32b'],
        ['worker-1', 'worker-2', 'f32a'],
      ])
      expect(await read(pipeline.generate(request))).toEqual(await unsplit(request.prompt, 12))
    })
  })

  it('is lossy only when asked for by name', async () => {
    const codecs = mapped(rough, f32)
    await withCluster({ ends: [3, 6], codecs }, async ({ pipeline }) => {
      expect(pipeline.links[0]!.codec).toBe('f32')
    })
    await withCluster({ ends: [3, 6], codecs, pipeline: { codecs: ['rough'] } }, async ({ pipeline }) => {
      expect(pipeline.links[0]!.codec).toBe('rough')
      expect(await read(pipeline.generate(request))).toHaveLength(12)
    })
    const both = { codecs: ['f32', 'rough'] }
    await withCluster({ ends: [3, 6], codecs, pipeline: both }, async ({ pipeline }) => {
      expect(pipeline.links[0]!.codec).toBe('rough')
    })
  })

  it.each([
    ['shared by nobody', [mapped(f32a), mapped(f32b)], undefined, 'MISMATCH', /f32b.*f32a/],
    [
      'asked for and known to one only',
      [mapped(f32), mapped(f32a)],
      ['f32a'],
      'MISMATCH',
      /f32a.*offers f32/,
    ],
    ['lossy everywhere', [mapped(rough), mapped(rough)], undefined, 'MISMATCH', /would receive *, /],
  ] as const)('%s: refused, naming both sides', async (_, stageCodecs, codecs, code, message) => {
    const cluster = await startWorkers({ ends: [3, 6], stageCodecs })
    const options = { ...cluster.options, ...(codecs === undefined ? {} : { codecs }) }
    const error = expect.objectContaining({ code, message: expect.stringMatching(message) })
    await expect(connectPipeline(options)).rejects.toEqual(error)
    await cluster.close()
  })
})

describe('the framing of a link', () => {
  const [a, b, c] = ['aa', 'bb', 'cc'].map(speaking) as [FramingFactory, FramingFactory, FramingFactory]

  it('is the first in the order of the receiver, which dials, that the sender speaks too', async () => {
    const stageFramings = [
      [a, b, c],
      [c, b],
      [b, a],
    ]
    const pipeline = { framings: [a, b, c] }
    await withCluster({ ends: [2, 4, 6], stageFramings, pipeline }, async ({ pipeline }) => {
      expect(pipeline.stages.map(({ framing }) => framing)).toEqual(['aa', 'bb', 'aa'])
      expect(pipeline.links.map(({ carries, framing }) => [carries, framing])).toEqual([
        ['hidden rows', 'cc'],
        ['hidden rows', 'bb'],
        ['tokens', 'aa'],
      ])
    })
  })

  it('is one that the coordinator allows', async () => {
    const options = { ends: [3, 6], framings: [a, b, c], pipeline: { framings: [c] } }
    await withCluster(options, async ({ pipeline }) => {
      expect(pipeline.links.map(({ framing }) => framing)).toEqual(['cc', 'cc'])
      expect(await read(pipeline.generate(request))).toEqual(await unsplit(request.prompt, 12))
    })
  })
})

describe('addresses', () => {
  const real = tcp()
  const inside = memory()
  const ghost = { transport: 'tcp', address: '127.0.0.1:1' }

  /** Workers on TCP and on memory at once, which announce both. */
  async function twofold(dials?: (index: number) => readonly Transport[]): Promise<Workers> {
    const { createWorker } = await import('../src/index.ts')
    const { fakeExecutor } = await import('../src/fake.ts')
    const executors = [0, 1].map((i) =>
      fakeExecutor({ layerFirst: 3 * i, layerEnd: 3 * i + 3, layerCount: 6 }),
    )
    const workers = await Promise.all(
      executors.map((executor, i) =>
        createWorker({
          ...{ name: `worker-${i}`, executor, framings: [protobuf], codecs: mapped(f32), livenessMs: 1000 },
          transports: mapOf(...(dials?.(i) ?? [real, inside])),
          listen: [
            { transport: 'tcp', address: '127.0.0.1:0' },
            { transport: 'memory', address: `worker-${i}` },
          ],
        }),
      ),
    )
    return {
      ...{ workers, executors, events: [] },
      options: { workers, transports: mapOf(real, inside), framings: [protobuf], livenessMs: 1000 },
      async close() {
        await Promise.all(workers.map((worker) => worker.close()))
        await Promise.all(executors.map((executor) => executor.close()))
      },
    }
  }

  it('are announced with everything else that a tracker needs', async () => {
    const { workers, close } = await twofold()
    const [tcpAddress, memoryAddress] = workers[1]!.addresses
    expect(tcpAddress).toMatchObject({
      transport: 'tcp',
      address: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
    })
    expect(memoryAddress).toEqual({ transport: 'memory', address: 'worker-1' })
    expect(workers[1]!.announcement).toMatchObject({
      ...{ role: 'worker', name: 'worker-1', codecs: ['f32'], framings: ['protobuf'] },
      ...{ transports: ['tcp', 'memory'], addresses: workers[1]!.addresses },
      facts: { layerFirst: 3, layerEnd: 6 },
    })
    await close()
  })

  it('are tried in order, by the coordinator and by neighbours, and what is in use is recorded', async () => {
    const cluster = await twofold()
    const workers = cluster.workers.map(({ name, addresses }) => ({
      name,
      addresses: [ghost, { transport: 'pigeon', address: 'loft' }, addresses[1]!],
    }))
    const pipeline = await connectPipeline({ ...cluster.options, workers })
    expect(pipeline.stages.map(({ transport, address }) => [transport, address])).toEqual([
      ['memory', 'worker-0'],
      ['memory', 'worker-1'],
    ])
    expect(pipeline.links).toEqual([
      {
        ...{ from: 'worker-0', to: 'worker-1', carries: 'hidden rows', codec: 'f32', framing: 'protobuf' },
        ...{ transport: 'memory', address: 'worker-0' },
      },
      {
        ...{ from: 'worker-1', to: 'worker-0', carries: 'tokens', codec: '', framing: 'protobuf' },
        ...{ transport: 'memory', address: 'worker-1' },
      },
    ])
    expect(await read(pipeline.generate(request))).toEqual(await unsplit(request.prompt, 12))
    await pipeline.close()
    await cluster.close()
  })

  it('that only a neighbour cannot dial make this one link fall back', async () => {
    const walled: Transport = { ...real, dial: () => Promise.reject(new SeamError('RESET', 'no route')) }
    const cluster = await twofold((i) => (i === 1 ? [walled, inside] : [real, inside]))
    const pipeline = await connectPipeline(cluster.options)
    expect(pipeline.stages.map(({ transport }) => transport)).toEqual(['tcp', 'tcp'])
    expect(pipeline.links.map(({ transport }) => transport)).toEqual(['memory', 'tcp'])
    expect(await read(pipeline.generate(request))).toEqual(await unsplit(request.prompt, 12))
    await pipeline.close()
    await cluster.close()
  })

  it('that only the coordinator cannot dial stay first for neighbours', async () => {
    const cluster = await twofold()
    const walled: Transport = { ...real, dial: () => Promise.reject(new SeamError('USAGE', 'not from here')) }
    const pipeline = await connectPipeline({ ...cluster.options, transports: mapOf(walled, inside) })
    expect(pipeline.stages.map(({ transport }) => transport)).toEqual(['memory', 'memory'])
    expect(pipeline.links.map(({ transport }) => transport)).toEqual(['tcp', 'tcp'])
    await pipeline.close()
    await cluster.close()
  })

  it('that all fail are named with what went wrong at each', async () => {
    const addresses = [ghost, { transport: 'pigeon', address: 'loft' }]
    const options = { workers: [{ name: 'w', addresses }], transports: mapOf(real), framings: [protobuf] }
    await expect(connectPipeline(options)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(
        /w at 127\.0\.0\.1:1, loft: tcp: nobody listens.*pigeon: no transport pigeon/,
      ),
    })
  })

  it('keep the name that their transport has here, whatever it calls itself', async () => {
    const cluster = await twofold()
    const transports = new Map([['near', { ...inside, id: 'wrapped' }]])
    const workers = cluster.workers.map(({ name, addresses }) => ({
      name,
      addresses: [{ transport: 'near', address: addresses[1]!.address }, addresses[0]!],
    }))
    const pipeline = await connectPipeline({ ...cluster.options, transports, workers })
    expect(pipeline.stages.map(({ transport }) => transport)).toEqual(['near', 'near'])
    // The workers know nothing of that name and fall back.
    expect(pipeline.links.map(({ transport }) => transport)).toEqual(['tcp', 'tcp'])
    await pipeline.close()
    await cluster.close()
  })

  it('behind one that refuses are not tried', async () => {
    const tried: string[] = []
    const dial = async (_: Transport, at: { readonly address: string }) => {
      tried.push(at.address)
      throw new SeamError('MISMATCH', 'another model')
    }
    const addresses = ['a', 'b'].map((address) => ({ transport: 'tcp', address }))
    await expect(reach(mapOf(real), addresses, dial)).rejects.toMatchObject({ code: 'MISMATCH' })
    expect(tried).toEqual(['a'])
  })
})
