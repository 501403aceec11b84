import { largestMessages } from '@seamline/conformance'
import { DType, ErrorCode, type Message } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { loadSchema } from '../scripts/generate.mjs'
import { protobuf } from '../src/index.ts'
import { bytes, decodeAll, decodeOne, field, frameOf, varint } from './frames.ts'
import { vector } from './vectors.ts'

const framing = protobuf()
const schema = loadSchema()
const hex = (data: Uint8Array) => Buffer.from(data).toString('hex')
const open = vector('open-greedy')
const tensor = vector('tensor')

describe('protobuf bytes', () => {
  it('agree with those computed by hand', () => {
    // ack = 7 { request = 1 }, payload = 15 of 0 B; CRC-32 of 3a0208017a00 by a bitwise loop.
    let crc = 0xffffffff
    for (const byte of [0x3a, 0x02, 0x08, 0x01, 0x7a, 0x00]) {
      crc ^= byte
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
    }
    const checksum = Buffer.alloc(4)
    checksum.writeInt32LE(~crc)
    expect(hex(framing.encode({ kind: 'ack', request: 1 }))).toBe(`06000000${hex(checksum)}3a0208017a00`)
    const bare = protobuf({ checksum: false }).encode({ kind: 'ack', request: 1 })
    expect(hex(bare)).toBe('06000000000000003a0208017a00')
  })
})

describe('protobuf', () => {
  const Frame = schema.lookupType('seamline.v1.Frame')

  it('writes header and payload as one message that protobufjs reads by reflection', () => {
    const options = { enums: String, longs: Number, bytes: Array, oneofs: true }
    const { message, payload } = largestMessages().find((sample) => sample.message.kind === 'token')!
    const body = framing.encode(message, payload).subarray(8)
    expect(Frame.toObject(Frame.decode(body), options)).toMatchObject({
      kind: 'token',
      token: {
        tokens: Array(64).fill(expect.objectContaining({ position: 2 ** 31 - 1, finish: 'FINISH_LENGTH' })),
        step: Number.MAX_SAFE_INTEGER,
        checksum: 2 ** 32 - 1,
      },
      payload: [...payload],
    })
  })

  it('puts the payload in the field with the highest number', () => {
    expect(Math.max(...Frame.fieldsArray.map(({ id }) => id))).toBe(15)
    expect(Frame.fields.payload?.id).toBe(15)
  })

  it('has a number for every dtype and error code of the contract', () => {
    for (const dtype of Object.values(DType)) {
      const message = { ...tensor, dtype } as Message
      expect(decodeOne(framing, framing.encode(message))).toEqual(message)
    }
    for (const code of Object.values(ErrorCode)) {
      const message: Message = { kind: 'error', code, message: 'm', worker: 'w', request: 1, sequence: 2 }
      expect(decodeOne(framing, framing.encode(message))).toEqual(message)
    }
  })

  it('takes what is absent for zero, none or neutral', () => {
    const absent = (kind: number, content = bytes``) =>
      decodeOne(framing, frameOf(bytes`${field(kind, content)} 7a 00`))
    expect(absent(3)).toEqual({ ...open, request: 0, promptTokens: 0, maxTokens: 0 })
    const none = vector('hello-coordinator')
    expect(absent(1, bytes`08 01`)).toEqual({
      ...none,
      name: '',
      run: '',
      maxPayloadBytes: 0,
      rowsPerStep: 0,
      livenessMs: 0,
    })
    expect(absent(9)).toEqual({
      kind: 'token',
      tokens: [],
      step: 0,
      sentNs: 0,
      checksum: -1,
    })
    expect(absent(9, bytes`0a 00`)).toMatchObject({
      tokens: [{ sequence: 0, epoch: 0, position: 0, token: 0, finish: 'none' }],
    })
  })

  it('skips fields that it does not know, at every level', () => {
    const unknown = bytes`${field(100, Buffer.from('later'))} f8 07 05`
    const inner = bytes`08 07 ${unknown}`
    expect(decodeOne(framing, frameOf(bytes`${unknown} ${field(7, inner)} ${unknown} 7a 00`))).toEqual({
      kind: 'ack',
      request: 7,
    })
    const service = bytes`${unknown} ${field(1, bytes`${inner} 10 01`)} ${unknown}`
    expect(decodeOne(framing, frameOf(bytes`${field(14, service)} 7a 00`))).toEqual({
      kind: 'traceControl',
      request: 7,
      level: 1,
    })
  })

  it('names the field that it refuses', () => {
    const row = bytes`2a 06 18 ${varint(2n ** 31n)}`
    const decode = (kind: number, content: Uint8Array) => () =>
      decodeOne(framing, frameOf(bytes`${field(kind, content)} 7a 00`))
    expect(decode(8, bytes`2a 00 ${row}`)).toThrow(
      'tensor.rows.1.position: 2147483648 is not an integer from 0 to 2147483647',
    )
    expect(decode(11, bytes`08 ${varint(2n ** 53n + 1n)}`)).toThrow('heartbeat.sentNs: 900719925474099')
    expect(() => framing.encode({ ...tensor, step: 2 ** 53 } as Message)).toThrow(
      'tensor.step: 9007199254740992 is not an integer from 0 to 9007199254740991',
    )
  })

  it('refuses to encode what a decoder would refuse', () => {
    const bad: object[] = [
      { ...tensor, step: -1 },
      { ...tensor, step: 1.5 },
      { ...tensor, run: 1 },
      { ...tensor, run: -1n },
      { ...tensor, run: 2n ** 64n },
      { ...tensor, dtype: 'f64' },
      { ...tensor, dtype: 'unspecified' },
      { ...tensor, shape: [1] },
      { ...tensor, shape: undefined },
      { ...tensor, rows: undefined },
      { ...tensor, rows: [undefined] },
      { ...tensor, codec: 'a'.repeat(257) },
      { ...tensor, codec: 'lone \ud800 surrogate' },
      { ...tensor, checksum: -2 },
      { ...open, sampler: undefined },
      { ...open, returnLogits: 1 },
      { ...open, stopTokens: Array.from({ length: 8193 }, () => 1) },
      { kind: 'ack' },
      { kind: 'constructor' },
    ]
    for (const message of bad) {
      const encode = () => framing.encode(message as Message)
      expect(encode, String(Object.values(message))).toThrow(expect.objectContaining({ code: 'USAGE' }))
    }
    expect(() => framing.encodeInto(tensor, new Uint8Array(5000), 4096, -1)).toThrow(/payload bytes/)
    expect(() => framing.encodeInto(tensor, new Uint8Array(5000), 4096, 2 ** 31)).toThrow(/exceeds/)
    expect(() => framing.encodeInto(tensor, new Uint8Array(5000), 4096, 905)).toThrow(/room of 5000 B/)
    expect(hex(framing.encode({ kind: 'ack', request: 1 }))).toMatch(/3a0208017a00$/)
  })

  it('sends an error whose text is too long or malformed all the same', () => {
    const error = { kind: 'error', code: 'EXECUTOR', worker: '', request: 0, sequence: -1 } as const
    const sent = (message: string) => decodeOne(framing, framing.encode({ ...error, message }))
    expect(sent('e'.repeat(10_000))).toEqual({ ...error, message: 'e'.repeat(8192) })
    expect(sent(`${'e'.repeat(8191)}🧵`)).toEqual({ ...error, message: `${'e'.repeat(8191)}\ufffd` })
    expect(sent('语🧵\udead')).toEqual({ ...error, message: '语🧵\ufffd' })
  })

  it('refuses a payload of 2 GiB whatever the limit', () => {
    const header = bytes`${field(8, bytes`32 02 01 01 38 01`)} 7a ${varint(2n ** 31n)}`
    expect(() => decodeAll(framing, frameOf(header), Number.MAX_SAFE_INTEGER)).toThrow(/2147483648 B exceeds/)
  })

  it('refuses a target that is smaller than the payload', () => {
    const handler = { target: () => new Uint8Array(3), message: () => {} }
    const decoder = framing.createDecoder(handler, { maxPayloadBytes: 4 })
    const frame = framing.encode(tensor, new Uint8Array(4))
    decoder.nextBuffer().set(frame)
    expect(() => decoder.received(frame.byteLength)).toThrow('the target holds 3 B of a payload of 4 B')
  })

  it('refuses a header over 64 KiB at both ends, and takes one of 64 KiB', () => {
    const rowOf = (position: number) => ({
      sequence: 2 ** 32 - 1,
      epoch: 2 ** 32 - 1,
      position,
      tokenCount: 1,
      sample: true,
    })
    const message = (count: number, codec = '') =>
      ({ ...tensor, rows: Array.from({ length: count }, () => rowOf(2 ** 31 - 1)), codec }) as Message
    const fits = framing.encode(message(2600)).byteLength
    expect(fits).toBeLessThan(65536)
    expect(() => framing.encode(message(3000))).toThrow(expect.objectContaining({ code: 'LIMIT' }))
    const full = message(2600 + Math.floor((65536 - fits) / 24))
    const longest = { ...full, codec: 'c'.repeat(65536 - framing.encode(full).byteLength - 2) } as Message
    const frame = framing.encode(longest)
    expect(frame.byteLength).toBe(65536)
    expect(decodeOne(framing, frame)).toEqual(longest)
    expect(() =>
      framing.encode({ ...longest, codec: `${(longest as { codec: string }).codec}c` } as Message),
    ).toThrow('header of 65537 B exceeds the limit of 65536 B')
  })

  it('has headroom for the longest codec name and 64 rows of the largest numbers', () => {
    const largest = largestMessages().find(({ message }) => message.kind === 'tensor')!.message
    const room = new Uint8Array(framing.headroomBytes)
    const start = framing.encodeInto(largest, room, framing.headroomBytes, 0)
    expect(start).toBeGreaterThanOrEqual(0)
    // 512 B would hold the rows of everyday numbers only.
    expect(framing.headroomBytes - start).toBeGreaterThan(1800)
  })
})
