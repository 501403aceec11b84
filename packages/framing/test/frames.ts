import { crc32 } from 'node:zlib'
import type { FrameHandler, Framing, Message } from '@seamline/core'
import protobufjs from 'protobufjs/minimal.js'

/** Prefix with the right length and CRC in front of any header. */
export function frameOf(header: Uint8Array, headerBytes = header.byteLength): Buffer {
  const prefix = Buffer.alloc(8)
  prefix.writeUInt32LE(headerBytes, 0)
  prefix.writeUInt32LE(crc32(header), 4)
  return Buffer.concat([prefix, header])
}

/** Bytes of `hex`, in which blanks and parts given as other bytes may stand. */
export function bytes(parts: TemplateStringsArray, ...values: Uint8Array[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part, i) => [Buffer.from(part.replace(/\s/g, ''), 'hex'), values[i] ?? Buffer.alloc(0)]),
  )
}

/** `value` as a varint. */
export function varint(value: bigint): Buffer {
  const out: number[] = []
  for (let rest = value; ; rest >>= 7n) {
    out.push(Number(rest & 127n) | (rest > 127n ? 128 : 0))
    if (rest <= 127n) return Buffer.from(out)
  }
}

/** A field with wire type 2. */
export function field(number: number, content: Uint8Array): Buffer {
  const writer = protobufjs.Writer.create()
  return Buffer.from(
    writer
      .uint32(number * 8 + 2)
      .bytes(content)
      .finish(),
  )
}

export function decodeAll(
  framing: Framing,
  frame: Uint8Array,
  maxPayloadBytes = 2 ** 20,
): [Message, Buffer][] {
  const found: [Message, Buffer][] = []
  const handler: FrameHandler = {
    target: (_, payloadBytes) => new Uint8Array(payloadBytes),
    message: (message, payload) => found.push([message, Buffer.from(payload)]),
  }
  const decoder = framing.createDecoder(handler, { maxPayloadBytes })
  for (let at = 0; at < frame.byteLength; ) {
    const buffer = decoder.nextBuffer()
    const piece = frame.subarray(at, at + buffer.byteLength)
    buffer.set(piece)
    decoder.received(piece.byteLength)
    at += piece.byteLength
  }
  return found
}

/** The only message in `frame`. */
export function decodeOne(framing: Framing, frame: Uint8Array): Message {
  const found = decodeAll(framing, frame)
  if (found.length !== 1) throw new Error(`${found.length} messages in the frame`)
  return found[0]![0]
}
