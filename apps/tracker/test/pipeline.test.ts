import { f32 } from '@seamline/codecs/f32'
import { SeamError, type Transport } from '@seamline/core'
import { msgpack } from '@seamline/framing/msgpack'
import { protobuf } from '@seamline/framing/protobuf'
import { fakeExecutor } from '@seamline/runtime/fake'
import { memory } from '@seamline/transports/memory'
import { tcp } from '@seamline/transports/tcp'
import { describe, expect, it } from 'vitest'
import type { Plan, Tracker } from '../src/index.ts'
import { counting } from './support/counting.ts'
import {
  codecsOf,
  GREEDY,
  LAYERS,
  mapOf,
  PROMPT,
  read,
  renamed,
  speaking,
  stagesTo,
  unsplit,
  withFakes,
} from './support/workers.ts'

const request = { prompt: PROMPT, maxTokens: 12, sampler: GREEDY, stopTokens: [] }
const f32a = renamed('f32a', f32)
const f32b = renamed('f32b', f32)
const rough = renamed('rough', f32, true)

/** What a plan says will be used, in the words of a pipeline. */
function foreseen({ links }: Plan) {
  return links.map(({ addresses, ...link }) => ({ ...link, ...addresses[0] }))
}

/** Connects the plan, checks that it came true, and returns its tokens. */
async function carriedOut(tracker: Tracker, plan: Plan): Promise<number[]> {
  const pipeline = await tracker.connect(plan, { livenessMs: 1000 })
  try {
    expect(pipeline.links).toEqual(foreseen(plan))
    expect(pipeline.stages.map(({ name, framing }) => ({ name, framing }))).toEqual(
      plan.stages.map(({ name, framing }) => ({ name, framing })),
    )
    return await read(pipeline.generate(request))
  } finally {
    await pipeline.close()
  }
}

describe.each([
  ['memory', () => memory()],
  ['tcp', () => tcp()],
])('a plan over %s', (_, create) => {
  it('comes true, and gives the tokens of the unsplit model', async () => {
    await withFakes(
      stagesTo([2, 4, 6]),
      async ({ tracker }) => {
        const mine = tracker()
        expect(await carriedOut(mine, mine.plan())).toEqual(await unsplit(PROMPT, 12))
      },
      create(),
    )
  })

  it('comes true where everybody prefers something else', async () => {
    const codecs = [codecsOf(f32, f32a, f32b), codecsOf(f32b, rough, f32a, f32), codecsOf(rough, f32a, f32b)]
    const framings = [
      [protobuf, msgpack],
      [msgpack, protobuf],
      [msgpack, protobuf],
    ]
    const stages = stagesTo([2, 4, 6]).map((stage, i) => ({
      ...stage,
      ...{ codecs: codecs[i]!, framings: framings[i]! },
    }))
    await withFakes(
      stages,
      async ({ tracker }) => {
        const mine = tracker({ codecs: codecsOf(f32, f32a, f32b, rough), framings: [protobuf, msgpack] })
        const plan = mine.plan()
        expect(plan.links.map(({ codec, framing }) => [codec, framing])).toEqual([
          ['f32b', 'msgpack'],
          ['f32a', 'msgpack'],
          ['', 'protobuf'],
        ])
        expect(await carriedOut(mine, plan)).toEqual(await unsplit(PROMPT, 12))
        const lossy = mine.plan({ codecs: ['f32', 'rough', 'f32a'] })
        expect(lossy.links.map(({ codec }) => codec)).toEqual(['f32a', 'rough', ''])
        expect(await carriedOut(mine, lossy)).toEqual(await unsplit(PROMPT, 12))
      },
      create(),
    )
  })

  it('of a whole model needs one worker, and no codec', async () => {
    const stages = stagesTo([6], { codecs: codecsOf(renamed('odd', f32)) })
    await withFakes(
      stages,
      async ({ tracker }) => {
        const mine = tracker()
        expect(await carriedOut(mine, mine.plan())).toEqual(await unsplit(PROMPT, 12))
      },
      create(),
    )
  })

  // A hidden row of this model has 16 KiB, a token and what goes with it some tens of bytes.
  it('keeps hidden rows away from the coordinator', async () => {
    const embedding = 4096
    const rowBytes = embedding * 4
    const transport = create()
    const between = counting(transport)
    const stages = stagesTo([2, 4, 6], { embedding, transports: [between] })
    const tokens = 40
    await withFakes(
      stages,
      async ({ tracker }) => {
        const own = counting(transport)
        const mine = tracker({ transports: mapOf(own) })
        const pipeline = await mine.connect(mine.plan(), { livenessMs: 1000 })
        expect(pipeline.returnsThroughCoordinator).toBe(false)
        const before = { own: own.counted.bytes, between: between.counted.bytes }
        const got = await read(pipeline.generate({ ...request, maxTokens: tokens }))
        const ownBytes = own.counted.bytes - before.own
        const betweenBytes = between.counted.bytes - before.between
        await pipeline.close()
        expect(got).toEqual(await unsplit(PROMPT, tokens, { embedding }))
        // Two seams carry a row for each token of the prompt and each one that was fed again.
        expect(betweenBytes).toBeGreaterThan(2 * rowBytes * (PROMPT.length + tokens - 1))
        expect(ownBytes).toBeGreaterThan(0)
        expect(ownBytes / tokens).toBeLessThan(rowBytes / 16)
      },
      transport,
    )
  })
})

describe('addresses', () => {
  const real = tcp()
  const ghost = { transport: 'tcp', address: '127.0.0.1:1' }

  it('of a neighbour that cannot be dialled directly are passed over, for that link only', async () => {
    const inside = memory()
    const walled: Transport = { ...real, dial: () => Promise.reject(new SeamError('RESET', 'no route')) }
    const stages = stagesTo([3, 6]).map((stage, i) => ({
      ...stage,
      transports: i === 1 ? [walled, inside] : [real, inside],
      listen: [
        { transport: 'memory', address: stage.name },
        { transport: 'tcp', address: '127.0.0.1:0' },
      ],
    }))
    await withFakes(stages, async ({ tracker, workers }) => {
      // Here memory plays the relay.
      const mine = tracker({ transports: mapOf(real, inside), relayed: ['memory'] })
      const plan = mine.plan()
      expect(plan.links.map(({ addresses }) => addresses.map(({ transport }) => transport))).toEqual([
        ['tcp', 'memory'],
        ['tcp', 'memory'],
      ])
      const pipeline = await mine.connect(plan, { livenessMs: 1000 })
      expect(pipeline.stages.map(({ transport }) => transport)).toEqual(['tcp', 'tcp'])
      expect(pipeline.links.map(({ transport, address }) => ({ transport, address }))).toEqual([
        workers[0]!.addresses[0],
        workers[1]!.addresses[1],
      ])
      expect(await read(pipeline.generate(request))).toEqual(await unsplit(PROMPT, 12))
      await pipeline.close()
    })
  })

  it('where nobody answers are named with the worker, and the next plan goes round it', async () => {
    const stages = [...stagesTo([3, 6]), { name: 'spare', layerFirst: 0, layerEnd: 3 }]
    await withFakes(
      stages,
      async ({ tracker, workers }) => {
        const mine = tracker()
        mine.announce({ ...workers[0]!.announcement, addresses: [ghost] })
        const failure = await mine.connect(mine.plan()).then(
          () => undefined,
          (error: SeamError) => error,
        )
        expect(failure).toMatchObject({ code: 'RESET', worker: 'worker-0' })
        const around = mine.plan({ without: [failure!.worker!] })
        expect(around.stages.map(({ name }) => name)).toEqual(['spare', 'worker-1'])
        expect(await carriedOut(mine, around)).toEqual(await unsplit(PROMPT, 12))
      },
      real,
    )
  })
})

describe('what changes between plan and connect', () => {
  it('is refused, naming both values', async () => {
    await withFakes(stagesTo([3, 6]), async ({ tracker }) => {
      const mine = tracker()
      const plan = mine.plan()
      const { modelSha256 } = plan.facts
      const other = fakeExecutor({ layerCount: LAYERS, model: 2 }).spec.modelSha256
      const stale = { ...plan, facts: { ...plan.facts, modelSha256: other } }
      // Either side may be the first to notice.
      const both = [`coordinator has ${other}`, `worker-\\d has ${modelSha256}`]
      await expect(mine.connect(stale)).rejects.toMatchObject({
        code: 'MISMATCH',
        message: expect.stringMatching(`model SHA-256: (${both.join(', ')}|${both.toReversed().join(', ')})`),
      })
      await expect(
        mine.connect({ ...plan, links: [{ ...plan.links[0]!, framing: 'smoke' }] }),
      ).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringMatching(/smoke.*protobuf/) })
      // Nothing was left behind that would be in the way.
      expect(await carriedOut(mine, mine.plan())).toEqual(await unsplit(PROMPT, 12))
    })
  })
})

describe('mixed versions', () => {
  const newer = speaking('ee')

  it('work together on what both speak', async () => {
    const stages = stagesTo([2, 4, 6]).map((stage, i) => ({
      ...stage,
      framings: i === 1 ? [newer, protobuf] : [protobuf],
    }))
    await withFakes(stages, async ({ tracker, workers }) => {
      const mine = tracker()
      // A newer worker says more than is known here.
      mine.announce({ ...workers[1]!.announcement, ...{ speed: 11, codecParameters: { f32: [1] } } })
      const plan = mine.plan()
      expect(plan.links.map(({ framing }) => framing)).toEqual(['protobuf', 'protobuf', 'protobuf'])
      expect(await carriedOut(mine, plan)).toEqual(await unsplit(PROMPT, 12))
    })
  })

  it('of one framing that cannot talk are refused by name when they meet', async () => {
    const disguised: typeof protobuf = (options) => ({ ...newer(options), id: 'protobuf' })
    const stages = stagesTo([3, 6]).map((stage, i) => ({
      ...stage,
      framings: [i === 1 ? disguised : protobuf],
    }))
    await withFakes(stages, async ({ tracker }) => {
      const mine = tracker()
      await expect(mine.connect(mine.plan(), { livenessMs: 1000 })).rejects.toMatchObject({
        ...{ code: 'MISMATCH', worker: 'worker-1' },
        message: expect.stringMatching(/worker-1 at worker-1: no protocol in common.*same release/),
      })
    })
  })
})
