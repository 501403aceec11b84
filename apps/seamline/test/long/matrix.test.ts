import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { matrixModels } from '../../src/matrix.ts'
import { scratchFolder, startNode } from '../support.ts'

scratchFolder()

it('every architecture that can be made, K-quants and shards are certified at two cuts each', async () => {
  const bin = fileURLToPath(new URL('../../dist/bin.js', import.meta.url))
  const { code, stdout } = await startNode([bin, 'certify-all', '--json'], {}, 600_000).finished
  const { certified, results } = JSON.parse(stdout)
  expect(results).toHaveLength(2 * matrixModels().length)
  for (const result of results) {
    expect(result).toMatchObject({ steps: 64, equalTokens: 64, maxAbsDiff: 0, identical: true, weak: false })
  }
  expect({ certified, code }).toEqual({ certified: true, code: 0 })
})
