import { readdir, readFile } from 'node:fs/promises'
import { cpus, release } from 'node:os'
import { join } from 'node:path'
import { findLibraries } from '@seamline/llama'
import type { RunTrace } from '@seamline/profiler'
import { framings } from 'seamline/cluster'
import { canonicalJson, sha256 } from './canonical.ts'
import type { Cell } from './cell.ts'
import { type Guards, guardNames } from './record.ts'

export const notRecorded = 'not recorded'

/** What must be equal between runs that are compared, as far as this run knows it. `bytesPerToken`: as figured by the caller. */
export async function guardsOf(
  cell: Cell,
  trace: RunTrace | undefined,
  bytesPerToken: number | null,
): Promise<Guards> {
  const known: Partial<Record<(typeof guardNames)[number], string>> = {
    protocolIds: [...framings.values()].flatMap((make) => make().protocolIds).join(' '),
    cpu: cpus()[0]?.model.trim() || notRecorded,
    cores: String(cpus().length),
    kernel: release(),
    node: process.versions.node,
  }
  if (cell.kind === 'pipeline') {
    known.transport = cell.transport
    known.link = cell.link === null ? 'bare' : canonicalJson(cell.link)
    if (cell.model !== null) known.libraries = await librariesSha256()
  }
  if (trace !== undefined) {
    const { modelSha256, manifestSha256, engine, backend, codec, framing } = trace.settings
    const given = { modelSha256, manifestSha256, engine, backend, codec, framing }
    for (const [name, value] of Object.entries(given)) {
      if (value !== '') known[name as keyof typeof given] = value
    }
    known.tokens = tokensSha256(trace)
  }
  if (bytesPerToken !== null) known.bytesPerToken = String(bytesPerToken)
  return Object.fromEntries(guardNames.map((name) => [name, known[name] ?? notRecorded])) as Guards
}

/** Over the token ids of all sequences, in the order of their numbers. */
export function tokensSha256({ sequences }: RunTrace): string {
  const ordered = [...sequences].sort((a, b) => a.sequence - b.sequence)
  return sha256(canonicalJson(ordered.map(({ tokens }) => tokens)))
}

let libraries: Promise<string> | undefined

/** Over names and SHA-256 of llama.cpp's shared libraries. */
function librariesSha256(): Promise<string> {
  libraries ??= (async () => {
    const folder = findLibraries()
    const names = (await readdir(folder)).filter((name) => /\.(so|dylib|dll)(\.|$)/.test(name)).sort()
    const hashes = await Promise.all(
      names.map(async (name) => `${name} ${sha256(await readFile(join(folder, name)))}`),
    )
    return sha256(hashes.join('\n'))
  })()
  return libraries
}
