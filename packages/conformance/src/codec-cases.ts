import {
  alignedBytes,
  alignUp,
  asBytes,
  asFloat32,
  type Codec,
  type CodecFactory,
  SeamError,
} from '@seamline/core'
import { assertSameBytes, type BenchCase, benchActivations, benchSizes, sizeName } from './bench-case.ts'

export interface CodecCasesOptions {
  /** Name in the ids. @default the codec's id */
  readonly name?: string
  /** Bytes of f32: multiples of 16 KiB, a row of 4096 columns. @default 16 KiB, 256 KiB, 8 MiB */
  readonly sizes?: readonly number[]
  /** Ratio of the energy of the values to that of their errors that a lossy codec must keep. @default 30 */
  readonly minSignalToErrorDb?: number
}

const columns = 4096

/**
 * Encoding and decoding: `codec/<name>/encode/8MiB`, in memory from the codec's arena where it has one, and then
 * also as `codec/<name>/encode-foreign/8MiB` in ordinary memory. All memory is aligned to 64 bytes. The result must equal what another
 * instance makes of the same values in ordinary memory, and what decodes must be the values themselves, or close to
 * them for a lossy codec.
 */
export function codecCases(factory: CodecFactory, options: CodecCasesOptions = {}): BenchCase[] {
  const { allocate, id } = factory()
  const { name = id, sizes = benchSizes, minSignalToErrorDb = 30 } = options
  return sizes.flatMap((bytes) =>
    (allocate === undefined ? [false] : [false, true]).flatMap((foreign) =>
      (['encode', 'decode'] as const).map((direction) =>
        codecCase(
          factory,
          `codec/${name}/${direction}${foreign ? '-foreign' : ''}/${sizeName(bytes)}`,
          bytes,
          {
            direction,
            foreign,
            minSignalToErrorDb,
          },
        ),
      ),
    ),
  )
}

interface CodecCaseOptions {
  readonly direction: 'encode' | 'decode'
  readonly foreign: boolean
  readonly minSignalToErrorDb: number
}

interface CodecState {
  readonly codec: Codec
  readonly values: Float32Array
  /** Encoding may need more room than it fills. */
  readonly room: Uint8Array
  readonly encoded: Uint8Array
}

function codecCase(factory: CodecFactory, id: string, bytes: number, options: CodecCaseOptions): BenchCase {
  const { direction, foreign, minSignalToErrorDb } = options
  const rows = bytes / 4 / columns
  let timed: CodecState
  let reference: CodecState
  let source: Uint8Array
  let run = (): void => {}

  /** Memory for the values and the encoded bytes, from the arena unless `ordinary`. */
  function prepare(ordinary: boolean): CodecState {
    const roomBytes = factory().maxEncodedBytes(rows, columns)
    const codec = ordinary ? factory() : factory({ arenaBytes: alignUp(bytes) + alignUp(roomBytes) })
    const memory = (size: number) => (ordinary ? undefined : codec.allocate?.(size)) ?? alignedBytes(size)
    const values = asFloat32(memory(bytes))
    const room = memory(roomBytes)
    values.set(benchActivations(bytes / 4))
    const encoded = room.subarray(0, codec.encodeInto(values, rows, columns, room))
    return { codec, values, room, encoded }
  }

  return {
    id,
    bytes,
    setup() {
      timed = prepare(foreign)
      reference = prepare(true)
      reference.codec.decodeInto(reference.encoded, rows, columns, reference.values)
      const { codec, values, room, encoded } = timed
      run =
        direction === 'encode'
          ? () => void codec.encodeInto(values, rows, columns, room)
          : () => codec.decodeInto(encoded, rows, columns, values)
      source = asBytes(benchActivations(bytes / 4))
    },
    run: () => run(),
    validate() {
      if (direction === 'encode') {
        assertSameBytes(`${id}: the input`, asBytes(timed.values), source)
        timed.encoded.fill(0)
        run()
        assertSameBytes(id, timed.encoded, reference.encoded)
      } else {
        assertSameBytes(`${id}: the input`, timed.encoded, reference.encoded)
        timed.values.fill(0)
        run()
        assertSameBytes(id, asBytes(timed.values), asBytes(reference.values))
      }
      if (!timed.codec.lossy) assertSameBytes(`${id}: the values`, asBytes(reference.values), source)
      else assertClose(id, reference.values, asFloat32(source), minSignalToErrorDb)
    },
    teardown() {
      run = () => {}
      timed = reference = undefined as unknown as CodecState
    },
  }
}

function assertClose(id: string, actual: Float32Array, expected: Float32Array, atLeastDb: number): void {
  let signal = 0
  let error = 0
  for (let i = 0; i < expected.length; i += 1) {
    signal += expected[i]! ** 2
    error += (actual[i]! - expected[i]!) ** 2
  }
  const db = 10 * Math.log10(signal / error)
  if (db >= atLeastDb) return
  throw new SeamError(
    'MISMATCH',
    `${id}: the values keep ${db.toFixed(1)} dB over their errors, ${atLeastDb} dB are needed`,
  )
}
