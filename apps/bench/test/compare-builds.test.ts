import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildOf, builtIn, descends } from '../src/compare/builds.ts'
import { comparisonOf } from '../src/compare/comparison.ts'
import { planOf } from '../src/compare/plan.ts'
import { closedBy, quickLock } from '../src/compare/quick.ts'
import { rootDir } from '../src/root.ts'
import { guardNames } from '../src/session/record.ts'
import { type BuildPlace, runSession } from '../src/session/run-session.ts'
import { readSession } from '../src/session/store.ts'
import { createUi } from '../src/ui.ts'

/** A repository as small as can be that has a bench, whose build writes `time` into what it builds. */
const stub = {
  'package.json': JSON.stringify({
    name: 'stub',
    private: true,
    type: 'module',
    packageManager: JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8')).packageManager,
    scripts: { build: 'node build.js' },
  }),
  'pnpm-lock.yaml': "lockfileVersion: '9.0'\nimporters:\n  .: {}\n",
  '.gitignore': 'dist\nnode_modules\n.built\nbuilds.txt\n',
  'packages/none.txt': '',
  'apps/bench/bench.js': `import { mkdirSync, writeFileSync } from 'node:fs'
const given = name => process.argv[process.argv.indexOf(name) + 1]
const micro = { samples: 1, p50Ns: TIME, minNs: TIME, roundsNs: [TIME], bytes: null }
const guards = Object.fromEntries(${JSON.stringify(guardNames)}.map(name => [name, 'same']))
mkdirSync(given('--out'), { recursive: true })
writeFileSync(given('--out') + '/run.json', JSON.stringify({ format: 'seamline-run/1', cell: JSON.parse(given('--cell')), status: 'done',
  reason: null, startedAt: '', endedAt: '', environment: {}, guards, micro, external: null, hasTrace: false }))
`,
  'build.js': `import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
const time = readFileSync('time.txt', 'utf8').trim()
if (!/^[0-9]+$/.test(time)) { console.error('no such time: ' + time); process.exit(1) }
mkdirSync('apps/bench/dist', { recursive: true })
writeFileSync('apps/bench/dist/bin.js', readFileSync('apps/bench/bench.js', 'utf8').replaceAll('TIME', time))
appendFileSync('builds.txt', 'once ')
`,
}

const dir = mkdtempSync(join(tmpdir(), 'seamline-compare-'))
const repository = join(dir, 'repository')
const silent = { ...createUi(true), record: () => {} }
const context = { ui: silent, signal: new AbortController().signal }
const before = process.env.SEAMLINE_MODEL_DIR

function git(...args: string[]): string {
  const who = ['-c', 'user.name=n', '-c', 'user.email=e@example.com', '-c', 'commit.gpgsign=false']
  return execFileSync('git', [...who, ...args], { cwd: repository, encoding: 'utf8' }).trim()
}

function committed(time: string): string {
  writeFileSync(join(repository, 'time.txt'), time)
  git('add', '-A')
  git('commit', '--quiet', '-m', time)
  return git('rev-parse', 'HEAD')
}

const builtFolders = () => readdirSync(join(dir, 'models', 'revisions')).sort()

beforeAll(() => {
  process.env.SEAMLINE_MODEL_DIR = join(dir, 'models')
  for (const [name, text] of Object.entries(stub)) {
    mkdirSync(join(repository, name, '..'), { recursive: true })
    writeFileSync(join(repository, name), text)
  }
  git('init', '--quiet')
})

afterAll(() => {
  if (before === undefined) delete process.env.SEAMLINE_MODEL_DIR
  else process.env.SEAMLINE_MODEL_DIR = before
  rmSync(dir, { recursive: true, force: true })
})

describe('builds of revisions', () => {
  const places: Record<string, BuildPlace> = {}
  const lock = quickLock({ kind: 'micro', id: 'any', timeMs: 10 }, 6)

  it('are made from commits, once each, and a copy is the same build in another place', async () => {
    const [base, head] = [committed('1000'), committed('900')]
    places.base = await buildOf(context, base, '', repository)
    places.copy = await buildOf(context, base, '-copy', repository)
    places.head = await buildOf(context, head, '', repository)
    expect(builtFolders()).toEqual([base.slice(0, 12), `${base.slice(0, 12)}-copy`, head.slice(0, 12)].sort())
    expect(places.base.build).toEqual({ ...places.copy.build, commit: base, dirty: false })
    expect(places.base.root).not.toBe(places.copy.root)
    expect(places.head.build.distSha256).not.toBe(places.base.build.distSha256)
    expect(readFileSync(join(places.base.root, 'apps/bench/dist/bin.js'), 'utf8')).toMatch(/p50Ns: 1000/)
    await buildOf(context, base, '', repository)
    for (const { root } of Object.values(places))
      expect(readFileSync(join(root, 'builds.txt'), 'utf8')).toBe('once ')
    expect(git('worktree', 'list').split('\n')).toHaveLength(1)
  })

  it('leave nothing when they fail, and say what was printed last', async () => {
    const kept = builtFolders()
    const broken = committed('soon')
    await expect(buildOf(context, broken, '', repository)).rejects.toThrow(/no such time: soon/)
    expect(builtFolders()).toEqual(kept)
  })

  it('are compared in fresh processes of each', async () => {
    const session = join(dir, 'session')
    await runSession(context, session, planOf(lock), places)
    const stored = await readSession(session)
    const found = comparisonOf(closedBy(lock, stored), stored)
    expect(found).toMatchObject({
      lockId: 'no lock, no evidence',
      session: 'VALID',
      verdict: 'IMPROVED',
      runs: 24,
    })
    expect(found.rows[0]).toMatchObject({ a: 1000, b: 900, effectPct: expect.closeTo(-10, 6) })
    expect(found.rows[0]!.aa).toMatchObject({ effectPct: 0, lowPct: 0, highPct: 0 })
  })

  it('by somebody else are never taken for those of a commit', async () => {
    const { base } = places
    const before = await builtIn(base!.root)
    expect(before.build).toEqual({ commit: 'not recorded', dirty: true, distSha256: base!.build.distSha256 })
    await expect(builtIn(repository)).rejects.toThrow(/is no checkout or was not built/)
  })
})

describe('a change', () => {
  it('comes after its lock', async () => {
    const root = (...args: string[]) => execFileSync('git', args, { cwd: rootDir, encoding: 'utf8' }).trim()
    const head = root('rev-parse', 'HEAD')
    const [first] = root('rev-list', '--max-parents=0', 'HEAD').split('\n')
    expect(await descends(head, head)).toBe(true)
    expect(await descends(head, first!)).toBe(true)
    expect(await descends(first!, head)).toBe(first === head)
  })
})
