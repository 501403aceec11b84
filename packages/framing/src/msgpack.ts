import type { FramingFactory, Message } from '@seamline/core'
import { Packr, RESERVE_START_SPACE, RESET_BUFFER_MODE } from 'msgpackr/pack'
import { type Field, integer, type RecordForm, Refused, record } from './fields.ts'
import { byteCount, PREFIX_BYTES, prefixedFraming } from './frame.ts'
import { msgpackId } from './generated/protocol-ids.ts'
import { assertPlain } from './msgpack-plain.ts'
import { FRAME_KINDS, messageFields, SERVICE_KINDS } from './schema.ts'

/** A record as the array of its fields; behind them may be those of a newer release. */
const positional: RecordForm = (name, fields, kind) => {
  const keys = Object.keys(fields).map((_, i) => i)
  const field = record(fields, keys, () => [], undefined, kind)
  return {
    toWire: field.toWire,
    fromWire(wire) {
      if (!Array.isArray(wire) || wire.length < keys.length)
        throw new Refused(`no array of ${keys.length} or more fields of ${name}`)
      return field.fromWire(wire)
    },
  }
}

const fieldOf = messageFields(positional)
const kinds: readonly Field<Message>[] = [...FRAME_KINDS, ...SERVICE_KINDS].map(fieldOf)
const kindNumber = integer(Number.MAX_SAFE_INTEGER)
const numbers = new Map([...FRAME_KINDS, ...SERVICE_KINDS].map((kind, i) => [kind, i + 1]))

/**
 * Frames with a MessagePack header: prefix, then the array of kind number, payload length and array of fields, then the
 * payload. What it refuses: see {@link prefixedFraming}.
 */
export const msgpack: FramingFactory = (options) => {
  const packr = new Packr({ useRecords: false, structuredClone: false, moreTypes: false })
  return prefixedFraming(
    {
      id: 'msgpack',
      protocolId: msgpackId,
      write(message, payloadBytes) {
        const number = numbers.get(message.kind)
        if (number === undefined) throw new Refused(`no message kind ${message.kind}`)
        const wire = [number, payloadBytes, kinds[number - 1]!.toWire(message)]
        return packr.pack(wire, RESERVE_START_SPACE + RESET_BUFFER_MODE + PREFIX_BYTES)
      },
      read(header) {
        // msgpackr is lenient and knows types that are no data: it sees only what passed this.
        assertPlain(header)
        const wire: unknown = packr.unpack(header)
        if (!Array.isArray(wire) || wire.length < 3)
          throw new Refused('no array of kind, payload length and fields')
        const kind = kinds[kindNumber.fromWire(wire[0]) - 1]
        if (kind === undefined) throw new Refused(`no known kind of message: ${wire[0]}`)
        return { message: kind.fromWire(wire[2]), payloadBytes: byteCount.fromWire(wire[1]) }
      },
    },
    options,
  )
}
