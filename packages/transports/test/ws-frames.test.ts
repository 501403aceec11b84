import { describe, expect, it } from 'vitest'
import { createFrameReader, maxMessageBytes, messageHead } from '../src/ws-frames.ts'

/** Feeds `bytes` in pieces of `pieceBytes` and tells what went where. */
function read(bytes: Uint8Array, masked: boolean, pieceBytes = bytes.length) {
  const data: number[] = []
  const other: number[] = []
  let ends = 0
  const reader = createFrameReader(
    masked,
    {
      nextBuffer: () => undefined,
      filled() {},
      take: (chunk) => void data.push(...chunk),
      end: () => {
        ends += 1
      },
    },
    (chunk) => void other.push(...chunk),
  )
  for (let at = 0; at < bytes.length; at += pieceBytes) reader.take(bytes.subarray(at, at + pieceBytes))
  return { data: Buffer.from(data), other: Buffer.from(other), ends }
}

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')

// RFC 6455, 5.7.
const examples = {
  'an unmasked text': hex('81 05 48 65 6c 6c 6f'),
  'a masked text': hex('81 85 37 fa 21 3d 7f 9f 4d 51 58'),
  'a text in two fragments': hex('01 03 48 65 6c 80 02 6c 6f'),
  'an unmasked ping': hex('89 05 48 65 6c 6c 6f'),
  'a masked pong': hex('8a 85 37 fa 21 3d 7f 9f 4d 51 58'),
}
const of256 = Buffer.concat([hex('82 7e 01 00'), Buffer.alloc(256, 0xa5)])
const of65536 = Buffer.concat([hex('82 7f 00 00 00 00 00 01 00 00'), Buffer.alloc(65536, 0x5a)])

describe('the examples of RFC 6455', () => {
  it.each(Object.entries(examples))('%s goes to the library', (_name, bytes) => {
    for (const pieceBytes of [1, 2, 3, 100]) {
      for (const masked of [false, true]) {
        const { data, other, ends } = read(bytes, masked, pieceBytes)
        expect([data.length, ends]).toEqual([0, 0])
        expect(other).toEqual(bytes)
      }
    }
  })

  it('the binary ones of 256 B and of 64 KiB are read, also around a ping and byte by byte', () => {
    const ping = examples['an unmasked ping']
    const bytes = Buffer.concat([of256, ping, of65536, hex('82 00'), ping])
    for (const pieceBytes of [1, 7, 4096, bytes.length]) {
      const { data, other, ends } = read(bytes, false, pieceBytes)
      expect(data.equals(Buffer.concat([of256.subarray(4), of65536.subarray(10)]))).toBe(true)
      expect(other).toEqual(Buffer.concat([ping, ping]))
      expect(ends).toBe(1)
    }
  })

  it('have the heads that are written', () => {
    expect(messageHead(256, false)).toEqual(of256.subarray(0, 4))
    expect(messageHead(65536, false)).toEqual(of65536.subarray(0, 10))
    expect(messageHead(0, false)).toEqual(hex('82 00'))
    expect(messageHead(125, false)).toEqual(hex('82 7d'))
    expect(messageHead(126, true)).toEqual(hex('82 fe 00 7e 00 00 00 00'))
    expect(messageHead(65535, true)).toEqual(hex('82 fe ff ff 00 00 00 00'))
    expect(messageHead(maxMessageBytes, true)).toEqual(hex('82 ff 00 00 00 00 00 04 00 00 00 00 00 00'))
  })
})

it('whatever is not a whole binary message without a key goes to the library, and all behind it', () => {
  const foreign = {
    'a key': [hex('82 81 00 00 00 01 ff'), true],
    'no mask where one is due': [hex('82 01 ff'), true],
    'a mask where none is due': [hex('82 81 00 00 00 00 ff'), false],
    'the first fragment': [hex('02 01 ff'), false],
    'a reserved bit': [hex('c2 01 ff'), false],
    'a reserved opcode': [hex('83 01 ff'), false],
    'a message that is too long': [hex('82 7f 00 00 00 00 00 04 00 01'), false],
    'a length beyond 2^63': [hex('82 7f ff ff ff ff ff ff ff ff'), false],
    'a control frame that is too long': [hex('89 7e 10 00'), false],
  } as const
  for (const [name, [bytes, masked]] of Object.entries(foreign)) {
    const all = Buffer.concat([bytes, hex(masked ? '82 81 00 00 00 00 aa' : '82 01 aa')])
    const { data, other, ends } = read(all, masked, 1)
    expect([name, data.length, ends, other]).toEqual([name, 0, 0, all])
  }
})
