/**
 * What this tracker is made of. Another codec package goes in by changing the one line that imports it: every export of such a
 * package is a `CodecFactory`.
 */
import * as codecPackage from '@seamline/codecs'
import type { CodecFactory, FramingFactory, Transport } from '@seamline/core'
import { msgpack } from '@seamline/framing/msgpack'
import { protobuf } from '@seamline/framing/protobuf'
import { relay } from '@seamline/transports/relay'
import { tcp } from '@seamline/transports/tcp'
import { ws } from '@seamline/transports/ws'

/** By id. */
export const codecs: ReadonlyMap<string, CodecFactory> = new Map(
  Object.values<CodecFactory>(codecPackage).map((make) => [make().id, make]),
)

/** In order of preference. */
export const framings: readonly FramingFactory[] = [protobuf, msgpack]

/** By id. Without a secret they stay on loopback; hand `createTracker` others to go beyond. */
export const transports: ReadonlyMap<string, Transport> = new Map(
  [tcp(), ws(), relay()].map((transport) => [transport.id, transport]),
)
