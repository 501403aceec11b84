import type { Message } from '@seamline/core'
import { addExtension } from 'msgpackr/pack'
import { describe, expect, it } from 'vitest'
import { msgpack } from '../src/index.ts'
import { bytes, decodeOne, frameOf } from './frames.ts'
import { headerOf, vector } from './vectors.ts'

const framing = msgpack()
const hex = (data: Uint8Array) => Buffer.from(data).toString('hex')
const packed = (text: string) => decodeOne(framing, frameOf(Buffer.from(text.replaceAll(' ', ''), 'hex')))
const error = { kind: 'error', code: 'USAGE', message: '', worker: '', request: 0, sequence: -1 } as const

describe('msgpack', () => {
  it('writes bytes that can be read by eye', () => {
    // Kind 7, no payload, fields: request 1.
    expect(hex(msgpack({ checksum: false }).encode({ kind: 'ack', request: 1 }))).toBe(
      '0500000000000000' + '93' + '07' + '00' + '9101',
    )
    // Kind 13: code 14, text, text, request 0, no sequence.
    const message: Message = { ...error, message: 'é', worker: 'w' }
    expect(hex(headerOf(framing.encode(message)))).toBe('930d00950ea2c3a9a17700c0')
  })

  it('tolerates what a newer release adds behind the header and the fields at every level', () => {
    const later = 'a5 6c61746572'
    expect(packed(`95 07 00 92 07 93 01 ${later} c0 ${later} c3`)).toEqual({ kind: 'ack', request: 7 })
    expect(packed('94 07 00 91 08 91 91 91 91 90')).toEqual({ kind: 'ack', request: 8 })
    const row = '96 05 01 09 01 c3 cb3ff8000000000000'
    expect(packed(`93 08 00 9c 00 00 00 00 91 ${row} 92 01 02 02 a3 663136 00 c0 91 01 ${later}`)).toEqual({
      ...vector('tensor-empty'),
      rows: [{ sequence: 5, epoch: 1, position: 9, tokenCount: 1, sample: true }],
      shape: [1, 2],
      dtype: 'f16',
      codec: 'f16',
    })
    const address = `93 a3 746370 a1 61 ${later}`
    expect(packed(`93 02 00 96 01 c2 00 91 ${address} 90 90`)).toMatchObject({
      addresses: [{ transport: 'tcp', address: 'a' }],
    })
  })

  it('takes an integer in any format that holds it', () => {
    for (const seven of [
      '07',
      'cc 07',
      'cd 0007',
      'ce 00000007',
      'cf 0000000000000007',
      'd0 07',
      'd1 0007',
      'd2 00000007',
      'd3 0000000000000007',
      'ca 40e00000',
      'cb 401c000000000000',
    ]) {
      expect(packed(`93 07 00 91 ${seven}`)).toEqual({ kind: 'ack', request: 7 })
      expect(packed(`93 08 00 9a ${seven} 00 00 00 90 92 01 01 01 a0 00 c0`)).toMatchObject({ run: 7n })
    }
    expect(packed('93 07 00 91 cb 8000000000000000')).toEqual({ kind: 'ack', request: 0 })
  })

  it('names the field that it refuses', () => {
    const refused = (text: string) => () => packed(text)
    const tensor = (rows: string) => `93 08 00 9a 00 00 00 00 ${rows} 92 01 01 01 a0 00 c0`
    expect(refused(tensor('92 95 00 00 00 01 c2 95 00 00 ce80000000 01 c2'))).toThrow(
      'tensor.rows.1.position: 2147483648 is not an integer from 0 to 2147483647',
    )
    expect(refused(tensor('91 94 00 00 00 01'))).toThrow('tensor.rows.0: no array of 5 or more fields of Row')
    expect(refused('93 0b 00 94 cf0020000000000001 00 00 00')).toThrow(
      'heartbeat.sentNs: 9007199254740993 is not an integer from 0 to 9007199254740991',
    )
    const numbers = `93 08 00 9a 00 00 00 00 90 92 01 01 01 dc ff00 ${'01'.repeat(0xff00)} 00 c0`
    expect(() => packed(numbers)).toThrow(
      /^malformed frame: tensor.codec: a list of 65280 is not well-formed.{0,80}$/,
    )
    expect(refused('93 12 00 90')).toThrow('no known kind of message: 18')
    expect(refused('93 07 00 91 c7')).toThrow('type 0xc7, which headers are not made of')
  })

  it('carries text of every length, with and without characters beyond ASCII', () => {
    for (let length = 0; length <= 250; length++) {
      for (const tail of ['', 'ß', '語', '🧵', '\0', '\ufffd', 'x\ufeff']) {
        const message: Message = {
          ...error,
          worker: 'a'.repeat(length) + tail,
          message: tail + 'b'.repeat(4 * length),
        }
        expect(decodeOne(framing, framing.encode(message))).toEqual(message)
      }
    }
  })

  it('refuses to encode what a decoder would refuse, and stays usable', () => {
    const tensor = vector('tensor')
    const bad: object[] = [
      { ...tensor, step: 2 ** 53 },
      { ...tensor, run: 5 },
      { ...tensor, run: 2n ** 64n },
      { ...tensor, rows: [null] },
      { ...tensor, rows: new Set() },
      { ...tensor, shape: { length: 2, 0: 1, 1: 1 } },
      { ...tensor, codec: new Date(0) },
      { ...tensor, codec: Object.create(null) },
      { ...tensor, edge: Symbol('edge') },
      { ...tensor, codec: 'lone \ud800 surrogate' },
      { ...tensor, codec: '\ufeffraw' },
      { ...tensor, codec: 'c'.repeat(257) },
      { ...tensor, checksum: undefined },
      { kind: 'ack', request: { toJSON: () => 1 } },
      { kind: 'ack' },
      { kind: '__proto__' },
    ]
    for (const message of bad)
      expect(() => framing.encode(message as Message)).toThrow(expect.objectContaining({ code: 'USAGE' }))
    expect(decodeOne(framing, framing.encode(tensor))).toEqual(tensor)
  })

  it('is out of reach of extensions that the program registers with msgpackr', () => {
    class Word {
      readonly text = 'f16'
    }
    addExtension({ Class: Word, type: 9, pack: () => Buffer.from('f16'), unpack: () => 'f16' } as never)
    expect(() => packed('93 08 00 9a 00 00 00 00 90 92 01 01 01 c7 03 09 663136 00 c0')).toThrow('type 0xc7')
    expect(() => framing.encode({ ...vector('tensor'), codec: new Word() } as never)).toThrow(/codec/)
  })

  it('refuses a header over 64 KiB at both ends', () => {
    const row = {
      sequence: 2 ** 32 - 1,
      epoch: 2 ** 32 - 1,
      position: 2 ** 31 - 1,
      tokenCount: 2 ** 31 - 1,
      sample: true,
    }
    const message = (rows: number) =>
      ({ ...vector('tensor'), rows: Array.from({ length: rows }, () => row) }) as Message
    expect(decodeOne(framing, framing.encode(message(2900)))).toEqual(message(2900))
    expect(() => framing.encode(message(3000))).toThrow(expect.objectContaining({ code: 'LIMIT' }))
    const frame = frameOf(Buffer.alloc(65536 - 7, 0x91))
    expect(() => decodeOne(framing, frame)).toThrow('header of 65537 B exceeds the limit of 65536 B')
  })

  it('writes what is text and no number as MessagePack of another implementation would', () => {
    const frame = framing.encode(vector('tensor-run-2^64-1'))
    expect(hex(headerOf(frame))).toContain(hex(bytes`cf ffffffffffffffff`))
  })
})
