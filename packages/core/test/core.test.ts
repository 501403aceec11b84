import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  alignedBytes,
  alignUp,
  asBytes,
  asFloat32,
  asInt32,
  ErrorCode,
  isErrorCode,
  isSeamError,
  monotonicClock,
  SeamError,
  spanTag,
  spanTagParts,
} from '../src/index.ts'

describe('SeamError', () => {
  it('keeps code, text, cause and worker', () => {
    const cause = new Error('below')
    const error = new SeamError('BUSY', 'no room', { cause, worker: 'w1' })
    expect(error).toMatchObject({ name: 'SeamError', code: 'BUSY', message: 'no room', cause, worker: 'w1' })
  })

  it('passes through from() unchanged and wraps everything else with its cause', () => {
    const seam = new SeamError('LIMIT', 'x')
    expect(SeamError.from(seam, 'RESET')).toBe(seam)
    const plain = new TypeError('bad')
    expect(SeamError.from(plain, 'RESET', 'w')).toMatchObject({
      code: 'RESET',
      message: 'bad',
      cause: plain,
      worker: 'w',
    })
    expect(SeamError.from('text', 'FILE')).toMatchObject({ code: 'FILE', message: 'text' })
  })

  it('is recognised across copies of the package, and nothing else is', () => {
    const foreign = Object.assign(new Error('x'), { name: 'SeamError', code: 'CODEC' })
    expect(isSeamError(foreign)).toBe(true)
    for (const other of [
      new Error('x'),
      { name: 'SeamError', code: 'CODEC' },
      Object.assign(new Error(), { code: 'EPIPE' }),
      null,
    ]) {
      expect(isSeamError(other)).toBe(false)
    }
    expect(isErrorCode('toString')).toBe(false)
    for (const code of Object.values(ErrorCode)) expect(isErrorCode(code)).toBe(true)
  })
})

describe('tensor memory', () => {
  it.each([
    [0, 0],
    [1, 64],
    [64, 64],
    [65, 128],
  ])('aligns %i up to %i', (bytes, aligned) => {
    expect(alignUp(bytes)).toBe(aligned)
  })

  it('is zeroed, of the length asked for, at offset 0 of a whole number of alignments', () => {
    const bytes = alignedBytes(70)
    expect([bytes.length, bytes.byteOffset, bytes.buffer.byteLength]).toEqual([70, 0, 128])
    expect(bytes.every((byte) => byte === 0)).toBe(true)
  })

  it('is viewed, not copied, at the offset it has', () => {
    const bytes = alignedBytes(16)
    new DataView(bytes.buffer).setFloat32(8, 1.5, true)
    new DataView(bytes.buffer).setInt32(12, -7, true)
    expect([...asFloat32(bytes.subarray(8, 12))]).toEqual([1.5])
    expect([...asInt32(bytes.subarray(12))]).toEqual([-7])
    expect(asBytes(new Float32Array(bytes.buffer, 8, 1)).byteOffset).toBe(8)
  })

  it('refuses a view that is not made of whole, aligned elements', () => {
    const bytes = alignedBytes(16)
    expect(() => asFloat32(bytes.subarray(0, 6))).toThrow(RangeError)
    expect(() => asInt32(bytes.subarray(1, 5))).toThrow(RangeError)
  })
})

describe('clock', () => {
  it('gives integer nanoseconds of the monotonic clock that hrtime reads', () => {
    const before = process.hrtime.bigint()
    const now = monotonicClock.nowNs()
    const after = process.hrtime.bigint()
    expect(Number.isSafeInteger(now)).toBe(true)
    expect(BigInt(now) >= before && BigInt(now) <= after).toBe(true)
  })
})

it('span tags join sequence and position without loss', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 29 - 1), fc.nat(2 ** 24 - 1), (sequence, position) => {
      expect(spanTagParts(spanTag(sequence, position))).toEqual({ sequence, position })
    }),
  )
})
