import { randomMessages } from '@seamline/conformance'
import type { Message, TensorMessage } from '@seamline/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadSchema, referenceFrame } from '../scripts/generate.mjs'
import { readTensor, writeTensorBefore } from '../src/tensor-wire.ts'
import { bytes, field, varint } from './frames.ts'
import { headerOf, vector } from './vectors.ts'

const schema = loadSchema()
const END = 65_536
const tensor = vector('tensor') as TensorMessage
const headerByReference = (message: Message, payloadBytes: number) =>
  headerOf(referenceFrame(schema, message, Buffer.alloc(payloadBytes)))

const u31 = fc.oneof(fc.nat(300), fc.nat(2 ** 31 - 1))
const u32 = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 2 ** 32 - 1 }))
const u53 = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }))
const tensors: fc.Arbitrary<TensorMessage> = fc.record({
  kind: fc.constant('tensor' as const),
  run: fc.oneof(fc.bigInt(0n, 300n), fc.bigInt(0n, 2n ** 64n - 1n)),
  step: u53,
  edge: u31,
  fragment: u31,
  rows: fc.array(
    fc.record({ sequence: u32, epoch: u32, position: u31, tokenCount: u31, sample: fc.boolean() }),
    { maxLength: 5 },
  ),
  shape: fc.tuple(u31, u31),
  dtype: fc.constantFrom('f32' as const, 'f16' as const, 'bf16' as const, 'q8_0' as const, 'i32' as const),
  codec: fc.constantFrom('', 'none', 'f32', 'zstd+f16', 'c'.repeat(127)),
  sentNs: u53,
  checksum: fc.oneof(fc.constant(-1), u32),
})

describe('the shortcut for tensor headers', () => {
  it('writes and reads the bytes of protobufjs reflection', () => {
    fc.assert(
      fc.property(tensors, fc.nat(200), (message, payloadBytes) => {
        const expected = headerByReference(message, payloadBytes)
        const room = Buffer.alloc(END, 0xa5)
        const start = writeTensorBefore(message, room, END, payloadBytes)
        expect(room.subarray(start).toString('hex')).toBe(expected.toString('hex'))
        expect(readTensor(room, start, END)).toEqual({ message, payloadBytes })
      }),
      { seed: 4, numRuns: 2000 },
    )
  })

  it('steps aside for all that is no everyday tensor', () => {
    const others: unknown[] = [
      ...randomMessages(5)
        .map(({ message }) => message)
        .filter(({ kind }) => kind !== 'tensor'),
      { ...tensor, run: -1n },
      { ...tensor, run: 2n ** 64n },
      { ...tensor, run: 1 },
      { ...tensor, step: 2 ** 53 },
      { ...tensor, step: 0.5 },
      { ...tensor, sentNs: -1 },
      { ...tensor, edge: 2 ** 31 },
      { ...tensor, fragment: '1' },
      { ...tensor, codec: 'ß' },
      { ...tensor, codec: 'c'.repeat(128) },
      { ...tensor, dtype: 'f64' },
      { ...tensor, checksum: 2 ** 32 },
      { ...tensor, checksum: -2 },
      { ...tensor, shape: [1] },
      { ...tensor, shape: [1, -1] },
      { ...tensor, shape: undefined },
      { ...tensor, rows: undefined },
      { ...tensor, rows: [null] },
      { ...tensor, rows: new Array(1) },
      { ...tensor, rows: [{ ...tensor.rows[0], sample: 1 }] },
      { ...tensor, rows: [{ ...tensor.rows[0], position: 2 ** 31 }] },
      { ...tensor, rows: new Array(1025).fill(tensor.rows[0]) },
    ]
    const room = Buffer.alloc(END, 0xa5)
    for (const message of others) expect(writeTensorBefore(message as Message, room, END, 0)).toBe(-1)
    expect(writeTensorBefore(tensor, room, 150, 0)).toBe(-1)
    expect(writeTensorBefore(tensor, room, END + 1, 0)).toBe(-1)
    expect(room.every((byte) => byte === 0xa5)).toBe(true)
  })

  it('steps aside for bytes that it would not write, and never reads beyond the header', () => {
    const good = headerByReference(tensor, 9)
    const readable = (header: Uint8Array, behind: Uint8Array = Buffer.alloc(64, 1)) =>
      readTensor(Buffer.concat([header, behind]), 0, header.byteLength)
    expect(readable(good)).toEqual({ message: tensor, payloadBytes: 9 })
    for (let cut = 0; cut < good.byteLength; cut++) {
      expect(readable(good.subarray(0, cut))).toBeUndefined()
      expect(readable(good.subarray(0, cut), good.subarray(cut))).toBeUndefined()
    }
    const shape = bytes`32 02 01 01 38 01`
    const made = (content: Uint8Array, payload = bytes`7a 00`) =>
      readable(bytes`${field(8, content)} ${payload}`)
    expect(made(shape)).toMatchObject({ message: { kind: 'tensor', shape: [1, 1] } })
    for (const content of [
      bytes`32 02 01 01`,
      bytes`38 01`,
      bytes`32 02 01 01 38 06`,
      bytes`32 01 01 38 01`,
      bytes`32 03 01 01 01 38 01`,
      bytes`38 01 32 02 01 01`,
      bytes`10 ${varint(2n ** 53n)} ${shape}`,
      bytes`10 ${varint(2n ** 64n - 1n)} ${shape}`,
      bytes`18 ${varint(2n ** 31n)} ${shape}`,
      bytes`2a 02 28 02 ${shape}`,
      bytes`2a 06 18 ${varint(2n ** 31n)} ${shape}`,
      bytes`2a 7f ${shape}`,
      bytes`${shape} 42 02 c3 9f`,
      bytes`${shape} 42 7f`,
      bytes`${shape} 55 010203`,
      bytes`${shape} a2 06 00`,
      bytes`09 010203`,
    ])
      expect(made(content), content.toString('hex')).toBeUndefined()
    expect(made(shape, bytes`7a 00 00`)).toBeUndefined()
    expect(made(shape, bytes`7a`)).toBeUndefined()
    expect(made(shape, bytes`7a ${varint(2n ** 63n)}`)).toBeUndefined()
  })
})
