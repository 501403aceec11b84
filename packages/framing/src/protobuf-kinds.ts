import type { Message, MessageKind } from '@seamline/core'
import type { Reader, Writer } from 'protobufjs/minimal.js'
import { type Field, type RecordForm, record } from './fields.ts'
import { seamline } from './generated/seamline.ts'
import { FRAME_KINDS, messageFields, SERVICE_KINDS } from './schema.ts'

/** What protobufjs generates for a message type. */
export interface StaticType {
  new (): object
  encode(message: object, writer: Writer): Writer
  decode(reader: Reader, length: number): object
}

/** One kind of message: its static type and the conversion to and from it. */
export interface Kind {
  readonly kind: MessageKind
  readonly type: StaticType
  readonly field: Field<Message>
  /** True for the kinds inside of `Service`. */
  readonly service: boolean
}

const types: Record<string, StaticType> = seamline.v1

const named: RecordForm = (name, fields, kind) =>
  record(fields, Object.keys(fields), () => ({}), new types[name]!(), kind)

/** Tag of field `number` with wire type 2, length-delimited. */
export const delimited = (number: number): number => number * 8 + 2

/** Tag of the payload of a `Frame`. */
export const PAYLOAD_TAG: number = delimited(15)
export const SERVICE_TAG: number = delimited(14)

const fieldOf = messageFields(named)

function byTag(kinds: readonly MessageKind[], service: boolean): ReadonlyMap<number, Kind> {
  return new Map(
    kinds.map((kind, i) => {
      const type = types[kind[0]!.toUpperCase() + kind.slice(1)]!
      return [delimited(i + 1), { kind, type, field: fieldOf(kind), service }]
    }),
  )
}

/** Kinds that are a field of `Frame`, and of `Service` inside of it, by tag. */
export const frameKinds: ReadonlyMap<number, Kind> = byTag(FRAME_KINDS, false)
export const serviceKinds: ReadonlyMap<number, Kind> = byTag(SERVICE_KINDS, true)
