import { SeamError } from '@seamline/core'

/** A case of a suite that an implementation is known not to pass. */
export interface Skip {
  /** The whole name of the case. */
  readonly test: string
  /** Why, for the reader of the output. */
  readonly reason: string
}

export interface Skipping<Body> {
  /** `it` for every case that is not skipped; a skipped one prints its reason and is left out. */
  readonly it: (name: string, body: Body) => void
  /** To be called behind the last case: throws `USAGE` for a skip that names no case. */
  finish(): void
}

/** Leaves the cases of `skip` out of what a suite defines. */
export function skipping<Body>(
  it: (name: string, body: Body) => void,
  skip: readonly Skip[] = [],
): Skipping<Body> {
  const reasons = new Map(skip.map(({ test, reason }) => [test, reason]))
  const unused = new Set(reasons.keys())
  return {
    it(name, body) {
      const reason = reasons.get(name)
      if (reason === undefined) {
        it(name, body)
        return
      }
      unused.delete(name)
      console.log(`skipped: ${name}: ${reason}`)
    },
    finish() {
      if (unused.size === 0) return
      throw new SeamError('USAGE', `no case is named ${[...unused].map((name) => `'${name}'`).join(', ')}`)
    },
  }
}
