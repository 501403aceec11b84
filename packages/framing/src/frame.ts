import { crc32 } from 'node:zlib'
import { type Framing, type FramingOptions, type Message, mayCarryPayload, SeamError } from '@seamline/core'
import { frameDecoder, type Header, type HeaderFormat } from './decoder.ts'
import { integer, Refused } from './fields.ts'

/** Prefix of every frame: header length and CRC-32 of the header, u32 little-endian; the CRC is 0 without `checksum`. */
export const PREFIX_BYTES = 8
/** Longest prefix and header together. */
const MAX_HEADER_BYTES = 64 * 1024
const MAX_PAYLOAD_BYTES = 2 ** 31 - 1
/** The length of a payload as the wire states it; what a frame may hold is checked behind it. */
export const byteCount = integer(Number.MAX_SAFE_INTEGER)
const EMPTY = new Uint8Array(0)

/** Headers of one framing. */
export interface HeaderCodec {
  readonly id: string
  readonly protocolId: string
  /** `PREFIX_BYTES` of room and the header, valid until the next call. Throws {@link Refused} for values it cannot carry. */
  write(message: Message, payloadBytes: number): Uint8Array
  /** Reads exactly one header. Throws any error when it is malformed; nothing is retained. */
  read(header: Uint8Array): Header
  /**
   * Shortcuts past {@link write} and {@link read}, with the same result where they know the way: the header, without
   * prefix, written to end at `end` of `room` behind room for a prefix, and where it starts, or -1; the header read from `start` to `end`, or undefined.
   */
  writeBefore?(message: Message, room: Uint8Array, end: number, payloadBytes: number): number
  readBetween?(bytes: Uint8Array, start: number, end: number): Header | undefined
}

/**
 * A framing of prefix, header and payload. Encoding throws `USAGE` for a message whose values its fields cannot carry or
 * for a payload on a kind without one, and `LIMIT` for a header over 64 KiB.
 */
export function prefixedFraming(codec: HeaderCodec, { checksum = true }: FramingOptions = {}): Framing {
  function checkPayload(message: Message, payloadBytes: number): void {
    if (!Number.isInteger(payloadBytes) || payloadBytes < 0)
      throw new SeamError('USAGE', `${payloadBytes} is no number of payload bytes`)
    if (payloadBytes > MAX_PAYLOAD_BYTES)
      throw new SeamError(
        'LIMIT',
        `payload of ${payloadBytes} B exceeds the ${MAX_PAYLOAD_BYTES} B of a frame`,
      )
    if (payloadBytes > 0 && !mayCarryPayload(message.kind))
      throw new SeamError('USAGE', `a ${message.kind} frame carries no payload, ${payloadBytes} B were given`)
  }

  function writePrefix(bytes: Uint8Array, at: number, end: number): void {
    const start = at + PREFIX_BYTES
    writeUint32(bytes, at, end - start)
    writeUint32(bytes, at + 4, checksum ? crc32(bytes.subarray(start, end)) : 0)
  }

  /** Valid until the next call. */
  function writeHeader(message: Message, payloadBytes: number): Uint8Array {
    checkPayload(message, payloadBytes)
    const bytes = written(message, payloadBytes)
    if (bytes.byteLength > MAX_HEADER_BYTES)
      throw new SeamError(
        'LIMIT',
        `header of ${bytes.byteLength} B exceeds the limit of ${MAX_HEADER_BYTES} B`,
      )
    writePrefix(bytes, 0, bytes.byteLength)
    return bytes
  }

  function written(message: Message, payloadBytes: number): Uint8Array {
    try {
      return codec.write(message, payloadBytes)
    } catch (error) {
      throw error instanceof Refused ? new SeamError('USAGE', error.message) : error
    }
  }

  const format: HeaderFormat = {
    prefixBytes: PREFIX_BYTES,
    maxHeaderBytes: MAX_HEADER_BYTES,
    frameHeaderBytes(bytes, start) {
      const total = PREFIX_BYTES + readUint32(bytes, start)
      if (total > MAX_HEADER_BYTES)
        throw new SeamError('LIMIT', `header of ${total} B exceeds the limit of ${MAX_HEADER_BYTES} B`)
      return total
    },
    parse(bytes, start, end) {
      const headerStart = start + PREFIX_BYTES
      const stated = readUint32(bytes, start + 4)
      const actual = checksum ? crc32(bytes.subarray(headerStart, end)) : 0
      if (stated !== actual)
        throw new SeamError(
          'PROTOCOL',
          `header CRC-32 is ${hex(actual)}, the frame states ${hex(stated)}${
            stated === 0 || actual === 0 ? '; do both ends agree on checksum?' : ''
          }`,
        )
      try {
        return checkedPayload(
          codec.readBetween?.(bytes, headerStart, end) ?? codec.read(bytes.subarray(headerStart, end)),
        )
      } catch (error) {
        throw new SeamError('PROTOCOL', `malformed frame: ${(error as Error).message}`, { cause: error })
      }
    },
  }

  return {
    id: codec.id,
    protocolIds: [codec.protocolId],
    headroomBytes: 2048,
    encodeInto(message, room, payloadStart, payloadBytes) {
      if (codec.writeBefore !== undefined && payloadStart + payloadBytes <= room.byteLength) {
        checkPayload(message, payloadBytes)
        const headerStart = codec.writeBefore(message, room, payloadStart, payloadBytes)
        if (headerStart >= PREFIX_BYTES) {
          writePrefix(room, headerStart - PREFIX_BYTES, payloadStart)
          return headerStart - PREFIX_BYTES
        }
      }
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

function checkedPayload(header: Header): Header {
  const { message, payloadBytes } = header
  if (!(payloadBytes <= MAX_PAYLOAD_BYTES))
    throw new Refused(`payload of ${payloadBytes} B exceeds the ${MAX_PAYLOAD_BYTES} B of a frame`)
  if (payloadBytes > 0 && !mayCarryPayload(message.kind))
    throw new Refused(`a ${message.kind} frame carries no payload, ${payloadBytes} B are stated`)
  return header
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
