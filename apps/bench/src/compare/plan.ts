import type { SessionPlan } from '../session/session.ts'
import { random } from '../statistics/index.ts'
import type { Lock } from './lock.ts'

/** The builds that a comparison runs: `base` and a copy of it for pairs of a revision with itself, and `head`. */
export const builds = ['base', 'copy', 'head'] as const

type Unit = { readonly arms: readonly [string, string]; readonly builds: readonly [string, string] }

/**
 * All runs of a comparison in their order, which follows from the lock alone. Cell by cell; the two runs of a pair are next to each other
 * and their order turns around from pair to pair (ABBA), pairs of the base with its copy are put in between by the seed.
 */
export function planOf(lock: Lock): SessionPlan {
  const { design, cells, primary } = lock
  const next = random(design.seed)
  const names = [primary.cell, ...Object.keys(cells).filter((name) => name !== primary.cell)]
  const runs = names.flatMap((cell) => {
    const { pairs, aaPairs } = design.pairs[cell]!
    const units: Unit[] = [
      ...Array.from({ length: pairs }, (): Unit => ({ arms: ['A', 'B'], builds: ['base', 'head'] })),
      ...Array.from({ length: aaPairs }, (): Unit => ({ arms: ['A1', 'A2'], builds: ['base', 'copy'] })),
    ]
    shuffle(units, next)
    const turned = new Map([
      ['A', next() < 0.5],
      ['A1', next() < 0.5],
    ])
    const nth = new Map<string, number>()
    return units.flatMap(({ arms, builds }) => {
      const kind = arms[0]
      const pair = nth.get(kind) ?? 0
      nth.set(kind, pair + 1)
      const isTurned = turned.get(kind)!
      turned.set(kind, !isTurned)
      return (isTurned ? [1, 0] : [0, 1]).map((i) => ({ cell, build: builds[i]!, arm: arms[i]!, pair }))
    })
  })
  return {
    ...({ format: 'seamline-session/1', purpose: 'compare', serves: lock.lockId } as const),
    ...{ seed: design.seed, cells, cooldownMs: design.cooldownMs },
    runs: runs.map((run, i) => ({ number: i + 1, ...run })),
  }
}

/** Fisher and Yates. */
export function shuffle<T>(items: T[], next: () => number): void {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1))
    ;[items[i], items[j]] = [items[j]!, items[i]!]
  }
}
