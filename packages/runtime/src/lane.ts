import {
  type Clock,
  SeamError,
  SpanName,
  type SpanSink,
  type StageExecutor,
  type StepResult,
  spanTag,
} from '@seamline/core'
import type { Pulse } from './link.ts'
import type { Job, JobRow, Sequence } from './sequence.ts'

/** What the stage around the lane decides. */
export interface LaneOutlet {
  /** False while the next stage has no credit or no buffer is free. */
  canStart(): boolean
  /** False while enough groups of sequences are on their way round the chain: mergeable jobs wait and gather. */
  canDecode(): boolean
  /** Takes the memory that `job` needs and returns where its hidden rows go; null on a last stage. */
  begin(job: Job): Float32Array | null
  /**
   * The step is done; `current` are the rows whose sequence was neither rolled back nor ended meanwhile. `resumedNs` is when the
   * event loop took the result, 0 where nothing is measured.
   */
  done(job: Job, result: StepResult, current: readonly JobRow[], resumedNs: number): void
  failed(job: Job, error: SeamError, current: readonly JobRow[]): void
}

/**
 * Feeds the executor. Jobs of one sequence run in order and one at a time; between sequences the one that waited
 * longest is next. Never more than {@link MAX_IN_FLIGHT} steps at the engine, so that it has its next step at hand while the
 * event loop sends the last one.
 */
export interface Lane {
  readonly pulse: Pulse
  /** Queues `job`; {@link poke} starts what can be started once all jobs that came together are queued. */
  push(job: Job): void
  /** Takes what `sequence` has queued out and resolves when it is not in the engine any more. */
  clear(sequence: Sequence): Promise<void>
  /** Looks again whether something can start. */
  poke(): void
}

const MAX_IN_FLIGHT = 2

/**
 * @param rowsPerStep sequences that mergeable jobs may bring together in one step
 * @param holdNs every job waits at least so long in the queue: for experiments
 */
export function lane(
  executor: StageExecutor,
  outlet: LaneOutlet,
  clock: Clock,
  sink: SpanSink | null,
  rowsPerStep: number,
  holdNs = 0,
): Lane {
  let queue: Job[] = []
  const isLast = executor.spec.layerEnd === executor.spec.layerCount
  const mostRows = Math.min(rowsPerStep, executor.spec.chunkTokens)
  let inFlight = 0
  let completedSteps = 0
  let startedNs = 0
  let turn = 0
  /** Since when nothing but the next stage has kept the queue from being served, or 0. */
  let blockedNs = 0

  function poke(): void {
    while (inFlight < MAX_IN_FLIGHT && queue.length > 0) {
      if (!outlet.canStart()) {
        if (sink !== null && blockedNs === 0) blockedNs = clock.nowNs()
        return
      }
      const job = next()
      if (job === undefined) break
      start(job)
    }
    blockedNs = 0
  }

  /** Takes the job out of the queue whose sequences have waited longest, with what may share its step. */
  function next(): Job | undefined {
    const blocked = new Set<Sequence>()
    const ready: Job[] = []
    const canDecode = outlet.canDecode()
    for (const job of queue) {
      if (holdNs > 0 && isHeld(job)) continue
      const isFree = job.rows.every(({ sequence }) => !sequence.inEngine && !blocked.has(sequence))
      if (isFree && (canDecode || !job.mergeable)) ready.push(job)
      for (const { sequence } of job.rows) blocked.add(sequence)
    }
    // Stable: equally long waits are served in the order of arrival.
    ready.sort((a, b) => lastServed(a) - lastServed(b))
    const first = ready[0]
    if (first === undefined) return undefined
    const together = first.mergeable ? ready.filter((job) => job.mergeable).slice(0, mostRows) : [first]
    queue = queue.filter((job) => !together.includes(job))
    // The order of rows is part of the shape of a step: it must not depend on who came first.
    together.sort((a, b) => a.rows[0]!.sequence.id - b.rows[0]!.sequence.id)
    return together.length === 1 ? first : merge(together)
  }

  /** Looks again once the hold is over, a little late rather than early. */
  function isHeld(job: Job): boolean {
    const leftNs = job.arrivedNs + holdNs - clock.nowNs()
    if (leftNs <= 0) return false
    setTimeout(poke, Math.ceil(leftNs / 1e6))
    return true
  }

  function start(job: Job): void {
    const { sequence, row } = job.rows[0]!
    const tag = spanTag(sequence.id, row.position)
    turn++
    for (const { sequence } of job.rows) {
      sequence.inEngine = true
      sequence.served = turn
    }
    if (inFlight++ === 0) startedNs = clock.nowNs()
    let running: Promise<StepResult>
    let submittedNs = 0
    try {
      const output = outlet.begin(job)
      const startNs = sink === null ? 0 : noteStart(sink, job, tag)
      const input = job.input()
      const inputNs = sink !== null && job.decodes ? clock.nowNs() : startNs
      const rows = job.rows.map(({ sequence: { session }, row: { position, tokenCount, sample } }) => ({
        ...{ session, position, tokenCount },
        sample: isLast && sample,
      }))
      if (sink !== null) {
        submittedNs = clock.nowNs()
        sink.span(SpanName.dispatch, inputNs, submittedNs, tag, 0)
      }
      running = executor.step({ rows, input, output, logits: job.logits ?? null, tag })
    } catch (error) {
      running = Promise.reject(error)
    }
    running.then(
      (result) => {
        completedSteps++
        let resumedNs = 0
        if (sink !== null) {
          resumedNs = clock.nowNs()
          sink.span(SpanName.submit, submittedNs, result.computeStartNs, tag, 0)
          sink.span(SpanName.resume, result.sampleEndNs, resumedNs, tag, 0)
        }
        leave(job, (current) => outlet.done(job, result, current, resumedNs))
      },
      (error) => leave(job, (current) => outlet.failed(job, SeamError.from(error, 'EXECUTOR'), current)),
    )
  }

  function noteStart(to: SpanSink, job: Job, tag: number): number {
    const nowNs = clock.nowNs()
    to.span(SpanName.stageQueue, job.arrivedNs, nowNs, tag, 0)
    if (holdNs > 0) to.span(SpanName.injected, job.arrivedNs, nowNs, tag, 0)
    if (blockedNs > 0) to.span(SpanName.creditWait, Math.max(blockedNs, job.arrivedNs), nowNs, tag, 0)
    for (const { sequence, row } of job.rows.slice(1))
      to.span(SpanName.member, nowNs, nowNs, tag, spanTag(sequence.id, row.position))
    return nowNs
  }

  function leave(job: Job, report: (current: readonly JobRow[]) => void): void {
    if (--inFlight > 0) startedNs = clock.nowNs()
    for (const { sequence } of job.rows) sequence.inEngine = false
    report(job.rows.filter(({ sequence, row }) => !sequence.ended && sequence.epoch === row.epoch))
    job.release()
    for (const { sequence } of job.rows) {
      for (const resolve of sequence.whenIdle.splice(0)) resolve()
    }
    poke()
  }

  return {
    get pulse() {
      return { completedSteps, busyNs: inFlight > 0 ? clock.nowNs() - startedNs : 0 }
    },
    push(job) {
      queue.push(job)
    },
    async clear(sequence) {
      for (const job of queue) {
        job.rows = job.rows.filter((row) => row.sequence !== sequence)
        if (job.rows.length === 0) job.release()
      }
      queue = queue.filter((job) => job.rows.length > 0)
      if (sequence.inEngine) await new Promise<void>((resolve) => sequence.whenIdle.push(resolve))
    },
    poke,
  }
}

function lastServed(job: Job): number {
  return Math.min(...job.rows.map(({ sequence }) => sequence.served))
}

/** One job of the rows of several, each of one token id. */
function merge(jobs: readonly Job[]): Job {
  return {
    rows: jobs.flatMap((job) => job.rows),
    mergeable: true,
    arrivedNs: jobs[0]!.arrivedNs,
    decodes: false,
    input: () => Int32Array.from(jobs.flatMap((job) => [...job.input()])),
    release() {
      for (const job of jobs) job.release()
    },
  }
}
