import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const script = join(dirname(fileURLToPath(import.meta.url)), 'check-arrows.mjs')
const scratch = mkdtempSync(join(tmpdir(), 'seamline-arrows-'))
after(() => rmSync(scratch, { recursive: true }))

/** Lays out a workspace from `{ 'packages/core': { dependencies, files } }` and runs the check on it. */
function check(name, members) {
  const root = join(scratch, name)
  mkdirSync(join(root, 'apps'), { recursive: true })
  mkdirSync(join(root, 'packages'), { recursive: true })
  for (const [folder, { dependencies = [], files }] of Object.entries(members)) {
    mkdirSync(join(root, folder, 'src'), { recursive: true })
    const manifest = {
      name: folder.startsWith('packages/')
        ? folder.replace('packages', '@seamline')
        : folder.replace('apps/', ''),
      dependencies: Object.fromEntries(dependencies.map((dependency) => [dependency, 'workspace:*'])),
    }
    writeFileSync(join(root, folder, 'package.json'), JSON.stringify(manifest))
    for (const [file, text] of Object.entries(files)) writeFileSync(join(root, folder, 'src', file), text)
  }
  const { status, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' })
  return { status, stderr }
}

const core = { files: { 'index.ts': 'export const x = 1\n' } }

test('accepts leaves that import core and an app that imports everything', () => {
  const { status, stderr } = check('allowed', {
    'packages/core': core,
    'packages/codecs': {
      dependencies: ['@seamline/core'],
      files: { 'index.ts': "import '@seamline/core'\n" },
    },
    'apps/seamline': {
      dependencies: ['@seamline/codecs'],
      files: { 'bin.ts': "import '@seamline/codecs/f32'\n" },
    },
  })
  assert.equal(stderr, '')
  assert.equal(status, 0)
})

test('refuses a leaf that imports a leaf', () => {
  const { status, stderr } = check('leaf', {
    'packages/core': core,
    'packages/framing': {
      dependencies: ['@seamline/codecs'],
      files: { 'index.ts': "export { f32 } from '@seamline/codecs/f32'\n" },
    },
  })
  assert.equal(status, 1)
  assert.match(stderr, /@seamline\/framing may not import @seamline\/codecs/)
})

test('refuses core importing anything of the workspace', () => {
  const { status, stderr } = check('core', {
    'packages/core': {
      dependencies: ['@seamline/gguf'],
      files: { 'index.ts': "import { read } from '@seamline/gguf'\nexport const y = read\n" },
    },
  })
  assert.equal(status, 1)
  assert.match(stderr, /@seamline\/core may not import @seamline\/gguf/)
})

test('refuses an import that is not declared and a declaration without an import', () => {
  const { status, stderr } = check('undeclared', {
    'packages/core': core,
    'packages/codecs': { files: { 'index.ts': "import '@seamline/core'\n" } },
    'packages/gguf': { dependencies: ['@seamline/core'], files: { 'index.ts': 'export {}\n' } },
  })
  assert.equal(status, 1)
  assert.match(stderr, /@seamline\/core is not among the dependencies/)
  assert.match(stderr, /@seamline\/gguf: depends on @seamline\/core without importing it/)
})

test('refuses a cycle of files and names it', () => {
  const { status, stderr } = check('cycle', {
    'packages/core': {
      files: {
        'a.ts': "import { b } from './b.ts'\nexport const a = b\n",
        'b.ts': "import { c } from './c.ts'\nexport const b = c\n",
        'c.ts': "import { a } from './a.ts'\nexport const c = a\n",
      },
    },
  })
  assert.equal(status, 1)
  assert.match(stderr, /import cycle: .*a\.ts -> .*b\.ts -> .*c\.ts -> .*a\.ts/)
})

test('refuses a file that reaches out of its package and a package it does not know', () => {
  const { status, stderr } = check('outside', {
    'packages/core': { files: { 'index.ts': "export * from '../../codecs/src/index.ts'\n" } },
    'packages/utils': { files: { 'index.ts': 'export {}\n' } },
  })
  assert.equal(status, 1)
  assert.match(stderr, /reaches out of its package/)
  assert.match(stderr, /@seamline\/utils: not in the table of arrows/)
})
