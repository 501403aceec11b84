import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from './support/process.ts'

const ALLOWED = [
  /^\.\/[\w-]+\.ts$/,
  /^node:[\w/]+$/,
  /^commander$/,
  /^@seamline\/(core|codecs|framing|transports|runtime)(\/[\w-]+)?$/,
]
const SPECIFIER = /(?:\bfrom|\bimport|\brequire)\s*\(?\s*(['"])([^'"]+)\1/g

/** What a source imports, its doc comments aside. */
function importsOf(source: string): string[] {
  return [...source.replace(/^ *\/?\*.*$/gm, '').matchAll(SPECIFIER)].map(([, , specifier]) => specifier!)
}

describe('this app', () => {
  it('knows workers by what they announce: it imports no model files, no engine and no other app', () => {
    const files = readdirSync(join(ROOT, 'src'), { recursive: true }).map(String)
    const found = files
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => importsOf(readFileSync(join(ROOT, 'src', file), 'utf8')))
    expect(found.length).toBeGreaterThan(30)
    expect(found.filter((specifier) => !ALLOWED.some((pattern) => pattern.test(specifier)))).toEqual([])
  })

  it.each([
    "import { x } from '@seamline/gguf'",
    "export * from '@seamline/llama/tokenizer'",
    "await import('seamline/cluster')",
    "import '../../seamline/src/cluster.ts'",
    "import { x } from '@seamline/runtimes'",
  ])('would be caught by this test doing %s', (source) => {
    const [specifier] = importsOf(source)
    expect(ALLOWED.some((pattern) => pattern.test(specifier!))).toBe(false)
  })
})
