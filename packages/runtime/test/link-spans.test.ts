import { type Connection, SpanName, SpanPort, type TokenMessage, type Transport } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { expect, it } from 'vitest'
import { acceptLink } from '../src/link.ts'
import { encodePreamble, Verdict } from '../src/preamble.ts'

it('a frame that came in one read with another begins where that one ended, whatever that was', () => {
  let nowNs = 1000
  const spans: [name: number, startNs: number, endNs: number][] = []
  const connection: Connection = {
    ...{ remote: 'peer', queuedBytes: 0, pause() {}, resume() {}, abort() {} },
    send: () => true,
    close: async () => {},
  }
  const transport = { id: 'test', authenticates: false } as Transport
  const handler = acceptLink(
    connection,
    transport,
    {
      framings: [protobuf],
      clock: { nowNs: () => ++nowNs },
      sink: { span: (name, startNs, endNs) => spans.push([name, startNs, endNs]) },
      ...{ livenessMs: 60_000, maxPayloadBytes: 1024 },
      pulse: () => ({ completedSteps: 0, busyNs: 0 }),
    },
    (link) => {
      link.label({ in: SpanPort.tokensIn, out: SpanPort.none, probe: SpanPort.none })
      return {
        target: () => new Uint8Array(64),
        message() {},
        closed() {},
      }
    },
  )
  const receive = (...parts: Uint8Array[]) => {
    const bytes = Buffer.concat(parts)
    handler.nextBuffer().set(bytes)
    handler.onData(bytes.length)
  }
  const framing = protobuf()
  const token = (step: number): TokenMessage => ({
    ...{ kind: 'token', step, sentNs: 0, checksum: -1 },
    tokens: [{ sequence: 0, epoch: 0, position: step, token: 1, finish: 'none' }],
  })
  const credit = framing.encode({ kind: 'credit', scope: 'edge', id: 0, limit: 1 })
  receive(encodePreamble({ verdict: Verdict.offer, protocolIds: framing.protocolIds }))
  receive(framing.encode(token(0)))
  nowNs = 1_000_000
  receive(credit, framing.encode(token(1)), framing.encode(token(2)))
  handler.onClose(undefined)

  const decoded = spans.filter(([name]) => name === SpanName.frameDecode)
  expect(decoded).toHaveLength(3)
  const [first, second, third] = decoded as [(typeof spans)[0], (typeof spans)[0], (typeof spans)[0]]
  expect(first[1]).toBeLessThan(2000)
  expect(second[1]).toBeGreaterThan(1_000_000)
  expect(third[1]).toBeGreaterThanOrEqual(second[2])
})
