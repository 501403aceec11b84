import assert from 'node:assert/strict'
import {
  asBytes,
  asFloat32,
  type Codec,
  type CodecFactory,
  DType,
  isSeamError,
  PAYLOAD_ALIGNMENT,
} from '@seamline/core'
import { seededRandom } from './random.ts'
import { type Skip, skipping } from './skip.ts'

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
  readonly skip?: readonly Skip[]
}

const CANARY = 0xa5
const CANARY_VALUE = Math.fround(12345.678)
const NON_FINITE = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
const F32_LARGEST = 3.4028234663852886e38
const LARGEST_SHAPE = [17, 33] as const
/** More memory than a decoder of a few hundred bytes has reason to ask for. */
const CLAIM_LIMIT_BYTES = 16 << 20

/** Where the arguments of a codec lie. */
interface Place {
  /** Behind the names of the cases. */
  readonly suffix: string
  create(): Codec
  bytes(codec: Codec, count: number): Uint8Array
}

/**
 * Defines the cases that every codec passes. A codec with an `allocate` runs all of them three times: with memory of the
 * caller, with its own, and with one of each.
 */
export function codecSuite(options: CodecSuiteOptions): void {
  const { describe, codec: factory, refused = [], tolerance, skip } = options
  const { id, lossy, dtypes, wireDType, blockElements, identity, allocate } = factory()
  const { it, finish } = skipping(options.it, skip)
  const shapes: [rows: number, columns: number][] = []
  for (const rows of [0, 1, 2, 3, LARGEST_SHAPE[0]])
    for (const blocks of [0, 1, 2, 3, 7, LARGEST_SHAPE[1]]) shapes.push([rows, blocks * blockElements])

  describe(`codec ${id}`, () => {
    it('declares what it is', () => {
      assert.match(id, /^[a-z0-9][a-z0-9_.+-]*$/)
      assert.equal(lossy, tolerance !== undefined, 'a tolerance is given exactly for a lossy codec')
      assert.ok(dtypes.length > 0 && dtypes.every((dtype) => Object.hasOwn(DType, dtype)))
      assert.ok(Object.hasOwn(DType, wireDType))
      assert.ok(Number.isInteger(blockElements) && blockElements > 0)
      if (identity) assert.deepEqual([lossy, wireDType], [false, 'f32'])
    })
    define({ suffix: '', create: () => factory(), bytes: (_, count) => new Uint8Array(count) })
    if (allocate !== undefined) {
      const arena = { arenaBytes: 16 * LARGEST_SHAPE[0] * LARGEST_SHAPE[1] * blockElements * 4 + (1 << 16) }
      const create = () => factory(arena)
      const own = (codec: Codec, count: number) =>
        codec.allocate?.(count) ?? assert.fail(`allocate(${count}) gave nothing with ${arena.arenaBytes} B`)
      let turn = 0
      define({ suffix: ' (arena)', create, bytes: own })
      define({
        suffix: ' (arena and other memory)',
        create,
        bytes: (codec, count) => (turn++ % 2 === 0 ? own(codec, count) : new Uint8Array(count)),
      })
      defineArena()
    }
  })
  finish()

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

  function define(place: Place): void {
    const { suffix, create, bytes } = place
    const test = (name: string, body: () => void) => it(`${name}${suffix}`, body)
    const floats = (codec: Codec, count: number) => asFloat32(bytes(codec, count * 4))

    /** A copy of `values` in this place. */
    function placed(codec: Codec, values: Float32Array): Float32Array {
      const copy = floats(codec, values.length)
      copy.set(values)
      return copy
    }

    function placedBytes(codec: Codec, encoded: Uint8Array): Uint8Array {
      const copy = bytes(codec, encoded.byteLength)
      copy.set(encoded)
      return copy
    }

    function encode(codec: Codec, values: Float32Array, rows: number, columns: number): Uint8Array {
      const dst = bytes(codec, codec.maxEncodedBytes(rows, columns))
      return dst.slice(0, codec.encodeInto(placed(codec, values), rows, columns, dst))
    }

    function decode(codec: Codec, encoded: Uint8Array, rows: number, columns: number): Float32Array {
      const values = floats(codec, rows * columns).fill(CANARY_VALUE)
      codec.decodeInto(placedBytes(codec, encoded), rows, columns, values)
      return values
    }

    test('carries every shape, within a size that it states beforehand', () => {
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

    test('carries zeros of both signs, denormals and neighbours of powers of two', () => {
      const special = specialValues().filter((value) => !refused.includes(value) && Math.abs(value) < 2 ** 15)
      const values = padded(special, blockElements)
      const codec = create()
      assertCarried(values, decode(codec, encode(codec, values, 1, values.length), 1, values.length))
    })

    test('works at every offset that is a multiple of 4 bytes', () => {
      const [rows, columns] = [3, 5 * blockElements]
      const sent = sampleValues(rows * columns, 1)
      const expected = encode(create(), sent, rows, columns)
      const most = create().maxEncodedBytes(rows, columns)
      for (const offset of [0, 4, 8, 12, 20, 60]) {
        const codec = create()
        const src = asFloat32(bytes(codec, offset + sent.byteLength).subarray(offset))
        src.set(sent)
        const dst = bytes(codec, offset + most).subarray(offset)
        const encoded = dst.subarray(0, codec.encodeInto(src, rows, columns, dst))
        assert.deepEqual(new Uint8Array(encoded), expected)
        const back = asFloat32(bytes(codec, offset + sent.byteLength).subarray(offset))
        codec.decodeInto(encoded, rows, columns, back)
        assertCarried(sent, back)
      }
    })

    test('encodes to and decodes from any offset in bytes', () => {
      const [rows, columns] = [3, 5 * blockElements]
      const sent = sampleValues(rows * columns, 1)
      const expected = encode(create(), sent, rows, columns)
      const most = create().maxEncodedBytes(rows, columns)
      for (const offset of [1, 2, 3, 7, 63]) {
        const codec = create()
        const dst = bytes(codec, offset + most).subarray(offset)
        const encoded = dst.subarray(0, codec.encodeInto(placed(codec, sent), rows, columns, dst))
        assert.deepEqual(new Uint8Array(encoded), expected, `at offset ${offset}`)
        const back = floats(codec, rows * columns)
        codec.decodeInto(encoded, rows, columns, back)
        assertCarried(sent, back)
      }
    })

    test('writes nothing behind what it returns and leaves its source alone', () => {
      for (const [rows, columns] of shapes) {
        const codec = create()
        const sent = placed(codec, sampleValues(rows * columns, 2))
        const before = sent.slice()
        const most = codec.maxEncodedBytes(rows, columns)
        const memory = bytes(codec, most + 128).fill(CANARY)
        const dst = memory.subarray(64)
        const count = codec.encodeInto(sent, rows, columns, dst)
        const stray = memory.findIndex((byte, i) => (i < 64 || i >= 64 + count) && byte !== CANARY)
        assert.equal(stray, -1, `byte ${stray - 64} was written, ${count} were returned`)
        assert.deepEqual(sent, before)
        const encoded = placedBytes(codec, dst.subarray(0, count))
        const around = floats(codec, 16 + rows * columns + 16).fill(CANARY_VALUE)
        codec.decodeInto(encoded, rows, columns, around.subarray(16))
        const outside = [...around.subarray(0, 16), ...around.subarray(16 + rows * columns)]
        assert.ok(
          outside.every((value) => value === CANARY_VALUE),
          'values outside the shape were written',
        )
        assert.deepEqual(encoded.slice(), dst.slice(0, count))
      }
    })

    test('refuses a destination that is too small with LIMIT', () => {
      for (const [rows, columns] of shapes) {
        if (rows * columns === 0) continue
        const codec = create()
        const sent = placed(codec, sampleValues(rows * columns, 3))
        const { byteLength } = encode(codec, sent, rows, columns)
        for (const count of [0, byteLength - 1]) {
          const memory = bytes(codec, byteLength + 64).fill(CANARY)
          const dst = memory.subarray(0, count)
          refuses('LIMIT', () => codec.encodeInto(sent, rows, columns, dst))
          assert.ok(memory.subarray(count).every((byte) => byte === CANARY))
        }
      }
    })

    test('refuses encoded bytes of any other length with CODEC', () => {
      for (const [rows, columns] of shapes) {
        const codec = create()
        const encoded = encode(codec, sampleValues(rows * columns, 4), rows, columns)
        const dst = floats(codec, rows * columns)
        const longer = bytes(codec, encoded.byteLength + 1)
        longer.set(encoded)
        refuses('CODEC', () => codec.decodeInto(longer, rows, columns, dst))
        for (const count of [0, encoded.byteLength - 1]) {
          if (count < 0 || count === encoded.byteLength) continue
          refuses('CODEC', () => codec.decodeInto(longer.subarray(0, count), rows, columns, dst))
        }
      }
    })

    test('refuses views that hold fewer values than the shape', () => {
      const [rows, columns] = [2, 3 * blockElements]
      const codec = create()
      const sent = placed(codec, sampleValues(rows * columns, 5))
      const encoded = placedBytes(codec, encode(codec, sent, rows, columns))
      const short = rows * columns - 1
      const dst = bytes(codec, encoded.byteLength)
      assert.throws(() => codec.encodeInto(sent.subarray(0, short), rows, columns, dst), isSeamError)
      assert.throws(() => codec.decodeInto(encoded, rows, columns, floats(codec, short)), isSeamError)
    })

    test('refuses shapes that are none with CODEC', () => {
      const codec = create()
      const bad: [number, number][] = [
        [-1, blockElements],
        [1, -blockElements],
        [0.5, blockElements],
        [Number.NaN, blockElements],
      ]
      if (blockElements > 1) {
        for (const columns of [1, blockElements - 1, blockElements + 1]) bad.push([1, columns])
      }
      const [values, encoded] = [floats(codec, 4 * blockElements), bytes(codec, 64 * blockElements)]
      for (const [rows, columns] of bad) {
        refuses('CODEC', () => codec.maxEncodedBytes(rows, columns))
        refuses('CODEC', () => codec.encodeInto(values, rows, columns, encoded))
        refuses('CODEC', () => codec.decodeInto(encoded, rows, columns, values))
      }
    })

    test('keeps no argument and no state of another instance', () => {
      const [rows, columns] = [2, 4 * blockElements]
      const [codec, other] = [create(), create()]
      const [first, second] = [sampleValues(rows * columns, 6), sampleValues(rows * columns, 7)]
      const src = placed(codec, first)
      const dst = bytes(codec, codec.maxEncodedBytes(rows, columns))
      const encoded = dst.subarray(0, codec.encodeInto(src, rows, columns, dst))
      const copy = encoded.slice()
      const fromOther = encode(other, first, rows, columns)
      src.set(second)
      encode(codec, second, rows, columns)
      assert.deepEqual(new Uint8Array(encoded), copy, 'an encoding changed when another was made')
      assert.deepEqual(fromOther, copy, 'another instance encodes differently')
      const back = decode(codec, encoded, rows, columns)
      const kept = back.slice()
      encoded.fill(0)
      decode(codec, encode(codec, second, rows, columns), rows, columns)
      assert.deepEqual(back.slice(), kept, 'decoded values changed when others were decoded')
      assertCarried(first, back.slice())
    })

    test('refuses what its policy refuses, naming row, column and value', () => {
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

    test('works on after it refused', () => {
      const [rows, columns] = [2, 3 * blockElements]
      const codec = create()
      const sent = sampleValues(rows * columns, 11)
      const expected = encode(codec, sent, rows, columns)
      for (const value of refused) {
        refuses('CODEC', () => encode(codec, new Float32Array(rows * columns).fill(value), rows, columns))
      }
      refuses('CODEC', () => decode(codec, new Uint8Array(expected.byteLength + 1), rows, columns))
      assert.deepEqual(encode(codec, sent, rows, columns), expected)
      assertCarried(sent, decode(codec, expected, rows, columns))
    })

    test('turns no value silently into NaN, an infinity or another value', () => {
      const codec = create()
      const columns = 2 * blockElements
      const [src, back] = [floats(codec, columns), floats(codec, columns)]
      const dst = bytes(codec, codec.maxEncodedBytes(1, columns))
      const neighbours = sampleValues(columns, 12)
      for (const value of [...specialValues(), ...NON_FINITE]) {
        // Alone, and among others that share a block with it.
        for (const isAlone of [true, false]) {
          src.set(neighbours)
          if (isAlone) src.fill(value)
          else src[1] = value
          let count = 0
          try {
            count = codec.encodeInto(src, 1, columns, dst)
          } catch (error) {
            assert.ok(isSeamError(error) && error.code === 'CODEC', `${value} ended in ${error}`)
            if (Number.isFinite(value))
              assert.ok(refused.length > 0, `${value} is refused, the policy does not say so`)
            continue
          }
          codec.decodeInto(dst.subarray(0, count), 1, columns, back)
          assertCarried(src, back)
        }
      }
    })

    if (identity) {
      test('encodes to the bytes of the tensor', () => {
        const random = seededRandom(9)
        const bits = Uint32Array.from({ length: 8192 }, () => random() * 2 ** 32)
        const sent = new Float32Array(bits.buffer)
        const encoded = encode(create(), sent, 2, 4096)
        assert.deepEqual(encoded, new Uint8Array(bits.buffer))
        const back = decode(create(), encoded, 2, 4096)
        assert.deepEqual(new Uint8Array(asBytes(back)), new Uint8Array(bits.buffer))
      })
    }

    test('decodes altered bytes to values or refuses them with CODEC', () => {
      const [rows, columns] = [1, 2 * blockElements]
      const elements = rows * columns
      const finiteOnly = NON_FINITE.every((value) => refused.some((other) => Object.is(other, value)))
      const codec = create()
      const sent = sampleValues(elements, 10)
      const encoded = encode(codec, sent, rows, columns)
      const size = encoded.byteLength
      const memory = bytes(codec, size + 96)
      const around = floats(codec, 16 + elements + 16)

      /** Decodes `altered` from between canaries to between canaries. */
      function attempt(altered: Uint8Array, what: string): void {
        memory.fill(CANARY)
        memory.set(altered, 32)
        around.fill(CANARY_VALUE)
        const [src, dst] = [memory.subarray(32, 32 + altered.byteLength), around.subarray(16, 16 + elements)]
        const claimed = hostBytes()
        try {
          codec.decodeInto(src, rows, columns, dst)
          assert.equal(altered.byteLength, size, `${what} was accepted`)
          if (finiteOnly) assert.ok(dst.every(Number.isFinite), `${what} makes ${dst}`)
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error
          assert.ok(isSeamError(error) && error.code === 'CODEC', `${what} ends in ${error}`)
        }
        assert.ok(hostBytes() - claimed < CLAIM_LIMIT_BYTES, `${what} made the decoder ask for memory`)
        const outside = [...around.subarray(0, 16), ...around.subarray(16 + elements)]
        assert.ok(
          outside.every((value) => value === CANARY_VALUE),
          `${what}: values outside were written`,
        )
        assert.ok(
          memory.every((byte, i) => byte === (altered[i - 32] ?? CANARY)),
          `${what}: the source was written`,
        )
      }

      for (let bit = 0; bit < size * 8; bit++) {
        const altered = encoded.slice()
        altered[bit >> 3]! ^= 1 << (bit & 7)
        attempt(altered, `bit ${bit} flipped`)
        attempt(altered.fill(0xff, bit >> 3), `0xff from bit ${bit} on`)
      }
      const random = seededRandom(13)
      for (let round = 0; round < 100; round++) {
        attempt(
          encoded.map(() => random() * 256),
          `random bytes ${round}`,
        )
      }
      attempt(new Uint8Array(size), 'zeros')
      for (let count = 0; count < size; count++) attempt(encoded.slice(0, count), `${count} of ${size} B`)
      for (const more of [1, 4, 32])
        attempt(Uint8Array.of(...encoded, ...new Uint8Array(more)), `${more} B more`)
      assertCarried(sent, decode(codec, encoded, rows, columns))
    })
  }

  function defineArena(): void {
    it('allocates aligned and zeroed, apart from each other, until the arena is used up', () => {
      const codec = factory({ arenaBytes: 4096 })
      const views: Uint8Array[] = []
      for (let i = 0; i < 64; i++) {
        const view = codec.allocate?.(i % 2 === 0 ? 64 : 33)
        assert.ok(view !== undefined, `allocation ${i} of 64 with 64 B each, rounded up, from 4096 B`)
        assert.equal(view.byteLength, i % 2 === 0 ? 64 : 33)
        assert.equal(view.byteOffset % PAYLOAD_ALIGNMENT, 0)
        assert.ok(
          view.every((byte) => byte === 0),
          'not zeroed, or part of another',
        )
        view.fill(1 + i)
        views.push(view)
      }
      assert.equal(codec.allocate?.(1), undefined, 'an arena that is used up gives nothing')
      views.forEach((view, i) => {
        assert.ok(
          view.every((byte) => byte === 1 + i),
          `allocation ${i} overlaps another`,
        )
      })
      assert.equal(factory().allocate?.(1), undefined, 'without arenaBytes there is no arena')
      assert.equal(factory({ arenaBytes: 4096 }).allocate?.(4097), undefined)
    })

    it('keeps an allocation for its life, whatever else it does', () => {
      const codec = factory({ arenaBytes: 4096 })
      const view = codec.allocate?.(4096) ?? assert.fail('nothing allocated')
      view.fill(CANARY)
      const [rows, columns] = [64, Math.ceil(16384 / blockElements) * blockElements]
      const sent = sampleValues(rows * columns, 14)
      const dst = new Uint8Array(codec.maxEncodedBytes(rows, columns))
      const encoded = dst.subarray(0, codec.encodeInto(sent, rows, columns, dst))
      const back = new Float32Array(rows * columns)
      codec.decodeInto(encoded, rows, columns, back)
      assert.equal(view.byteLength, 4096, 'the memory was detached')
      assert.ok(
        view.every((byte) => byte === CANARY),
        'the memory was written',
      )
    })
  }
}

/** Bytes of buffers that this process holds. */
function hostBytes(): number {
  const { arrayBuffers, external } = process.memoryUsage()
  return Math.max(arrayBuffers, external)
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
