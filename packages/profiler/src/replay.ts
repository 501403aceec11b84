import { eventQueue } from './event-queue.ts'
import { granting } from './replay-credit.ts'
import type { Cost, Frame, ReplayModel, RequestModel, StageStep } from './replay-types.ts'

/**
 * `frozen` keeps the order in which each stage began its steps as recorded; `requeued` lets each stage take the sequence that has
 * waited longest, as the runtime does. The truth of a change lies between the two, or at one of them.
 */
export type ReplayPolicy = 'frozen' | 'requeued'

export interface ReplayOptions {
  readonly policy: ReplayPolicy
  /** What a duration becomes, in ns. As recorded by default. */
  readonly duration?: (cost: Cost) => number
  /** Work of a step that happens while the engine computes the step: the longer of both counts. */
  readonly isParallel?: (cost: Cost) => boolean
  /** How many steps of stage `stage` may be on their way to the next one. As recorded by default. */
  readonly window?: (recorded: number, stage: number) => number
}

/** Times in ns, from a replay of a run. Means over requests. */
export interface ReplayResult {
  /** From the first request to the last token with its caller. */
  readonly makespanNs: number
  /** For each request of the model, when each token was with the caller, from its acceptance. */
  readonly emittedNs: readonly (readonly number[])[]
  readonly ttftNs: number
  /** From the begin of the first prefill step until the first token is sampled. */
  readonly prefillNs: number
  /** Of requests with two tokens or more; NaN without any. */
  readonly tpotNs: number
  readonly tokensPerSecond: number
  /** False when something waited for ever: the model lacks an edge. */
  readonly finished: boolean
}

interface LinkState {
  freeNs: number
  arrivedNs: number
  isReading: boolean
  readonly unread: (() => void)[]
}

/** At the engine at once: one that it computes and the next at hand. */
const MOST_AT_ENGINE = 2

/** Runs the recorded durations once more: discrete events, every wait made anew from who has to wait for whom. */
export function replay(model: ReplayModel, options: ReplayOptions): ReplayResult {
  const { steps, requests } = model
  const duration = options.duration ?? ((cost: Cost) => cost.ns)
  const isParallel = options.isParallel ?? (() => false)
  /** On a loop: nothing where the work is done beside the engine. */
  const onLoop = (cost: Cost) => (isParallel(cost) ? 0 : duration(cost))
  const total = (costs: readonly Cost[]) => costs.reduce((sum, cost) => sum + duration(cost), 0)

  const events = eventQueue()
  const loops = new Map<number, (task: (atNs: number) => number) => void>()
  const links = new Map<string, LinkState>()
  const emitted = new Map<number, number[]>(requests.map(({ sequence }) => [sequence, []]))
  const accepted = new Map<number, number>()
  const prefilled = new Map<number, { startNs: number; endNs: number }>()
  const followers = new Map<number, RequestModel[]>()
  const lengths = new Map(requests.map(({ sequence, tokens }) => [sequence, tokens]))
  const arrivedRows = new Set<number>()
  const active = new Set<number>()
  const stages = model.stages.map((_, s) => stage(s))

  /** Runs `task` on the event loop of `process` when that is free; it returns when it is done. */
  function post(process: number, task: (atNs: number) => number): void {
    let loop = loops.get(process)
    if (loop === undefined) {
      const tasks: ((atNs: number) => number)[] = []
      let isBusy = false
      const pump = () => {
        const task = tasks.shift()
        isBusy = task !== undefined
        if (task !== undefined) events.push(task(events.nowNs), pump)
      }
      loop = (task) => {
        tasks.push(task)
        if (!isBusy) pump()
      }
      loops.set(process, loop)
    }
    loop(task)
  }

  /** Sends from `atNs` on and returns when the loop is done with that; `received` runs on the other loop. */
  function send(frame: Frame, atNs: number, received: (atNs: number) => number): number {
    let calledNs = atNs
    for (const cost of frame.sending) calledNs += onLoop(cost)
    const key = `${frame.from} ${frame.to} ${frame.outPort}`
    const link = links.get(key) ?? { freeNs: 0, arrivedNs: 0, isReading: false, unread: [] }
    links.set(key, link)
    const restNs = duration(frame.rest)
    const beginNs = Math.max(calledNs - duration(frame.early) + duration(frame.queue), link.freeNs)
    link.freeNs = beginNs + duration(frame.hold)
    const firstNs = Math.max(beginNs + total(frame.first), link.arrivedNs)
    const lastNs = firstNs + restNs
    link.arrivedNs = lastNs
    const read = () => {
      link.isReading = true
      post(frame.to, (startNs) => {
        const headerNs = startNs + onLoop(frame.header)
        const whole = (wholeNs: number) => {
          link.isReading = false
          link.unread.shift()?.()
          let handledNs = wholeNs
          for (const cost of frame.receiving) handledNs += onLoop(cost)
          return received(handledNs)
        }
        if (lastNs <= headerNs) return whole(headerNs)
        events.push(lastNs, () => post(frame.to, whole))
        return headerNs
      })
    }
    // A frame is read to its end before the next one is begun.
    events.push(firstNs, () => {
      if (link.isReading) link.unread.push(read)
      else read()
    })
    return calledNs
  }

  function stage(s: number) {
    const { process, creditNs, window: recorded, granted } = model.stages[s]!
    const window = options.window?.(recorded, s) ?? recorded
    const grants = granting(window, window === recorded ? granted : window)
    /** Steps for the next stage that may have begun, and that have. */
    let limit = grants.limit
    let sent = 0
    const order = steps.filter((step) => step.stage === s).sort((a, b) => a.order - b.order)
    const atEngine = new Set<number>()
    const served = new Map<number, number>()
    const groups = new Set<StageStep>()
    let queue: StageStep[] = []
    let begun = 0
    let inFlight = 0
    let engineFreeNs = 0

    function next(): StageStep | undefined {
      const isCrowded =
        model.rowsPerStep > 1 && groups.size >= Math.max(1, Math.ceil(active.size / model.rowsPerStep))
      const blocked = new Set<number>()
      const ready: StageStep[] = []
      for (const step of queue) {
        const isFree = step.sequences.every((sequence) => !atEngine.has(sequence) && !blocked.has(sequence))
        if (isFree && !(isCrowded && s === 0 && step.isDecode)) ready.push(step)
        for (const sequence of step.sequences) blocked.add(sequence)
      }
      if (options.policy === 'frozen') return ready.find((step) => step === order[begun])
      const last = ({ sequences }: StageStep) =>
        Math.min(...sequences.map((sequence) => served.get(sequence) ?? 0))
      return ready.sort((a, b) => last(a) - last(b))[0]
    }

    function poke(atNs: number): number {
      let cursorNs = atNs
      while (inFlight < MOST_AT_ENGINE && queue.length > 0 && sent < limit) {
        const step = next()
        if (step === undefined) break
        cursorNs = start(step, cursorNs)
      }
      return cursorNs
    }

    function start(step: StageStep, atNs: number): number {
      queue = queue.filter((other) => other !== step)
      begun++
      inFlight++
      if (step.hidden !== undefined) sent++
      if (s === 0 && step.isDecode) groups.add(step)
      for (const sequence of step.sequences) {
        atEngine.add(sequence)
        served.set(sequence, begun)
      }
      let handedNs = atNs + onLoop(step.decode)
      for (const cost of step.starting) handedNs += onLoop(cost)
      const startNs = Math.max(engineFreeNs, handedNs) + duration(step.submit)
      const loopCosts = [step.decode, ...step.finishing, ...(step.hidden?.frame.sending ?? [])]
      const beside = loopCosts.filter(isParallel)
      const endNs = startNs + Math.max(total(step.compute), total(beside))
      engineFreeNs = endNs
      if (!step.isDecode) notePrefill(step, s, startNs, endNs)
      events.push(endNs + duration(step.sync), () => post(process, (atNs) => leave(step, atNs)))
      return handedNs
    }

    function leave(step: StageStep, atNs: number): number {
      inFlight--
      for (const sequence of step.sequences) atEngine.delete(sequence)
      let cursorNs = atNs
      for (const cost of step.finishing) cursorNs += onLoop(cost)
      const { hidden, tokens, result } = step
      if (hidden !== undefined) {
        const to = steps[hidden.to]!
        cursorNs = send(hidden.frame, cursorNs, (atNs) =>
          stages[s + 1]!.arrive(to, atNs + total(to.arriving)),
        )
      }
      const [direct, onward] = tokens?.frames ?? []
      const feed = (atNs: number) => stages[0]!.feed(tokens!.rows, atNs)
      if (direct !== undefined && onward === undefined) cursorNs = send(direct, cursorNs, feed)
      if (result !== undefined) {
        cursorNs = send(result.frame, cursorNs, (atNs) => {
          let handledNs = onward === undefined ? atNs : send(onward, atNs, feed)
          for (const [i, row] of result.rows.entries()) {
            handledNs += duration(result.emits[i]!)
            emit(sequenceOf(step, i), row, handledNs)
          }
          return handledNs
        })
      }
      if (s > 0) stages[s - 1]!.released(cursorNs)
      if (tokens !== undefined && direct === undefined) return feed(cursorNs)
      return poke(cursorNs)
    }

    return {
      poke,
      arrive(step: StageStep, atNs: number): number {
        const heldNs = duration(step.ready)
        if (heldNs === 0) {
          queue.push(step)
          return poke(atNs)
        }
        events.push(atNs + heldNs, () =>
          post(process, (atNs) => {
            queue.push(step)
            return poke(atNs)
          }),
        )
        return atNs
      },
      /** Tokens have come back: a step begins when all of its rows have. */
      feed(rows: readonly number[], atNs: number): number {
        let cursorNs = atNs
        const complete: StageStep[] = []
        for (const row of rows) {
          const step = steps[model.stepOfRow.get(row)!]!
          const nth = step.rows.indexOf(row)
          cursorNs += onLoop(step.arriving[nth]!)
          arrivedRows.add(row)
          this.returned(step.sequences[nth]!)
          if (step.rows.every((row) => arrivedRows.has(row))) complete.push(step)
        }
        for (const step of complete) cursorNs = this.arrive(step, cursorNs)
        return complete.length === 0 ? poke(cursorNs) : cursorNs
      },
      returned(sequence: number) {
        for (const group of groups) if (group.sequences.includes(sequence)) groups.delete(group)
      },
      released(atNs: number) {
        const before = grants.limit
        const after = grants.release()
        if (after === before) return
        events.push(atNs + creditNs, () =>
          post(process, (atNs) => {
            limit = Math.max(limit, after)
            return poke(atNs)
          }),
        )
      },
    }
  }

  function sequenceOf(step: StageStep, nth: number): number {
    return step.sequences[nth]!
  }

  function notePrefill({ sequences }: StageStep, s: number, startNs: number, endNs: number): void {
    const sequence = sequences[0]!
    const noted = prefilled.get(sequence) ?? { startNs: Infinity, endNs: 0 }
    prefilled.set(sequence, {
      startNs: s === 0 ? Math.min(noted.startNs, startNs) : noted.startNs,
      endNs: Math.max(noted.endNs, endNs),
    })
  }

  function emit(sequence: number, _row: number, atNs: number): void {
    const times = emitted.get(sequence)
    if (times === undefined) return
    times.push(atNs)
    if (times.length !== lengths.get(sequence)) return
    events.push(atNs + model.endNs, () =>
      post(model.stages[0]!.process, (atNs) => {
        active.delete(sequence)
        stages[0]!.returned(sequence)
        return stages[0]!.poke(atNs)
      }),
    )
    for (const request of followers.get(sequence) ?? []) accept(request, atNs + request.acceptedNs)
  }

  function accept(request: RequestModel, atNs: number): void {
    accepted.set(request.sequence, atNs)
    active.add(request.sequence)
    const feed = (nth: number, atNs: number) => {
      const chunk = request.chunks[nth]
      if (chunk === undefined) return
      events.push(atNs + total(chunk.before), () =>
        post(model.coordinator, (atNs) => {
          const to = steps[chunk.step]!
          const doneNs = send(chunk.frame, atNs, (atNs) => stages[0]!.arrive(to, atNs + total(to.arriving)))
          feed(nth + 1, doneNs)
          return doneNs
        }),
      )
    }
    feed(0, atNs)
  }

  for (const request of requests) {
    if (request.after === undefined) events.push(request.acceptedNs, () => accept(request, events.nowNs))
    else followers.set(request.after, [...(followers.get(request.after) ?? []), request])
  }
  events.run()

  const times = requests.map(({ sequence }) => emitted.get(sequence)!)
  const began = requests.map(({ sequence }) => accepted.get(sequence) ?? Number.NaN)
  const finished = requests.every(({ tokens }, i) => times[i]!.length === tokens)
  const makespanNs = finished ? maximum(times.flat()) - Math.min(...began) : Infinity
  const count = requests.reduce((sum, { tokens }) => sum + tokens, 0)
  return {
    ...{ makespanNs, finished },
    emittedNs: times.map((row, i) => row.map((atNs) => atNs - began[i]!)),
    ttftNs: mean(times.map((row, i) => (row[0] ?? Infinity) - began[i]!)),
    prefillNs: mean([...prefilled.values()].map(({ startNs, endNs }) => endNs - startNs)),
    tpotNs: mean(
      times.filter((row) => row.length > 1).map((row) => (row.at(-1)! - row[0]!) / (row.length - 1)),
    ),
    tokensPerSecond: (count / makespanNs) * 1e9,
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function maximum(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), -Infinity)
}
