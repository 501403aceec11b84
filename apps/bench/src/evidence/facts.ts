import { attribute, chromeTrace, speedscope } from '@seamline/profiler'
import { derivedJson } from '../session/canonical.ts'
import { roundedAll } from '../session/numbers.ts'
import type { Session } from '../session/session.ts'
import { alignmentOf } from './attribution.ts'
import type { Bundle } from './bundle.ts'
import { chosenRecord, type Derivation, derivations } from './derivations.ts'
import { type BundleFile, parseJson, readOptional, readText } from './files.ts'
import { type Host, hostsOf } from './hardware.ts'

/** Everything in a bundle that follows from its raw records. */
export interface Derived {
  /** By name of the derivation, as JSON has them. */
  readonly values: Readonly<Record<string, unknown>>
  /** By path; those of `.gz` as they are once unpacked. */
  readonly files: ReadonlyMap<string, string>
}

/** A command that was run when the bundle was made. */
export interface RecordedCommand {
  /** `001` and so on. */
  readonly name: string
  readonly argv: readonly string[]
  readonly exit: number
}

export interface ChangedFile {
  readonly path: string
  /** Of its content with the change, or `deleted`. */
  readonly sha256: string
}

/** What templates and tables draw on. */
export interface Facts {
  readonly bundle: Bundle
  readonly derived: Derived['values']
  readonly hosts: readonly Host[]
  readonly commands: readonly RecordedCommand[]
  readonly changed: readonly ChangedFile[]
  /** What macros see. */
  readonly values: object
}

/** Throws what a derivation throws. */
export function deriveAll(bundle: Bundle, list: readonly Derivation[] = derivations): Derived {
  const values: Record<string, unknown> = {}
  const files = new Map<string, string>()
  for (const { name, needs, derive } of list) {
    if (!needs(bundle)) continue
    values[name] = jsonable(roundedAll(derive(bundle)))
    files.set(`derived/${name}.json`, derivedJson(values[name]))
  }
  files.set('env.json', derivedJson(hostsOf(bundle)))
  const record = chosenRecord(bundle)
  const chosen = record?.trace
  if (chosen !== undefined) {
    const clocks = alignmentOf(record!)
    const trace = chromeTrace(chosen, clocks, attribute(chosen, clocks))
    files.set('traces/perfetto.json.gz', `${JSON.stringify(trace)}\n`)
    files.set('traces/speedscope.json.gz', `${JSON.stringify(speedscope(chosen, clocks))}\n`)
  }
  return { values, files }
}

/** JSON has no NaN: what could not be had is null. */
function jsonable(value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map(jsonable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, jsonable(item)]))
}

export async function readFacts(
  dir: string,
  files: readonly BundleFile[],
  bundle: Bundle,
  { values: derived }: Derived,
): Promise<Facts> {
  const hosts = hostsOf(bundle)
  const commands = await readCommands(dir, files)
  const changed = parseChangedFiles((await readOptional(dir, 'diff/changed-files.txt')) ?? '')
  const { spec, sessions, lock, plan, artifacts } = bundle
  const { title, evidenceClass, base, head } = spec
  const headers: Record<string, Session> = {}
  for (const { name, stored } of sessions) headers[name] = stored.session
  return {
    ...{ bundle, derived, hosts, commands, changed },
    values: {
      ...{ title, evidenceClass, base, head, lock, plan, artifacts, commands, changed },
      ...{ env: hosts, sessions: headers, ...derived },
    },
  }
}

async function readCommands(dir: string, files: readonly BundleFile[]): Promise<RecordedCommand[]> {
  const names = files.flatMap(({ path }) => /^cmd\/(\d{3})\.argv\.json$/.exec(path)?.[1] ?? [])
  return Promise.all(
    names.map(async (name) => {
      const path = `cmd/${name}.argv.json`
      const { argv } = parseJson(await readText(dir, path), path) as { readonly argv: readonly string[] }
      return {
        name,
        argv: argv.map(String),
        exit: Number.parseInt(await readText(dir, `cmd/${name}.exit`), 10),
      }
    }),
  )
}

/** Lines of `SHA-256  path`. */
export function parseChangedFiles(content: string): ChangedFile[] {
  return content.split('\n').flatMap((line) => {
    const at = line.indexOf('  ')
    return at < 0 ? [] : [{ sha256: line.slice(0, at), path: line.slice(at + 2) }]
  })
}
