import { alignUp, asBytes, type Codec, type CodecFactory, SeamError } from '@seamline/core'

/** What can be wrong with a {@link plain} or a {@link wholes} codec; the suite must see each. */
export type CodecFault =
  | 'one byte too many'
  | 'one value too many'
  | 'any destination'
  | 'any source'
  | 'any shape'
  | 'offset of the source ignored'
  | 'big-endian'
  | 'source changed'
  | 'size understated'
  | 'memory kept'
  | 'state shared by instances'
  | 'NaN to a fixed pattern'
  | 'infinity for large values'
  | 'zero for NaN'
  | 'nothing named'
  | 'wrong code'
  | 'truncates'
  | 'finite only when encoding'
  | 'offset of the destination rounded down'
  | 'one value poisons its block'
  | 'believes a length'
  | 'unusable after a refusal'
  | 'no aligned allocation'
  | 'overlapping allocations'
  | 'allocates without end'
  | 'writes past the shape in its arena'

function count(rows: number, columns: number, block: number, fault: CodecFault | undefined): number {
  const valid = Number.isInteger(rows) && rows >= 0 && Number.isInteger(columns) && columns >= 0
  if ((!valid || columns % block !== 0) && fault !== 'any shape')
    throw new SeamError('CODEC', `${rows} x ${columns}`)
  return rows * columns
}

function check(holds: boolean, code: 'CODEC' | 'LIMIT'): void {
  if (!holds) throw new SeamError(code, 'the view does not fit the shape')
}

/** The bytes of the values: the small lossless codec that passes the suite. `fault` breaks it. */
export function plain(fault?: CodecFault): CodecFactory {
  return ({ arenaBytes = 0 } = {}) => ({
    id: 'plain',
    allocate: arena(arenaBytes, fault),
    lossy: false,
    dtypes: ['f32'],
    wireDType: 'f32',
    blockElements: 1,
    identity: true,
    maxEncodedBytes: (rows, columns) => count(rows, columns, 1, fault) * 4,
    encodeInto(src, rows, columns, dst) {
      const elements = count(rows, columns, 1, fault)
      check(src.length >= elements, 'CODEC')
      if (fault !== 'any destination') check(dst.byteLength >= elements * 4, 'LIMIT')
      const values =
        fault === 'offset of the source ignored' ? new Float32Array(src.buffer, 0, elements) : src
      const bytes = new Uint8Array(asBytes(values.subarray(0, elements)))
      if (fault === 'big-endian') for (let i = 0; i < bytes.length; i += 4) bytes.subarray(i, i + 4).reverse()
      if (fault === 'NaN to a fixed pattern')
        for (let i = 0; i < elements; i++) if (Number.isNaN(values[i])) bytes.set([0, 0, 0xc0, 0x7f], i * 4)
      const start = fault === 'offset of the destination rounded down' ? dst.byteOffset & ~3 : dst.byteOffset
      new Uint8Array(dst.buffer, start, dst.byteLength).set(bytes.subarray(0, dst.byteLength))
      if (fault === 'writes past the shape in its arena' && dst.buffer === src.buffer)
        dst.fill(0, bytes.byteLength, alignUp(bytes.byteLength + 1))
      if (fault === 'one byte too many' && dst.byteLength > bytes.byteLength) dst[bytes.byteLength] = 0
      if (fault === 'source changed') src.fill(0)
      return bytes.byteLength
    },
    decodeInto(src, rows, columns, dst) {
      const elements = count(rows, columns, 1, fault)
      if (fault !== 'any source') check(src.byteLength === elements * 4, 'CODEC')
      check(dst.length >= elements, 'LIMIT')
      asBytes(dst).set(src.subarray(0, elements * 4))
      if (fault === 'one value too many' && dst.length > elements) dst[elements] = 0
    },
  })
}

/** Memory of one instance, given out in cache lines. */
function arena(arenaBytes: number, fault: CodecFault | undefined): NonNullable<Codec['allocate']> {
  const memory = new ArrayBuffer(arenaBytes)
  let used = 0
  return (bytes) => {
    if (fault === 'allocates without end' && alignUp(bytes) <= arenaBytes) used %= arenaBytes
    if (used + alignUp(bytes) > arenaBytes) return undefined
    const view = new Uint8Array(memory, used, bytes)
    used += fault === 'no aligned allocation' ? Math.ceil(bytes / 4) * 4 : alignUp(bytes)
    if (fault === 'overlapping allocations' && bytes === 33) used -= 64
    return view
  }
}

const shared = { largest: 0 }

/** Values rounded to whole numbers below 2^31, in blocks of two: the small lossy codec that passes the suite. */
export function wholes(fault?: CodecFault): CodecFactory {
  return () => {
    let kept: Uint8Array | undefined
    let refusals = 0
    return {
      id: 'wholes',
      lossy: true,
      dtypes: ['f32'],
      wireDType: 'i32',
      blockElements: 2,
      identity: false,
      maxEncodedBytes: (rows, columns) =>
        Math.max(0, count(rows, columns, 2, fault) * 4 - (fault === 'size understated' ? 1 : 0)),
      encodeInto(src, rows, columns, dst) {
        const elements = count(rows, columns, 2, fault)
        check(src.length >= elements, 'CODEC')
        check(dst.byteLength >= elements * 4 - (fault === 'size understated' ? 1 : 0), 'LIMIT')
        const view = new DataView(new ArrayBuffer(elements * 4))
        if (fault === 'unusable after a refusal' && refusals > 0) throw new SeamError('CODEC', 'broken')
        for (let i = 0; i < elements; i++) {
          let value = src[i]!
          if (fault === 'one value poisons its block' && Math.abs(src[i ^ 1]!) > 2 ** 30) value = 0
          if (fault === 'zero for NaN' && Number.isNaN(value)) value = 0
          if (!(Math.abs(value) < 2 ** 31 - 1)) {
            if (fault === 'infinity for large values') value = 2 ** 31 - 1
            else if (fault === 'nothing named') throw new SeamError('CODEC', 'a value is too large')
            else {
              refusals += 1
              const where = `row ${Math.floor(i / columns)}, column ${i % columns} is ${value}`
              throw new SeamError(fault === 'wrong code' ? 'USAGE' : 'CODEC', where)
            }
          }
          view.setInt32(i * 4, fault === 'truncates' ? Math.trunc(value) : Math.round(value), true)
        }
        if (fault === 'state shared by instances') view.setUint8(0, shared.largest++)
        dst.set(new Uint8Array(view.buffer).subarray(0, dst.byteLength))
        if (fault === 'memory kept') {
          kept?.set(dst.subarray(0, kept.byteLength))
          kept = dst.subarray(0, elements * 4)
        }
        return elements * 4
      },
      decodeInto(src, rows, columns, dst) {
        const elements = count(rows, columns, 2, fault)
        check(src.byteLength === elements * 4, 'CODEC')
        check(dst.length >= elements, 'LIMIT')
        const view = new DataView(src.buffer, src.byteOffset)
        // As a decoder does that takes its first field for a length.
        if (fault === 'believes a length' && elements > 0) Buffer.alloc(view.getUint32(0, true) % 2 ** 28)
        for (let i = 0; i < elements; i++) {
          const whole = view.getInt32(i * 4, true)
          dst[i] =
            fault === 'infinity for large values' && whole === 2 ** 31 - 1 ? Number.POSITIVE_INFINITY : whole
          if (fault === 'finite only when encoding' && whole < -(2 ** 30)) dst[i] = Number.NEGATIVE_INFINITY
        }
      },
    }
  }
}
