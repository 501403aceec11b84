import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { FramingFactory } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { tcp } from '@seamline/transports/tcp'
import { describe, expect, it } from 'vitest'
import { connectPipeline } from '../src/index.ts'
import { decodePreamble, encodePreamble, MAX_PREAMBLE_BYTES, Verdict } from '../src/preamble.ts'
import { GREEDY, prompt, read, startWorkers, unsplit } from './support.ts'

const A = 'a1'.repeat(32)
const B = 'b2'.repeat(32)

/** The framing under other protocol ids, as an older or newer release would have them. */
function speaking(...protocolIds: string[]): FramingFactory {
  return (options) => ({ ...protobuf(options), protocolIds })
}

const onTcp = { transport: tcp(), listen: () => '127.0.0.1:0', livenessMs: 500 }

describe('preamble', () => {
  it('has the bytes that the format says', () => {
    const bytes = encodePreamble({ verdict: Verdict.offer, protocolIds: [A, B] })
    expect(Buffer.from(bytes).toString('latin1').slice(0, 4)).toBe('SEAM')
    expect([...bytes.subarray(4, 7)]).toEqual([1, 0, 2])
    expect(Buffer.from(bytes.subarray(7)).toString('hex')).toBe(A + B)
  })

  it('is read back from any prefix that is long enough, and from no shorter one', () => {
    const bytes = encodePreamble({ verdict: Verdict.chosen, protocolIds: [A] })
    for (let length = 0; length < bytes.length; length++) {
      expect(decodePreamble(bytes.subarray(0, length))).toBeUndefined()
    }
    const longer = Buffer.concat([bytes, Buffer.from('rest')])
    expect(decodePreamble(longer)).toEqual({
      preamble: { verdict: Verdict.chosen, protocolIds: [A] },
      length: 39,
    })
  })

  it.each([
    ['GET / HTTP/1.1\r\n', 'PROTOCOL', /not a Seamline process/],
    ['SEAX', 'PROTOCOL', /not a Seamline process/],
    ['SEAM\x02\x00\x01', 'PROTOCOL', /version 2, this side 1/],
    ['SEAM\x01\x07\x01', 'PROTOCOL', /verdict 7/],
    ['SEAM\x01\x00\xff', 'LIMIT', /255 protocol ids/],
  ])('refuses %j', (text, code, message) => {
    expect(() => decodePreamble(Buffer.from(text, 'latin1'))).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    )
  })

  it('cannot outgrow its buffer', () => {
    expect(encodePreamble({ verdict: 0, protocolIds: Array(16).fill(A) }).length).toBe(MAX_PREAMBLE_BYTES)
    expect(() => encodePreamble({ verdict: 0, protocolIds: Array(17).fill(A) })).toThrow(
      expect.objectContaining({ code: 'LIMIT' }),
    )
  })
})

describe('two releases', () => {
  it('meet at the newest protocol that both speak', async () => {
    const cluster = await startWorkers({ ...onTcp, ends: [6], framings: [speaking(B, A)] })
    const pipeline = await connectPipeline({ ...cluster.options, framings: [speaking('c3'.repeat(32), A)] })
    const request = { prompt: prompt(5), maxTokens: 4, sampler: GREEDY, stopTokens: [] }
    expect(await read(pipeline.generate(request))).toEqual(await unsplit(prompt(5), 4))
    await pipeline.close()
    await cluster.close()
  })

  it('part with what each of them speaks when they share none', async () => {
    const cluster = await startWorkers({ ...onTcp, ends: [6], framings: [speaking(B)] })
    await expect(connectPipeline({ ...cluster.options, framings: [speaking(A)] })).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringMatching(/worker-0.*this side speaks a1a1a1.*the peer b2b2b2/),
    })
    await cluster.close()
  })

  it('are told apart also when only the neighbours differ', async () => {
    const [front, back] = await Promise.all([
      startWorkers({
        ...onTcp,
        ends: [3],
        framings: [speaking(A)],
        stageFake: [{ layerFirst: 0, layerEnd: 3 }],
      }),
      startWorkers({
        ...onTcp,
        ends: [3],
        framings: [speaking(B)],
        stageFake: [{ layerFirst: 3, layerEnd: 6 }],
      }),
    ])
    const workers = [...front.options.workers, ...back.options.workers]
    const connecting = connectPipeline({ ...front.options, workers, framings: [speaking(A, B)] })
    await expect(connecting).rejects.toMatchObject({
      code: 'MISMATCH',
      message: expect.stringMatching(/no protocol in common/),
    })
    await Promise.all([front.close(), back.close()])
  })
})

describe('a worker', () => {
  const socketTo = (address: string) => {
    const [host, port] = address.split(':')
    const socket = connect(Number(port), host)
    socket.on('error', () => {})
    return socket
  }
  const received = async (socket: Socket) => {
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }

  it('drops a client that says nothing, or stops in the middle of its preamble', async () => {
    const cluster = await startWorkers({ ...onTcp, ends: [6] })
    const silent = socketTo(cluster.workers[0]!.addresses[0]!.address)
    const halting = socketTo(cluster.workers[0]!.addresses[0]!.address)
    halting.write('SEAM')
    const offering = socketTo(cluster.workers[0]!.addresses[0]!.address)
    offering.write(encodePreamble({ verdict: Verdict.offer, protocolIds: protobuf().protocolIds }))
    const [first, second, third] = await Promise.all([
      received(silent).catch(() => null),
      received(halting).catch(() => null),
      received(offering).catch(() => null),
    ])
    expect(first === null || first.length === 0).toBe(true)
    expect(second === null || second.length === 0).toBe(true)
    expect(third === null || third.length > 39).toBe(true)
    await cluster.close()
  })

  it('answers a browser, and random bytes, with an end and serves on', async () => {
    const cluster = await startWorkers({ ...onTcp, ends: [6] })
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.alloc(100_000, 0xff),
      Buffer.alloc(3),
    ]) {
      const socket = socketTo(cluster.workers[0]!.addresses[0]!.address)
      socket.write(bytes)
      await received(socket).catch(() => null)
    }
    const pipeline = await connectPipeline(cluster.options)
    await pipeline.close()
    await cluster.close()
  })

  it('is named by the coordinator when something else listens at its address', async () => {
    const server = createServer((socket) =>
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n').on('error', () => {}),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const { options, close } = await startWorkers({ ...onTcp, ends: [6] })
    await expect(
      connectPipeline({ ...options, workers: [{ name: 'web', addresses: [{ transport: 'tcp', address }] }] }),
    ).rejects.toMatchObject({
      code: 'PROTOCOL',
      message: expect.stringMatching(/web at .*not a Seamline process/),
      worker: 'web',
    })
    server.close()
    await close()
  })
})
