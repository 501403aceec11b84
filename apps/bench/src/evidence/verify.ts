import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { SeamError } from '@seamline/core'
import { canonicalJson, derivedJson } from '../session/canonical.ts'
import { analyserSha256 } from './analyser.ts'
import { type Bundle, readBundle } from './bundle.ts'
import { checkFidelity, checkGuards, checkLock, checkRecords, checkScope, checkSessions } from './checks.ts'
import { type Derivation, derivations, type FidelityRow } from './derivations.ts'
import { type Derived, deriveAll, type Facts, readFacts } from './facts.ts'
import {
  type BundleFile,
  bundleLimits,
  fileSha256,
  inBatches,
  listFiles,
  parseJson,
  readOptional,
  readText,
} from './files.ts'
import { missingArtifacts } from './find-artifacts.ts'
import { isPartOfBundle } from './layout.ts'
import { classFaults, missingLimitations, parseLiterals, typedNumbers } from './lint.ts'
import { rootsOf } from './macros.ts'
import { machinePathIn } from './paths.ts'
import { type Problem, type Problems, problems } from './problems.ts'
import { readmeOf } from './readme.ts'
import { parseStatement, predicateOf, type Statement } from './statement.ts'

export interface VerifyOptions {
  /** Another analyser than this program's. */
  readonly derivations?: readonly Derivation[]
}

export interface Verified {
  /** Empty: everything in the bundle follows from its raw records. */
  readonly problems: readonly Problem[]
  /** What is worth knowing and no problem. */
  readonly notes: readonly string[]
  readonly title: string | null
  readonly files: number
  readonly bytes: number
}

/**
 * Checks a bundle from its own files alone, without a network, a history of the code or a rebuild, and lists all that is wrong. Never
 * throws for what a bundle holds; throws `FILE` where there is none.
 */
export async function verifyBundle(dir: string, options: VerifyOptions = {}): Promise<Verified> {
  const found = problems()
  const notes: string[] = []
  const files = await listFiles(dir, found).catch((error) => {
    throw SeamError.from(error, 'FILE')
  })
  const statement = await found.attempt('SCHEMA', 'bundle.json', async () => {
    const content = await readText(dir, 'bundle.json')
    const parsed = parseStatement(parseJson(content, 'bundle.json'))
    if (derivedJson(parsed) !== content)
      throw new Error('the JSON is not in its one form: sorted keys, two spaces')
    return parsed
  })
  if (statement !== undefined) await checkSubjects(dir, files, statement, found)
  await checkTexts(dir, files, found)
  // Too much to be read whole is not read at all.
  const isBounded = files.length <= bundleLimits.files && !found.found.some(({ code }) => code === 'SIZE')
  const bundle = isBounded ? await readBundle(dir, files, found) : undefined
  if (bundle !== undefined) {
    const check = (work: () => void) => found.attempt('RAW', 'sessions', work)
    await check(() => checkSessions(bundle, files, found))
    await check(() => checkRecords(bundle, found))
    await check(() => checkGuards(bundle, found))
    await found.attempt('LOCK', 'lock.json', () => checkLock(bundle, found))
    for (const what of missingArtifacts(bundle))
      found.add('ARTIFACT', 'artifacts.json', `there is no ${what}`)
    await checkDerived(dir, files, bundle, statement, options.derivations ?? derivations, found, notes)
  }
  return {
    ...{
      problems: [...found.found].sort(byFile),
      notes,
      title: bundle?.spec.title ?? null,
      files: files.length,
    },
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
  }
}

async function checkSubjects(
  dir: string,
  files: readonly BundleFile[],
  { subject }: Statement,
  found: Problems,
): Promise<void> {
  const listed = new Map(subject.map(({ name, digest }) => [name, digest.sha256]))
  const names = subject.map(({ name }) => name)
  if (names.some((name, i) => i > 0 && name <= names[i - 1]!))
    found.add('SCHEMA', 'bundle.json', 'subjects are not in the order of their names, each once')
  await inBatches(files, async ({ path }) => {
    if (path === 'bundle.json') return
    const wanted = listed.get(path)
    listed.delete(path)
    if (wanted === undefined) return found.add('EXTRA-FILE', path, 'bundle.json does not name it')
    if (!isPartOfBundle(path)) found.add('EXTRA-FILE', path, 'nothing of this name is part of a bundle')
    const is = await found.attempt('HASH', path, () => fileSha256(join(dir, path)))
    if (is !== undefined && is !== wanted)
      found.add('HASH', path, `SHA-256 is ${is}, bundle.json says ${wanted}`)
  })
  for (const path of listed.keys())
    found.add('MISSING-FILE', path, 'bundle.json names it and it is not there')
}

/** What holds for texts by themselves: paths, headings, typed numbers. */
async function checkTexts(dir: string, files: readonly BundleFile[], found: Problems): Promise<void> {
  await inBatches(files, async ({ path, bytes }) => {
    if (path.endsWith('.gz') || bytes > bundleLimits.fileBytes) return
    const machine = await found.attempt('PATH', path, async () => machinePathIn(await readText(dir, path)))
    if (machine !== undefined)
      found.add('PATH', path, `${machine} is on one machine; write $REPO or $MODEL_DIR`)
  })
  await found.attempt('LIMITATIONS', 'LIMITATIONS.md', async () => {
    for (const fault of missingLimitations(await readText(dir, 'LIMITATIONS.md')))
      found.add('LIMITATIONS', 'LIMITATIONS.md', fault)
  })
  await found.attempt('DIGIT', 'literals.json', async () => {
    const content = await readOptional(dir, 'literals.json')
    const literals = content === null ? [] : parseLiterals(parseJson(content, 'literals.json'))
    for (const path of ['README.tmpl.md', 'LIMITATIONS.md']) {
      for (const number of typedNumbers((await readOptional(dir, path)) ?? '', literals))
        found.add('DIGIT', path, number)
    }
    const spec = await readOptional(dir, 'spec.json')
    for (const number of spec === null
      ? []
      : typedNumbers(textsOfSpec(parseJson(spec, 'spec.json')), literals))
      found.add('DIGIT', 'spec.json', number)
  })
}

/** Those that a reader sees. */
function textsOfSpec(value: unknown): string {
  const texts: string[] = []
  const shown = new Set(['title', 'evidenceClass', 'purpose', 'lost', 'text'])
  const visit = (item: unknown, key: string) => {
    if (typeof item === 'string') {
      if (shown.has(key)) texts.push(item)
    } else if (typeof item === 'object' && item !== null) {
      for (const [name, each] of Object.entries(item)) visit(each, Array.isArray(item) ? key : name)
    }
  }
  visit(value, '')
  return texts.join('\n')
}

/** All that follows from the raw records, anew. */
async function checkDerived(
  dir: string,
  files: readonly BundleFile[],
  bundle: Bundle,
  statement: Statement | undefined,
  list: readonly Derivation[],
  found: Problems,
  notes: string[],
): Promise<void> {
  const derived = await found.attempt('DERIVED', 'derived', () => deriveAll(bundle, list))
  if (derived === undefined) return
  const said = statement?.predicate.analyserSha256
  const is = await analyserSha256(list)
  const differing = await differingFiles(dir, files, derived)
  const isOther = said !== undefined && said !== is
  if (isOther && differing.length > 0) {
    const names = differing.map(({ path }) => path).join(', ')
    found.add(
      'ANALYSER',
      'bundle.json',
      `derived by ${said}, this is ${is}, which finds something else in ${names}`,
    )
  } else {
    for (const { path, message } of differing) found.add('DERIVED', path, message)
    if (isOther) notes.push(`derived by the analyser ${said}; this one, ${is}, finds the same`)
  }
  if (bundle.lock !== null && said !== undefined && bundle.lock.analyserSha256 !== said)
    found.add(
      'ANALYSER',
      'lock.json',
      `the lock was made for ${bundle.lock.analyserSha256}, the bundle was derived by ${said}`,
    )
  if (statement !== undefined && said !== undefined) {
    if (canonicalJson(statement.predicate) !== canonicalJson(predicateOf(bundle, said)))
      found.add(
        'SCHEMA',
        'bundle.json',
        'the predicate does not follow from the specification and the sessions',
      )
  }
  const fidelity = derived.values.fidelity as readonly FidelityRow[] | undefined
  if (Array.isArray(fidelity)) checkFidelity(fidelity, found)
  const facts = await found.attempt('SCHEMA', 'cmd', () => readFacts(dir, files, bundle, derived))
  if (facts === undefined) return
  checkCommands(facts, found)
  checkScope(bundle, facts.changed, found)
  checkClaims(bundle, list, found)
  await found.attempt('README', 'README.tmpl.md', async () => {
    const template = await readText(dir, 'README.tmpl.md')
    checkWhatIf(derived, [template, ...bundle.spec.claims.map(({ text }) => text)].join('\n'), found)
    const expected = readmeOf(template, facts)
    const readme = await readText(dir, 'README.md')
    const line = firstDifference(readme, expected)
    if (line !== undefined) found.add('README', 'README.md', line)
    for (const fault of classFaults(template, expected)) found.add('CLASS', 'README.tmpl.md', fault)
  })
}

async function differingFiles(dir: string, files: readonly BundleFile[], { files: derived }: Derived) {
  const differing: { path: string; message: string }[] = []
  for (const [path, expected] of derived) {
    try {
      const is = path.endsWith('.gz') ? await unpacked(join(dir, path), expected) : await readText(dir, path)
      const message = is === expected ? undefined : (firstDifference(is, expected) ?? 'it differs')
      if (message !== undefined) differing.push({ path, message })
    } catch (error) {
      differing.push({ path, message: (error as Error).message })
    }
  }
  for (const { path } of files) {
    if (/^(derived|traces)\//.test(path) && !derived.has(path))
      differing.push({ path, message: 'nothing derives it from the raw records' })
  }
  return differing
}

/** No more than what is expected is unpacked. */
async function unpacked(path: string, expected: string): Promise<string> {
  const most = Buffer.byteLength(expected) + 1
  return (await promisify(gunzip)(await readFile(path), { maxOutputLength: most })).toString('utf8')
}

function checkCommands({ commands, bundle }: Facts, found: Problems): void {
  const { commands: wanted } = bundle.spec
  if (commands.length !== wanted.length)
    found.add(
      'COMMAND',
      'cmd',
      `${commands.length} commands were recorded, the specification has ${wanted.length}`,
    )
  for (const [i, { name, argv, exit }] of commands.entries()) {
    const expected = wanted[i]
    if (expected === undefined) continue
    if (canonicalJson(argv) !== canonicalJson(expected.argv))
      found.add(
        'COMMAND',
        `cmd/${name}.argv.json`,
        `${argv.join(' ')} is not the command of the specification`,
      )
    if (exit !== expected.exit)
      found.add('COMMAND', `cmd/${name}.exit`, `ended with ${exit}, the specification says ${expected.exit}`)
  }
}

const mostReplayErrorPct = 1

/** Where predictions are told, replays must repeat their run. */
function checkWhatIf({ values }: Derived, template: string, found: Problems): void {
  const whatIf = values.whatIf as
    | { ok?: boolean; reason?: string; gates?: readonly { passed: boolean; makespanErrorPct: number }[] }
    | undefined
  if (whatIf === undefined || !/\{\{\s*(table:what-if|whatIf\b)/.test(template)) return
  if (whatIf.ok !== true)
    found.add('CLOSURE', 'derived/whatIf.json', `a replay does not repeat the run: ${whatIf.reason}`)
  for (const { passed, makespanErrorPct } of whatIf.gates ?? []) {
    if (passed && !(Math.abs(makespanErrorPct) <= mostReplayErrorPct))
      found.add('CLOSURE', 'derived/whatIf.json', `a replay is off by ${makespanErrorPct} %`)
  }
}

/** A claim on what was predicted or simulated says so. */
function checkClaims({ spec }: Bundle, list: readonly Derivation[], found: Problems): void {
  for (const { text, class: said } of spec.claims) {
    for (const root of rootsOf(text)) {
      const is = list.find(({ name }) => name === root)?.class
      const isWeak = is === 'predicted' || is === 'simulated'
      if ((isWeak && said !== is) || (text.includes('predictedPct') && said !== 'predicted'))
        found.add(
          'CLASS',
          'spec.json',
          `the claim ${text.slice(0, 80)} rests on what was ${is ?? 'predicted'} and says ${said}`,
        )
    }
  }
}

function firstDifference(is: string, expected: string): string | undefined {
  if (is === expected) return undefined
  const [given, wanted] = [is.split('\n'), expected.split('\n')]
  const line = wanted.findIndex((text, i) => text !== given[i])
  const at = line < 0 ? wanted.length : line
  const shown = (text: string | undefined) => (text === undefined ? 'nothing' : text.trim().slice(0, 120))
  return `line ${at + 1} is ${shown(given[at])} instead of ${shown(wanted[at])}`
}

function byFile(a: Problem, b: Problem): number {
  return `${a.file} ${a.code}` < `${b.file} ${b.code}` ? -1 : 1
}
