import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openGguf } from '../../src/read.ts'
import { temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
const entry = new URL('../../dist/index.js', import.meta.url).href

/** Peak resident memory in MB of a fresh process that runs `code` with the package's exports in scope. */
function peakMegabytes(code: string): number {
  const script = `import { splitModel, synthModel, synthPresets } from ${JSON.stringify(entry)}
    ${code}
    console.log(process.resourceUsage().maxRSS / 1024)`
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }))
}

test('a model of 1.1 billion weights is made and split in less than 200 MB of memory', () => {
  const path = join(folder, 'model.gguf')
  const outDir = join(folder, 'split')
  const synth = `await synthModel({ ...synthPresets['1.1b'], seed: 1, path: ${JSON.stringify(path)} })`
  expect(peakMegabytes(synth)).toBeLessThan(200)
  const file = openGguf(path)
  expect(file.byteLength).toBeGreaterThan(600e6)
  const split = `await splitModel({ source: ${JSON.stringify(path)}, outDir: ${JSON.stringify(outDir)}, stages: 4 })`
  expect(peakMegabytes(split)).toBeLessThan(200)
})
