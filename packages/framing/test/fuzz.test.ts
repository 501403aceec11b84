import { randomMessages } from '@seamline/conformance'
import { isSeamError } from '@seamline/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeAll, frameOf } from './frames.ts'
import { encodedInto, framings, headerOf } from './vectors.ts'

for (const { id, create } of framings) {
  const framing = create()

  /** Decodes, and if that gives messages, checks that they are messages: they encode and decode again. */
  const survives = (frame: Uint8Array): void => {
    let found: ReturnType<typeof decodeAll>
    try {
      found = decodeAll(framing, frame, 1000)
    } catch (error) {
      expect(isSeamError(error) && ['PROTOCOL', 'LIMIT'].includes(error.code), String(error)).toBe(true)
      return
    }
    for (const [message, payload] of found) {
      expect(decodeAll(framing, framing.encode(message, payload))).toEqual([[message, payload]])
      expect(decodeAll(framing, encodedInto(framing, message, payload))).toEqual([[message, payload]])
    }
  }

  describe(`${id} under fuzzing`, () => {
    it('carries arbitrary messages unchanged', () => {
      fc.assert(
        fc.property(fc.integer(), (seed) => {
          for (const { message, payload } of randomMessages(seed))
            expect(decodeAll(framing, framing.encode(message, payload))).toEqual([
              [message, Buffer.from(payload)],
            ])
        }),
        { seed: 1, numRuns: 150 },
      )
    })

    it('survives any header behind a right prefix', () => {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => survives(frameOf(bytes))),
        { seed: 2, numRuns: 2000 },
      )
    })

    it('survives headers with bytes replaced, cut out and put in, behind a right prefix', () => {
      const edit = fc.record({ at: fc.nat(2000), cut: fc.nat(3), put: fc.uint8Array({ maxLength: 3 }) })
      fc.assert(
        fc.property(
          fc.integer(),
          fc.nat(16),
          fc.array(edit, { minLength: 1, maxLength: 4 }),
          (seed, kind, edits) => {
            const { message, payload } = randomMessages(seed)[kind]!
            const bytes = [...headerOf(framing.encode(message, payload))]
            for (const { at, cut, put } of edits) bytes.splice(at % bytes.length, cut, ...put)
            survives(Buffer.concat([frameOf(Uint8Array.from(bytes)), payload]))
          },
        ),
        { seed: 3, numRuns: 2500 },
      )
    })
  })
}
