interface Event {
  readonly atNs: number
  readonly order: number
  readonly run: () => void
}

/** Things to do at simulated times; those of one time in the order in which they were planned. */
export interface EventQueue {
  readonly nowNs: number
  push(atNs: number, run: () => void): void
  /** Until nothing is left. */
  run(): void
}

export function eventQueue(): EventQueue {
  const heap: Event[] = []
  let planned = 0
  let nowNs = -Infinity
  const isBefore = (a: Event, b: Event) => a.atNs < b.atNs || (a.atNs === b.atNs && a.order < b.order)

  function pop(): Event | undefined {
    const top = heap[0]
    const last = heap.pop()
    if (top === undefined || last === undefined || heap.length === 0) return top
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return top
  }

  return {
    get nowNs() {
      return nowNs
    },
    push(atNs, run) {
      const event = { atNs: Math.max(atNs, nowNs), order: planned++, run }
      let at = heap.length
      while (at > 0) {
        const parent = (at - 1) >>> 1
        if (!isBefore(event, heap[parent]!)) break
        heap[at] = heap[parent]!
        at = parent
      }
      heap[at] = event
    },
    run() {
      for (let event = pop(); event !== undefined; event = pop()) {
        nowNs = event.atNs
        event.run()
      }
    },
  }
}
