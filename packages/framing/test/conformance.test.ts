import { framingSuite } from '@seamline/conformance'
import { describe, expect, it } from 'vitest'
import { msgpack, protobuf } from '../src/index.ts'
import { bytes, decodeAll, field, frameOf, varint } from './frames.ts'

const row = bytes`2a 00`
const tensor = bytes`32 02 01 01 38 01`
const payloadless = bytes`7a 00`
const tensorHeader = (payloadBytes: bigint) => frameOf(bytes`${field(8, tensor)} 7a ${varint(payloadBytes)}`)
const headerOf = (kind: number, content: Uint8Array) => frameOf(bytes`${field(kind, content)} ${payloadless}`)

it('takes the frame that the refused ones are made from', () => {
  expect(decodeAll(protobuf(), tensorHeader(0n))).toMatchObject([
    [{ kind: 'tensor', dtype: 'f32', shape: [1, 1] }, {}],
  ])
})

framingSuite({
  describe,
  it,
  framing: protobuf,
  refused: {
    'a payload length of 2^31': tensorHeader(2n ** 31n),
    'a payload length of 2^32 - 1': tensorHeader(2n ** 32n - 1n),
    'a payload length of 2^32 + 5': tensorHeader(2n ** 32n + 5n),
    'a payload length of 2^63': tensorHeader(2n ** 63n),
    'a payload length of 2^64 - 1': tensorHeader(2n ** 64n - 1n),
    'a kind of 2^31 bytes': frameOf(bytes`42 ${varint(2n ** 31n)} ${tensor} ${payloadless}`),
    'a kind of 2^32 - 1 bytes': frameOf(bytes`42 ${varint(2n ** 32n - 1n)} ${tensor} ${payloadless}`),
    'a kind of 2^32 + 6 bytes': frameOf(bytes`42 ${varint(2n ** 32n + 6n)} ${tensor} ${payloadless}`),
    'a kind of 2^63 bytes': frameOf(bytes`42 ${varint(2n ** 63n)} ${tensor} ${payloadless}`),
    'a kind longer than the header': frameOf(bytes`42 7f ${tensor} ${payloadless}`),
    'a header of 2^32 - 1 bytes': frameOf(bytes`${field(8, tensor)} ${payloadless}`, 2 ** 32 - 1),
    'a header of 64 KiB': frameOf(bytes`${field(8, tensor)} ${payloadless}`, 2 ** 16),
    'an empty header': frameOf(bytes``),
    'no kind': frameOf(payloadless),
    'an unknown kind alone': headerOf(16, bytes``),
    'a service without a kind': headerOf(14, bytes``),
    'a service with two kinds': headerOf(14, bytes`0a 02 08 01 1a 02 08 01`),
    'a service that ends inside its kind': frameOf(bytes`72 02 0a 02 08 01 ${payloadless}`),
    'two kinds': frameOf(bytes`${field(7, bytes`08 01`)} ${field(8, tensor)} ${payloadless}`),
    'one kind twice': frameOf(bytes`${field(7, bytes`08 01`)} ${field(7, bytes`08 01`)} ${payloadless}`),
    'a kind and a service': frameOf(
      bytes`${field(7, bytes`08 01`)} ${field(14, bytes`0a 02 08 01`)} ${payloadless}`,
    ),
    'no payload length': frameOf(field(8, tensor)),
    'bytes behind the payload length': frameOf(bytes`${field(8, tensor)} ${payloadless} 80 01 00`),
    'a second payload': frameOf(bytes`${field(8, tensor)} ${payloadless} ${payloadless}`),
    'a payload on a kind that carries none': frameOf(bytes`${field(11, bytes``)} 7a 01`),
    'a group that does not end': frameOf(bytes`${field(8, tensor)} 83 01 08 01`),
    'a group that ends as another': frameOf(bytes`${field(8, tensor)} 83 01 8c 01 ${payloadless}`),
    'groups nested 30,000 deep': frameOf(
      Buffer.concat([field(8, tensor), Buffer.alloc(60_000, '8301', 'hex')]),
    ),
    'field number 0': frameOf(bytes`${field(8, tensor)} 00 00 ${payloadless}`),
    'wire type 7': frameOf(bytes`${field(8, tensor)} 87 01 00 ${payloadless}`),
    'a varint of eleven bytes': headerOf(8, bytes`${tensor} 10 ffffffffffffffffffff 01`),
    'a varint without an end': frameOf(bytes`${field(8, tensor)} 80 01 ffffff`),
    'text that is no UTF-8': headerOf(8, bytes`${tensor} 42 02 c3 28`),
    'overlong UTF-8': headerOf(8, bytes`${tensor} 42 02 c0 80`),
    'a surrogate in UTF-8': headerOf(8, bytes`${tensor} 42 03 ed a0 80`),
    'text of 257 bytes': headerOf(8, bytes`${tensor} ${field(8, Buffer.alloc(257, 'a'))}`),
    'no dtype': headerOf(8, bytes`32 02 01 01`),
    'an unknown dtype': headerOf(8, bytes`32 02 01 01 38 06`),
    'an unknown finish reason': headerOf(9, bytes`0a 02 28 03`),
    'an unknown role': headerOf(1, bytes`08 04`),
    'an unknown error code': headerOf(13, bytes`08 0f`),
    'no error code': headerOf(13, bytes``),
    'no scope': headerOf(10, bytes`10 01`),
    'a shape of one number': headerOf(8, bytes`32 01 01 38 01`),
    'a shape of three numbers': headerOf(8, bytes`32 03 01 01 01 38 01`),
    'a step of 2^53': headerOf(8, bytes`${tensor} 10 ${varint(2n ** 53n)}`),
    'a step of 2^53 + 1': headerOf(8, bytes`${tensor} 10 ${varint(2n ** 53n + 1n)}`),
    'a step of 2^64 - 1': headerOf(8, bytes`${tensor} 10 ${varint(2n ** 64n - 1n)}`),
    'a position of 2^31': headerOf(9, field(1, bytes`18 ${varint(2n ** 31n)}`)),
    'a token of -1': headerOf(9, field(1, bytes`20 ${varint(2n ** 64n - 1n)}`)),
    '4,097 rows': headerOf(8, bytes`${tensor} ${Buffer.concat(Array.from({ length: 4097 }, () => row))}`),
    'a NaN temperature': headerOf(3, bytes`2a 09 09 000000000000f87f`),
    'a temperature of -1': headerOf(3, bytes`2a 09 09 000000000000f0bf`),
    'an infinite penalty': headerOf(3, bytes`2a 09 39 000000000000f07f`),
    'a top_p of 2': headerOf(3, bytes`2a 09 19 0000000000000040`),
  },
})

framingSuite({ describe, it, framing: msgpack })
