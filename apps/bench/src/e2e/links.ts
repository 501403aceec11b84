import type { PipelineCell } from '../session/cell.ts'

/** An emulated link, one way; null for the bare transport. */
export type Link = PipelineCell['link']

/**
 * Links that scenarios name. All but the first are emulated in both processes around the transport, so that what a network card and a
 * path add beyond delay and rate is not in them. `1gbit` stands for one switch: 0.05 ms one way.
 */
export const links = {
  loopback: null,
  '1gbit': { delayMs: 0.05, bitsPerSecond: 1e9 },
  '100mbit-20ms': { delayMs: 20, bitsPerSecond: 100e6 },
  '10mbit-40ms': { delayMs: 40, bitsPerSecond: 10e6 },
} as const satisfies Record<string, Link>

export const isLinkName = (name: string): name is keyof typeof links => Object.hasOwn(links, name)

/** The name of a link, or its numbers where it has none. */
export function linkName(link: Link): string {
  const known = Object.entries(links).find(
    ([, each]) =>
      each === link || (each?.delayMs === link?.delayMs && each?.bitsPerSecond === link?.bitsPerSecond),
  )
  if (known !== undefined) return known[0]
  const rate = link?.bitsPerSecond == null ? '' : `${link.bitsPerSecond / 1e6}mbit-`
  return `${rate}${link?.delayMs}ms`
}
