import { SeamError } from '@seamline/core'
import { type Command, Option } from 'commander'
import type { TransportSettings } from './cluster.ts'
import { identityDir, loadSecurity } from './identity.ts'
import { decodeJoin, type Join, parseAddress } from './join.ts'
import type { NamedWorker } from './pipelines.ts'

/** Workers that run somewhere already. */
export interface RemoteOptions {
  readonly workers?: readonly string[]
  readonly join?: readonly Join[]
  /** Of addresses that name none. */
  readonly transport: string
  readonly identity?: string
}

export function addRemoteOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--workers <addresses>',
        'running workers, in any order, as HOST:PORT,HOST:PORT or TRANSPORT=ADDRESS,…',
      ).argParser(addresses),
    )
    .addOption(
      new Option(
        '--join <string>',
        'what a worker printed when it started; give it again for each worker, instead of --workers',
      )
        .argParser((text: string, earlier: readonly Join[] = []) => [...earlier, decodeJoin(text)])
        .conflicts(['workers', 'local', 'layers']),
    )
}

export function namedWorkers({ workers, join, transport }: RemoteOptions): NamedWorker[] | undefined {
  const addressed =
    join?.map(({ addresses }) => addresses) ?? workers?.map((address) => [parseAddress(address, transport)])
  return addressed?.map((addresses, i) => ({ name: `worker #${i + 1}`, addresses }))
}

/** The secrets that the join strings carry; one for all workers. */
export async function joinedSettings({
  join,
  identity,
}: RemoteOptions): Promise<TransportSettings | undefined> {
  const first = join?.[0]
  if (first === undefined) return undefined
  const other = join?.findIndex(({ secret }) => secret !== first.secret) ?? -1
  if (other > 0) {
    throw new SeamError(
      'USAGE',
      `join strings 1 and ${other + 1} carry different secrets: start that worker with --join and the string of the first one`,
    )
  }
  const access = join?.find((each) => each.access !== undefined)?.access
  const security = await loadSecurity(identity ?? identityDir(), first.secret)
  return access === undefined ? { security } : { security, access }
}

function addresses(text: string): string[] {
  return text.split(',').map((address) => address.trim())
}
