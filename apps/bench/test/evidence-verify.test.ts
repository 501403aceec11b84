import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { analyserSha256 } from '../src/evidence/analyser.ts'
import type { Bundle } from '../src/evidence/bundle.ts'
import { type Derivation, derivations } from '../src/evidence/derivations.ts'
import { verifyBundle } from '../src/evidence/verify.ts'
import { writeBundle } from '../src/evidence/write.ts'
import { derivedJson } from '../src/session/canonical.ts'
import { codes, context, edit, prepared, resealed, spec, template, write } from './evidence-fixture.ts'

let root: string
/** With everything that a bundle can hold. */
let original: string
/** Without predictions and traces for other tools, which take most of the time. */
let plain: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'bench-evidence-'))
  original = await made()
  const claims = spec.claims.filter(({ text }) => !text.includes('whatIf'))
  plain = await made({
    spec: { trace: null, claims },
    template: template.replace('{{table:what-if}}\n', ''),
  })
})
afterAll(() => rm(root, { recursive: true, force: true }))

async function made(changes: Parameters<typeof prepared>[1] = {}): Promise<string> {
  const dir = await prepared(await mkdtemp(join(root, 'made-')), changes)
  await writeBundle(context, dir)
  return dir
}

/** Of a bundle that has no problem. */
async function copy(from = plain): Promise<string> {
  const dir = await mkdtemp(join(root, 'copy-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  await cp(from, dir, { recursive: true })
  return dir
}

const run = (number: number) => `sessions/main/runs/${String(number).padStart(4, '0')}`
const spans = `${run(3)}/trace/spans-1.f64.gz`

async function flipped(dir: string, path: string, at: number) {
  const bytes = await readFile(join(dir, path))
  bytes[at < 0 ? bytes.length + at : at]! ^= 1
  await writeFile(join(dir, path), bytes)
}

describe('verifyBundle', () => {
  it('finds nothing wrong with a bundle as it was written', async () => {
    const { problems, notes, title } = await verifyBundle(original)
    expect({ problems, notes, title }).toEqual({ problems: [], notes: [], title: 'A change' })
  })

  it('finds nothing wrong with it elsewhere, and the same bytes come of writing it again from itself', async () => {
    const dir = await copy()
    expect(await codes(dir)).toEqual([])
    const before = await readFile(join(dir, 'bundle.json'), 'utf8')
    await writeBundle(context, dir)
    expect(await readFile(join(dir, 'bundle.json'), 'utf8')).toBe(before)
  })

  describe('a raw byte flipped', () => {
    it('HASH', async () => {
      const dir = await copy()
      await flipped(dir, `${run(1)}/trace/spans-0.f64.gz`, -5) // of the checksum of gzip
      expect(await codes(dir)).toContain('HASH')
    })
    it('RAW where hashes were made to fit: the spans do not unpack', async () => {
      const dir = await copy()
      await flipped(dir, spans, -5)
      await resealed(dir)
      const found = await codes(dir)
      expect(found).toContain('RAW')
      expect(found).not.toContain('HASH')
    })
    it('DERIVED where the record stays whole', async () => {
      const dir = await copy()
      await edit(dir, `${run(2)}/trace/trace.json`, (text) =>
        text.replace(/"emittedNs":\[(\d+)/, (_, ns: string) => `"emittedNs":[${Number(ns) + 1000}`),
      )
      await resealed(dir)
      const found = await codes(dir)
      expect(found).toContain('DERIVED')
      expect(found).not.toContain('HASH')
    })
  })

  it('RUN-MISSING: a run dropped', async () => {
    const dir = await copy()
    await rm(join(dir, run(5)), { recursive: true })
    await resealed(dir)
    const found = await codes(dir)
    expect(found).toContain('RUN-MISSING')
    expect(found).not.toContain('MISSING-FILE')
  })

  it('RUN-MISSING: the last run dropped, from the plan too, is another order than the seed gives', async () => {
    const dir = await copy()
    await rm(join(dir, run(24)), { recursive: true })
    await edit(dir, 'sessions/main/session.json', (text) => {
      const session = JSON.parse(text)
      session.plan.runs.pop()
      return derivedJson(session)
    })
    await resealed(dir)
    expect(await codes(dir)).toContain('ORDER')
  })

  it('RUN-MISSING: a run that the plan does not name', async () => {
    const dir = await copy()
    await cp(join(dir, run(1)), join(dir, run(25)), { recursive: true })
    await resealed(dir)
    expect(await codes(dir)).toEqual(['RUN-MISSING'])
  })

  describe('arms swapped', () => {
    it('ORDER: the records', async () => {
      const dir = await copy()
      await rename(join(dir, run(1)), join(dir, 'aside'))
      await rename(join(dir, run(2)), join(dir, run(1)))
      await rename(join(dir, 'aside'), join(dir, run(2)))
      await resealed(dir)
      expect(await codes(dir)).toContain('ORDER')
    })
    it('ORDER: their names', async () => {
      const dir = await copy()
      await edit(dir, 'sessions/main/session.json', (text) => {
        const session = JSON.parse(text)
        for (const each of session.plan.runs)
          each.arm = ({ A: 'B', B: 'A' } as Record<string, string>)[each.arm] ?? each.arm
        return derivedJson(session)
      })
      await resealed(dir)
      expect(await codes(dir)).toContain('ORDER')
    })
  })

  it('ORDER: runs overlap', async () => {
    const dir = await copy()
    await edit(dir, `${run(4)}/run.json`, (text) => text.replace('00:00:04.500Z', '00:00:05.100Z'))
    await resealed(dir)
    expect(await codes(dir)).toEqual(['ORDER'])
  })

  it('README: one digit edited', async () => {
    const dir = await copy()
    await edit(dir, 'README.md', (text) =>
      text.replace(/takes (\d)/, (_, digit: string) => `takes ${(Number(digit) + 1) % 10}`),
    )
    await resealed(dir)
    expect(await codes(dir)).toEqual(['README'])
  })

  it('DERIVED: a derived number edited, a file of them added', async () => {
    const dir = await copy()
    await edit(dir, 'derived/comparison.json', (text) =>
      text.replace('"verdict": "IMPROVED"', '"verdict": "REGRESSED"'),
    )
    await write(dir, 'derived/better.json', '{}\n')
    await resealed(dir)
    const { problems } = await verifyBundle(dir)
    expect(problems.map(({ code, file }) => `${code} ${file}`).sort()).toEqual([
      'DERIVED derived/better.json',
      'DERIVED derived/comparison.json',
    ])
  })

  it('DERIVED: traces for other tools are of the record', async () => {
    const dir = await copy(original)
    await cp(join(dir, 'traces/speedscope.json.gz'), join(dir, 'traces/perfetto.json.gz'))
    await resealed(dir)
    expect(await codes(dir)).toEqual(['DERIVED'])
  })

  describe('another analyser', () => {
    const other: Derivation[] = derivations.map((each) =>
      each.name === 'medians'
        ? { ...each, derive: (bundle) => ({ ...(each.derive(bundle) as object), more: 1 }) }
        : each,
    )
    it('ANALYSER: one that finds something else', async () => {
      expect(await analyserSha256(other)).not.toBe(await analyserSha256())
      expect(await codes(plain, { derivations: other })).toEqual(['ANALYSER'])
    })
    it('is the same where it finds the same', async () => {
      const same = derivations.map((each) => ({ ...each, derive: (bundle: Bundle) => each.derive(bundle) }))
      expect(await analyserSha256(same)).toBe(await analyserSha256())
      expect(await codes(plain, { derivations: same })).toEqual([])
    })
    it('ANALYSER: the lock was made for another one', async () => {
      const dir = await copy()
      await edit(dir, 'bundle.json', (text) =>
        text.replace(/"analyserSha256": "\w+"/, `"analyserSha256": "${'0'.repeat(64)}"`),
      )
      expect(await codes(dir)).toEqual(['ANALYSER'])
    })
  })

  describe('files', () => {
    it('EXTRA-FILE: not named, or with no place in a bundle', async () => {
      const dir = await copy()
      await write(dir, 'more.txt', 'more')
      await resealed(dir)
      await write(dir, 'report.html', 'more')
      const { problems } = await verifyBundle(dir)
      expect(problems.map(({ code, file }) => `${code} ${file}`)).toEqual([
        'EXTRA-FILE more.txt',
        'EXTRA-FILE report.html',
      ])
    })
    it('EXTRA-FILE: a link is not followed', async () => {
      const dir = await copy()
      await symlink(tmpdir(), join(dir, 'elsewhere'))
      expect(await codes(dir)).toEqual(['EXTRA-FILE'])
    })
    it('truncated anywhere: a typed failure, never a crash', async () => {
      for (const path of ['bundle.json', 'spec.json', `${run(1)}/run.json`, spans]) {
        const dir = await copy()
        const { length } = await readFile(join(dir, path))
        await truncate(join(dir, path), length >> 1)
        const found = await codes(dir)
        expect(found, path).toContain(path === 'bundle.json' ? 'SCHEMA' : 'HASH')
        expect(found, path).toContain(path.includes('/trace/') ? 'RAW' : 'SCHEMA')
      }
    })
    it('SIZE: a file of more than 2 MiB', async () => {
      const dir = await copy()
      await writeFile(join(dir, 'report.html'), Buffer.alloc((2 << 20) + 1, 97))
      await resealed(dir)
      expect(await codes(dir)).toEqual(['SIZE'])
    })
    it('SIZE: spans that would unpack to more than fits are not unpacked', async () => {
      const dir = await copy()
      await edit(dir, `${run(1)}/trace/trace.json`, (text) =>
        text.replace(/"records":\d+/, '"records":900000000'),
      )
      await resealed(dir)
      expect(await codes(dir)).toContain('SIZE')
    })
    it('SCHEMA: JSON in another form, and a field that there is not', async () => {
      const dir = await copy()
      await edit(dir, `${run(1)}/run.json`, (text) => JSON.stringify(JSON.parse(text)))
      await edit(dir, `${run(2)}/run.json`, (text) => text.replace('"backend"', '"backEnd"'))
      await resealed(dir)
      const { problems } = await verifyBundle(dir)
      expect(problems.filter(({ code }) => code === 'SCHEMA').map(({ file }) => file)).toEqual([
        `${run(1)}/run.json`,
        `${run(2)}/run.json`,
      ])
    })
  })

  describe('texts', () => {
    it('PATH: of one machine', async () => {
      const dir = await copy()
      await edit(dir, 'LIMITATIONS.md', (text) =>
        text.replace('One host.', 'One host, /home/someone/models.'),
      )
      await resealed(dir)
      expect(await codes(dir)).toEqual(['PATH'])
    })
    it('LIMITATIONS: a heading without anything below it', async () => {
      const dir = await copy()
      await edit(dir, 'LIMITATIONS.md', (text) => text.replace('One host.', ''))
      await resealed(dir)
      expect(await codes(dir)).toEqual(['LIMITATIONS'])
    })
    it('DIGIT: a number typed into the template; one with a reason may stand', async () => {
      const dir = await copy()
      await edit(dir, 'README.tmpl.md', (text) => text.replace('before', 'before, 12 % less, by the SHA-256'))
      await write(dir, 'literals.json', JSON.stringify([{ text: 'SHA-256', reason: 'the name of a norm' }]))
      await writeBundle(context, dir)
      const { problems } = await verifyBundle(dir)
      expect(problems).toEqual([{ code: 'DIGIT', file: 'README.tmpl.md', message: 'line 3: 12' }])
    })
    it('CLASS: a claim on a prediction that says it was measured', async () => {
      const claims = [{ text: 'Gain {{whatIf.rows.0.gainPctFrozen | signed}}', class: 'measured' }]
      expect(await codes(await made({ spec: { claims } }))).toEqual(['CLASS'])
    })
  })

  describe('records', () => {
    it('GUARD: a run on another kernel', async () => {
      const dir = await copy()
      await edit(dir, `${run(7)}/run.json`, (text) => text.replaceAll(/"kernel": "[^"]+"/g, '"kernel": "0"'))
      await resealed(dir)
      expect(await codes(dir)).toContain('GUARD')
    })
    it('SCOPE: a changed file that the lock does not allow', async () => {
      const dir = await copy()
      await edit(dir, 'diff/changed-files.txt', (text) => text.replace('packages/', 'apps/'))
      await resealed(dir)
      expect(await codes(dir)).toEqual(['README', 'SCOPE'])
    })
    it('COMMAND: an exit status that is not what was expected', async () => {
      const dir = await copy()
      await edit(dir, 'cmd/001.exit', () => '1\n')
      await resealed(dir)
      expect(await codes(dir)).toEqual(['COMMAND', 'README'])
    })
  })
})

describe('bench verify', () => {
  const bench = new URL('../dist/bin.js', import.meta.url).pathname
  const ended = (...args: string[]) =>
    promisify(execFile)(process.execPath, [bench, 'verify', ...args]).then(
      ({ stdout }) => ({ code: 0, stdout }),
      ({ code, stdout }) => ({ code, stdout }),
    )

  it('verifies all bundles of a folder, lists what is wrong with each and ends with 1', async () => {
    const folder = await mkdtemp(join(root, 'folder-'))
    await cp(plain, join(folder, 'good'), { recursive: true })
    await cp(plain, join(folder, 'worse'), { recursive: true })
    await write(join(folder, 'worse'), 'more.txt', 'more')
    await edit(join(folder, 'worse'), 'README.md', (text) => `${text}x`)
    const { code, stdout } = await ended(folder, '--json')
    const [good, worse] = stdout
      .trim()
      .split('\n')
      .map((line: string) => JSON.parse(line))
    expect({
      code,
      good: good.ok,
      worse: worse.problems.map((each: { code: string }) => each.code).sort(),
    }).toEqual({
      ...{ code: 1, good: true },
      worse: ['EXTRA-FILE', 'HASH', 'README'],
    })
  })
})
