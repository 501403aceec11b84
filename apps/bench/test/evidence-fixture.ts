import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { planOf } from '../src/compare/plan.ts'
import { analyserSha256 } from '../src/evidence/analyser.ts'
import { goldenCommits, goldenLock, goldenRecord, goldenSession } from '../src/evidence/golden.ts'
import { verifyBundle } from '../src/evidence/verify.ts'
import { derivedJson, sha256 } from '../src/session/canonical.ts'
import { runDir, writeRecord, writeSession } from '../src/session/store.ts'

export const context = {
  ui: { json: false, print() {}, record() {}, note() {}, progress() {} },
  signal: new AbortController().signal,
}

export const limitations = `# Limitations

## Not measured

Nothing but paced stages.

## Emulated or simulated

Stages wait instead of computing.

## Conditions

One host.

## What this record cannot prove

That stamps were taken honestly.
`

export const template = `# {{title | text}}

Decode takes {{comparison.main.rows[metric=tpot].a | ms}} before and {{comparison.main.rows[metric=tpot].b | ms}} after.

1. A list may be numbered, and \`q8_0\` is a name.

{{table:sessions}}

{{table:comparison-simulated main}}

{{table:claims}}

{{table:medians}}
{{table:attribution}}
{{table:what-if}}
{{table:fidelity}}
{{table:environment}}
{{table:artifacts}}
{{table:commands}}
{{table:changed-files}}
{{table:runs main}}
`

export const spec = {
  format: 'seamline-evidence/1',
  title: 'A change',
  evidenceClass: 'paced stages on one host',
  sessions: [{ name: 'main', path: 'source', purpose: 'comparison under the lock', lost: null }],
  lock: 'source-lock.json',
  ...{ base: goldenCommits.base, head: goldenCommits.head },
  commands: [{ argv: ['node', '-p', '6 * 7'] }],
  trace: { session: 'main', run: 1 },
  claims: [
    { text: 'Decode: {{comparison.main.rows[metric=tpot].effectPct | signed}}', class: 'derived' },
    { text: 'Without decoding of frames: {{whatIf.rows.0.gainPctFrozen | signed}}', class: 'predicted' },
    { text: 'Power', class: 'not measured' },
  ],
}

/** A folder that is ready for `writeBundle`: a comparison of stretched copies of the golden run. */
export async function prepared(root: string, changes: { spec?: object; template?: string } = {}) {
  const dir = join(root, 'bundle')
  const record = await goldenRecord()
  const lock = goldenLock(record, await analyserSha256())
  const { session, records } = goldenSession(record, planOf(lock), goldenCommits)
  const source = join(dir, 'source')
  await writeSession(source, session)
  for (const [number, { trace, ...run }] of records) await writeRecord(runDir(source, number), run, trace)
  const files = {
    'spec.json': JSON.stringify({ ...spec, ...changes.spec }),
    'source-lock.json': JSON.stringify(lock),
    'README.tmpl.md': changes.template ?? template,
    'LIMITATIONS.md': limitations,
    // As an earlier bundle has them: the commits are in no history.
    'diff/changed-files.txt': `${sha256('new')}  packages/framing/src/protobuf.ts\n`,
    'diff/stat.txt': ' packages/framing/src/protobuf.ts | 2 +-\n',
  }
  for (const [path, content] of Object.entries(files)) await write(dir, path, content)
  return dir
}

export async function write(dir: string, path: string, content: string | Buffer) {
  await mkdir(dirname(join(dir, path)), { recursive: true })
  await writeFile(join(dir, path), content)
}

export async function edit(dir: string, path: string, change: (content: string) => string) {
  const before = await readFile(join(dir, path), 'utf8')
  const after = change(before)
  if (after === before) throw new Error(`${path} did not change`)
  await writeFile(join(dir, path), after)
}

/** Makes bundle.json name the files as they are now, as someone who alters a bundle would. */
export async function resealed(dir: string) {
  const statement = JSON.parse(await readFile(join(dir, 'bundle.json'), 'utf8'))
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1))
    .filter((path) => path !== 'bundle.json')
    .sort()
  statement.subject = await Promise.all(
    paths.map(async (name) => ({ name, digest: { sha256: sha256(await readFile(join(dir, name))) } })),
  )
  await writeFile(join(dir, 'bundle.json'), derivedJson(statement))
}

/** Codes of all problems, each once, in alphabetical order. */
export async function codes(dir: string, options: Parameters<typeof verifyBundle>[1] = {}) {
  const { problems } = await verifyBundle(dir, options)
  return [...new Set(problems.map(({ code }) => code))].sort()
}
