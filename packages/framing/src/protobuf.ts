import type { FramingFactory, Message } from '@seamline/core'
import type { Header } from './decoder.ts'
import { Refused } from './fields.ts'
import { byteCount, PREFIX_BYTES, prefixedFraming } from './frame.ts'
import { protobufId } from './generated/protocol-ids.ts'
import { frameKinds, type Kind, PAYLOAD_TAG, SERVICE_TAG, serviceKinds } from './protobuf-kinds.ts'
import { readTensor, writeTensorBefore } from './tensor-wire.ts'
import { WireReader, WireWriter } from './wire.ts'

const tags = new Map<Message['kind'], readonly [tag: number, kind: Kind]>(
  [...frameKinds, ...serviceKinds].map(([tag, kind]) => [kind.kind, [tag, kind]]),
)

/**
 * Frames as protobuf messages: prefix, then one `Frame` of `proto/seamline.proto` whose last field is the payload. What
 * it refuses: see {@link prefixedFraming}.
 */
export const protobuf: FramingFactory = (options) => {
  // One writer serves every frame: a header is copied into its place before the next one is begun.
  const writer = new WireWriter()
  return prefixedFraming(
    {
      id: 'protobuf',
      protocolId: protobufId,
      write(message, payloadBytes) {
        const found = tags.get(message.kind)
        if (found === undefined) throw new Refused(`no message kind ${message.kind}`)
        const [tag, kind] = found
        const wire = kind.field.toWire(message) as object
        writer.reset()
        for (let i = 0; i < PREFIX_BYTES; i += 4) writer.fixed32(0)
        if (kind.service) writer.uint32(SERVICE_TAG).fork()
        kind.type.encode(wire, writer.uint32(tag).fork()).ldelim()
        if (kind.service) writer.ldelim()
        return writer.uint32(PAYLOAD_TAG).uint32(payloadBytes).finish(true)
      },
      read: readHeader,
      writeBefore: writeTensorBefore,
      readBetween: readTensor,
    },
    options,
  )
}

/** One walk over the top level finds the kind and the payload's length, and that each is there exactly once. */
function readHeader(header: Uint8Array): Header {
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
        payloadBytes = byteCount.fromWire(reader.varint64())
      } else {
        reader.skipType(tag & 7, 0, tag >>> 3)
      }
    }
    if (reader.pos !== end) throw new Refused('a field reaches beyond the message that holds it')
  }

  walk(frameKinds, reader.len)
  if (message === undefined) throw new Refused('no known kind of message')
  if (payloadBytes === undefined) throw new Refused('no length of the payload')
  return { message, payloadBytes }
}
