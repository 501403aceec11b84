import { isUtf8 } from 'node:buffer'
import { Refused } from './fields.ts'

/** A row in the rows of a message in a frame, and two levels for newer releases. */
const MAX_DEPTH = 6

/**
 * Throws {@link Refused} unless `bytes` are exactly one MessagePack value made of nil, booleans, numbers, UTF-8 text and
 * arrays. Maps, binary and every extension type are refused. Each length is checked against the bytes that are
 * there, and nothing is allocated for it.
 */
export function assertPlain(bytes: Uint8Array): void {
  const end = bytes.byteLength
  let at = 0

  function take(count: number, what: string): number {
    if (count > end - at) throw new Refused(`${what} of ${count} B where ${end - at} B are left`)
    at += count
    return at - count
  }

  function length(width: number): number {
    let value = 0
    for (let i = take(width, 'a length'); i < at; i++) value = value * 256 + bytes[i]!
    return value
  }

  function text(count: number): void {
    const start = take(count, 'text')
    for (let i = start; i < at; i++) {
      if (bytes[i]! < 0x80) continue
      if (bytes[i] === 0xef && i === start && bytes[i + 1] === 0xbb && bytes[i + 2] === 0xbf)
        throw new Refused('text that begins with a byte order mark')
      if (!isUtf8(bytes.subarray(i, at))) throw new Refused('text that is not UTF-8')
      return
    }
  }

  function array(count: number, depth: number): void {
    if (count > end - at) throw new Refused(`an array of ${count} where ${end - at} B are left`)
    if (depth > MAX_DEPTH) throw new Refused(`arrays nested more than ${MAX_DEPTH} deep`)
    for (let i = 0; i < count; i++) value(depth)
  }

  function value(depth: number): void {
    const token = bytes[take(1, 'a value')]!
    if (token < 0x80 || token >= 0xe0) return
    if (token >= 0xa0 && token < 0xc0) return text(token & 31)
    if (token >= 0x90 && token < 0xa0) return array(token & 15, depth + 1)
    switch (token) {
      case 0xc0: // nil, false, true
      case 0xc2:
      case 0xc3:
        return
      case 0xca: // float32 and 64
      case 0xcb:
        return void take(token === 0xca ? 4 : 8, 'a number')
      case 0xcc: // uint8 to 64, int8 to 64
      case 0xcd:
      case 0xce:
      case 0xcf:
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
        return void take(1 << (token & 3), 'a number')
      case 0xd9: // str8 to 32
      case 0xda:
      case 0xdb:
        return text(length(1 << (token - 0xd9)))
      case 0xdc: // array16 and 32
      case 0xdd:
        return array(length(token === 0xdc ? 2 : 4), depth + 1)
      default:
        throw new Refused(`type 0x${token.toString(16)}, which headers are not made of`)
    }
  }

  value(0)
  if (at !== end) throw new Refused(`${end - at} B behind the header`)
}
