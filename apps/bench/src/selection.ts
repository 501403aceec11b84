import type { BenchCase } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import type { RatioSpec } from './ratios.ts'

/** A case and where it stands. */
export interface Entry {
  readonly case: BenchCase
  /** Table it is printed in: `codec`, `framing`, `transport`, `relay`. */
  readonly group: string
  /** Cases of one block run side by side. */
  readonly block: string
}

/** Everything that can run here. */
export interface Catalogue {
  readonly entries: readonly Entry[]
  readonly ratios: readonly RatioSpec[]
  /** What is left out, and why. */
  readonly dropped: readonly Dropped[]
}

export interface Dropped {
  readonly arm: string
  readonly reason: string
}

/**
 * The entries whose ids match `filter`, with the controls that their ratios need: a ratio never spans two runs. A filter is an
 * exact id, else a text within ids or a regular expression. Throws `USAGE` when it matches nothing or is no expression.
 */
export function select({ entries, ratios }: Catalogue, filter: string | undefined): readonly Entry[] {
  if (filter === undefined) return entries
  const matches = matcher(entries, filter)
  const matched = new Set(entries.map((entry) => entry.case.id).filter(matches))
  if (matched.size === 0) {
    const groups = [...new Set(entries.map((entry) => entry.group))].join(', ')
    throw new SeamError(
      'USAGE',
      `no case matches ${JSON.stringify(filter)}; ids begin with the groups ${groups}, or with control, and --list prints every one`,
    )
  }
  const wanted = new Set(matched)
  // A set visits what is added on the way: a control of a control, but not everything that a control is a case of.
  for (const id of wanted) {
    if (!matched.has(id) && !id.startsWith('control/')) continue
    for (const { candidate, control } of ratios) if (candidate === id) wanted.add(control)
  }
  return entries.filter((entry) => wanted.has(entry.case.id))
}

/** The entry with exactly this id. Throws `USAGE` where there is none, with what had to be left out. */
export function findCase({ entries, dropped }: Catalogue, id: string): Entry {
  const found = entries.find((entry) => entry.case.id === id)
  if (found !== undefined) return found
  const absent = dropped.map(({ arm, reason }) => `; left out: ${arm}, ${reason}`).join('')
  throw new SeamError('USAGE', `there is no case ${id}; pnpm bench --list prints every id${absent}`)
}

function matcher(entries: readonly Entry[], filter: string): (id: string) => boolean {
  if (entries.some((entry) => entry.case.id === filter)) return (id) => id === filter
  // Ids have a `+` in them, so a filter copied from an id need not be an expression.
  if (entries.some((entry) => entry.case.id.includes(filter))) return (id) => id.includes(filter)
  try {
    const expression = new RegExp(filter)
    return (id) => expression.test(id)
  } catch (cause) {
    throw new SeamError('USAGE', `--filter ${JSON.stringify(filter)}: ${(cause as Error).message}`, { cause })
  }
}

/** Entries of one group; `block` gets the parts of an id and names the block within the group. */
export function entriesOf(
  group: string,
  cases: readonly BenchCase[],
  block: (path: readonly string[]) => string,
): Entry[] {
  return cases.map((each) => ({ case: each, group, block: block(each.id.split('/')) }))
}
