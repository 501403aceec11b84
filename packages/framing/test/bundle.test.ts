import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { bundle } from './bundle.ts'
import { bytes, field, frameOf, varint } from './frames.ts'

// Behind an unknown field, so that the generated code reads them and not the shortcut for everyday tensors.
const step = (value: bigint) =>
  frameOf(bytes`${field(8, bytes`a2 06 00 10 ${varint(value)} 32 02 01 01 38 01 48 01`)} 7a 00`)
const packedStep = (be64: string) =>
  frameOf(bytes`93 08 00 9a 00 cf ${Buffer.from(be64, 'hex')} 00 00 90 92 01 01 01 a0 01 c0`)
const hex = (frames: Uint8Array[]) => frames.map((frame) => Buffer.from(frame).toString('hex')).join(' ')

describe('fault 13 in a bundle: 64-bit integers beyond 2^53', () => {
  for (const missing of [[], ['long']]) {
    const where = missing.length > 0 ? 'where long cannot be resolved' : 'with long in the bundle'
    it(`are exact or refused ${where}`, async () => {
      const { file, remove } = await bundle('./bundle-entry.ts', { missing })
      try {
        const { stdout } = await promisify(execFile)(process.execPath, [file], {
          env: {
            protobuf: hex([step(2n ** 53n - 1n), step(2n ** 53n + 1n), step(2n ** 63n)]),
            msgpack: hex([
              packedStep('001fffffffffffff'),
              packedStep('0020000000000001'),
              packedStep('8000000000000000'),
            ]),
          },
        })
        const { long, results } = JSON.parse(stdout)
        expect(long).toBe(missing.length === 0)
        const refusal = (path: string, value: string) =>
          `${path}: ${value} is not an integer from 0 to 9007199254740991`
        for (const { runs, refused, made } of results) {
          expect(runs).toEqual([
            'bigint 0 9007199254740991 0',
            'bigint 9007199254740993 9007199254740991 0',
            'bigint 9223372036854775808 9007199254740991 0',
            'bigint 18446744073709551615 9007199254740991 0',
          ])
          expect(refused).toBe(refusal('tensor.sentNs', '9007199254740992'))
          expect(made).toEqual([
            'bigint 0 9007199254740991 1',
            `malformed frame: ${refusal('tensor.step', '9007199254740993')}`,
            `malformed frame: ${refusal('tensor.step', '9223372036854775808')}`,
          ])
        }
        expect(results.map(({ id }: { id: string }) => id)).toEqual(['protobuf', 'msgpack'])
      } finally {
        remove()
      }
    })
  }
})
