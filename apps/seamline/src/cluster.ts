/**
 * The composition root: which codecs, framings and transports exist under which name, and worker processes of this
 * machine.
 *
 * @packageDocumentation
 */
import { zstd } from '@seamline/codec-zstd'
import { bf16 } from '@seamline/codecs/bf16'
import { f16 } from '@seamline/codecs/f16'
import { f32 } from '@seamline/codecs/f32'
import { q8_0 } from '@seamline/codecs/q8_0'
import { type CodecFactory, type FramingFactory, SeamError, type Transport } from '@seamline/core'
import { msgpack } from '@seamline/framing/msgpack'
import { protobuf } from '@seamline/framing/protobuf'
import { emulated } from '@seamline/transports/emulated'
import { relay } from '@seamline/transports/relay'
import type { Security } from '@seamline/transports/security'
import { tcp } from '@seamline/transports/tcp'
import { ws } from '@seamline/transports/ws'
import type { LinkShape } from './link.ts'

export {
  type LocalStage,
  type LocalWorker,
  type LocalWorkers,
  type LocalWorkersOptions,
  startLocalWorkers,
} from './local-workers.ts'
export type { EngineSettings, LinkSettings, Regime, SeamSettings } from './settings.ts'

/** In the order in which a worker prefers to receive hidden rows; lossy ones are used only when asked for by name. */
export const codecs: ReadonlyMap<string, CodecFactory> = byId(
  f32,
  f16,
  bf16,
  q8_0,
  zstd(f32),
  zstd(f16, { shuffle: true }),
  zstd(bf16, { shuffle: true }),
  zstd(q8_0),
)

export const framings: ReadonlyMap<string, FramingFactory> = byId(protobuf, msgpack)

/** What a transport needs beyond an address. */
export interface TransportSettings {
  /** TLS with a pinned certificate and a shared secret, through a relay from end to end. */
  readonly security?: Security
  /** The secret of a relay's operator. */
  readonly access?: string
  /** Emulated around the transport. */
  readonly link?: LinkShape
}

/** Transports that reach another process. */
export const transports: ReadonlyMap<string, (settings?: TransportSettings) => Transport> = new Map([
  ['tcp', over(({ security } = {}) => tcp(security === undefined ? {} : { security }))],
  ['ws', over(({ security } = {}) => ws(security === undefined ? {} : { security }))],
  [
    'relay',
    over(({ security, access } = {}) =>
      relay({ ...(security === undefined ? {} : { security }), ...(access === undefined ? {} : { access }) }),
    ),
  ],
])

/** With the emulated link around it, where one is asked for. */
function over(
  make: (settings?: TransportSettings) => Transport,
): (settings?: TransportSettings) => Transport {
  return (settings) => {
    const transport = make(settings)
    return settings?.link === undefined ? transport : emulated(transport, settings.link)
  }
}

/** Throws `USAGE` with the names that exist. */
export function named<T>(what: string, choices: ReadonlyMap<string, T>, name: string): T {
  const found = choices.get(name)
  if (found !== undefined) return found
  throw new SeamError('USAGE', `there is no ${what} "${name}"; choose from ${[...choices.keys()].join(', ')}`)
}

function byId<T extends { readonly id: string }>(
  ...makes: readonly (() => T)[]
): ReadonlyMap<string, () => T> {
  return new Map(makes.map((make) => [make().id, make]))
}
