// What a GGUF header may hold, written from the specification and the limits in the README, without the reader's code.

export interface ReferenceTensor {
  readonly name: string
  readonly offset: number
  readonly byteLength: number
}

export interface ReferenceHeader {
  readonly keys: string[]
  readonly entriesEnd: number
  readonly tensors: ReferenceTensor[]
}

const VALUE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, undefined, undefined, 8, 8, 8]
/** Elements and bytes of a block by type id (ggml.h and ggml-common.h of llama.cpp v0.5.0). */
const BLOCKS = new Map<number, [bigint, bigint]>(
  Object.entries({
    0: [1, 4],
    1: [1, 2],
    2: [32, 18],
    3: [32, 20],
    6: [32, 22],
    7: [32, 24],
    8: [32, 34],
    9: [32, 36],
    10: [256, 84],
    11: [256, 110],
    12: [256, 144],
    13: [256, 176],
    14: [256, 210],
    15: [256, 292],
    16: [256, 66],
    17: [256, 74],
    18: [256, 98],
    19: [256, 50],
    20: [32, 18],
    21: [256, 110],
    22: [256, 82],
    23: [256, 136],
    24: [1, 1],
    25: [1, 2],
    26: [1, 4],
    27: [1, 8],
    28: [1, 8],
    29: [256, 56],
    30: [1, 2],
    34: [256, 54],
    35: [256, 66],
    39: [32, 17],
    40: [64, 36],
    41: [128, 18],
    42: [64, 18],
  }).map(([id, [elements, bytes]]) => [Number(id), [BigInt(elements!), BigInt(bytes!)]]),
)

class Invalid extends Error {}

/** The header in `bytes`, after which the file goes on with zeros up to `byteLength`; undefined for an invalid one. */
export function referenceHeader(
  bytes: Uint8Array,
  byteLength: number,
  limit: number,
): ReferenceHeader | undefined {
  let at = 0
  const wrong = (): never => {
    throw new Invalid()
  }
  const must = (condition: boolean) => condition || wrong()
  function take(length: bigint): Uint8Array {
    const end = BigInt(at) + length
    must(end <= BigInt(byteLength) && end <= BigInt(limit))
    const found = new Uint8Array(Number(length))
    found.set(bytes.subarray(at, Number(end)))
    at = Number(end)
    return found
  }
  const integer = (length: number) =>
    take(BigInt(length)).reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n)
  function text(most: number): string {
    const length = integer(8)
    must(length <= BigInt(most))
    const found = take(length)
    must(!found.includes(0))
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(found)
    } catch {
      return wrong()
    }
  }
  function value(type: number, key: string, found: { alignment: bigint | undefined }) {
    if (type === 8) text(4 * 2 ** 20)
    else if (type === 9) {
      const itemType = Number(integer(4))
      const length = integer(8)
      must(itemType === 8 || VALUE_BYTES[itemType] !== undefined)
      if (itemType === 8) {
        for (let i = 0n; i < length; i++) take(integer(8))
      } else take(length * BigInt(VALUE_BYTES[itemType]!))
      must(key !== 'general.alignment')
    } else {
      const size = VALUE_BYTES[type]
      if (size === undefined) return wrong()
      const number = integer(size)
      if (key === 'general.alignment') {
        must(type === 4)
        found.alignment = number
      }
    }
    must(key !== 'general.alignment' || type === 4)
  }
  try {
    must(integer(4) === 0x46554747n)
    must([2n, 3n].includes(integer(4)))
    const tensorCount = integer(8)
    const entryCount = integer(8)
    must(tensorCount <= 65536n && entryCount <= 65536n)
    const found = { alignment: undefined as bigint | undefined }
    const keys: string[] = []
    for (let i = 0n; i < entryCount; i++) {
      const key = text(65535)
      must(key !== '' && !keys.includes(key))
      keys.push(key)
      value(Number(integer(4)), key, found)
    }
    const entriesEnd = at
    const alignment = found.alignment ?? 32n
    must([...Array(17).keys()].some((power) => alignment === 2n ** BigInt(power)))
    const infos: { name: string; offset: bigint; size: bigint }[] = []
    for (let i = 0n; i < tensorCount; i++) {
      const name = text(63)
      must(name !== '' && infos.every((other) => other.name !== name))
      const dimCount = integer(4)
      must(dimCount >= 1n && dimCount <= 4n)
      const dims = Array.from({ length: Number(dimCount) }, () => integer(8))
      must(dims.every((dim) => dim > 0n && dim < 2n ** 53n))
      const block = BLOCKS.get(Number(integer(4)))
      if (block === undefined) return undefined
      must(dims[0]! % block[0] === 0n)
      const size = (dims.reduce((product, dim) => product * dim, 1n) / block[0]) * block[1]
      const offset = integer(8)
      must(offset % alignment === 0n)
      infos.push({ name, offset, size })
    }
    const base = ((BigInt(at) + alignment - 1n) / alignment) * alignment
    const spans = infos.map(({ name, offset, size }) => ({
      name,
      from: base + offset,
      to: base + offset + size,
    }))
    must(spans.every(({ to }) => to <= BigInt(byteLength)))
    for (const [i, a] of spans.entries()) {
      for (const b of spans.slice(i + 1)) must(a.to <= b.from || b.to <= a.from)
    }
    const tensors = spans.map(({ name, from, to }) => ({
      name,
      offset: Number(from),
      byteLength: Number(to - from),
    }))
    return { keys, entriesEnd, tensors }
  } catch (error) {
    if (error instanceof Invalid) return undefined
    throw error
  }
}
