import { SPAN_RECORD_LENGTH, SpanName, SpanPort, spanTag } from '@seamline/core'
import type { Category, ClockAlignment, ProcessTrace, RunTrace, SequenceTrace } from '../src/index.ts'

/** Where a duration is drawn: a stage, -1 for the coordinator; for a wire the number of its link. */
export interface Draw {
  readonly category: Category
  readonly place: number
  readonly port: number
}

export interface SimulatedRun {
  readonly stages: number
  /** K: sequences in flight. */
  readonly sequences: number
  /** Requests in all, `sequences` by default. Each begins when an earlier one has ended. */
  readonly requests?: number
  readonly tokens: number
  readonly promptTokens?: number
  readonly chunkTokens?: number
  /** For one row, by stage. */
  readonly computeNs: readonly number[]
  /** For every category that takes time in a process, on each occasion. */
  readonly costsNs?: Partial<Record<Category, number>>
  /** One way; by hop: 0 leads to stage 1, and so on, the last back to stage 0. Others take the last one's. */
  readonly delayNs?: readonly number[]
  /** 0: at once. */
  readonly bytesPerNs?: number
  readonly bytesPerRow?: number
  /** Share by which durations vary, up and down, and what seeds that. */
  readonly jitter?: number
  readonly seed?: number
  readonly rowsPerStep?: number
  /** Steps on their way between two stages. */
  readonly window?: number
  readonly throughCoordinator?: boolean
  readonly relayHop?: number
  readonly gcEveryNs?: number
  /** By process: the coordinator, then the stages. */
  readonly clocks?: readonly { readonly offsetNs: number; readonly drift: number }[]
  /** Counterfactual: a factor for a duration. */
  readonly scale?: (draw: Draw) => number
  /** Counterfactual: a delay on top, in ns. */
  readonly inject?: (draw: Draw) => number
}

export interface Simulation {
  readonly trace: RunTrace
  readonly alignment: ClockAlignment
  /** Every duration that was drawn, by the step it was for. */
  readonly truth: readonly (Draw & { readonly tag: number; readonly ns: number })[]
  /** From the first request to the last token with the caller, on the one true clock. */
  readonly makespanNs: number
  /** By request. */
  readonly emittedNs: readonly (readonly number[])[]
  /** Mean of the requests' times per token after the first. */
  readonly tpotNs: number
}

interface Row {
  readonly sequence: number
  readonly position: number
  readonly tokenCount: number
  readonly sample: boolean
  readonly wantedNs?: number
}

interface Job {
  readonly rows: readonly Row[]
  readonly mergeable: boolean
  readonly arrivedNs: number
  readonly decodes: boolean
  readonly release: (atNs: number) => void
}

/**
 * A chain of stages on a simulated clock: discrete events, one thing at a time on each event loop and each engine, links that keep
 * order. Written from what capture records and from the lane of the runtime, and sharing nothing with the analysis.
 */
export function simulate(options: SimulatedRun): Simulation {
  const { stages, sequences, tokens, computeNs, costsNs = {} } = options
  const { requests = sequences, promptTokens = 4, chunkTokens = 8, rowsPerStep = 1 } = options
  const { delayNs = [], bytesPerNs = 0, bytesPerRow = 1024, jitter = 0, seed = 1 } = options
  const { window = Infinity } = options
  const throughCoordinator = options.throughCoordinator === true && stages > 1
  const truth: (Draw & { tag: number; ns: number })[] = []
  const names = ['coordinator', ...Array.from({ length: stages }, (_, i) => `stage ${i}`), 'relay']
  const records: number[][] = names.map(() => [])
  const ownClock = (process: number, atNs: number) => {
    const { offsetNs = 0, drift = 0 } = options.clocks?.[process] ?? {}
    return Math.round(atNs + offsetNs + drift * atNs)
  }
  function record(
    process: number,
    name: SpanName,
    startNs: number,
    endNs: number,
    tag: number,
    bytes = 0,
    port = 0,
  ) {
    records[process]!.push(name, ownClock(process, startNs), ownClock(process, endNs), tag, bytes, port)
  }
  function draw(category: Category, place: number, port: number, tag: number, baseNs: number): number {
    const varied = baseNs * (1 + jitter * (2 * hashed(seed, category, place, port, tag) - 1))
    const what = { category, place, port }
    const ns = Math.round(varied * (options.scale?.(what) ?? 1) + (options.inject?.(what) ?? 0))
    truth.push({ ...what, tag, ns })
    return ns
  }
  const cost = (category: Category, place: number, port: number, tag: number) =>
    draw(category, place, port, tag, costsNs[category] ?? 0)

  // ---- time

  const heap = eventHeap()
  let nowNs = 0

  /** An event loop: tasks in the order in which they came, each to its end, which it returns. */
  function eventLoop() {
    const tasks: ((atNs: number) => number)[] = []
    let busy = false
    function pump() {
      const task = tasks.shift()
      busy = task !== undefined
      if (task !== undefined) heap.push(task(nowNs), pump)
    }
    return {
      post(task: (atNs: number) => number) {
        tasks.push(task)
        if (!busy) pump()
      },
    }
  }
  const loops = names.map(eventLoop)

  // ---- links

  const links = new Map<string, { freeNs: number; arrivedNs: number; sentBytes: number }>()

  /** Encodes and sends from `atNs` on; `received` is posted to the loop of `to` with the time at which all is in memory. */
  function send(
    from: number,
    to: number,
    outPort: number,
    inPort: number,
    tag: number,
    payloadBytes: number,
    atNs: number,
    received: (atNs: number) => number,
    released: (atNs: number) => void = () => {},
  ): number {
    const place = from - 1
    const encodedNs = atNs + cost('frame.encode', place, outPort, tag)
    const calledNs = encodedNs + cost('send.call', place, outPort, tag)
    const bytes = payloadBytes + 64
    record(from, SpanName.frameEncode, atNs, encodedNs, tag, bytes, outPort)
    record(from, SpanName.send, encodedNs, calledNs, tag, bytes, outPort)
    const key = `${from} ${to}`
    const link = links.get(key) ?? { freeNs: 0, arrivedNs: 0, sentBytes: 0 }
    links.set(key, link)
    const hop = outPort === SpanPort.hiddenOut ? from - 1 : stages - 1
    const queuedNs = cost('send.queue', place, outPort, tag)
    const beginNs = Math.max(calledNs + queuedNs, link.freeNs)
    const baseNs = bytesPerNs === 0 ? 0 : payloadBytes / bytesPerNs
    const serialNs = draw('wire.rest', hop, inPort, tag, baseNs)
    link.freeNs = beginNs + serialNs
    heap.push(link.freeNs, () => {
      record(from, SpanName.sendQueue, encodedNs, nowNs, tag, bytes, outPort)
      released(nowNs)
    })
    let firstNs = beginNs + draw('wire.first', hop, inPort, tag, delayNs[hop] ?? delayNs.at(-1) ?? 0)
    if (options.relayHop === hop && outPort === SpanPort.hiddenOut) {
      record(from, SpanName.wireBytes, encodedNs, encodedNs, 0, link.sentBytes, outPort)
      link.sentBytes += bytes
      for (const [name, category] of [
        [SpanName.relayIn, 'relay.in'],
        [SpanName.relayQueue, 'relay.queue'],
        [SpanName.relayOut, 'relay.out'],
      ] as const) {
        const untilNs = firstNs + cost(category, hop, inPort, tag)
        record(names.length - 1, name, firstNs, untilNs, link.sentBytes, bytes, 1)
        firstNs = untilNs
      }
    }
    // Bytes come in the order in which they were sent.
    firstNs = Math.max(firstNs, link.arrivedNs)
    const lastNs = firstNs + serialNs
    link.arrivedNs = lastNs
    heap.push(firstNs, () =>
      loops[to]!.post((startNs) => {
        const headerNs = startNs + cost('frame.decode', to - 1, inPort, tag)
        record(to, SpanName.frameDecode, startNs, headerNs, tag, 0, inPort)
        const whole = (wholeNs: number) => {
          if (payloadBytes === 0) return received(wholeNs)
          record(to, SpanName.receive, headerNs, wholeNs, tag, payloadBytes, inPort)
          const checkedNs =
            wholeNs + (inPort === SpanPort.hiddenIn ? cost('checksum', to - 1, inPort, tag) : 0)
          if (checkedNs > wholeNs)
            record(to, SpanName.checksum, wholeNs, checkedNs, tag, payloadBytes, inPort)
          return received(checkedNs)
        }
        if (lastNs <= headerNs) return whole(headerNs)
        heap.push(lastNs, () => loops[to]!.post(whole))
        return headerNs
      }),
    )
    return calledNs
  }

  // ---- a stage

  const chain = Array.from({ length: stages }, (_, s) => stage(s))

  function stage(s: number) {
    const process = s + 1
    const isLast = s === stages - 1
    const busy = new Set<number>()
    const served = new Map<number, number>()
    const groups = new Set<readonly Row[]>()
    let queue: Job[] = []
    let inFlight = 0
    let turn = 0
    let outstanding = 0
    let blockedNs = -1
    let engineFreeNs = 0

    function push(job: Job) {
      queue.push(job)
    }

    function next(): Job | undefined {
      const blocked = new Set<number>()
      const ready: Job[] = []
      const canDecode = groups.size < Math.ceil(active.size / rowsPerStep)
      for (const job of queue) {
        const free = job.rows.every(({ sequence }) => !busy.has(sequence) && !blocked.has(sequence))
        if (free && (canDecode || !job.mergeable)) ready.push(job)
        for (const { sequence } of job.rows) blocked.add(sequence)
      }
      const last = ({ rows }: Job) => Math.min(...rows.map(({ sequence }) => served.get(sequence) ?? 0))
      ready.sort((a, b) => last(a) - last(b))
      const first = ready[0]
      if (first === undefined) return undefined
      const together = first.mergeable ? ready.filter((job) => job.mergeable).slice(0, rowsPerStep) : [first]
      queue = queue.filter((job) => !together.includes(job))
      if (together.length === 1) return first
      together.sort((a, b) => a.rows[0]!.sequence - b.rows[0]!.sequence)
      const rows = together.flatMap((job) => job.rows)
      return { ...together[0]!, rows, release: (atNs) => together.forEach((job) => void job.release(atNs)) }
    }

    /** Starts what can start; returns when the loop is done with that. */
    function poke(atNs: number): number {
      let cursorNs = atNs
      while (inFlight < 2 && queue.length > 0) {
        if (!isLast && outstanding >= window) {
          if (blockedNs < 0) blockedNs = cursorNs
          return cursorNs
        }
        const job = next()
        if (job === undefined) break
        cursorNs = start(job, cursorNs)
      }
      blockedNs = -1
      return cursorNs
    }

    function start(job: Job, atNs: number): number {
      const tag = tagOf(job.rows[0]!)
      turn++
      for (const { sequence } of job.rows) {
        busy.add(sequence)
        served.set(sequence, turn)
      }
      inFlight++
      if (job.mergeable) groups.add(job.rows)
      if (!isLast) outstanding++
      record(process, SpanName.stageQueue, job.arrivedNs, atNs, tag)
      if (blockedNs >= 0) record(process, SpanName.creditWait, Math.max(blockedNs, job.arrivedNs), atNs, tag)
      for (const row of job.rows.slice(1)) record(process, SpanName.member, atNs, atNs, tag, tagOf(row))
      let handedNs = atNs
      if (job.decodes && costsNs['convert.decode'] !== undefined) {
        handedNs += cost('convert.decode', s, SpanPort.hiddenIn, tag)
        record(process, SpanName.codecDecode, atNs, handedNs, tag, 0, SpanPort.hiddenIn)
      }
      const rows = job.rows.reduce((sum, { tokenCount }) => sum + tokenCount, 0)
      const startNs = Math.max(engineFreeNs, handedNs + cost('compute.submit', s, 0, tag))
      // A step of several rows takes half of a row's time for each further one.
      const deviceNs = draw('compute.device', s, 0, tag, computeNs[s]! * ((1 + rows) / 2))
      const cpuWaitNs = cost('cpu.wait', s, 0, tag)
      const endNs = startNs + deviceNs + cpuWaitNs
      const sampledNs = endNs + (isLast ? cost('sample', s, 0, tag) : 0)
      engineFreeNs = sampledNs
      heap.push(sampledNs, () => {
        record(process, SpanName.compute, startNs, endNs, tag)
        if (cpuWaitNs > 0) record(process, SpanName.cpuWait, endNs - cpuWaitNs, endNs, tag)
        if (isLast) record(process, SpanName.sample, endNs, sampledNs, tag)
      })
      heap.push(sampledNs + cost('compute.sync', s, 0, tag), () =>
        loops[process]!.post((resumedNs) => {
          record(process, SpanName.submit, handedNs, startNs, tag)
          record(process, SpanName.resume, sampledNs, resumedNs, tag)
          return leave(job, resumedNs)
        }),
      )
      return handedNs
    }

    function leave(job: Job, atNs: number): number {
      inFlight--
      for (const { sequence } of job.rows) busy.delete(sequence)
      const sentNs = isLast ? sendTokens(job, atNs) : sendHidden(job, atNs)
      job.release(sentNs)
      return poke(sentNs)
    }

    function sendHidden({ rows }: Job, atNs: number): number {
      const tag = tagOf(rows[0]!)
      let cursorNs = atNs
      if (costsNs['convert.encode'] !== undefined) {
        cursorNs += cost('convert.encode', s, SpanPort.hiddenOut, tag)
        record(process, SpanName.codecEncode, atNs, cursorNs, tag, 0, SpanPort.hiddenOut)
      }
      if (costsNs.checksum !== undefined) {
        const fromNs = cursorNs
        cursorNs += cost('checksum', s, SpanPort.hiddenOut, tag)
        record(process, SpanName.checksum, fromNs, cursorNs, tag, 0, SpanPort.hiddenOut)
      }
      const bytes = rows.reduce((sum, { tokenCount }) => sum + tokenCount, 0) * bytesPerRow
      const to = chain[s + 1]!
      return send(
        process,
        process + 1,
        SpanPort.hiddenOut,
        SpanPort.hiddenIn,
        tag,
        bytes,
        cursorNs,
        (receivedNs) => {
          const arrivedNs = dispatch(process + 1, receivedNs, tag, SpanPort.hiddenIn)
          const release = (atNs: number) => {
            if (window === Infinity) return
            heap.push(atNs + (delayNs[s] ?? 0), () =>
              loops[process]!.post((creditNs) => {
                outstanding--
                return poke(creditNs)
              }),
            )
          }
          to.push({ rows, mergeable: false, arrivedNs, decodes: true, release })
          return to.poke(arrivedNs)
        },
      )
    }

    function sendTokens({ rows }: Job, atNs: number): number {
      const chosen = rows.filter(({ sample }) => sample).map(tokenAfter)
      if (chosen.length === 0) return atNs
      const going = chosen.filter(({ last }) => !last).map(({ row }) => row)
      let cursorNs = atNs
      const first = chain[0]!
      const feed = (rows: readonly Row[], receivedNs: number, process: number) => {
        let arrivedNs = receivedNs
        for (const row of rows) {
          const fromNs = arrivedNs
          arrivedNs = dispatch(process, fromNs, tagOf(row), SpanPort.tokensIn)
          first.returned(row.sequence)
          first.push({ rows: [row], mergeable: true, arrivedNs, decodes: false, release() {} })
        }
        return first.poke(arrivedNs)
      }
      if (going.length > 0 && stages > 1 && !throughCoordinator) {
        cursorNs = dispatch(process, cursorNs, tagOf(going[0]!), SpanPort.tokensOut)
        const [out, into] = [SpanPort.tokensOut, SpanPort.tokensIn]
        const fed = (receivedNs: number) => feed(going, receivedNs, 1)
        cursorNs = send(process, 1, out, into, tagOf(going[0]!), 0, cursorNs, fed)
      }
      const tag = tagOf(chosen[0]!.row)
      cursorNs = send(process, 0, SpanPort.resultOut, SpanPort.resultIn, tag, 0, cursorNs, (receivedNs) => {
        let handledNs = dispatch(0, receivedNs, tag, SpanPort.resultIn)
        if (throughCoordinator && going.length > 0) {
          const [out, into] = [SpanPort.tokensOut, SpanPort.tokensIn]
          const fed = (receivedNs: number) => feed(going, receivedNs, 1)
          handledNs = send(0, 1, out, into, tagOf(going[0]!), 0, handledNs, fed)
        }
        for (const { row, last } of chosen) {
          const fromNs = handledNs
          handledNs += cost('emit', -1, SpanPort.resultIn, tagOf(row))
          record(0, SpanName.emit, fromNs, handledNs, tagOf(row), 0, SpanPort.resultIn)
          emitted[row.sequence]!.push(handledNs)
          if (last) finished(row.sequence)
        }
        return handledNs
      })
      if (stages === 1 && going.length > 0) return feed(going, cursorNs, process)
      return cursorNs
    }

    return {
      push,
      poke,
      returned(sequence: number) {
        for (const group of groups) if (group.some((row) => row.sequence === sequence)) groups.delete(group)
      },
      ended(sequence: number) {
        this.returned(sequence)
        active.delete(sequence)
      },
    }
  }

  function dispatch(process: number, fromNs: number, tag: number, port: number): number {
    const untilNs = fromNs + cost('dispatch', process - 1, port, tag)
    record(process, SpanName.dispatch, fromNs, untilNs, tag, 0, port)
    return untilNs
  }

  function tokenAfter(row: Row) {
    const position = row.position + row.tokenCount
    const last = position - promptTokens + 1 >= tokens
    const next: Row = { sequence: row.sequence, position, tokenCount: 1, sample: true }
    return { row: next, last }
  }

  // ---- the coordinator

  const active = new Set<number>()
  const accepted: number[] = []
  const emitted: number[][] = []
  let opened = 0

  function request() {
    const sequence = opened++
    active.add(sequence)
    emitted[sequence] = []
    loops[0]!.post((atNs) => {
      accepted[sequence] = atNs
      const first = spanTag(sequence, 0)
      record(0, SpanName.request, atNs, atNs, first)
      const openNs = cost('open', -1, 0, first)
      if (openNs === 0) return prompt(sequence, atNs)
      record(0, SpanName.open, atNs, atNs + openNs, first)
      heap.push(atNs + openNs, () => loops[0]!.post((laterNs) => prompt(sequence, laterNs)))
      return atNs
    })
  }

  function prompt(sequence: number, atNs: number): number {
    let cursorNs = atNs
    for (let position = 0; position < promptTokens; position += chunkTokens) {
      const tokenCount = Math.min(chunkTokens, promptTokens - position)
      const row: Row = { sequence, position, tokenCount, sample: position + tokenCount === promptTokens }
      const tag = tagOf(row)
      const [out, into] = [SpanPort.promptOut, SpanPort.promptIn]
      cursorNs = send(0, 1, out, into, tag, tokenCount * 4, cursorNs, (receivedNs) => {
        const arrivedNs = dispatch(1, receivedNs, tag, into)
        chain[0]!.push({ rows: [row], mergeable: false, arrivedNs, decodes: false, release() {} })
        return chain[0]!.poke(arrivedNs)
      })
    }
    return cursorNs
  }

  let running = 0
  let begun = 0
  function begin(atNs: number) {
    if (begun === requests) return
    begun++
    running++
    heap.push(atNs, request)
  }
  function finished(sequence: number) {
    running--
    // The stages are told that it has ended, which may let a step of others begin.
    heap.push(nowNs + (delayNs.at(-1) ?? 0), () =>
      loops[1]!.post((atNs) => {
        chain[0]!.ended(sequence)
        return chain[0]!.poke(atNs)
      }),
    )
    begin(nowNs + 1000)
  }

  for (let i = 0; i < sequences; i++) begin(i * 1000)
  const { gcEveryNs } = options
  if (gcEveryNs !== undefined) {
    for (let process = 0; process <= stages; process++) {
      const collect = () => {
        if (running === 0) return
        loops[process]!.post((atNs) => {
          const untilNs = atNs + cost('gc', process - 1, 0, atNs)
          record(process, SpanName.gc, atNs, untilNs, 0)
          return untilNs
        })
        heap.push(nowNs + gcEveryNs, collect)
      }
      heap.push(gcEveryNs * (0.3 + 0.1 * process), collect)
    }
  }
  let events = 0
  for (let event = heap.pop(); event !== undefined; event = heap.pop()) {
    nowNs = event.atNs
    event.run()
    if (++events > 1e6) throw new Error(`no end after 10^6 events: ${JSON.stringify(options)}`)
  }

  const processes = names
    .map(
      (name, process): ProcessTrace => ({
        name,
        role: process === 0 ? 'coordinator' : process > stages ? 'relay' : 'stage',
        stage: process > stages ? -1 : process - 1,
        layerFirst: Math.max(0, process - 1),
        layerEnd: process,
        spans: Float64Array.from(records[process]!),
        dropped: 0,
        peakRssBytes: 0,
        spanCostNs: 0,
      }),
    )
    .filter(({ role }) => role !== 'relay' || options.relayHop !== undefined)
  const spans = emitted.map((times) => (times.at(-1)! - times[0]!) / Math.max(1, times.length - 1))
  return {
    trace: {
      format: 'seamline-trace/1',
      complete: true,
      level: 1,
      settings: settingsOf(options),
      processes,
      sequences: emitted.map(
        (times, sequence): SequenceTrace => ({
          ...{ sequence, promptTokens, tokens: times.map((_, i) => i) },
          acceptedNs: ownClock(0, accepted[sequence]!),
          emittedNs: times.map((atNs) => ownClock(0, atNs)),
        }),
      ),
    },
    alignment: trueAlignment(options, processes.length),
    truth,
    makespanNs: Math.max(...emitted.flat()) - Math.min(...accepted),
    emittedNs: emitted,
    tpotNs: spans.reduce((sum, span) => sum + span, 0) / spans.length,
  }
}

function tagOf({ sequence, position }: Row): number {
  return spanTag(sequence, position)
}

function settingsOf(options: SimulatedRun): RunTrace['settings'] {
  const { stages, sequences, rowsPerStep = 1, chunkTokens = 8 } = options
  return {
    ...{
      startedAt: '2026-01-01T00:00:00.000Z',
      command: ['simulate'],
      model: 'simulated',
      engine: 'simulated',
    },
    ...{ modelSha256: '', manifestSha256: '', backend: 'none', stages, threads: 1, sequences, rowsPerStep },
    ...{ chunkTokens, embedding: 256, transport: 'simulated', framing: 'simulated', codec: 'f32' },
    ...{ paced: true, busyThreads: 1, cores: stages + 1 },
  }
}

/** The alignment that knows the clocks, with a band of nothing. */
function trueAlignment({ clocks, stages }: SimulatedRun, processes: number): ClockAlignment {
  const last = clocks?.[stages] ?? { offsetNs: 0, drift: 0 }
  return {
    closures: [],
    maps: Array.from({ length: processes }, (_, process) => {
      const { offsetNs, drift } = clocks?.[process] ?? { offsetNs: 0, drift: 0 }
      // own = t (1 + drift) + offset, so t = (own - offset) / (1 + drift), and the last stage's is t (1 + its drift) + its offset.
      const rate = (1 + last.drift) / (1 + drift)
      const shiftNs = last.offsetNs - offsetNs
      // Wide enough for the rounding of stamps.
      const band = [0, 1e9, 1e12].map((sinceNs) => ({
        atNs: offsetNs + sinceNs,
        lowNs: shiftNs + (rate - 1) * sinceNs - 2,
        highNs: shiftNs + (rate - 1) * sinceNs + 2,
      }))
      return {
        ...{ process, epochNs: offsetNs, offsetNs: shiftNs, drift: rate - 1, band },
        ...{ minRttNs: 0, probes: 0, residualP50Ns: 0, residualP95Ns: 0 },
      }
    }),
  }
}

/** From 0 to 1, the same for the same arguments. */
function hashed(...parts: readonly (string | number)[]): number {
  let hash = 0x811c9dc5
  for (const char of parts.join(' ')) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

interface Event {
  readonly atNs: number
  readonly order: number
  readonly run: () => void
}

/** Events by time, those of one time in the order in which they were made. */
function eventHeap() {
  const events: Event[] = []
  let made = 0
  const before = (a: Event, b: Event) => a.atNs < b.atNs || (a.atNs === b.atNs && a.order < b.order)
  return {
    push(atNs: number, run: () => void) {
      const event = { atNs, order: made++, run }
      let at = events.length
      for (; at > 0; ) {
        const parent = (at - 1) >>> 1
        if (!before(event, events[parent]!)) break
        events[at] = events[parent]!
        at = parent
      }
      events[at] = event
    },
    pop(): Event | undefined {
      const top = events[0]
      const last = events.pop()
      if (top === undefined || last === undefined || events.length === 0) return top
      let at = 0
      for (;;) {
        let child = 2 * at + 1
        if (child >= events.length) break
        if (child + 1 < events.length && before(events[child + 1]!, events[child]!)) child++
        if (!before(events[child]!, last)) break
        events[at] = events[child]!
        at = child
      }
      events[at] = last
      return top
    },
  }
}

/** A copy of `trace` without the records that `drop` names, by process and index. */
export function without(
  trace: RunTrace,
  drop: (process: number, name: number, index: number) => boolean,
): RunTrace {
  const processes = trace.processes.map((process, p) => {
    const kept: number[] = []
    for (let at = 0; at < process.spans.length; at += SPAN_RECORD_LENGTH) {
      if (drop(p, process.spans[at]!, at / SPAN_RECORD_LENGTH)) continue
      for (let i = 0; i < SPAN_RECORD_LENGTH; i++) kept.push(process.spans[at + i]!)
    }
    return { ...process, spans: Float64Array.from(kept) }
  })
  return { ...trace, processes }
}
