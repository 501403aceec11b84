import { SeamError } from '@seamline/core'
import { asObject, knownFields, oneOf, text, whole } from '../session/cell.ts'

/** How a claim came to be. */
export const claimClasses = ['measured', 'derived', 'predicted', 'simulated', 'not measured'] as const
export type ClaimClass = (typeof claimClasses)[number]

/** `spec.json`, written by hand: what goes into a bundle. Paths may begin with `$REPO` and `$MODEL_DIR`; others are below its folder. */
export interface Spec {
  readonly format: 'seamline-evidence/1'
  readonly title: string
  /** In words: on what it was measured, and what was emulated. */
  readonly evidenceClass: string
  readonly sessions: readonly SpecSession[]
  readonly scenario: string | null
  readonly plan: string | null
  readonly lock: string | null
  /** The change, as full commit ids; null where nothing changed. */
  readonly base: string | null
  readonly head: string | null
  readonly commands: readonly SpecCommand[]
  /** The run that is also kept in the formats of other tools, and whose what-if is told. */
  readonly trace: { readonly session: string; readonly run: number } | null
  /** A page to copy. */
  readonly report: string | null
  /** Rows of `{{table:claims}}`; texts may hold macros. */
  readonly claims: readonly { readonly text: string; readonly class: ClaimClass }[]
  /** Beside models and libraries, which are found by themselves. */
  readonly artifacts: readonly { readonly name: string; readonly path: string; readonly source: string }[]
  /** Codecs that may change tokens. */
  readonly lossy: readonly { readonly codec: string; readonly reason: string }[]
}

export interface SpecSession {
  readonly name: string
  readonly path: string
  readonly purpose: string
  /** Why it proves nothing: it is kept and listed, and its runs may be missing or differ. Null for what the bundle rests on. */
  readonly lost: string | null
}

export interface SpecCommand {
  readonly argv: readonly string[]
  /** `PATH` takes PATH.stdout, PATH.stderr and PATH.exit of an earlier run; null runs it, in the root of the repository. */
  readonly take: string | null
  readonly exit: number
}

const fields = [
  ...['format', 'title', 'evidenceClass', 'sessions', 'scenario', 'plan', 'lock', 'base', 'head', 'commands'],
  ...['trace', 'report', 'claims', 'artifacts', 'lossy'],
]
const mostItems = 1000

/** Throws `USAGE` naming the field that is wrong. */
export function parseSpec(value: unknown): Spec {
  const spec = asObject(value, 'spec')
  knownFields(spec, fields, 'spec')
  const trace = spec.trace == null ? null : asObject(spec.trace, 'spec.trace')
  if (trace !== null) knownFields(trace, ['session', 'run'], 'spec.trace')
  const sessions = list(
    spec.sessions,
    'spec.sessions',
    ['name', 'path', 'purpose', 'lost'],
    (each, where) => ({
      name: folderName(each.name, `${where}.name`),
      path: text(each.path, `${where}.path`),
      purpose: text(each.purpose, `${where}.purpose`),
      lost: optional(each.lost, `${where}.lost`),
    }),
  )
  const names = sessions.map(({ name }) => name)
  if (sessions.length === 0) throw new SeamError('USAGE', 'spec.sessions: at least one session is needed')
  if (new Set(names).size < names.length)
    throw new SeamError('USAGE', 'spec.sessions: two have the same name')
  const base = commit(spec.base, 'spec.base')
  const head = commit(spec.head, 'spec.head')
  if ((base === null) !== (head === null))
    throw new SeamError('USAGE', 'spec.base and spec.head: both are needed, or none')
  return {
    format: oneOf(spec.format, ['seamline-evidence/1'], 'spec.format'),
    title: text(spec.title, 'spec.title'),
    evidenceClass: text(spec.evidenceClass, 'spec.evidenceClass'),
    ...{ sessions, base, head },
    scenario: optional(spec.scenario, 'spec.scenario'),
    plan: optional(spec.plan, 'spec.plan'),
    lock: optional(spec.lock, 'spec.lock'),
    commands: list(spec.commands ?? [], 'spec.commands', ['argv', 'take', 'exit'], (each, where) => ({
      argv: texts(each.argv, `${where}.argv`),
      take: optional(each.take, `${where}.take`),
      exit: whole(each.exit ?? 0, `${where}.exit`, 0, 255),
    })),
    trace:
      trace === null
        ? null
        : {
            session: oneOf(trace.session, names, 'spec.trace.session'),
            run: whole(trace.run, 'spec.trace.run', 1, 10_000),
          },
    report: optional(spec.report, 'spec.report'),
    claims: list(spec.claims ?? [], 'spec.claims', ['text', 'class'], (each, where) => ({
      text: text(each.text, `${where}.text`),
      class: oneOf(each.class, claimClasses, `${where}.class`),
    })),
    artifacts: list(spec.artifacts ?? [], 'spec.artifacts', ['name', 'path', 'source'], (each, where) => ({
      name: text(each.name, `${where}.name`),
      path: text(each.path, `${where}.path`),
      source: text(each.source, `${where}.source`),
    })),
    lossy: list(spec.lossy ?? [], 'spec.lossy', ['codec', 'reason'], (each, where) => ({
      codec: text(each.codec, `${where}.codec`),
      reason: text(each.reason, `${where}.reason`),
    })),
  }
}

function list<T>(
  value: unknown,
  where: string,
  known: readonly string[],
  read: (each: Record<string, unknown>, where: string) => T,
): T[] {
  if (!Array.isArray(value) || value.length > mostItems)
    throw new SeamError('USAGE', `${where}: a list of at most ${mostItems} is needed`)
  return value.map((each, i) => {
    const item = asObject(each, `${where}[${i}]`)
    knownFields(item, known, `${where}[${i}]`)
    return read(item, `${where}[${i}]`)
  })
}

function texts(value: unknown, where: string): string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > mostItems)
    throw new SeamError('USAGE', `${where}: a list of texts is needed`)
  return value.map((each, i) => text(each, `${where}[${i}]`))
}

function optional(value: unknown, where: string): string | null {
  return value == null ? null : text(value, where)
}

function commit(value: unknown, where: string): string | null {
  if (value == null) return null
  const id = text(value, where)
  if (/^[0-9a-f]{40}$/.test(id)) return id
  throw new SeamError(
    'USAGE',
    `${where}: a whole commit id of 40 hexadecimal digits is needed, not ${id.slice(0, 60)}`,
  )
}

/** What is a folder of the bundle must not lead out of it. */
function folderName(value: unknown, where: string): string {
  const name = text(value, where)
  if (/^[a-z0-9][a-z0-9-]{0,63}$/.test(name)) return name
  throw new SeamError(
    'USAGE',
    `${where}: lower-case letters, digits and hyphens are needed, not ${name.slice(0, 60)}`,
  )
}
