import fc from 'fast-check'
import { expect, it } from 'vitest'
import { shuffle16, unshuffle16 } from '../src/shuffle.ts'

/** By the definition: byte k of element i goes to place i of part k; what is left over stays. */
function oracle(src: readonly number[]): number[] {
  const elements = Math.floor(src.length / 2)
  const parts: number[][] = [[], []]
  for (const [i, byte] of src.slice(0, 2 * elements).entries()) parts[i % 2]!.push(byte)
  return [...parts.flat(), ...src.slice(2 * elements)]
}

/** A copy of the bytes that begins `offset` bytes into its buffer. */
function at(offset: number, bytes: readonly number[]): Uint8Array {
  const view = new Uint8Array(new ArrayBuffer(offset + bytes.length + 8), offset, bytes.length)
  view.set(bytes)
  return view
}

it('puts low bytes before high ones', () => {
  const dst = new Uint8Array(8)
  shuffle16(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), dst)
  expect([...dst]).toEqual([1, 3, 5, 7, 2, 4, 6, 8])
})

it('agrees with a scalar oracle at every length and offset, and is undone', () => {
  const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => [...array])
  const offset = fc.integer({ min: 0, max: 7 })
  fc.assert(
    fc.property(bytes, offset, offset, (src, from, to) => {
      const dst = at(to, new Array<number>(src.length).fill(0xa5))
      shuffle16(at(from, src), dst)
      expect([...dst]).toEqual(oracle(src))
      expect([...new Uint8Array(dst.buffer, to + src.length)]).toEqual(new Array(8).fill(0))
      const back = at(from, new Array<number>(src.length).fill(0x5a))
      unshuffle16(dst, back)
      expect([...back]).toEqual(src)
      expect([...new Uint8Array(back.buffer, from + src.length)]).toEqual(new Array(8).fill(0))
    }),
    { seed: 1, numRuns: 1000 },
  )
})
