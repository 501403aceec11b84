import protobufjs from 'protobufjs/minimal.js'

/**
 * A protobufjs reader whose 64-bit integers are exact whether or not the `long` package can be resolved: numbers up to
 * 2^53 - 1, bigints above. Integers of 32 bits are refused, not cut, when their varint holds more.
 */
export class WireReader extends protobufjs.Reader {
  constructor(bytes: Uint8Array) {
    super(bytes)
    this.discardUnknown = true
  }

  override uint32(): number {
    const start = this.pos
    const value = super.uint32()
    const bytes = this.pos - start
    if (bytes > 5 || (bytes === 5 && this.buf[this.pos - 1]! > 15))
      throw new Error('an integer of more than 32 bits')
    return value
  }

  /** What the generated code calls; its declared type knows `long` only. */
  override uint64(): never {
    return this.varint64() as never
  }

  override fixed64(): never {
    const low = this.fixed32()
    return exact(low, this.fixed32()) as never
  }

  varint64(): number | bigint {
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.pos >= this.len) throw new Error('a varint without an end')
      const byte = this.buf[this.pos++]!
      const bits = byte & 127
      if (shift < 28) low |= bits << shift
      else if (shift === 28) {
        low |= bits << 28
        high = bits >>> 4
      } else if (shift < 63 || bits < 2) high |= bits << (shift - 32)
      else break
      if (byte < 128) return exact(low >>> 0, high >>> 0)
    }
    throw new Error('an integer of more than 64 bits')
  }
}

/** A protobufjs writer whose 64-bit integers are numbers up to 2^53 - 1 or bigints. */
export class WireWriter extends protobufjs.Writer {
  override fixed64(value: unknown): this {
    const wide = BigInt(value as number | bigint)
    return this.fixed32(Number(wide & 0xffffffffn)).fixed32(Number(wide >> 32n)) as this
  }
}

function exact(low: number, high: number): number | bigint {
  return high < 2 ** 21 ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low)
}
