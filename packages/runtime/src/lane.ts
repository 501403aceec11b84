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
import type { Job, Sequence } from './sequence.ts'

/** What the stage around the lane decides. */
export interface LaneOutlet {
  /** False while the next stage has no credit or no buffer is free. */
  canStart(): boolean
  /** Takes the memory that `job` needs and returns where its hidden rows go; null on a last stage. */
  begin(job: Job): Float32Array | null
  /** The step is done; `current` is false when its sequence was rolled back or ended meanwhile. */
  done(job: Job, result: StepResult, current: boolean): void
  failed(job: Job, error: SeamError, current: boolean): void
}

/**
 * Feeds the executor: one step at a time of each sequence, in turn, and never more than {@link MAX_IN_FLIGHT} at the engine, so that
 * it has its next step at hand while the event loop sends the last one.
 */
export interface Lane {
  readonly pulse: Pulse
  push(job: Job): void
  /** Drops what `sequence` has queued and resolves when it is not in the engine any more. */
  clear(sequence: Sequence): Promise<void>
  /** Looks again whether something can start. */
  poke(): void
}

const MAX_IN_FLIGHT = 2

export function lane(executor: StageExecutor, outlet: LaneOutlet, clock: Clock, sink: SpanSink | null): Lane {
  /** Sequences with queued jobs that are not in the engine, in the order of their turn. */
  const turn: Sequence[] = []
  const isLast = executor.spec.layerEnd === executor.spec.layerCount
  let inFlight = 0
  let completedSteps = 0
  let startedNs = 0

  function poke(): void {
    while (inFlight < MAX_IN_FLIGHT && turn.length > 0 && outlet.canStart()) start(turn.shift()!)
  }

  function start(sequence: Sequence): void {
    const job = sequence.jobs.shift()!
    const { row } = job
    const tag = spanTag(row.sequence, row.position)
    sequence.inEngine = true
    if (inFlight++ === 0) startedNs = clock.nowNs()
    let running: Promise<StepResult>
    try {
      const output = outlet.begin(job)
      const input = job.input()
      if (sink !== null) sink.span(SpanName.stageQueue, job.arrivedNs, clock.nowNs(), tag, input.byteLength)
      const { position, tokenCount, sample } = row
      const rows = [{ session: sequence.session, position, tokenCount, sample: isLast && sample }]
      running = executor.step({ rows, input, output, logits: job.logits ?? null, tag })
    } catch (error) {
      running = Promise.reject(error)
    }
    running.then(
      (result) => {
        completedSteps++
        leave(job, (current) => outlet.done(job, result, current))
      },
      (error) => leave(job, (current) => outlet.failed(job, SeamError.from(error, 'EXECUTOR'), current)),
    )
  }

  function leave(job: Job, report: (current: boolean) => void): void {
    const { sequence } = job
    if (--inFlight > 0) startedNs = clock.nowNs()
    sequence.inEngine = false
    report(!sequence.ended && sequence.epoch === job.row.epoch)
    job.release()
    if (sequence.jobs.length > 0) turn.push(sequence)
    sequence.whenIdle.splice(0).forEach((resolve) => {
      resolve()
    })
    poke()
  }

  return {
    get pulse() {
      return { completedSteps, busyNs: inFlight > 0 ? clock.nowNs() - startedNs : 0 }
    },
    push(job) {
      const { sequence } = job
      sequence.jobs.push(job)
      if (!sequence.inEngine && sequence.jobs.length === 1) turn.push(sequence)
      poke()
    },
    async clear(sequence) {
      for (const job of sequence.jobs.splice(0)) job.release()
      const at = turn.indexOf(sequence)
      if (at !== -1) turn.splice(at, 1)
      if (sequence.inEngine) await new Promise<void>((resolve) => sequence.whenIdle.push(resolve))
    },
    poke,
  }
}
