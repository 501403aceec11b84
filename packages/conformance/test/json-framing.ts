import { isDeepStrictEqual } from 'node:util'
import { crc32 } from 'node:zlib'
import {
  type FrameDecoder,
  type FrameHandler,
  type FrameLimits,
  type FramingFactory,
  type Message,
  mayCarryPayload,
  SeamError,
} from '@seamline/core'

/** What can be wrong with a {@link jsonFraming}; the suite must see each. */
export type FramingFault =
  | 'unaligned headroom'
  | 'headroom for one row'
  | 'payload on any kind'
  | 'numbers rounded'
  | 'run through a number'
  | 'memory for any header'
  | 'no empty tensors'
  | 'text cut to ASCII'
  | 'no room check'
  | 'byte in front of the frame'
  | 'payload cleared'
  | 'encode reuses memory'
  | 'no limit'
  | 'limit after target'
  | 'target for no payload'
  | 'payload kept in memory of its own'
  | 'payload 8 bytes into the target'
  | 'buffer beyond the payload'
  | 'early message'
  | 'one frame a read'
  | 'no checksum'
  | 'any checksum option'
  | 'plain errors'
  | 'alive after an error'
  | 'handler errors swallowed'
  | 'any count received'
  | 'shared stage'

const PREFIX_BYTES = 8
const STAGE_BYTES = 16 * 1024
const utf8 = new TextDecoder('utf-8', { fatal: true })
const sharedStage = { bytes: new Uint8Array(STAGE_BYTES), staged: 0 }

/** JSON with the one bigint of the messages as its digits. */
const toJson = (value: object) =>
  JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? `${item}n` : item))
const fromJson = (text: string) =>
  JSON.parse(text, (name, item) => (name === 'run' && /^\d+n$/.test(item) ? BigInt(item.slice(0, -1)) : item))

const hasRun = (message: Message) =>
  message.kind !== 'tensor' ||
  (typeof message.run === 'bigint' && BigInt.asUintN(64, message.run) === message.run)

/** A small framing that passes the suite: 8 bytes of length and CRC-32, JSON, payload. `fault` breaks it. */
export function jsonFraming(fault?: FramingFault): FramingFactory {
  return ({ checksum = true } = {}) => {
    const scratch = new Uint8Array(STAGE_BYTES)

    function header(message: Message, payloadBytes: number): Buffer {
      if (!hasRun(message)) throw new SeamError('USAGE', 'a run that is not 64 bits')
      if (fault === 'no empty tensors' && 'shape' in message && message.shape[0] === 0)
        throw new SeamError('USAGE', 'an empty tensor')
      if (payloadBytes > 0 && !mayCarryPayload(message.kind) && fault !== 'payload on any kind')
        throw new SeamError('USAGE', `${message.kind} carries no payload`)
      let text = toJson({ message, payloadBytes })
      if (fault === 'numbers rounded') text = text.replace(/\d{12,}/g, (digits) => `${digits.slice(0, -1)}0`)
      else if (fault === 'run through a number')
        text = text.replace(/"(\d+)n"/g, (_, digits) => `"${BigInt(Number(digits))}n"`)
      else if (!isDeepStrictEqual(fromJson(text).message, message))
        throw new SeamError('USAGE', `JSON cannot carry ${text}`)
      const json = Buffer.from(text, fault === 'text cut to ASCII' ? 'latin1' : 'utf8')
      const prefix = Buffer.alloc(PREFIX_BYTES)
      prefix.writeUInt32LE(json.byteLength, 0)
      prefix.writeUInt32LE(checksum ? crc32(json) : 0, 4)
      return Buffer.concat([prefix, json])
    }

    return {
      id: 'json',
      protocolIds: ['0'.repeat(64)],
      headroomBytes:
        fault === 'unaligned headroom' ? 16_385 : fault === 'headroom for one row' ? 512 : 16_384,
      encodeInto(message, room, payloadStart, payloadBytes) {
        const bytes = header(message, payloadBytes)
        const start = payloadStart - bytes.byteLength
        if (start < 0 && fault !== 'no room check')
          throw new SeamError('LIMIT', `${bytes.byteLength} B > ${payloadStart} B`)
        room.set(bytes.subarray(Math.max(0, -start)), Math.max(0, start))
        if (fault === 'byte in front of the frame' && start > 0) room[start - 1] = 0
        if (fault === 'payload cleared') room.fill(0, payloadStart, payloadStart + payloadBytes)
        return start
      },
      encode(message, payload = new Uint8Array(0)) {
        const frame = Buffer.concat([header(message, payload.byteLength), payload])
        if (fault !== 'encode reuses memory') return frame
        scratch.set(frame)
        return scratch.subarray(0, frame.byteLength)
      },
      createDecoder: (handler, limits) => decoder(handler, limits, checksum, fault),
    }
  }
}

function decoder(
  handler: FrameHandler,
  limits: FrameLimits,
  checksum: boolean,
  fault: FramingFault | undefined,
): FrameDecoder {
  const stage = fault === 'shared stage' ? sharedStage : { bytes: new Uint8Array(STAGE_BYTES), staged: 0 }
  const { bytes } = stage
  let pending: { message: Message; payloadBytes: number } | undefined
  let target = new Uint8Array(0)
  let filled = 0
  let offered = 0
  let dead: unknown

  function parse(json: Uint8Array, stated: number): { message: Message; payloadBytes: number } {
    const expected = checksum ? crc32(json) : 0
    const optionIgnored = fault === 'any checksum option' && (stated === 0 || !checksum)
    if (stated !== expected && fault !== 'no checksum' && !optionIgnored)
      throw new SeamError('PROTOCOL', `CRC-32 ${stated} instead of ${expected}`)
    try {
      const { message, payloadBytes } = fromJson(utf8.decode(json))
      if (!Number.isSafeInteger(payloadBytes) || payloadBytes < 0) throw new Error('no payload length')
      if (typeof message !== 'object' || message === null) throw new Error('no message')
      if (payloadBytes > 0 && !mayCarryPayload(message.kind)) throw new Error('a payload')
      if (!hasRun(message)) throw new Error('no run')
      const canonical = toJson({ message, payloadBytes })
      if (Buffer.byteLength(canonical) !== json.byteLength) throw new Error('not as it is written')
      return { message, payloadBytes }
    } catch (error) {
      throw fault === 'plain errors' ? error : SeamError.from(error, 'PROTOCOL')
    }
  }

  /** Names the target of the pending payload; a target of no bytes where there is none. */
  function begin({ message, payloadBytes }: { message: Message; payloadBytes: number }): void {
    const tooLong = payloadBytes > limits.maxPayloadBytes && fault !== 'no limit'
    if (tooLong && fault === 'limit after target') handler.target(message, payloadBytes)
    if (tooLong) throw new SeamError('LIMIT', `${payloadBytes} B > ${limits.maxPayloadBytes} B`)
    filled = 0
    target = new Uint8Array(0)
    if (payloadBytes === 0 && fault !== 'target for no payload') return
    target = handler.target(message, payloadBytes) as Uint8Array<ArrayBuffer>
    if (fault === 'payload 8 bytes into the target' && target.byteLength >= payloadBytes + 8)
      target = target.subarray(8)
    if (fault === 'payload kept in memory of its own') target = new Uint8Array(payloadBytes)
  }

  function deliver(): void {
    const { message, payloadBytes } = pending!
    pending = undefined
    try {
      handler.message(message, target.subarray(0, payloadBytes))
    } catch (error) {
      if (fault !== 'handler errors swallowed') throw error
    }
  }

  function walk(): void {
    let at = 0
    while (pending === undefined && stage.staged - at >= PREFIX_BYTES) {
      const view = new DataView(bytes.buffer, at)
      const end = at + PREFIX_BYTES + view.getUint32(0, true)
      if (fault === 'memory for any header') new Uint8Array(end)
      if (end - at > STAGE_BYTES) throw new SeamError('LIMIT', `header of ${end - at} B`)
      if (end > stage.staged) break
      pending = parse(bytes.subarray(at + PREFIX_BYTES, end), view.getUint32(4, true))
      begin(pending)
      filled = Math.min(pending.payloadBytes, stage.staged - end)
      target.set(bytes.subarray(end, end + filled))
      at = end + filled
      if (filled === pending.payloadBytes || fault === 'early message') deliver()
      if (fault === 'one frame a read') break
    }
    bytes.copyWithin(0, at, stage.staged)
    stage.staged -= at
  }

  return {
    nextBuffer() {
      if (dead !== undefined) throw dead
      let next: Uint8Array = bytes.subarray(stage.staged)
      if (pending !== undefined)
        next = target.subarray(
          filled,
          fault === 'buffer beyond the payload' ? undefined : pending.payloadBytes,
        )
      offered = next.byteLength
      return next
    },
    received(count) {
      if (dead !== undefined) throw dead
      try {
        if (count > offered && fault !== 'any count received')
          throw new SeamError('USAGE', `${count} B > ${offered} B`)
        if (pending === undefined) stage.staged += count
        else {
          filled += count
          if (filled >= pending.payloadBytes) deliver()
        }
        walk()
      } catch (error) {
        if (fault !== 'alive after an error') dead = error
        throw error
      }
    },
  }
}
