import { malformed } from './frame.ts'

/** Decoding table of Finite State Entropy, RFC 8878 section 4.1: per state its symbol, bits to read, and what they are added to. */
export interface FseTable {
  /** Bits of the first state. */
  readonly log: number
  readonly symbols: Uint8Array
  readonly bits: Uint8Array
  readonly bases: Uint16Array
}

/** A table with one symbol, which takes no bits. */
export function singleSymbolTable(symbol: number): FseTable {
  return { log: 0, symbols: Uint8Array.of(symbol), bits: new Uint8Array(1), bases: new Uint16Array(1) }
}

/** Builds a table from the probabilities of the symbols in units of `2 ** -log`; -1 stands for less than one. */
export function buildTable(log: number, probabilities: readonly number[]): FseTable {
  const size = 1 << log
  const symbols = new Uint8Array(size)
  const bits = new Uint8Array(size)
  const bases = new Uint16Array(size)
  let high = size
  for (const [symbol, probability] of probabilities.entries())
    if (probability === -1) symbols[--high] = symbol
  const step = (size >> 1) + (size >> 3) + 3
  let position = 0
  for (const [symbol, probability] of probabilities.entries()) {
    for (let i = 0; i < probability; i++) {
      symbols[position] = symbol
      do position = (position + step) & (size - 1)
      while (position >= high)
    }
  }
  const next = probabilities.map(Math.abs)
  for (let state = 0; state < size; state++) {
    const symbol = symbols[state]!
    const value = next[symbol]!
    next[symbol] = value + 1
    bits[state] = log - floorLog2(value)
    bases[state] = (value << bits[state]!) - size
  }
  return { log, symbols, bits, bases }
}

/**
 * Reads probabilities, section 4.1.1, from byte `start` and not beyond `end`. Throws `CODEC` when they are malformed, finer than
 * `2 ** -maxLog`, or of symbols above `maxSymbol`.
 */
export function readProbabilities(
  src: Uint8Array,
  start: number,
  end: number,
  maxLog: number,
  maxSymbol: number,
): { log: number; probabilities: number[]; end: number } {
  let bit = 0
  const peek = (count: number): number => {
    const byte = start + (bit >> 3)
    const at = (i: number): number => (i < end ? src[i]! : 0)
    return ((at(byte) | (at(byte + 1) << 8) | (at(byte + 2) << 16)) >> (bit & 7)) & ((1 << count) - 1)
  }
  const take = (count: number): number => {
    const value = peek(count)
    bit += count
    return value
  }
  const log = take(4) + 5
  if (log > maxLog) throw malformed(`a table of 2^${log} states, at most 2^${maxLog} are allowed`)
  const probabilities: number[] = []
  let left = 1 << log
  while (left > 0) {
    // A value is 0 to left + 1; the lowest ones take one bit less, so that none is wasted.
    const width = floorLog2(left + 1) + 1
    const short = (1 << width) - 1 - (left + 1)
    let value = peek(width - 1)
    if (value < short) bit += width - 1
    else {
      value = take(width)
      if (value >= 1 << (width - 1)) value -= short
    }
    probabilities.push(value - 1)
    left -= Math.abs(value - 1)
    if (value === 1) {
      let zeros: number
      do {
        zeros = take(2)
        for (let i = 0; i < zeros; i++) probabilities.push(0)
      } while (zeros === 3 && probabilities.length <= maxSymbol)
    }
    if (probabilities.length > maxSymbol + 1) throw malformed(`a table has symbols above ${maxSymbol}`)
  }
  const stop = start + Math.ceil(bit / 8)
  if (left < 0 || stop > end) throw malformed('the probabilities of a table do not add up')
  return { log, probabilities, end: stop }
}

export function floorLog2(value: number): number {
  return 31 - Math.clz32(value)
}
