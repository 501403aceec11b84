import type { Message } from './messages.ts'

export interface FrameLimits {
  /** Largest payload accepted; a longer one is refused before memory is asked for. */
  readonly maxPayloadBytes: number
}

/** Receives what a decoder finds. */
export interface FrameHandler {
  /**
   * Names the memory that the payload of `message` is to be read into: at least `payloadBytes` long. Called once
   * for every frame with a payload, after the limits were checked and before any payload byte is consumed.
   */
  target(message: Message, payloadBytes: number): Uint8Array
  /** A whole message. `payload` is the front of the target, or empty; the target is the handler's own again. */
  message(message: Message, payload: Uint8Array): void
}

/**
 * Incremental decoder in the pattern of a transport's receiver: it hands out the memory for the next bytes and is
 * told how many arrived. Headers are walked in a stage buffer of its own, payloads land in the handler's targets.
 */
export interface FrameDecoder {
  /** Never empty. Valid until the next call of {@link received}. */
  nextBuffer(): Uint8Array
  /**
   * `bytes` bytes were written to the front of the last {@link nextBuffer}. Calls the handler zero or more times.
   * Throws `PROTOCOL` or `LIMIT`; the decoder is dead after that.
   */
  received(bytes: number): void
}

export interface FramingOptions {
  /** Writes and checks a CRC-32 over each header. Both ends must agree. @default true */
  readonly checksum?: boolean
}

/** Makes a framing; both ends of a link pass the same options. */
export type FramingFactory = (options?: FramingOptions) => Framing

/** Messages to bytes and back. The payload is the last field of a frame and its length is always on the wire. */
export interface Framing {
  /** `protobuf` or `msgpack`. */
  readonly id: string
  /**
   * Protocol ids that this framing speaks, newest first: 64 hex digits, the SHA-256 over schema and golden
   * vectors. A change of bytes on the wire is a new id.
   */
  readonly protocolIds: readonly string[]
  /**
   * Room in bytes to leave in front of a payload for the header of a tensor or token frame with up to 64 rows:
   * a multiple of the payload alignment.
   */
  readonly headroomBytes: number
  /**
   * Writes the header of `message` so that it ends at `payloadStart` and returns where the frame starts: the frame
   * is `room.subarray(start, payloadStart + payloadBytes)`. The payload bytes are neither read nor moved.
   * Throws `LIMIT` when the header does not fit in front of `payloadStart`.
   */
  encodeInto(message: Message, room: Uint8Array, payloadStart: number, payloadBytes: number): number
  /** Encodes into fresh memory, copying `payload`: for messages that are rare or small. */
  encode(message: Message, payload?: Uint8Array): Uint8Array
  createDecoder(handler: FrameHandler, limits: FrameLimits): FrameDecoder
}
