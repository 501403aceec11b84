import { readFileSync } from 'node:fs'
import type { Framing, Message } from '@seamline/core'
import {
  describeMsgpack,
  describeSchema,
  parseVectors,
  referenceFrame,
  referenceMsgpackFrame,
} from '../scripts/generate.mjs'
import { msgpack, protobuf } from '../src/index.ts'

export interface Vector {
  readonly name: string
  readonly message: Message
  /** Hex. */
  readonly payload: string
  /** Hex. */
  readonly frame: string
}

export const readVectors = (id: string): Vector[] =>
  parseVectors(readFileSync(new URL(`../vectors/${id}.json`, import.meta.url), 'utf8')) as Vector[]

/** Both framings with what the tests hold against them. */
export const framings = [
  { create: protobuf, reference: referenceFrame, describeWire: describeSchema },
  { create: msgpack, reference: referenceMsgpackFrame, describeWire: describeMsgpack },
].map((entry) => ({ ...entry, id: entry.create().id, vectors: readVectors(entry.create().id) }))

export const vector = (name: string): Message =>
  framings[0]!.vectors.find((candidate) => candidate.name === name)!.message

/** The header of a frame, behind its prefix. */
export const headerOf = (frame: Uint8Array): Buffer => {
  const bytes = Buffer.from(frame)
  return bytes.subarray(8, 8 + bytes.readUInt32LE(0))
}

/** A frame through `encodeInto`, which may take another way than `encode`. */
export function encodedInto(framing: Framing, message: Message, payload: Uint8Array): Buffer {
  const room = Buffer.alloc(70_000 + payload.byteLength)
  const start = framing.encodeInto(message, room, 70_000, payload.byteLength)
  room.set(payload, 70_000)
  return room.subarray(start)
}
