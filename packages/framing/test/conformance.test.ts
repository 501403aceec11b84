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
    'text with a byte order mark': headerOf(8, bytes`${tensor} 42 04 efbbbf61`),
    'a row of 2^32 + 1 bytes': headerOf(8, bytes`2a ${varint(2n ** 32n + 1n)} 00 ${tensor}`),
    'a sequence of 2^32 + 5': headerOf(4, bytes`10 ${varint(2n ** 32n + 5n)}`),
    'a sequence of 2^35 + 5': headerOf(4, bytes`10 ${varint(2n ** 35n + 5n)}`),
    'a sequence of 2^63 + 5': headerOf(4, bytes`10 ${varint(2n ** 63n + 5n)}`),
    'a shape with 2^32 + 1': headerOf(8, bytes`32 06 01 ${varint(2n ** 32n + 1n)} 38 01`),
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

const TENSOR = '9a 00 00 00 00 90 92 01 01 01 a0 00 c0'
/** Header of kind 8 with a payload length and fields, each as hex. */
const packed = (payload = '00', fields = TENSOR, kind = '08') =>
  frameOf(Buffer.from(`93 ${kind} ${payload} ${fields}`.replaceAll(' ', ''), 'hex'))
/** A tensor with one field replaced. */
const withField = (at: number, hex: string) => {
  const fields = ['00', '00', '00', '00', '90', '92 01 01', '01', 'a0', '00', 'c0'].with(at, hex)
  return packed('00', `9a ${fields.join(' ')}`)
}
const be64 = (value: bigint) => value.toString(16).padStart(16, '0')

it('takes the header that the refused ones are made from', () => {
  expect(decodeAll(msgpack(), packed())).toMatchObject([
    [{ kind: 'tensor', dtype: 'f32', shape: [1, 1] }, {}],
  ])
  expect(decodeAll(msgpack(), withField(7, 'a3 663136'))).toMatchObject([[{ codec: 'f16' }, {}]])
})

framingSuite({
  describe,
  it,
  framing: msgpack,
  refused: {
    'a payload length of 2^31': packed('ce 80000000'),
    'a payload length of 2^32 - 1': packed('ce ffffffff'),
    'a payload length of 2^40': packed(`cf ${be64(2n ** 40n)}`),
    'a payload length of 2^63': packed(`cf ${be64(2n ** 63n)}`),
    'a payload length of 2^64 - 1': packed(`cf ${be64(2n ** 64n - 1n)}`),
    'a payload length of 2^40 as a float': packed('cb 4270000000000000'),
    'a payload length of -1': packed('ff'),
    'a payload length of -2^63': packed('d3 8000000000000000'),
    'a payload length of 1.5': packed('cb 3ff8000000000000'),
    'a payload length of NaN': packed('cb 7ff8000000000000'),
    'a payload length that is nil': packed('c0'),
    'a payload length that is text': packed('a1 31'),
    'binary of 2^31 - 1 bytes': withField(7, 'c6 7fffffff 00010203040506070809'),
    'binary of 2 bytes': withField(7, 'c4 02 3132'),
    'binary for a header': frameOf(bytes`c4 02 93 08`),
    'text of 2^31 bytes': withField(7, 'db 80000000'),
    'text of 2^32 - 1 bytes': withField(7, 'db ffffffff'),
    'text longer than the header': withField(7, 'd9 40 6161'),
    'an array of 2^31 - 1': withField(4, 'dd 7fffffff'),
    'an array of 2^32 - 1': withField(4, 'dd ffffffff'),
    'an array longer than the header': withField(4, 'dc 0100'),
    'a header that is an array of 2^32 - 1': frameOf(bytes`dd ffffffff 08 00`),
    'a map of 2^32 - 1': withField(4, 'df ffffffff'),
    'an empty map': withField(4, '80'),
    'a map with a prototype': withField(4, '81 a9 5f5f70726f746f5f5f 90'),
    'a map for a header': frameOf(bytes`82 00 08 01 00`),
    'an extension of 2^32 - 1 bytes': withField(4, 'c9 ffffffff 42'),
    'a timestamp': withField(8, 'd6 ff 00000001'),
    'undefined by extension': withField(9, 'd4 00 00'),
    'a Set': withField(4, 'd4 73 00 90'),
    'a RegExp': withField(7, 'd4 78 00 92 a1 61 a0'),
    'an Error': withField(7, 'd4 65 00 93 a5 4572726f72 a1 61 c0'),
    'a typed array': withField(5, 'c7 09 74 05 0100000001000000'),
    'a record definition': withField(4, 'd4 72 40 91 a1 61 01'),
    'a bundle of strings': withField(4, 'c7 04 62 00000010 90'),
    'an id of a structured clone': withField(4, 'd6 69 00000001 90'),
    'a pointer of a structured clone': withField(4, 'd6 70 00000001'),
    'a large integer by extension': withField(0, 'c7 09 42 010000000000000000'),
    'a byte that MessagePack never uses': withField(4, 'c1'),
    'arrays nested 7 deep': withField(4, '91 91 91 91 91 91 91 90'),
    'an unknown element nested 6 deep in the header': frameOf(bytes`94 07 00 91 01 91 91 91 91 91 90`),
    'an unknown element nested 30,000 deep': frameOf(
      Buffer.concat([bytes`94 07 00 91 01`, Buffer.alloc(29_999, 0x91), bytes`90`]),
    ),
    'arrays nested 30,000 deep': frameOf(Buffer.alloc(30_000, 0x91)),
    'arrays nested 30,000 deep behind the fields': frameOf(
      Buffer.concat([
        bytes`94 08 00 ${Buffer.from(TENSOR.replaceAll(' ', ''), 'hex')}`,
        Buffer.alloc(30_000, 0x91),
      ]),
    ),
    'a header of 2^32 - 1 bytes': frameOf(bytes`93 07 00 91 01`, 2 ** 32 - 1),
    'a header of 64 KiB': frameOf(bytes`93 07 00 91 01`, 2 ** 16),
    'an empty header': frameOf(bytes``),
    'a header of no elements': frameOf(bytes`90`),
    'a header without fields': frameOf(bytes`92 07 00`),
    'a header that is a number': frameOf(bytes`07`),
    'bytes behind the header': frameOf(bytes`93 07 00 91 01 c0`),
    'two headers': frameOf(bytes`93 07 00 91 01 93 07 00 91 01`),
    'a header cut at its last byte': frameOf(bytes`93 07 00 91`),
    'kind 0': packed('00', '91 01', '00'),
    'kind 18': packed('00', '91 01', '12'),
    'kind -1': packed('00', '91 01', 'ff'),
    'kind 2^63': packed('00', '91 01', `cf ${be64(2n ** 63n)}`),
    'kind 7.5': packed('00', '91 01', 'cb 401e000000000000'),
    'kind "7"': packed('00', '91 01', 'a1 37'),
    'two kinds': packed('00', '91 01', '92 07 08'),
    'a kind that is nil': packed('00', '91 01', 'c0'),
    'a payload on a kind that carries none': packed('01', '94 00 00 00 00', '0b'),
    'fields that are nil': packed('00', 'c0', '07'),
    'fields that are text': packed('00', 'a1 61', '07'),
    'too few fields': packed('00', '90', '07'),
    'text that is no UTF-8': withField(7, 'a2 c328'),
    'overlong UTF-8': withField(7, 'a2 c080'),
    'a surrogate in UTF-8': withField(7, 'a3 eda080'),
    'text cut inside a character': withField(7, 'a1 c3'),
    'text with a byte order mark': withField(7, 'a4 efbbbf61'),
    'text of 257 bytes': withField(7, `da 0101 ${'61'.repeat(257)}`),
    'text that is a number': withField(7, '00'),
    'dtype 0': withField(6, '00'),
    'dtype 6': withField(6, '06'),
    'a dtype by name': withField(6, 'a3 663332'),
    'a shape of one number': withField(5, '91 01'),
    'a shape of three numbers': withField(5, '93 01 01 01'),
    'a shape that is text': withField(5, 'a2 3131'),
    'a step of 2^53': withField(1, `cf ${be64(2n ** 53n)}`),
    'a step of 2^53 + 1': withField(1, `cf ${be64(2n ** 53n + 1n)}`),
    'a step of 2^53 + 1 as signed': withField(1, `d3 ${be64(2n ** 53n + 1n)}`),
    'a step of 2^53 as a float': withField(1, 'cb 4340000000000000'),
    'a step of 2^63': withField(1, `cf ${be64(2n ** 63n)}`),
    'a step of 2^64 - 1': withField(1, `cf ${be64(2n ** 64n - 1n)}`),
    'a step of -1': withField(1, 'ff'),
    'a step of infinity': withField(1, 'cb 7ff0000000000000'),
    'a run of -1': withField(0, `d3 ${be64(2n ** 64n - 1n)}`),
    'a run of 2^53 as a float': withField(0, 'cb 4340000000000000'),
    'a run of 0.5': withField(0, 'cb 3fe0000000000000'),
    'a checksum of 2^32': withField(9, `cf ${be64(2n ** 32n)}`),
    'rows that are not arrays': withField(4, '91 01'),
    'a row of four fields': withField(4, '91 94 00 00 00 00'),
    'a row whose sample is 1': withField(4, '91 95 00 00 00 01 01'),
    '4,097 rows': withField(4, `dc 1001 ${'950000000000'.replace(/00$/, 'c2').repeat(4097)}`),
  },
})
