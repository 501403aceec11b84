import { type Frame, MAX_WINDOW_BYTES, malformed } from './frame.ts'
import { buildTable, type FseTable, floorLog2, readProbabilities, singleSymbolTable } from './fse.ts'

// Numbers of sections refer to RFC 8878.

/** How one of the three numbers of a sequence is coded, section 3.1.1.3.2.1. */
interface Coding {
  readonly maxLog: number
  readonly maxSymbol: number
  readonly predefined: FseTable
}

const repeat = (value: number, count: number): number[] => new Array<number>(count).fill(value)

const OFFSET: Coding = {
  maxLog: 8,
  maxSymbol: 31,
  predefined: buildTable(5, [...repeat(1, 6), 2, 2, 2, ...repeat(1, 15), ...repeat(-1, 5)]),
}
const LITERALS_LENGTH: Coding = {
  maxLog: 9,
  maxSymbol: 35,
  predefined: buildTable(6, [
    4,
    3,
    ...repeat(2, 11),
    1,
    1,
    1,
    ...repeat(2, 9),
    3,
    2,
    ...repeat(1, 5),
    ...repeat(-1, 4),
  ]),
}
const MATCH_LENGTH: Coding = {
  maxLog: 9,
  maxSymbol: 52,
  predefined: buildTable(6, [1, 4, 3, ...repeat(2, 6), ...repeat(1, 37), ...repeat(-1, 7)]),
}
const LITERALS_BITS = [...repeat(0, 16), 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
const MATCH_BITS = [...repeat(0, 32), 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
const LITERALS_BASES = bases(LITERALS_BITS, 0)
const MATCH_BASES = bases(MATCH_BITS, 3)
/** Offsets of a window have at most this many extra bits. */
const MAX_OFFSET_BITS = Math.log2(MAX_WINDOW_BYTES) + 1

/** What a block takes over from the ones before it. */
interface History {
  tables: { literals?: FseTable; offset?: FseTable; match?: FseTable }
  /** Bytes regenerated so far in the frame. */
  produced: number
  repeated: [number, number, number]
}

/**
 * Decodes the sequences of every compressed block, not its literals, and copies nothing. Throws `CODEC` unless every match lies within
 * the frame, every block has at most `frame.maxBlockBytes` and all together exactly `frame.contentBytes`: a decoder
 * that does not check this itself may then be given the frame.
 */
export function checkBlocks(src: Uint8Array, frame: Frame): void {
  const history: History = { tables: {}, produced: 0, repeated: [1, 4, 8] }
  for (const { start, end, contentBytes } of frame.blocks) {
    if (contentBytes === undefined) checkCompressed(src, start, end, frame.maxBlockBytes, history)
    else history.produced += contentBytes
    if (history.produced > frame.contentBytes) break
  }
  if (history.produced !== frame.contentBytes)
    throw malformed(`the frame declares ${frame.contentBytes} B and holds ${history.produced} B or more`)
}

function checkCompressed(
  src: Uint8Array,
  start: number,
  end: number,
  maxBytes: number,
  history: History,
): void {
  const literals = skipLiterals(src, start, end)
  if (literals.bytes > maxBytes)
    throw malformed(`a block has ${literals.bytes} B of literals, at most ${maxBytes} B fit`)
  let at = literals.end
  const byte = (): number => {
    if (at >= end) throw malformed('a block ends inside its sequences')
    return src[at++]!
  }
  let count = byte()
  if (count === 255) count = byte() + byte() * 256 + 0x7f00
  else if (count > 127) count = (count - 128) * 256 + byte()
  if (count === 0) {
    if (at !== end) throw malformed('bytes follow the literals of a block without sequences')
    history.produced += literals.bytes
    return
  }

  const modes = byte()
  if (modes & 3) throw malformed('reserved bits of a block are set')
  const table = (
    mode: number,
    { maxLog, maxSymbol, predefined }: Coding,
    previous: FseTable | undefined,
  ): FseTable => {
    if (mode === 0) return predefined
    if (mode === 1) {
      const symbol = byte()
      if (symbol > maxSymbol) throw malformed(`a table has symbol ${symbol}, the last is ${maxSymbol}`)
      return singleSymbolTable(symbol)
    }
    if (mode === 2) {
      const { log, probabilities, end: stop } = readProbabilities(src, at, end, maxLog, maxSymbol)
      at = stop
      return buildTable(log, probabilities)
    }
    if (previous === undefined) throw malformed('the first block repeats a table')
    return previous
  }
  const { tables } = history
  const literalsTable = table(modes >> 6, LITERALS_LENGTH, tables.literals)
  const offsetTable = table((modes >> 4) & 3, OFFSET, tables.offset)
  const matchTable = table((modes >> 2) & 3, MATCH_LENGTH, tables.match)
  history.tables = { literals: literalsTable, offset: offsetTable, match: matchTable }

  // The bits are read from the end; the highest one set in the last byte is a mark.
  const mark = at < end ? src[end - 1]! : 0
  if (mark === 0) throw malformed('the sequences of a block have no end mark')
  let bit = (end - 1) * 8 + floorLog2(mark)
  const firstBit = at * 8
  const take = (bits: number): number => {
    bit -= bits
    if (bit < firstBit) throw malformed('the sequences of a block take more bits than there are')
    const from = bit >> 3
    const word = src[from]! | (src[from + 1]! << 8) | (src[from + 2]! << 16) | (src[from + 3]! << 24)
    return (word >>> (bit & 7)) & (2 ** bits - 1)
  }
  let literalsState = take(literalsTable.log)
  let offsetState = take(offsetTable.log)
  let matchState = take(matchTable.log)
  let [used, produced] = [0, 0]
  const { repeated } = history
  for (let left = count; left > 0; left--) {
    const offsetBits = offsetTable.symbols[offsetState]!
    if (offsetBits > MAX_OFFSET_BITS)
      throw malformed(`a match of 2^${offsetBits} B back exceeds every window`)
    const offsetValue = 2 ** offsetBits + take(offsetBits)
    const matchCode = matchTable.symbols[matchState]!
    const matchBytes = MATCH_BASES[matchCode]! + take(MATCH_BITS[matchCode]!)
    const literalsCode = literalsTable.symbols[literalsState]!
    const literalBytes = LITERALS_BASES[literalsCode]! + take(LITERALS_BITS[literalsCode]!)
    used += literalBytes
    produced += literalBytes
    const offset = nextOffset(offsetValue, literalBytes, repeated)
    if (offset <= 0 || offset > history.produced + produced)
      throw malformed(`a match ${offset} B back at byte ${history.produced + produced} of the content`)
    produced += matchBytes
    if (used > literals.bytes)
      throw malformed(`sequences take more than the ${literals.bytes} B of literals of their block`)
    if (produced > maxBytes)
      throw malformed(`a block holds more than the ${maxBytes} B that blocks of this frame have`)
    if (left > 1) {
      literalsState = literalsTable.bases[literalsState]! + take(literalsTable.bits[literalsState]!)
      matchState = matchTable.bases[matchState]! + take(matchTable.bits[matchState]!)
      offsetState = offsetTable.bases[offsetState]! + take(offsetTable.bits[offsetState]!)
    }
  }
  if (bit !== firstBit) throw malformed(`${bit - firstBit} bits of a block are left over`)
  produced += literals.bytes - used
  if (produced > maxBytes)
    throw malformed(`a block holds ${produced} B, blocks of this frame have at most ${maxBytes} B`)
  history.produced += produced
}

/** Section 3.1.1.5: values up to 3 name one of the last three offsets, which are kept in order of use. */
function nextOffset(value: number, literalBytes: number, repeated: [number, number, number]): number {
  const [first, second, third] = repeated
  if (value > 3) {
    repeated.splice(0, 3, value - 3, first, second)
    return value - 3
  }
  const which = literalBytes === 0 ? value + 1 : value
  if (which === 1) return first
  const offset = which === 2 ? second : which === 3 ? third : first - 1
  repeated.splice(0, 3, offset, first, which === 2 ? third : second)
  return offset
}

/** The size of the literals of a block after decompression and where their section ends, section 3.1.1.3.1. */
function skipLiterals(src: Uint8Array, start: number, end: number): { bytes: number; end: number } {
  if (end - start < 2) throw malformed('a compressed block of less than 2 B')
  const at = (i: number): number => (start + i < end ? src[start + i]! : 0)
  const type = at(0) & 3
  const format = (at(0) >> 2) & 3
  let bytes: number
  let stop: number
  if (type < 2) {
    const headerBytes = [1, 2, 1, 3][format]!
    bytes = headerBytes === 1 ? at(0) >> 3 : (at(0) >> 4) | (at(1) << 4)
    if (headerBytes === 3) bytes |= at(2) << 12
    stop = start + headerBytes + (type === 0 ? bytes : 1)
  } else {
    const headerBytes = [3, 3, 4, 5][format]!
    const sizeBits = [10, 10, 14, 18][format]!
    const sizes =
      at(0) +
      at(1) * 2 ** 8 +
      at(2) * 2 ** 16 +
      (headerBytes > 3 ? at(3) * 2 ** 24 : 0) +
      (headerBytes > 4 ? at(4) * 2 ** 32 : 0)
    bytes = Math.floor(sizes / 16) % 2 ** sizeBits
    stop = start + headerBytes + Math.floor(sizes / 2 ** (4 + sizeBits))
    if (type === 2 && stop <= end) checkTree(src, start + headerBytes, stop)
  }
  if (stop >= end) throw malformed('the literals of a block reach beyond it')
  return { bytes, end: stop }
}

/** A Huffman tree whose weights are all one symbol takes no bits: a decoder would read it forever. */
function checkTree(src: Uint8Array, start: number, end: number): void {
  if (start >= end) throw malformed('a Huffman tree of 0 B')
  const bytes = src[start]!
  if (bytes >= 128) return
  if (start + 1 + bytes > end) throw malformed('a Huffman tree reaches beyond its literals')
  const { log, probabilities } = readProbabilities(src, start + 1, start + 1 + bytes, 6, 12)
  if (probabilities.includes(1 << log)) throw malformed('the weights of a Huffman tree take no bits')
}

function bases(bits: readonly number[], first: number): number[] {
  let next = first
  return bits.map((count) => {
    const base = next
    next += 2 ** count
    return base
  })
}
