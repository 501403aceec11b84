import { crc32 } from 'node:zlib'
import {
  alignedBytes,
  asBytes,
  type FrameDecoder,
  type FramingFactory,
  SeamError,
  type TensorMessage,
} from '@seamline/core'
import { assertSameBytes, type BenchCase, benchActivations, benchSizes, sizeName } from './bench-case.ts'

export interface FramingCasesOptions {
  /** Name in the ids. @default the framing's id */
  readonly name?: string
  /** Bytes of payload: multiples of 16 KiB. @default 16 KiB, 256 KiB, 8 MiB */
  readonly sizes?: readonly number[]
}

const columns = 4096

/** The tensor message that the cases carry in front of `payload`: one row for each 16 KiB. */
export function benchTensor(payload: Uint8Array, checksum = -1): TensorMessage {
  const rows = payload.byteLength / 4 / columns
  return {
    kind: 'tensor',
    run: 0x0123_4567_89ab_cdefn,
    step: 123_456,
    edge: 1,
    fragment: 0,
    rows: [{ sequence: 7, epoch: 2, position: 1000, tokenCount: rows, sample: true }],
    shape: [rows, columns],
    dtype: 'f32',
    codec: 'f32',
    sentNs: 1_234_567_890_123,
    checksum,
  }
}

/**
 * A tensor to a frame and back: `framing/<name>/encode+decode/16KiB` without and `framing/<name>+checksum/…` with
 * CRC-32, which there covers the header (by the framing) and the payload (as links do).
 *
 * A decoder is fed as by a socket: the first read fills the memory it names, up to 64 KiB of header and payload; that copy
 * is part of the time. The rest of the payload lies in the target already, where a socket would have put it. There is no speed to state:
 * most of the payload is not touched.
 */
export function framingCases(factory: FramingFactory, options: FramingCasesOptions = {}): BenchCase[] {
  const { name = factory().id, sizes = benchSizes } = options
  return sizes.flatMap((bytes) =>
    [false, true].map((checksum) =>
      framingCase(
        factory,
        `framing/${name}${checksum ? '+checksum' : ''}/encode+decode/${sizeName(bytes)}`,
        bytes,
        checksum,
      ),
    ),
  )
}

function framingCase(factory: FramingFactory, id: string, bytes: number, checksum: boolean): BenchCase {
  const framing = factory({ checksum })
  const payloadStart = framing.headroomBytes
  const plain = benchTensor(new Uint8Array(bytes))
  let payload: Uint8Array
  let room: Uint8Array
  let target: Uint8Array
  let message: TensorMessage
  let decoder: FrameDecoder
  let decoded: unknown
  let start = 0

  /** With `whole` every byte is copied to where the decoder wants it, else only those of the first read. */
  function carry(whole: boolean): void {
    message = checksum ? { ...plain, checksum: crc32(payload) } : plain
    start = framing.encodeInto(message, room, payloadStart, bytes)
    const end = payloadStart + bytes
    for (let at = start; at < end; ) {
      const into = decoder.nextBuffer()
      const read = Math.min(into.length, end - at)
      if (whole || at === start) into.set(room.subarray(at, at + read))
      decoder.received(read)
      at += read
    }
  }

  return {
    id,
    setup() {
      room = alignedBytes(payloadStart + bytes)
      payload = room.subarray(payloadStart)
      payload.set(asBytes(benchActivations(bytes / 4)))
      target = alignedBytes(bytes)
      decoder = framing.createDecoder(
        {
          target: () => target,
          message(received, into) {
            decoded = received
            if (checksum && received.kind === 'tensor' && crc32(into) !== received.checksum)
              throw new SeamError('PROTOCOL', `${id}: the CRC-32 of the payload differs`)
          },
        },
        { maxPayloadBytes: bytes },
      )
      carry(true)
    },
    run: () => carry(false),
    validate() {
      target.fill(0)
      decoded = undefined
      carry(true)
      assertSameBytes(`${id}: the payload`, target, asBytes(benchActivations(bytes / 4)))
      assertSameBytes(`${id}: the frame`, room.subarray(start), framing.encode(message, payload))
      const [actual, expected] = [decoded, message].map(printed)
      if (actual !== expected)
        throw new SeamError('MISMATCH', `${id}: decoded ${actual}, encoded ${expected}`)
    },
    teardown() {
      room = payload = target = new Uint8Array(0)
    },
  }
}

/** Independent of the order of the fields. */
function printed(message: unknown): string {
  return JSON.stringify(message, (_, value: unknown) => {
    if (typeof value === 'bigint') return `${value}n`
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}
