/**
 * The composition root: which codecs, framings and transports exist under which name, and worker processes of this
 * machine.
 *
 * @packageDocumentation
 */
import { f16 } from '@seamline/codecs/f16'
import { f32 } from '@seamline/codecs/f32'
import { type CodecFactory, type Framing, SeamError, type Transport } from '@seamline/core'
import { protobuf } from '@seamline/framing/protobuf'
import { tcp } from '@seamline/transports/tcp'

export {
  type LocalStage,
  type LocalWorker,
  type LocalWorkers,
  type LocalWorkersOptions,
  startLocalWorkers,
} from './local-workers.ts'
export type { EngineSettings, LinkSettings, Regime, SeamSettings } from './settings.ts'

export const codecs: ReadonlyMap<string, CodecFactory> = new Map([f32, f16].map((make) => [make().id, make]))

export const framings: ReadonlyMap<string, () => Framing> = new Map([['protobuf', protobuf]])

/** Transports that reach another process. */
export const transports: ReadonlyMap<string, () => Transport> = new Map([['tcp', tcp]])

/** Throws `USAGE` with the names that exist. */
export function named<T>(what: string, choices: ReadonlyMap<string, T>, name: string): T {
  const found = choices.get(name)
  if (found !== undefined) return found
  throw new SeamError('USAGE', `there is no ${what} "${name}"; choose from ${[...choices.keys()].join(', ')}`)
}
