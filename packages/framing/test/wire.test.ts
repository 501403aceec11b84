import { readFileSync } from 'node:fs'
import { largestMessages, randomMessages, smallestMessages } from '@seamline/conformance'
import { describe, expect, it } from 'vitest'
import { generate, loadSchema, protocolId } from '../scripts/generate.mjs'
import { decodeAll } from './frames.ts'
import { encodedInto, framings } from './vectors.ts'

const schema = loadSchema()
const samples = [...smallestMessages(), ...largestMessages(), ...randomMessages(7, 20)]
const hex = (data: Uint8Array) => Buffer.from(data).toString('hex')

for (const { id, create, vectors, reference, describeWire } of framings) {
  const framing = create()

  describe(`golden vectors of ${id}`, () => {
    for (const { name, message, payload, frame } of vectors) {
      it(`${name} encodes to its bytes and decodes from them`, () => {
        const bytes = Buffer.from(payload, 'hex')
        expect(hex(framing.encode(message, bytes))).toBe(frame)
        expect(hex(encodedInto(framing, message, bytes))).toBe(frame)
        expect(decodeAll(framing, Buffer.from(frame, 'hex'))).toEqual([[message, bytes]])
      })
    }

    it('cover every kind', () => {
      const kinds = new Set(vectors.map(({ message }) => message.kind))
      expect(kinds).toEqual(new Set(samples.map(({ message }) => message.kind)))
      expect(kinds.size).toBe(17)
    })
  })

  describe(`protocol id of ${id}`, () => {
    const frames = vectors.map(({ frame }) => frame)

    it('is the SHA-256 over the schema and the golden vectors', () => {
      expect(framing.protocolIds).toEqual([protocolId(describeWire(), frames)])
    })

    it('changes with any byte of a vector and any field of the schema', () => {
      const changed = frames.with(
        3,
        frames[3]!.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
      )
      expect(framing.protocolIds).not.toContain(protocolId(describeWire(), changed))
      expect(framing.protocolIds).not.toContain(protocolId(describeWire().slice(1), frames))
    })
  })

  describe(`${id} against the reference encoder`, () => {
    it('writes the same bytes', () => {
      for (const checksum of [true, false]) {
        const own = create({ checksum })
        for (const { message, payload } of samples) {
          const expected = hex(reference(schema, message, payload, checksum))
          expect(hex(own.encode(message, payload))).toBe(expected)
          expect(hex(encodedInto(own, message, payload))).toBe(expected)
        }
      }
    })

    it('reads its bytes', () => {
      for (const { message, payload } of samples)
        expect(decodeAll(framing, reference(schema, message, payload))).toEqual([
          [message, Buffer.from(payload)],
        ])
    })
  })
}

it('the protocol ids of the framings are distinct', () => {
  const ids = framings.flatMap(({ create }) => create().protocolIds)
  expect(new Set(ids).size).toBe(2)
})

it('generated files are up to date with the schema: else run scripts/generate.mjs', async () => {
  for (const [path, text] of await generate()) expect(readFileSync(path, 'utf8') === text, path).toBe(true)
})
