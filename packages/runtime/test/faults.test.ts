import { type ProxyTransform, perUnit, type TcpProxy, tcpProxy } from '@seamline/conformance'
import type { MessageKind, SeamError, Transport } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { tcp } from '@seamline/transports/tcp'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { Worker } from '../src/index.ts'
import {
  type Cluster,
  type ClusterOptions,
  GREEDY,
  mapOf,
  prompt,
  read,
  readUntilError,
  startCluster,
  unsplit,
} from './support.ts'

const LIVENESS_MS = 500
const TOKENS = 40
const IDS = prompt(150)

type Edit = (frame: Uint8Array, index: number) => readonly Uint8Array[]

/** Which link goes through the proxy: named by who dials it. */
const LINKS = {
  'hidden rows from worker-0 to worker-1': { dialler: 1, listener: 0, direction: 'toClient' },
  'credit from worker-1 to worker-0': { dialler: 1, listener: 0, direction: 'toTarget' },
  'tokens from worker-2 to worker-0': { dialler: 0, listener: 2, direction: 'toClient' },
  'tokens from worker-2 to the coordinator': { dialler: 'coordinator', listener: 2, direction: 'toClient' },
  'prompts from the coordinator to worker-0': { dialler: 'coordinator', listener: 0, direction: 'toTarget' },
} as const
/** The frame that is tampered with: its kind and which one of that kind. */
const KINDS: Record<LinkName, readonly [MessageKind, number]> = {
  'hidden rows from worker-0 to worker-1': ['tensor', 5],
  'credit from worker-1 to worker-0': ['credit', 1],
  'tokens from worker-2 to worker-0': ['token', 5],
  'tokens from worker-2 to the coordinator': ['token', 5],
  'prompts from the coordinator to worker-0': ['tensor', 1],
}
type LinkName = keyof typeof LINKS

const proxies: TcpProxy[] = []
afterEach(async () => {
  await Promise.all(proxies.splice(0).map((proxy) => proxy.close()))
})

/** A cluster over TCP with a proxy in one link. */
async function startWithProxy(
  name: LinkName,
  transform?: () => ProxyTransform,
  more: Partial<ClusterOptions> = {},
): Promise<Cluster & { readonly proxy: () => TcpProxy }> {
  const { dialler, listener, direction } = LINKS[name]
  const real = tcp()
  let proxy: TcpProxy | undefined
  const workers: Worker[] = []
  const detour: Transport = {
    ...real,
    async dial(address, accept, options) {
      if (address !== workers[listener]!.addresses[0]!.address) return real.dial(address, accept, options)
      proxy ??= await tcpProxy({
        target: address,
        transform: (way) => (transform !== undefined && way === direction ? transform() : (chunk) => [chunk]),
      })
      proxies.push(proxy)
      return real.dial(proxy.address, accept, options)
    },
  }
  const cluster = await startCluster({
    ends: [2, 4, 6],
    livenessMs: LIVENESS_MS,
    transport: real,
    listen: () => '127.0.0.1:0',
    stageTransport: [0, 1, 2].map((i) => (i === dialler ? detour : undefined)),
    advertise: (worker) => {
      workers.push(worker)
      return worker.addresses
    },
    pipeline: {
      progressMs: 4 * LIVENESS_MS,
      ...(dialler === 'coordinator' ? { transports: mapOf(detour) } : {}),
    },
    ...more,
  })
  return { ...cluster, proxy: () => proxy! }
}

/** Length of the preamble or frame at the front of `bytes`: see the README of the framing. */
function unitLength(bytes: Uint8Array, index: number): number | undefined {
  if (index === 0) return bytes.length < 7 ? undefined : 7 + bytes[6]! * 32
  if (bytes.length < 8) return undefined
  const headerEnd = 8 + Buffer.from(bytes.buffer, bytes.byteOffset).readUInt32LE(0)
  if (bytes.length < headerEnd) return undefined
  for (let at = headerEnd - 1; at >= headerEnd - 5; at--) {
    if (bytes[at - 1] !== 0x7a) continue
    let payload = 0
    for (let i = at, shift = 0; i < headerEnd; i++, shift += 7) payload += (bytes[i]! & 0x7f) * 2 ** shift
    return headerEnd + payload
  }
  throw new Error('frame without a payload length')
}

/** Edits the n-th frame of `kind` on the link, or of any kind. */
function editNth(n: number, edit: Edit, kind?: MessageKind): () => ProxyTransform {
  let seen = 0
  return () => {
    let kept: Uint8Array | undefined
    return perUnit(unitLength, (unit, index) => {
      if (kept !== undefined) {
        const both = [unit, kept]
        kept = undefined
        return both
      }
      if (index === 0 || (kind !== undefined && kindOf(unit) !== kind) || seen++ !== n) return [unit]
      const edited = edit(unit, index)
      if (edited !== KEEP) return edited
      kept = unit.slice()
      return []
    })
  }
}
/** Stands for: send it after the one that follows. */
const KEEP: readonly Uint8Array[] = []

function kindOf(frame: Uint8Array): MessageKind | undefined {
  let kind: MessageKind | undefined
  const target = new Uint8Array(frame.length)
  const decoder = protobuf().createDecoder(
    { target: () => target, message: (message) => (kind = message.kind) },
    { maxPayloadBytes: frame.length },
  )
  for (let at = 0; at < frame.length; ) {
    const buffer = decoder.nextBuffer()
    const piece = frame.subarray(at, at + buffer.length)
    buffer.set(piece)
    decoder.received(piece.length)
    at += piece.length
  }
  return kind
}

async function expectFault(cluster: Cluster, code: string | RegExp, names: RegExp): Promise<SeamError> {
  const expected = await unsplit(IDS, TOKENS)
  const request = { prompt: IDS, maxTokens: TOKENS, sampler: GREEDY, stopTokens: [] }
  const { tokens, error } = await readUntilError(() => cluster.pipeline.generate(request))
  expect(tokens).toEqual(expected.slice(0, tokens.length))
  expect(error, 'the fault went unnoticed').toBeDefined()
  expect(error!.code).toMatch(code)
  expect(`${error!.worker}: ${error!.message}`).toMatch(names)
  await expectAllFree(cluster)
  return error!
}

async function expectAllFree(cluster: Cluster): Promise<void> {
  await expect
    .poll(() => cluster.executors.map(({ freeSessions, spec }) => spec.maxSequences - freeSessions), {
      timeout: 4 * LIVENESS_MS,
    })
    .toEqual([0, 0, 0])
  await cluster.close()
}

describe('no token comes from a frame that was', () => {
  const edits: Record<string, Edit> = {
    dropped: () => [],
    repeated: (frame) => [frame, frame],
    'put behind the next one': () => KEEP,
    'flipped in its last byte': (frame) => {
      const copy = frame.slice()
      copy[copy.length - 1]! ^= 1
      return [copy]
    },
  }
  for (const name of Object.keys(LINKS) as LinkName[]) {
    for (const [how, edit] of Object.entries(edits)) {
      // A credit says where the limit is, not by how much it grows: repeats and reordering do no harm, a loss may.
      if (name.startsWith('credit') && how !== 'flipped in its last byte') continue
      it(`${how}: ${name}`, async () => {
        const [kind, nth] = KINDS[name]
        const cluster = await startWithProxy(name, editNth(nth, edit, kind))
        await expectFault(cluster, /PROTOCOL|TIMEOUT|RESET|CLOSED/, /worker-\d/)
      })
    }
  }

  it('flipped in any one bit, on any link', { timeout: 60_000 }, async () => {
    const anyFlip = fc.record({
      name: fc.constantFrom(...(Object.keys(LINKS) as LinkName[])),
      frame: fc.nat(12),
      bit: fc.nat(2 ** 20),
    })
    await fc.assert(
      fc.asyncProperty(anyFlip, async ({ name, frame, bit }) => {
        let flipped = false
        const transform = editNth(frame, (unit) => {
          flipped = true
          const copy = unit.slice()
          copy[(bit >> 3) % copy.length]! ^= 1 << (bit & 7)
          return [copy]
        })
        const cluster = await startWithProxy(name, transform).catch((error) => error as SeamError)
        if (cluster instanceof Error) {
          expect(cluster.code).toMatch(/PROTOCOL|LIMIT|TIMEOUT|RESET|CLOSED|MISMATCH/)
          return
        }
        const expected = await unsplit(IDS, TOKENS)
        const request = { prompt: IDS, maxTokens: TOKENS, sampler: GREEDY, stopTokens: [] }
        const { tokens, error } = await readUntilError(() => cluster.pipeline.generate(request))
        expect(tokens).toEqual(expected.slice(0, tokens.length))
        if (error === undefined) expect(tokens.length).toBe(TOKENS)
        else expect(flipped).toBe(true)
        await expectAllFree(cluster)
      }),
      { numRuns: 40, seed: 63 },
    )
  })
})

describe('a link that breaks while both ends live', () => {
  const breaks = { cut: 'RESET|CLOSED', blackhole: 'TIMEOUT' } as const
  for (const name of [
    'hidden rows from worker-0 to worker-1',
    'tokens from worker-2 to worker-0',
    'tokens from worker-2 to the coordinator',
  ] as const) {
    for (const [how, code] of Object.entries(breaks)) {
      it(`${how}: ${name}`, async () => {
        const cluster = await startWithProxy(name, undefined, { fake: { computeMs: () => 2 } })
        setTimeout(() => cluster.proxy()[how as keyof typeof breaks](), 40)
        const { dialler, listener } = LINKS[name]
        await expectFault(cluster, new RegExp(code), new RegExp(`worker-(${dialler}|${listener})`))
      })
    }
  }
})

describe('a stage that does not get on', () => {
  it('is named when one compute step runs beyond the progress deadline', async () => {
    const cluster = await startCluster({
      ends: [3, 6],
      livenessMs: LIVENESS_MS,
      stageFake: [{}, { computeMs: (tokens) => (tokens === 1 ? 1e6 : 1) }],
      pipeline: { progressMs: 2 * LIVENESS_MS },
    })
    const request = { prompt: prompt(5), maxTokens: 10, sampler: GREEDY, stopTokens: [] }
    const { tokens, error } = await readUntilError(() => cluster.pipeline.generate(request))
    expect(tokens.length).toBe(1)
    expect(error).toMatchObject({
      code: 'EXECUTOR',
      worker: 'worker-1',
      message: expect.stringMatching(/running for \d+ ms, deadline 1000 ms/),
    })
    await cluster.close()
  })

  it('keeps memory bounded in front of it', async () => {
    const cluster = await startCluster({
      ends: [3, 6],
      fake: { chunkTokens: 8, contextLength: 4096 },
      stageFake: [{}, { computeMs: () => 5 }],
    })
    let ahead = 0
    let behind = 0
    for (const [i, executor] of cluster.executors.entries()) {
      const { step } = executor
      ;(executor as { step: typeof step }).step = async (call) => {
        if (i === 0) ahead = Math.max(ahead, ++behind)
        const result = await step(call)
        if (i === 1) behind--
        return result
      }
    }
    await read(
      cluster.pipeline.generate({ prompt: prompt(800), maxTokens: 1, sampler: GREEDY, stopTokens: [] }),
    )
    // Sender's and receiver's slots: maxSequences + 2 each.
    expect(ahead).toBeLessThanOrEqual(2 * 6)
    await cluster.close()
  })
})

it('a coordinator that vanishes leaves every cell free and the workers ready', async () => {
  const cluster = await startWithProxy('prompts from the coordinator to worker-0', undefined, {
    fake: { computeMs: () => 2 },
  })
  const running = readUntilError(() =>
    cluster.pipeline.generate({ prompt: IDS, maxTokens: 300, sampler: GREEDY, stopTokens: [] }),
  )
  await new Promise((resolve) => setTimeout(resolve, 40))
  cluster.proxy().blackhole()
  expect((await running).error?.code).toBe('TIMEOUT')
  await expectAllFree(cluster)
})
