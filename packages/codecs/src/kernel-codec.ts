import { asBytes, type CodecFactory, type DType, SeamError } from '@seamline/core'
import {
  GROUP_ELEMENTS,
  type Kernel,
  kernelsOf,
  SCRATCH_ELEMENTS,
  SCRATCH_ENCODED,
  SCRATCH_VALUES,
} from './kernels.ts'
import { checkDecode, checkEncode, elementCount } from './shape.ts'

/** A lossy encoding that is computed in WebAssembly. */
export interface Format {
  readonly id: DType
  readonly blockElements: number
  /** Encoded bytes of a block; the first two are a float, the value or the scale of the block. */
  readonly blockBytes: number
  /** The exponent bits of that float. All set: it is infinite or NaN. */
  readonly exponentMask: number
  /** Values are carried whose magnitude is below. */
  readonly limit: number
  /** Begins the message of a refusal: `f16 carries finite values up to 65504`. */
  readonly policy: string
  /** What the float of a block is: `is` for its value, `begins a block with the scale`. */
  readonly verb: string
  /** Base64 of the module with the kernels `encode` and `decode`. */
  readonly wasm: string
}

/** The factory of the codec for `format`. */
export function kernelCodec(format: Format): CodecFactory {
  const { id, blockElements, blockBytes, exponentMask, limit, policy } = format
  const create = kernelsOf(format.wasm)
  const encodedBytes = (elements: number) => (elements / blockElements) * blockBytes
  const valueBytes = (elements: number) => elements * 4

  function elementsOf(rows: number, columns: number): number {
    const elements = elementCount(rows, columns)
    if (columns % blockElements !== 0)
      throw new SeamError('CODEC', `${id} takes columns in multiples of ${blockElements}, not ${columns}`)
    return elements
  }

  function refusal(index: number, columns: number, verb: string, value: number): SeamError {
    const place = `row ${Math.floor(index / columns)}, column ${index % columns}`
    return new SeamError('CODEC', `${policy}: ${place} ${verb} ${value}; the f32 codec carries any value`)
  }

  /** For memory that another thread writes: what the kernel refused is not there any more. */
  function changed(index: number, columns: number): SeamError {
    const place = `row ${Math.floor(index / columns)}, column ${index % columns}`
    return new SeamError('CODEC', `${policy}: the source changed from ${place} on while it was read`)
  }

  return ({ arenaBytes = 0 } = {}) => {
    // Without an arena nothing is made before the first use.
    let kernels = arenaBytes === 0 ? undefined : create(arenaBytes)
    const ready = () => {
      kernels ??= create(0)
      return kernels
    }

    return {
      id,
      lossy: true,
      dtypes: ['f32'],
      wireDType: id,
      blockElements,
      identity: false,
      allocate: (bytes) => ready().allocate(bytes),
      maxEncodedBytes: (rows, columns) => encodedBytes(elementsOf(rows, columns)),
      encodeInto(src, rows, columns, dst) {
        const elements = elementsOf(rows, columns)
        const bytes = encodedBytes(elements)
        checkEncode(src, elements, dst, bytes)
        const { encode, memory } = ready()
        const input = { bytes: asBytes(src), sizeOf: valueBytes, scratch: SCRATCH_VALUES }
        const output = { bytes: dst, sizeOf: encodedBytes, scratch: SCRATCH_ENCODED }
        const refused = run(encode, memory, input, output, elements)
        if (refused >= 0) {
          for (let index = refused; index < elements; index++)
            if (!(Math.abs(src[index]!) < limit)) throw refusal(index, columns, 'is', src[index]!)
          throw changed(refused, columns)
        }
        return bytes
      },
      decodeInto(src, rows, columns, dst) {
        const elements = elementsOf(rows, columns)
        checkDecode(src, encodedBytes(elements), dst, elements)
        const { decode, memory } = ready()
        const input = { bytes: src, sizeOf: encodedBytes, scratch: SCRATCH_ENCODED }
        const output = { bytes: asBytes(dst), sizeOf: valueBytes, scratch: SCRATCH_VALUES }
        const refused = run(decode, memory, input, output, elements)
        if (refused < 0) return
        for (let index = refused; index < elements; index += blockElements) {
          const at = encodedBytes(index)
          const float = src[at]! | (src[at + 1]! << 8)
          if ((float & exponentMask) !== exponentMask) continue
          const sign = float & 0x8000 ? -1 : 1
          const infinite = (float & 0x7fff) === exponentMask
          throw refusal(index, columns, format.verb, infinite ? sign * Infinity : Number.NaN)
        }
        throw changed(refused, columns)
      },
    }
  }
}

interface Side {
  readonly bytes: Uint8Array
  /** Bytes that so many elements take. */
  readonly sizeOf: (elements: number) => number
  /** Where in the kernels' memory a copy goes. */
  readonly scratch: number
}

/** Runs `kernel` over all elements. Returns an index at or before the first refused one and in its group, or -1. */
function run(kernel: Kernel, memory: Uint8Array, input: Side, output: Side, elements: number): number {
  const inputInside = input.bytes.buffer === memory.buffer
  const outputInside = output.bytes.buffer === memory.buffer
  const tail = elements % GROUP_ELEMENTS
  for (let at = 0; at < elements; ) {
    const whole = elements - tail - at
    const count = whole === 0 ? tail : inputInside && outputInside ? whole : Math.min(whole, SCRATCH_ELEMENTS)
    // Kernels take whole groups: the rest passes through the scratch with zeros behind it.
    const padded = whole === 0 ? GROUP_ELEMENTS : count
    const [inputAt, outputAt] = [input.sizeOf(at), output.sizeOf(at)]
    let [from, to] = [input.bytes.byteOffset + inputAt, output.bytes.byteOffset + outputAt]
    const copyOut = !outputInside || whole === 0
    if (!inputInside || whole === 0) {
      from = input.scratch
      const end = inputAt + input.sizeOf(count)
      memory.set(input.bytes.subarray(inputAt, end), from)
      if (padded > count) memory.fill(0, from + input.sizeOf(count), from + input.sizeOf(padded))
    }
    if (copyOut) to = output.scratch
    const refused = kernel(from, to, padded)
    if (refused >= 0) return at + refused
    if (copyOut) output.bytes.set(memory.subarray(to, to + output.sizeOf(count)), outputAt)
    at += count
  }
  return -1
}
