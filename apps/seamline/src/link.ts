import type { EmulatedOptions } from '@seamline/transports/emulated'
import { InvalidArgumentError } from 'commander'

/** An emulated link, each way. */
export type LinkShape = Pick<EmulatedOptions, 'delayMs' | 'jitterMs' | 'bitsPerSecond'>

const UNITS: Readonly<Record<string, number>> = { kbit: 1e3, mbit: 1e6, gbit: 1e9 }

/** Reads `20ms`, `100mbit`, `20ms,100mbit` or `20ms+2ms,100mbit` with jitter: the delay one way and the rate. */
export function parseLink(text: string): LinkShape {
  let shape: LinkShape = { delayMs: 0 }
  for (const part of text.split(',')) {
    const delay = /^(\d+(?:\.\d+)?)ms(?:\+(\d+(?:\.\d+)?)ms)?$/i.exec(part.trim())
    const rate = /^(\d+(?:\.\d+)?)(kbit|mbit|gbit)$/i.exec(part.trim())
    if (delay !== null) {
      shape = {
        ...shape,
        delayMs: Number(delay[1]),
        ...(delay[2] === undefined ? {} : { jitterMs: Number(delay[2]) }),
      }
    } else if (rate !== null) {
      shape = { ...shape, bitsPerSecond: Number(rate[1]) * UNITS[rate[2]!.toLowerCase()]! }
    } else {
      throw new InvalidArgumentError(
        'A delay one way and a rate are meant, for example 20ms,100mbit or 5ms+1ms.',
      )
    }
  }
  return shape
}

/** What {@link parseLink} reads. */
export function linkText({ delayMs, jitterMs, bitsPerSecond }: LinkShape): string {
  const jitter = jitterMs === undefined ? '' : `+${jitterMs}ms`
  const rate = bitsPerSecond === undefined ? '' : `,${bitsPerSecond / 1e6}mbit`
  return `${delayMs}ms${jitter}${rate}`
}
