import { f16, f32 } from '@seamline/codecs'
import { describe, expect, it } from 'vitest'
import { zstd, zstdArm, zstdArms } from '../src/index.ts'
import { blocks32, cut16, refused } from './support.ts'

describe('zstd', () => {
  it('is named after its inner codec and its parameters, and is as that one is', () => {
    expect(zstd(f32)().id).toBe('f32-zstd1')
    expect(zstd(f16)().id).toBe('f16-shuffle-zstd1')
    expect(zstd(f16, { shuffle: false, level: 3 })().id).toBe('f16-zstd3')
    expect(zstd(cut16, { level: 19 })().id).toBe('cut16-shuffle-zstd19')
    expect(zstd(blocks32, { encoder: 'wasm', decoder: 'fzstd' })().id).toBe('blocks32-zstd1')
    for (const inner of [f32, f16, cut16, blocks32]) {
      const { lossy, dtypes, wireDType, blockElements } = inner()
      expect(zstd(inner)()).toMatchObject({ lossy, dtypes, wireDType, blockElements, identity: false })
    }
  })

  it('refuses levels and implementations that are none, and a shuffle of other elements', () => {
    for (const level of [0, 20, -1, 1.5, Number.NaN])
      expect(refused('USAGE', () => zstd(f32, { level }))).toContain(`${level}`)
    expect(refused('USAGE', zstd(f32, { shuffle: true }))).toContain('f32')
    expect(refused('USAGE', zstd(blocks32, { shuffle: true }))).toContain('q8_0')
    refused('USAGE', zstd(f32, { encoder: 'fzstd' as 'wasm' }))
    refused('USAGE', zstd(f32, { decoder: 'lz4' as 'wasm' }))
  })

  it('has node:zlib from Node 22.15 on and libzstd everywhere', () => {
    const [major, minor] = process.versions.node.split('.').map(Number) as [number, number]
    const expected = major > 23 || (major === 23 && minor >= 8) || (major === 22 && minor >= 15)
    expect(zstdArms()).toEqual(expected ? ['native', 'wasm', 'fzstd'] : ['wasm', 'fzstd'])
    if (!expected) refused('UNSUPPORTED', () => zstdArm('native'))
    for (const name of zstdArms()) expect(zstdArm(name).name).toBe(name)
  })

  it('hands out the arena of the inner codec, which gets the options', () => {
    const arena = new Uint8Array(64)
    const codec = zstd((options) => ({
      ...f32(),
      allocate: (bytes) => (bytes <= options!.arenaBytes! ? arena : undefined),
    }))({ arenaBytes: 64 })
    expect(codec.allocate!(64)).toBe(arena)
    expect(codec.allocate!(65)).toBeUndefined()
    expect(zstd(f32)()).not.toHaveProperty('allocate')
  })
})
