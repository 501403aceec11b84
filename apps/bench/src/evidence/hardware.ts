import { canonicalJson } from '../session/canonical.ts'
import { notRecorded } from '../session/guards.ts'
import type { Bundle } from './bundle.ts'

/** What a session ran on; `not recorded` where the records say nothing. */
export interface Host {
  readonly sessions: readonly string[]
  readonly cpu: string
  readonly cores: number
  readonly memoryBytes: number
  readonly governor: string
  readonly platform: string
  readonly kernel: string
  readonly node: string
  readonly v8: string
  readonly engines: readonly string[]
  readonly backends: readonly string[]
  /** Of llama.cpp's shared libraries, over names and SHA-256. */
  readonly libraries: readonly string[]
  readonly driver: string
  readonly networks: readonly string[]
}

/** `env.json`: hosts that differ are told apart. */
export function hostsOf({ sessions }: Bundle): Host[] {
  const hosts = new Map<string, Host>()
  for (const { name, stored } of sessions) {
    const { environment, plan } = stored.session
    const guards = [...stored.records.values()].flatMap((record) => record.guards ?? [])
    const distinct = (values: readonly string[]) =>
      [...new Set(values.filter((value) => value !== notRecorded))].sort()
    const { cpu, cores, memoryBytes, governor, platform, kernel, node, v8 } = environment
    const facts: Omit<Host, 'sessions'> = {
      ...{ cpu, cores, memoryBytes, platform, kernel, node, v8 },
      governor: governor ?? notRecorded,
      engines: distinct(guards.map(({ engine }) => engine)),
      backends: distinct(guards.map(({ backend }) => backend)),
      libraries: distinct(guards.map(({ libraries }) => libraries)),
      driver: notRecorded,
      networks: distinct(
        Object.values(plan.cells).flatMap((cell) =>
          cell.kind === 'micro' || cell.transport === 'none'
            ? []
            : [
                cell.link === null
                  ? `${cell.transport} within one host, bare`
                  : `${cell.transport} within one host, emulated ${canonicalJson(cell.link)}`,
              ],
        ),
      ),
    }
    const key = canonicalJson(facts)
    const known = hosts.get(key)
    hosts.set(key, { sessions: [...(known?.sessions ?? []), name], ...facts })
  }
  return [...hosts.values()]
}
