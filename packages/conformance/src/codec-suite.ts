import assert from 'node:assert/strict'
import { asBytes, type Codec, type CodecFactory, DType, isSeamError } from '@seamline/core'
import { seededRandom } from './random.ts'

export interface CodecSuiteOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => void) => void
  readonly codec: CodecFactory
  /**
   * Values that the codec's policy refuses with `CODEC`. Values not listed, among them NaN and the infinities,
   * must come back within the tolerance: NaN as NaN, an infinity as itself. @default []
   */
  readonly refused?: readonly number[]
  /**
   * Largest difference allowed between a finite value and what comes back for it, given the largest magnitude of
   * its block. Left out for a lossless codec, whose values come back bit for bit.
   */
  readonly tolerance?: (value: number, blockLargest: number) => number
}

const CANARY = 0xa5
const CANARY_VALUE = 12345.678
const NON_FINITE = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
const F32_LARGEST = 3.4028234663852886e38

/** Defines the cases that every codec passes. */
export function codecSuite(options: CodecSuiteOptions): void {
  const { describe, it, codec: create, refused = [], tolerance } = options
  const { id, lossy, dtypes, wireDType, blockElements, identity } = create()
  const shapes: [rows: number, columns: number][] = []
  for (const rows of [0, 1, 2, 3, 17])
    for (const blocks of [0, 1, 2, 3, 7, 33]) shapes.push([rows, blocks * blockElements])

  /** Compares what came back with what was sent. */
  function assertCarried(sent: Float32Array, back: Float32Array): void {
    if (tolerance === undefined) {
      assert.deepEqual(new Uint8Array(asBytes(back)), new Uint8Array(asBytes(sent)))
      return
    }
    for (let start = 0; start < sent.length; start += blockElements) {
      const block = sent.subarray(start, start + blockElements)
      const blockLargest = block.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0)
      block.forEach((value, i) => {
        const found = back[start + i]!
        if (Number.isFinite(value)) {
          const most = tolerance(value, blockLargest)
          assert.ok(
            Math.abs(found - value) <= most,
            `${value} came back as ${found}, off by more than ${most}`,
          )
        } else assert.ok(Object.is(found, value), `${value} came back as ${found}`)
      })
    }
  }

  describe(`codec ${id}`, () => {
    it('declares what it is', () => {
      assert.match(id, /^[a-z0-9][a-z0-9_.-]*$/)
      assert.equal(lossy, tolerance !== undefined, 'a tolerance is given exactly for a lossy codec')
      assert.ok(dtypes.length > 0 && dtypes.every((dtype) => Object.hasOwn(DType, dtype)))
      assert.ok(Object.hasOwn(DType, wireDType))
      assert.ok(Number.isInteger(blockElements) && blockElements > 0)
      if (identity) assert.deepEqual([lossy, wireDType], [false, 'f32'])
    })

    it('carries every shape, within a size that it states beforehand', () => {
      for (const [rows, columns] of shapes) {
        const codec = create()
        const sent = sampleValues(rows * columns, rows)
        const most = codec.maxEncodedBytes(rows, columns)
        assert.ok(Number.isInteger(most) && most >= 0)
        const encoded = encode(codec, sent, rows, columns)
        assert.ok(encoded.byteLength <= most, `${encoded.byteLength} B exceed the stated ${most} B`)
        assertCarried(sent, decode(codec, encoded, rows, columns))
      }
    })

    it('carries zeros of both signs, denormals and neighbours of powers of two', () => {
      const special = specialValues().filter((value) => !refused.includes(value) && Math.abs(value) < 2 ** 15)
      const values = padded(special, blockElements)
      const codec = create()
      assertCarried(values, decode(codec, encode(codec, values, 1, values.length), 1, values.length))
    })

    it('works at every offset that is a multiple of 4 bytes', () => {
      const [rows, columns] = [3, 5 * blockElements]
      const sent = sampleValues(rows * columns, 1)
      const expected = encode(create(), sent, rows, columns)
      for (const offset of [0, 4, 8, 12, 20, 60]) {
        const codec = create()
        const src = new Float32Array(new ArrayBuffer(offset + sent.byteLength), offset)
        src.set(sent)
        const dst = new Uint8Array(new ArrayBuffer(offset + codec.maxEncodedBytes(rows, columns)), offset)
        const encoded = dst.subarray(0, codec.encodeInto(src, rows, columns, dst))
        assert.deepEqual(new Uint8Array(encoded), expected)
        const back = new Float32Array(new ArrayBuffer(offset + sent.byteLength), offset)
        codec.decodeInto(encoded, rows, columns, back)
        assertCarried(sent, back)
      }
    })

    it('writes nothing behind what it returns and leaves its source alone', () => {
      for (const [rows, columns] of shapes) {
        const codec = create()
        const sent = sampleValues(rows * columns, 2)
        const before = sent.slice()
        const dst = new Uint8Array(codec.maxEncodedBytes(rows, columns) + 64).fill(CANARY)
        const bytes = codec.encodeInto(sent, rows, columns, dst)
        const stray = dst.findIndex((byte, i) => i >= bytes && byte !== CANARY)
        assert.equal(stray, -1, `byte ${stray} was written, ${bytes} were returned`)
        assert.deepEqual(sent, before)
        const encoded = dst.slice(0, bytes)
        const back = new Float32Array(rows * columns + 16).fill(CANARY_VALUE)
        codec.decodeInto(encoded, rows, columns, back)
        assert.ok(
          back.subarray(rows * columns).every((value) => value === Math.fround(CANARY_VALUE)),
          'values behind the shape were written',
        )
        assert.deepEqual(encoded, dst.slice(0, bytes))
      }
    })

    it('refuses a destination that is too small with LIMIT', () => {
      for (const [rows, columns] of shapes) {
        if (rows * columns === 0) continue
        const codec = create()
        const sent = sampleValues(rows * columns, 3)
        const { byteLength } = encode(codec, sent, rows, columns)
        for (const bytes of [0, byteLength - 1]) {
          const memory = new Uint8Array(byteLength + 64).fill(CANARY)
          const dst = memory.subarray(0, bytes)
          refuses('LIMIT', () => codec.encodeInto(sent, rows, columns, dst))
          assert.ok(memory.subarray(bytes).every((byte) => byte === CANARY))
        }
      }
    })

    it('refuses encoded bytes of any other length with CODEC', () => {
      for (const [rows, columns] of shapes) {
        const codec = create()
        const encoded = encode(codec, sampleValues(rows * columns, 4), rows, columns)
        const dst = new Float32Array(rows * columns)
        const longer = new Uint8Array(encoded.byteLength + 1)
        longer.set(encoded)
        refuses('CODEC', () => codec.decodeInto(longer, rows, columns, dst))
        for (const bytes of [0, encoded.byteLength - 1]) {
          if (bytes < 0 || bytes === encoded.byteLength) continue
          refuses('CODEC', () => codec.decodeInto(encoded.subarray(0, bytes), rows, columns, dst))
        }
      }
    })

    it('refuses views that hold fewer values than the shape', () => {
      const [rows, columns] = [2, 3 * blockElements]
      const codec = create()
      const sent = sampleValues(rows * columns, 5)
      const encoded = encode(codec, sent, rows, columns)
      const short = rows * columns - 1
      const dst = new Uint8Array(encoded.byteLength)
      assert.throws(() => codec.encodeInto(sent.subarray(0, short), rows, columns, dst), isSeamError)
      assert.throws(() => codec.decodeInto(encoded, rows, columns, new Float32Array(short)), isSeamError)
    })

    it('refuses shapes that are none with CODEC', () => {
      const codec = create()
      const bad: [number, number][] = [
        [-1, blockElements],
        [1, -blockElements],
        [0.5, blockElements],
        [Number.NaN, blockElements],
      ]
      if (blockElements > 1) bad.push([1, blockElements + 1], [1, blockElements - 1])
      for (const [rows, columns] of bad) {
        refuses('CODEC', () => codec.maxEncodedBytes(rows, columns))
        const [values, bytes] = [new Float32Array(4 * blockElements), new Uint8Array(64 * blockElements)]
        refuses('CODEC', () => codec.encodeInto(values, rows, columns, bytes))
        refuses('CODEC', () => codec.decodeInto(bytes, rows, columns, values))
      }
    })

    it('keeps no argument and no state of another instance', () => {
      const [rows, columns] = [2, 4 * blockElements]
      const [codec, other] = [create(), create()]
      const [first, second] = [sampleValues(rows * columns, 6), sampleValues(rows * columns, 7)]
      const src = first.slice()
      const dst = new Uint8Array(codec.maxEncodedBytes(rows, columns))
      const encoded = dst.subarray(0, codec.encodeInto(src, rows, columns, dst))
      const copy = encoded.slice()
      const fromOther = encode(other, first, rows, columns)
      src.set(second)
      encode(codec, second, rows, columns)
      assert.deepEqual(encoded, copy, 'an encoding changed when another was made')
      assert.deepEqual(fromOther, copy, 'another instance encodes differently')
      const back = decode(codec, encoded, rows, columns)
      const kept = back.slice()
      encoded.fill(0)
      decode(codec, encode(codec, second, rows, columns), rows, columns)
      assert.deepEqual(back, kept, 'decoded values changed when others were decoded')
      assertCarried(first, back)
    })

    it('refuses what its policy refuses, naming row, column and value', () => {
      const [rows, columns] = [3, 5 * blockElements]
      for (const value of refused) {
        for (const index of [0, columns - 1, columns, rows * columns - 1]) {
          const sent = sampleValues(rows * columns, 8)
          sent[index] = value
          const message = refuses('CODEC', () => encode(create(), sent, rows, columns))
          for (const part of [
            `row ${Math.floor(index / columns)}`,
            `column ${index % columns}`,
            `${sent[index]}`,
          ])
            assert.ok(message.includes(part), `'${message}' does not say ${part}`)
        }
      }
    })

    it('turns no value silently into NaN, an infinity or another value', () => {
      for (const value of [...specialValues(), ...NON_FINITE]) {
        const sent = new Float32Array(blockElements).fill(value)
        const codec = create()
        let encoded: Uint8Array
        try {
          encoded = encode(codec, sent, 1, blockElements)
        } catch (error) {
          assert.ok(isSeamError(error) && error.code === 'CODEC', `${value} ended in ${error}`)
          if (Number.isFinite(value))
            assert.ok(refused.length > 0, `${value} is refused, the policy does not say so`)
          continue
        }
        assertCarried(sent, decode(codec, encoded, 1, blockElements))
      }
    })

    if (identity) {
      it('encodes to the bytes of the tensor', () => {
        const random = seededRandom(9)
        const bits = Uint32Array.from({ length: 8192 }, () => random() * 2 ** 32)
        const sent = new Float32Array(bits.buffer)
        const encoded = encode(create(), sent, 2, 4096)
        assert.deepEqual(encoded, new Uint8Array(bits.buffer))
        assert.deepEqual(
          new Uint8Array(asBytes(decode(create(), encoded, 2, 4096))),
          new Uint8Array(bits.buffer),
        )
      })
    }

    it('decodes altered bytes to values or refuses them with CODEC', () => {
      const [rows, columns] = [1, 2 * blockElements]
      const finiteOnly = NON_FINITE.every((value) => refused.some((other) => Object.is(other, value)))
      const encoded = encode(create(), sampleValues(rows * columns, 10), rows, columns)
      for (let bit = 0; bit < encoded.byteLength * 8; bit++) {
        for (const fill of [undefined, 0xff]) {
          const altered = encoded.slice()
          altered[bit >> 3]! ^= 1 << (bit & 7)
          if (fill !== undefined) altered.fill(fill, bit >> 3)
          let back: Float32Array
          try {
            back = decode(create(), altered, rows, columns)
          } catch (error) {
            assert.ok(isSeamError(error) && error.code === 'CODEC', `${error}`)
            continue
          }
          if (finiteOnly) assert.ok(back.every(Number.isFinite), `bit ${bit} makes ${back}`)
        }
      }
    })
  })
}

function encode(codec: Codec, values: Float32Array, rows: number, columns: number): Uint8Array {
  const dst = new Uint8Array(codec.maxEncodedBytes(rows, columns))
  return dst.slice(0, codec.encodeInto(values, rows, columns, dst))
}

function decode(codec: Codec, encoded: Uint8Array, rows: number, columns: number): Float32Array {
  const values = new Float32Array(rows * columns).fill(CANARY_VALUE)
  codec.decodeInto(encoded, rows, columns, values)
  return values
}

/** Values as in a hidden state: mostly around 1, one in forty some thirty times larger. */
function sampleValues(count: number, seed: number): Float32Array {
  const random = seededRandom(seed)
  return Float32Array.from({ length: count }, () => {
    const gaussian = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    return gaussian * (random() < 0.025 ? 30 : 1)
  })
}

/** Zeros, denormals, powers of two and their neighbours, of both signs, up to the largest f32. */
function specialValues(): number[] {
  const values = [0, F32_LARGEST, 1 / 3, 65504, 65519, 65520, 1e5]
  for (let exponent = -149; exponent < 128; exponent++)
    values.push(
      2 ** exponent,
      Math.fround(2 ** exponent * (1 + 2 ** -23)),
      Math.fround(2 ** exponent * (1 - 2 ** -24)),
    )
  return values.flatMap((value) => [value, -value])
}

/** The values with zeros behind them up to a multiple of `multiple`. */
function padded(values: readonly number[], multiple: number): Float32Array {
  const all = new Float32Array(Math.ceil(values.length / multiple) * multiple)
  all.set(values)
  return all
}

/** Returns the message of the error that `body` must end in. */
function refuses(code: string, body: () => void): string {
  try {
    body()
  } catch (error) {
    assert.ok(isSeamError(error) && error.code === code, `ended in ${error} instead of ${code}`)
    return error.message
  }
  return assert.fail(`was not refused with ${code}`)
}
