import { codecEntries } from './arms/codec.ts'
import { framingEntries } from './arms/framing.ts'
import { pipelineEntries } from './arms/pipeline.ts'
import { transportEntries } from './arms/transport.ts'
import type { Peers } from './peers.ts'
import type { Catalogue } from './selection.ts'
import { ratioSpecs } from './targets.ts'

/** All that this host can run. Starts no process: that is done by the first case that needs one. */
export async function createCatalogue(peers: Peers): Promise<Catalogue> {
  const framing = await framingEntries()
  const transport = transportEntries(peers)
  const entries = [...codecEntries(), ...framing.entries, ...transport.entries, ...pipelineEntries()]
  const ids = new Set(entries.map((entry) => entry.case.id))
  return {
    entries,
    ratios: ratioSpecs.filter(({ candidate, control }) => ids.has(candidate) && ids.has(control)),
    dropped: [...framing.dropped, ...transport.dropped],
  }
}
