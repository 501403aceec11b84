import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { distSha256 } from '../src/session/run-session.ts'

describe('the hash of a build', () => {
  it('is over its files, wherever the checkout lies', async () => {
    const root = mkdtempSync(join(tmpdir(), 'builds-'))
    try {
      const dist = join(root, 'packages', 'x', 'dist')
      mkdirSync(join(dist, 'native', 'build'), { recursive: true })
      const empty = await distSha256(root).catch(() => '')
      writeFileSync(join(dist, 'index.js'), 'one')
      mkdirSync(join(root, 'apps'))
      const one = await distSha256(root)
      writeFileSync(join(dist, 'native', 'build', 'x.node'), 'not part of it')
      writeFileSync(join(dist, 'index.js.map'), 'nor this')
      expect(await distSha256(root)).toBe(one)
      writeFileSync(join(dist, 'index.js'), 'two')
      expect(new Set([empty, one, await distSha256(root)]).size).toBe(3)
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })
})
