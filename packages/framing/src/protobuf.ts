import { crc32 } from 'node:zlib'
import { type Framing, type FramingFactory, type Message, mayCarryPayload, SeamError } from '@seamline/core'
import { frameDecoder, type Header, type HeaderFormat } from './decoder.ts'
import { Refused } from './fields.ts'
import { protocolId } from './generated/protocol-id.ts'
import { frameKinds, type Kind, PAYLOAD_TAG, SERVICE_TAG, serviceKinds } from './schema.ts'
import { WireReader, WireWriter } from './wire.ts'

const PREFIX_BYTES = 8
/** Prefix and header. */
const MAX_HEADER_BYTES = 64 * 1024
/** Lengths of protobuf fields are below 2^31. */
const MAX_PAYLOAD_BYTES = 2 ** 31 - 1
const EMPTY = new Uint8Array(0)

const tags = new Map<Message['kind'], readonly [tag: number, kind: Kind]>(
  [...frameKinds, ...serviceKinds].map(([tag, kind]) => [kind.kind, [tag, kind]]),
)

/**
 * Frames as protobuf messages: 8 bytes of prefix (header length and CRC-32 of the header, u32 little-endian; the
 * CRC is 0 without `checksum`), then one `Frame` of `proto/seamline.proto` whose last field is the payload.
 * Encoding throws `USAGE` for a message whose values its fields cannot carry or for a payload on a kind without
 * one, and `LIMIT` for a header over 64 KiB.
 */
export const protobuf: FramingFactory = ({ checksum = true } = {}): Framing => {
  // One writer serves every frame: a header is copied into its place before the next one is begun.
  const writer = new WireWriter()

  /** Writes prefix and header into the writer's own memory. Valid until the next call. */
  function writeHeader(message: Message, payloadBytes: number): Uint8Array {
    if (!Number.isInteger(payloadBytes) || payloadBytes < 0)
      throw new SeamError('USAGE', `${payloadBytes} is no number of payload bytes`)
    if (payloadBytes > MAX_PAYLOAD_BYTES)
      throw new SeamError(
        'LIMIT',
        `payload of ${payloadBytes} B exceeds the ${MAX_PAYLOAD_BYTES} B of a frame`,
      )
    if (payloadBytes > 0 && !mayCarryPayload(message.kind))
      throw new SeamError('USAGE', `a ${message.kind} frame carries no payload, ${payloadBytes} B were given`)
    const found = tags.get(message.kind)
    if (found === undefined) throw new SeamError('USAGE', `no message kind ${message.kind}`)
    const [tag, kind] = found
    const wire = fieldsToWire(kind, message)
    writer.reset()
    writer.fixed32(0).fixed32(0)
    if (kind.service) writer.uint32(SERVICE_TAG).fork()
    kind.type.encode(wire, writer.uint32(tag).fork()).ldelim()
    if (kind.service) writer.ldelim()
    const bytes = writer.uint32(PAYLOAD_TAG).uint32(payloadBytes).finish(true)
    if (bytes.byteLength > MAX_HEADER_BYTES)
      throw new SeamError(
        'LIMIT',
        `header of ${bytes.byteLength} B exceeds the limit of ${MAX_HEADER_BYTES} B`,
      )
    writeUint32(bytes, 0, bytes.byteLength - PREFIX_BYTES)
    writeUint32(bytes, 4, checksum ? crc32(bytes.subarray(PREFIX_BYTES)) : 0)
    return bytes
  }

  const format: HeaderFormat = {
    prefixBytes: PREFIX_BYTES,
    maxHeaderBytes: MAX_HEADER_BYTES,
    frameHeaderBytes(prefix) {
      const bytes = PREFIX_BYTES + readUint32(prefix, 0)
      if (bytes > MAX_HEADER_BYTES)
        throw new SeamError('LIMIT', `header of ${bytes} B exceeds the limit of ${MAX_HEADER_BYTES} B`)
      return bytes
    },
    parse(prefixed) {
      const header = prefixed.subarray(PREFIX_BYTES)
      const stated = readUint32(prefixed, 4)
      const actual = checksum ? crc32(header) : 0
      if (stated !== actual)
        throw new SeamError(
          'PROTOCOL',
          `header CRC-32 is ${hex(actual)}, the frame states ${hex(stated)}${
            stated === 0 || actual === 0 ? '; do both ends agree on checksum?' : ''
          }`,
        )
      return parseHeader(header)
    },
  }

  return {
    id: 'protobuf',
    protocolIds: [protocolId],
    headroomBytes: 2048,
    encodeInto(message, room, payloadStart, payloadBytes) {
      const header = writeHeader(message, payloadBytes)
      const start = payloadStart - header.byteLength
      if (!(start >= 0))
        throw new SeamError(
          'LIMIT',
          `${message.kind} header of ${header.byteLength} B does not fit in ${payloadStart} B`,
        )
      if (payloadStart + payloadBytes > room.byteLength)
        throw new SeamError(
          'LIMIT',
          `payload up to ${payloadStart + payloadBytes} B exceeds the room of ${room.byteLength} B`,
        )
      room.set(header, start)
      return start
    },
    encode(message, payload = EMPTY) {
      const header = writeHeader(message, payload.byteLength)
      const frame = new Uint8Array(header.byteLength + payload.byteLength)
      frame.set(header)
      frame.set(payload, header.byteLength)
      return frame
    },
    createDecoder: (handler, limits) => frameDecoder(format, handler, limits),
  }
}

function fieldsToWire(kind: Kind, message: Message): object {
  try {
    return kind.field.toWire(message) as object
  } catch (error) {
    throw error instanceof Refused ? new SeamError('USAGE', error.message) : error
  }
}

/** One walk over the top level finds the kind and the payload's length, and that each is there exactly once. */
function parseHeader(header: Uint8Array): Header {
  const reader = new WireReader(header)
  let message: Message | undefined
  let payloadBytes: number | undefined

  function walk(kinds: ReadonlyMap<number, Kind>, end: number): void {
    while (reader.pos < end) {
      if (payloadBytes !== undefined)
        throw new Refused(`${end - reader.pos} B behind the length of the payload`)
      const tag = reader.tag()
      const kind = kinds.get(tag)
      if (kind !== undefined) {
        if (message !== undefined) throw new Refused(`both ${message.kind} and ${kind.kind} in one frame`)
        message = kind.field.fromWire(kind.type.decode(reader, reader.size()))
      } else if (tag === SERVICE_TAG && kinds === frameKinds) {
        const bytes = reader.size()
        walk(serviceKinds, reader.pos + bytes)
      } else if (tag === PAYLOAD_TAG && kinds === frameKinds) {
        payloadBytes = reader.uint64()
      } else {
        reader.skipType(tag & 7, 0, tag >>> 3)
      }
    }
    if (reader.pos !== end) throw new Refused('a field reaches beyond the message that holds it')
  }

  try {
    walk(frameKinds, reader.len)
    if (message === undefined) throw new Refused('no known kind of message')
    if (payloadBytes === undefined) throw new Refused('no length of the payload')
    if (payloadBytes > MAX_PAYLOAD_BYTES)
      throw new Refused(`payload of ${payloadBytes} B exceeds the ${MAX_PAYLOAD_BYTES} B of a frame`)
    if (payloadBytes > 0 && !mayCarryPayload(message.kind))
      throw new Refused(`a ${message.kind} frame carries no payload, ${payloadBytes} B are stated`)
    return { message, payloadBytes }
  } catch (error) {
    throw new SeamError('PROTOCOL', `malformed frame: ${(error as Error).message}`, { cause: error })
  }
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}

function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value
  bytes[at + 1] = value >>> 8
  bytes[at + 2] = value >>> 16
  bytes[at + 3] = value >>> 24
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(8, '0')}`
}
