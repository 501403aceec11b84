import { createHash } from 'node:crypto'
import {
  SeamError,
  type SessionOptions,
  type StageExecutor,
  type StageSession,
  type StageSpec,
  type Step,
  type StepResult,
} from '@seamline/core'

/** What can be wrong with a {@link plainStage}; the suite must see each. */
export type ExecutorFault =
  | 'position not checked'
  | 'rollback keeps the history'
  | 'rollback keeps the cache'
  | 'sessions share a cache'
  | 'closed sessions stay taken'
  | 'first token ignored'
  | 'rows of a step mixed up'
  | 'chunk boundary forgotten'
  | 'writes beyond its output'
  | 'writes its input'
  | 'keeps its input'
  | 'sizes not checked'
  | 'samples anywhere'
  | 'no limit of the context'
  | 'a failed step moves the position'
  | 'abort is ignored'
  | 'rollback in a step'
  | 'state not checked'
  | 'works after close'
  | 'BUSY names no number'
  | 'stamps in the wrong order'
  | 'last come, first served'
  | 'gap in the layers'

const embedding = 8
const vocabulary = 128
const layerCount = 4

export interface Cut {
  readonly layerFirst: number
  readonly layerEnd: number
}

interface Session extends StageSession {
  cells: Float32Array[]
  history: number[]
  closed: boolean
  queued: number
  readonly options: SessionOptions
}

const refuse = (code: ConstructorParameters<typeof SeamError>[0], message: string): never => {
  throw new SeamError(code, message)
}

/** A stage of a model that is a few sines: the small executor that passes the suite. `fault` breaks it. */
export function plainStage({ layerFirst, layerEnd }: Cut, fault?: ExecutorFault): StageExecutor {
  const isFirst = layerFirst === 0
  const isLast = layerEnd === layerCount
  const spec: StageSpec = {
    modelSha256: '',
    manifestSha256: '',
    layerFirst: fault === 'gap in the layers' ? layerFirst + 1 : layerFirst,
    layerEnd,
    layerCount,
    embedding,
    vocabulary,
    contextLength: 96,
    chunkTokens: 16,
    maxSequences: 4,
    kvType: 'f32',
    flashAttention: 'off',
    regime: 'uniform',
    threads: 1,
    engine: 'plain',
    backend: 'plain',
  }
  const sessions = new Set<Session>()
  const jobs: Array<{
    step: Step
    generation: number
    settle: (error: unknown, result?: StepResult) => void
  }> = []
  const shared: Float32Array[] = []
  let kept: Int32Array | Float32Array | undefined
  let generation = 0
  let closed = false
  let running = false

  function openSession(options: SessionOptions): StageSession {
    if (closed && fault !== 'works after close') refuse('CLOSED', 'the stage is closed')
    if (sessions.size === spec.maxSequences)
      refuse(
        'BUSY',
        fault === 'BUSY names no number' ? 'all taken' : `all ${spec.maxSequences} sessions are taken`,
      )
    const session: Session = {
      cells: fault === 'sessions share a cache' ? shared : [],
      history: [...options.promptTail],
      closed: false,
      queued: 0,
      options,
      get position() {
        return session.cells.length
      },
      rollback(position, tail) {
        if (session.queued > 0 && fault !== 'rollback in a step') refuse('USAGE', 'the session is in a step')
        if (position < 0 || position > session.cells.length)
          refuse('USAGE', `${position} of ${session.cells.length}`)
        if (fault === 'rollback keeps the cache') session.cells.fill(new Float32Array(embedding), position)
        session.cells.length = position
        if (fault === 'rollback keeps the cache') session.cells[position - 1]?.fill(0.5)
        if (fault !== 'rollback keeps the history') session.history = [...tail]
      },
      async saveState() {
        const cells = Buffer.concat(session.cells.map((cell) => Buffer.from(new Uint8Array(cell.buffer))))
        return Buffer.concat([createHash('sha256').update(cells).digest(), cells])
      },
      async restoreState(state, position) {
        const cells = state.subarray(32)
        const digest = createHash('sha256').update(cells).digest()
        if (!digest.equals(state.subarray(0, 32)) && fault !== 'state not checked')
          refuse('FILE', 'the state was altered')
        const values = new Float32Array(Uint8Array.from(cells).buffer, 0, position * embedding)
        session.cells = Array.from({ length: position }, (_, i) =>
          values.slice(i * embedding, (i + 1) * embedding),
        )
      },
      async close() {
        session.closed = true
        if (fault !== 'closed sessions stay taken') sessions.delete(session)
      },
    }
    sessions.add(session)
    return session
  }

  function check({ rows, input, output, logits }: Step): void {
    if (closed && fault !== 'works after close') refuse('CLOSED', 'the stage is closed')
    const tokens = rows.reduce((sum, row) => sum + row.tokenCount, 0)
    const samples = rows.filter((row) => row.sample).length
    if (fault !== 'sizes not checked') {
      if (input.length !== tokens * (isFirst ? 1 : embedding)) refuse('USAGE', `input of ${input.length}`)
      if (!isLast && output?.length !== tokens * embedding) refuse('USAGE', `output of ${output?.length}`)
    }
    if (!isLast && (samples > 0 || logits !== null) && fault !== 'samples anywhere')
      refuse('USAGE', 'only a last stage samples')
    if (tokens > spec.chunkTokens) refuse('LIMIT', `${tokens} of ${spec.chunkTokens} tokens`)
  }

  function compute({ rows, input, output, logits }: Step): StepResult {
    const startNs = Math.round(performance.now() * 1e6)
    const tokens: number[] = []
    const source =
      kept !== undefined && fault === 'keeps its input' && kept.length === input.length ? kept : input
    kept = input
    let at = 0
    for (const row of rows) {
      const session = row.session as Session
      if (session.closed) refuse('ABORTED', 'the session is closed')
      if (row.position !== session.cells.length && fault !== 'position not checked') {
        if (fault === 'a failed step moves the position') session.cells.push(new Float32Array(embedding))
        refuse('PROTOCOL', `position ${row.position}, the KV length is ${session.cells.length}`)
      }
      if (row.position + row.tokenCount > spec.contextLength && fault !== 'no limit of the context')
        refuse('LIMIT', 'beyond the context')
    }
    for (const [index, row] of rows.entries()) {
      const session = rows[fault === 'rows of a step mixed up' ? rows.length - 1 - index : index]!
        .session as Session
      if (fault === 'chunk boundary forgotten' && row.tokenCount > 1 && session.cells.length > 0)
        session.cells.fill(new Float32Array(embedding))
      let last = new Float32Array(embedding)
      for (let token = 0; token < row.tokenCount; token++, at++) {
        let hidden = isFirst
          ? Float32Array.from({ length: embedding }, (_, i) => Math.sin(source[at]! * (i + 1)))
          : Float32Array.from(source.subarray(at * embedding, (at + 1) * embedding))
        session.cells.push(hidden.slice())
        const seen = session.cells.slice(fault === 'first token ignored' ? 1 : 0)
        const mean = new Float32Array(embedding)
        for (const [age, cell] of seen.entries()) {
          for (let i = 0; i < embedding; i++) mean[i]! += cell[i]! * Math.cos(age + i)
        }
        for (let layer = layerFirst; layer < layerEnd; layer++)
          hidden = hidden.map((value, i) => Math.sin(3 * value + mean[(i + layer) % embedding]! + layer))
        output?.set(hidden, at * embedding)
        last = hidden
      }
      if (isLast && row.sample) {
        const scores = Float32Array.from({ length: vocabulary }, (_, v) =>
          last.reduce((sum, value, i) => sum + value * Math.sin((v + 1) * (i + 2)), 0),
        )
        logits?.set(scores, tokens.length * vocabulary)
        tokens.push(pick(session, scores))
      }
    }
    if (fault === 'writes beyond its output' && output !== null) new Float32Array(output.buffer).fill(0)
    if (fault === 'writes its input') input.fill(0)
    const endNs = Math.round(performance.now() * 1e6) + (fault === 'stamps in the wrong order' ? -1e9 : 0)
    return { tokens, computeStartNs: startNs, computeEndNs: endNs, sampleEndNs: endNs, cpuWaitNs: 0 }
  }

  function pick(session: Session, scores: Float32Array): number {
    const { temperature, seed, penaltyLastN } = session.options.sampler
    const recent = penaltyLastN === 0 ? [] : session.history.slice(-penaltyLastN)
    let best = 0
    const score = (v: number) =>
      scores[v]! +
      temperature * Math.sin(seed * (v + 1) * session.cells.length) -
      (recent.includes(v) ? 2 : 0)
    for (let v = 1; v < vocabulary; v++) if (score(v) > score(best)) best = v
    session.history.push(best)
    return best
  }

  function turn(): void {
    const job = fault === 'last come, first served' ? jobs.pop() : jobs.shift()
    if (job === undefined) {
      running = false
      return
    }
    try {
      if (job.generation !== generation && fault !== 'abort is ignored') refuse('ABORTED', 'aborted')
      job.settle(undefined, compute(job.step))
    } catch (error) {
      job.settle(error)
    }
    setImmediate(turn)
  }

  return {
    spec,
    get freeSessions() {
      return spec.maxSequences - sessions.size
    },
    openSession,
    step(step) {
      return new Promise((resolve, reject) => {
        check(step)
        const inside = step.rows.map(({ session }) => session as Session)
        for (const session of inside) {
          if (session.closed) refuse('ABORTED', 'the session is closed')
          session.queued += 1
        }
        jobs.push({
          step,
          generation,
          settle(error, result) {
            for (const session of inside) session.queued -= 1
            if (error === undefined) resolve(result as StepResult)
            else reject(error)
          },
        })
        if (running) return
        running = true
        setImmediate(turn)
      })
    },
    abort() {
      generation += 1
    },
    async close() {
      closed = true
    },
  }
}
