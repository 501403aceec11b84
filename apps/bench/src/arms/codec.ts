import { type ZstdArmName, zstd, zstdArms } from '@seamline/codec-zstd'
import { codecCases } from '@seamline/conformance'
import { codecs } from 'seamline/cluster'
import { memcpyCases } from '../controls/memcpy.ts'
import { type Entry, entriesOf } from '../selection.ts'

/** Every codec that a worker has, zstd by each implementation of this host, and a plain copy of the f32 side. */
export function codecEntries(): readonly Entry[] {
  const decoders = zstdArms()
  const otherDecoders = decoders.slice(1).flatMap((decoder) => [...codecs].flatMap(decodedBy(decoder)))
  const cases = [
    ...memcpyCases(),
    ...[...codecs.values()].flatMap((codec) => codecCases(codec)),
    ...otherDecoders,
  ]
  // Cases of one size run side by side.
  return entriesOf('codec', cases, (path) => path.at(-1)!)
}

/** The zstd codecs with another decoder than the best one: decoding only. */
function decodedBy(decoder: ZstdArmName) {
  return ([name]: [string, unknown]) => {
    const match = /^(.*?)(-shuffle)?-zstd1$/.exec(name)
    const inner = codecs.get(match?.[1] ?? '')
    if (inner === undefined) return []
    return codecCases(zstd(inner, { decoder, shuffle: match?.[2] !== undefined }), {
      name: `${name}-by-${decoder}`,
    }).filter(({ id }) => id.includes('/decode/'))
  }
}
