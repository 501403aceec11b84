/** The receiver's end of a window, counted in steps. */
export interface Granting {
  /** Up to which step, not including it, the sender may go. */
  readonly limit: number
  /** One step more is done with; returns the limit after that. */
  release(): number
}

/** Lets `window` steps be on their way, with `granted` allowed to begin with, and grants half of the window at a time as the runtime does. */
export function granting(window: number, granted: number): Granting {
  let limit = granted
  let released = 0
  return {
    get limit() {
      return limit
    },
    release() {
      const possible = ++released + window
      if (possible - limit >= Math.max(1, window >> 1)) limit = possible
      return limit
    },
  }
}
