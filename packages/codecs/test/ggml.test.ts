import { readFileSync } from 'node:fs'
import type { CodecFactory } from '@seamline/core'
import { afterAll, describe, expect, it } from 'vitest'
import { inputs, makeVectors, openGgml, sha256, type Vector } from '../scripts/ggml-vectors.mjs'
import { bf16, f16, q8_0 } from '../src/index.ts'
import { sweep } from './oracle.ts'
import { arenaBytes, arenaValues, decoded, encoded } from './support.ts'

const VECTORS: Vector[] = JSON.parse(readFileSync(new URL('../vectors/ggml.json', import.meta.url), 'utf8'))

/** Encodes in foreign memory and in the codec's own, with one result. */
function encodedTwice(create: CodecFactory, values: Float32Array): Uint8Array {
  const foreign = encoded(create(), values)
  const codec = create({ arenaBytes: values.byteLength + foreign.length + 64 })
  const src = arenaValues(codec, values.length)
  const dst = arenaBytes(codec, foreign.length)
  src.set(values)
  codec.encodeInto(src, 1, src.length, dst)
  expect(Buffer.compare(dst, foreign)).toBe(0)
  return foreign
}

const ggml = openGgml()
if (typeof ggml === 'string') console.warn(`skipped: ${ggml}`)
else afterAll(ggml.close)

describe('ggml', () => {
  for (const [i, { name, values }] of inputs().entries()) {
    const vector = VECTORS[i]!
    it(`encodes and decodes ${name} as ggml does, byte for byte`, () => {
      expect([name, values.length, sha256(values)]).toEqual([
        vector.name,
        vector.elements,
        vector.inputSha256,
      ])
      const blocks = encodedTwice(q8_0, values)
      if (vector.q8_0 !== undefined) expect(Buffer.from(blocks)).toEqual(Buffer.from(vector.q8_0, 'base64'))
      expect(sha256(blocks)).toBe(vector.q8_0Sha256)
      expect(sha256(decoded(q8_0(), blocks, values.length))).toBe(vector.decodedSha256)
      expect(sha256(encodedTwice(bf16, values))).toBe(vector.bf16Sha256)
      if (vector.f16Sha256 === undefined) expect(values.some((value) => Math.abs(value) >= 65520)).toBe(true)
      else expect(sha256(encodedTwice(f16, values))).toBe(vector.f16Sha256)
    })
  }

  it.skipIf(typeof ggml === 'string')('makes the vectors again with the installed library', () => {
    if (typeof ggml === 'string') return
    expect(makeVectors(ggml.run)).toEqual(VECTORS)
  })

  it.skipIf(typeof ggml === 'string')('rounds millions of patterns as the installed library does', () => {
    if (typeof ggml === 'string') return
    const collect = (limit: number) => {
      const parts: Uint32Array[] = []
      sweep(limit, 1 << 13, (bits) => parts.push(bits))
      const all = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0))
      let at = 0
      for (const part of parts) {
        all.set(part, at)
        at += part.length
      }
      return new Float32Array(all.buffer)
    }
    const halves = collect(0x477ff000)
    expect(Buffer.compare(encoded(f16(), halves), ggml.run('f16', halves))).toBe(0)
    const brains = collect(0x7f7f8000)
    expect(Buffer.compare(encoded(bf16(), brains), ggml.run('bf16', brains))).toBe(0)
    const small = collect(0x4afdf020)
    const blocks = small.subarray(0, small.length - (small.length % 32))
    const found = encoded(q8_0(), blocks)
    expect(Buffer.compare(found, ggml.run('quantize', blocks))).toBe(0)
    expect(sha256(decoded(q8_0(), found, blocks.length))).toBe(sha256(ggml.run('dequantize', found)))
  })
})
