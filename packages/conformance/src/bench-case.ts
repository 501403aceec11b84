import { SeamError } from '@seamline/core'
import { seededRandom } from './random.ts'

/** One thing to time. All but `run` is outside the clock. */
export interface BenchCase {
  /** A path: `codec/f16/encode/8MiB`. */
  readonly id: string
  /** Bytes that one run works on; for a codec those of the f32 side. */
  readonly bytes?: number
  /** Makes what the case needs. Called once, before anything else. */
  setup?(): void | Promise<void>
  /** The work, once. Keeps no promise where it is synchronous: returns one always or never. */
  run(): void | Promise<void>
  /**
   * Does the work once and compares its result byte for byte with what it must be. Called before and after the timing; throws
   * when the work that was timed is wrong.
   */
  validate(): void | Promise<void>
  /** Gives everything back. Called once, also after a failure. */
  teardown?(): void | Promise<void>
}

const KiB = 1 << 10
const MiB = 1 << 20

/** One decoded token of a small model, a prompt chunk, and a large one. */
export const benchSizes: readonly number[] = [16 * KiB, 256 * KiB, 8 * MiB]

/** `16KiB`, `8MiB`, `100B`: the size in ids. */
export function sizeName(bytes: number): string {
  if (bytes % MiB === 0 && bytes > 0) return `${bytes / MiB}MiB`
  if (bytes % KiB === 0 && bytes > 0) return `${bytes / KiB}KiB`
  return `${bytes}B`
}

/** Throws `MISMATCH` with the first difference unless both hold the same bytes. */
export function assertSameBytes(what: string, actual: Uint8Array, expected: Uint8Array): void {
  if (Buffer.compare(actual, expected) === 0) return
  if (actual.length !== expected.length) {
    throw new SeamError('MISMATCH', `${what}: ${actual.length} B instead of ${expected.length} B`)
  }
  const at = actual.findIndex((byte, i) => byte !== expected[i])
  throw new SeamError(
    'MISMATCH',
    `${what}: byte ${at} of ${actual.length} is ${actual[at]}, it must be ${expected[at]}`,
  )
}

/**
 * Rows of 4096 f32 shaped like hidden states of a model: normal values, times a log-normal scale (sigma 0.5) for each column, times 30
 * for one column in 911. Depends on the count alone. Made once: do not write to it.
 */
export function benchActivations(elements: number): Float32Array {
  const made = activations.get(elements) ?? makeActivations(elements)
  activations.set(elements, made)
  return made
}

const activations = new Map<number, Float32Array>()

function makeActivations(elements: number): Float32Array {
  const columns = 4096
  const random = seededRandom(elements)
  // Box-Muller: two uniform numbers give one normal one.
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  const scale = Float32Array.from(
    { length: columns },
    (_, column) => Math.exp(0.5 * normal()) * (column % 911 === 5 ? 30 : 1),
  )
  return Float32Array.from({ length: elements }, (_, i) => normal() * scale[i % columns]!)
}
