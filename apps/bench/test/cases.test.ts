import { f16 } from '@seamline/codecs'
import {
  type BenchCase,
  benchPeer,
  codecCases,
  createResponder,
  encodeShape,
  framingCases,
  transportCases,
} from '@seamline/conformance'
import type { CodecFactory, FramingFactory, Transport } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { memory } from '@seamline/transports/memory'
import { describe, expect, it } from 'vitest'
import { whyMissing } from '../src/arms/installed.ts'
import { transportEntries } from '../src/arms/transport.ts'
import { measureBlock } from '../src/measure.ts'
import { createPeers } from '../src/peers.ts'

const options = { sizes: [16 << 10] }
const smoke = { smoke: true, timeMs: 0, signal: new AbortController().signal }

async function failuresOf(cases: readonly BenchCase[]): Promise<Record<string, string>> {
  const outcomes = await measureBlock(cases, smoke)
  return Object.fromEntries(
    outcomes.flatMap((outcome) => ('failure' in outcome ? [[outcome.case.id, outcome.failure.message]] : [])),
  )
}

/** f16 whose instances differ from `from` on by `change`. */
function broken(
  change: (codec: ReturnType<CodecFactory>) => Partial<ReturnType<CodecFactory>>,
): CodecFactory {
  let made = 0
  return (options) => {
    const codec = f16(options)
    made += 1
    return made > 1 && options !== undefined ? { ...codec, ...change(codec) } : codec
  }
}

describe('the cases of a codec', () => {
  it('pass for a right one, in the arena and in other memory', async () => {
    const cases = codecCases(f16, options)
    expect(cases.map(({ id }) => id)).toEqual([
      'codec/f16/encode/16KiB',
      'codec/f16/decode/16KiB',
      'codec/f16/encode-foreign/16KiB',
      'codec/f16/decode-foreign/16KiB',
    ])
    expect(await failuresOf(cases)).toEqual({})
  })

  it('fail when one byte of the encoding is wrong', async () => {
    const wrong = broken((codec) => ({
      encodeInto(src, rows, columns, dst) {
        const bytes = codec.encodeInto(src, rows, columns, dst)
        dst[1000]! ^= 1
        return bytes
      },
    }))
    const failures = await failuresOf(codecCases(wrong, options))
    expect(failures['codec/f16/encode/16KiB']).toMatch(/byte 1000 of 8192 is/)
  })

  it('fail when the values are far off, though every instance agrees', async () => {
    const wrong: CodecFactory = (options) => {
      const codec = f16(options)
      return {
        ...codec,
        decodeInto(src, rows, columns, dst) {
          codec.decodeInto(src, rows, columns, dst)
          for (let i = 0; i < dst.length; i += 1) dst[i]! *= 1.1
        },
      }
    }
    // Errors of a tenth are 20 dB below the values.
    const failures = await failuresOf(codecCases(wrong, options))
    expect(failures['codec/f16/decode/16KiB']).toMatch(/keep 20\.0 dB .* 30 dB are needed/)
  })

  it('fail when encoding does nothing', async () => {
    const wrong = broken((codec) => ({
      encodeInto: (_, rows, columns) => codec.maxEncodedBytes(rows, columns),
    }))
    expect(Object.keys(await failuresOf(codecCases(wrong, options)))).toContain('codec/f16/encode/16KiB')
  })
})

describe('the cases of a framing', () => {
  it('pass for a right one', async () => {
    expect(await failuresOf(framingCases(protobuf, options))).toEqual({})
  })

  it('fail when the decoded message differs', async () => {
    const wrong: FramingFactory = (framingOptions) => {
      const framing = protobuf(framingOptions)
      return {
        ...framing,
        createDecoder: (handler, limits) =>
          framing.createDecoder(
            {
              ...handler,
              message: (message, payload) =>
                handler.message(message.kind === 'tensor' ? { ...message, step: 1 } : message, payload),
            },
            limits,
          ),
      }
    }
    const failures = await failuresOf(framingCases(wrong, options))
    expect(Object.keys(failures)).toHaveLength(2)
    expect(failures['framing/protobuf/encode+decode/16KiB']).toMatch(/decoded .*"step":1[,}].*"step":123456/)
  })
})

describe('the far end of an exchange', () => {
  const shape = (requestBytes: number, requestCount: number, responseBytes: number, responseCount: number) =>
    createResponder(encodeShape({ requestBytes, requestCount, responseBytes, responseCount }))

  it('returns an echo as it is', () => {
    const request = Uint8Array.of(1, 2, 3)
    expect(shape(3, 1, 3, 1).answer(request)).toEqual([request])
  })

  it('answers a checked stream with its SHA-256', () => {
    const responder = shape(3, 2, 64, 1)
    const request = Uint8Array.of(1, 2, 3)
    expect(responder.answer(request)).toEqual([])
    // printf '\1\2\3\1\2\3' | sha256sum
    expect(Buffer.from(responder.answer(request)[0]!).toString('hex')).toBe(
      `3ba35ee83f218013f8b83f08ae2c06c9d8e05a198d271c57c9e9a1771b44a211${'00'.repeat(32)}`,
    )
    expect(responder.answer(Uint8Array.of(0, 2, 3))).toEqual([])
    expect(responder.answer(Uint8Array.of(0, 2, 3))).toEqual([new Uint8Array(64)])
  })

  it('refuses shapes beyond its limits', () => {
    expect(() => shape(2 ** 27, 1, 64, 1)).toThrow(/134217728 B in a message/)
    expect(() => shape(64, 2000, 64, 1)).toThrow(/2000 messages/)
  })
})

describe('the cases of a transport', () => {
  const small = { sizes: [16 << 10], streamBytes: 64 << 10 }

  /** A memory network whose dialling side sends through `change`. */
  async function fixture(change: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes) {
    const network = memory()
    const { address } = await network.listen('bench:0', benchPeer)
    const transport: Transport = {
      ...network,
      async dial(to, accept, options) {
        return network.dial(
          to,
          (connection) => {
            const { send } = connection
            connection.send = (bytes, released) => send(change(bytes), released)
            return accept(connection)
          },
          options,
        )
      },
    }
    return { name: 'memory', transport: () => transport, start: async () => address }
  }

  it('pass for a right one', async () => {
    const cases = transportCases(await fixture(), small)
    expect(cases.map(({ id, bytes }) => [id, bytes])).toEqual([
      ['transport/memory/rtt/16KiB', 32768],
      ['transport/memory/to-dialler/16KiB', 16384],
      ['transport/memory/to-listener/16KiB', 16384],
      ['transport/memory/one-way/64KiB', 262144],
      ['transport/memory/one-way-to-listener/64KiB', 262144],
    ])
    expect(await failuresOf(cases)).toEqual({})
  })

  it('fail wherever a byte on the way to the listener changes', async () => {
    const altered = await fixture((bytes) => {
      if (bytes.length < 1000) return bytes
      const copy = bytes.slice()
      copy[999]! ^= 1
      return copy
    })
    expect(Object.keys(await failuresOf(transportCases(altered, small)))).toEqual([
      'transport/memory/rtt/16KiB',
      'transport/memory/to-listener/16KiB',
      'transport/memory/one-way-to-listener/64KiB',
    ])
  })
})

describe('an arm that is not installed', () => {
  it('is dropped with the reason, and nothing else is', () => {
    const missing = (needs: string | undefined) =>
      needs === 'zeromq' ? `${needs} is not installed` : undefined
    const all = transportEntries(createPeers(), () => undefined)
    const some = transportEntries(createPeers(), missing)
    expect(some.dropped).toEqual([{ arm: 'control/zeromq', reason: 'zeromq is not installed' }])
    const gone = all.entries.length - some.entries.length
    expect(gone).toBe(4)
    expect(some.entries.filter(({ case: { id } }) => id.includes('zeromq'))).toEqual([])
  })

  it('is found out by resolving it', () => {
    const resolve = (name: string) => {
      if (name === 'absent') throw new Error('not found')
      return name
    }
    expect(whyMissing('absent', resolve)).toBe('absent is not installed')
    expect(whyMissing('present', resolve)).toBeUndefined()
    expect(whyMissing(undefined, resolve)).toBeUndefined()
  })
})
