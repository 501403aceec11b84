import assert from 'node:assert/strict'
import {
  isSeamError,
  type SamplerSettings,
  type StageExecutor,
  type StageSession,
  type Step,
  type StepResult,
} from '@seamline/core'
import { type Skip, skipping } from './skip.ts'

export interface ExecutorSuiteOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => Promise<void>) => void
  /**
   * Makes a chain that is one whole model: a single first-and-last stage, or several in order. Each has a context of at least
   * 96 positions, chunks of at least 16 tokens and room for at least 3 sequences. Called once for each case.
   */
  readonly create: () => Promise<readonly StageExecutor[]>
  readonly skip?: readonly Skip[]
}

/**
 * Share of the spread of the logits that they may differ by when the same tokens come in steps of another shape. None in the
 * `uniform` regime; elsewhere kernels differ by shape, by rounding alone.
 */
const ROUNDING = 0.05

const GREEDY: SamplerSettings = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  penaltyLastN: 0,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 1,
}
const SAMPLED: SamplerSettings = {
  ...GREEDY,
  temperature: 1.2,
  topK: 40,
  seed: 42,
  penaltyLastN: 16,
  repeatPenalty: 1.3,
}

/** A sequence on every stage of a chain. */
interface Chain {
  readonly sessions: readonly StageSession[]
  position: number
}

/**
 * Defines the cases that every stage executor passes. What a chain must compute is not its business; that a step
 * depends on its own sequence alone, can be taken back, and fails without a trace is.
 */
export function executorSuite({ describe, create, ...options }: ExecutorSuiteOptions): void {
  const { it, finish } = skipping(options.it, options.skip)

  function test(name: string, body: (stages: readonly StageExecutor[]) => Promise<void>): void {
    it(name, async () => {
      const stages = await create()
      try {
        await body(stages)
      } finally {
        await Promise.all(stages.map((stage) => stage.close()))
      }
    })
  }

  describe('stage executor', () => {
    test('states a spec that fits its neighbours', async (stages) => {
      let end = 0
      for (const { spec } of stages) {
        assert.equal(spec.layerFirst, end)
        assert.ok(spec.layerEnd > spec.layerFirst)
        assert.equal(spec.layerCount, stages[0]!.spec.layerCount)
        assert.equal(spec.embedding, stages[0]!.spec.embedding)
        end = spec.layerEnd
      }
      assert.equal(end, stages[0]!.spec.layerCount)
    })

    for (const [name, sampler] of [
      ['greedy', GREEDY],
      ['sampled', SAMPLED],
    ] as const) {
      test(`gives the same ${name} tokens again, in another session and beside other sequences`, async (stages) => {
        const alone = await generate(stages, open(stages, sampler), prompt(5), 12)
        const [first, second] = [open(stages, sampler), open(stages, sampler)]
        const [firstTokens, secondTokens]: [number[], number[]] = [[], []]
        let next = await feed(stages, first, prompt(5))
        let other = await feed(stages, second, prompt(9))
        for (let i = 0; i < 12; i++) {
          firstTokens.push(next)
          secondTokens.push(other)
          if (i === 11) break
          ;[next, other] = await Promise.all([feed(stages, first, [next]), feed(stages, second, [other])])
        }
        assert.deepEqual(firstTokens, alone)
        await close(second)
        const again = await generate(stages, open(stages, sampler), prompt(9), 12)
        assert.deepEqual(secondTokens, again)
      })

      test(`repeats its ${name} tokens after a rollback`, async (stages) => {
        const chain = open(stages, sampler)
        const straight = await generate(stages, chain, prompt(5), 10)
        const keep = 4
        for (const session of chain.sessions) session.rollback(5 + keep - 1, straight.slice(0, keep))
        chain.position = 5 + keep - 1
        assert.equal(chain.sessions[0]!.position, 5 + keep - 1)
        const redone = await generate(stages, chain, straight.slice(keep - 1, keep), 10 - keep)
        assert.deepEqual(redone, straight.slice(keep))
      })
    }

    test('depends on every token of the prompt', async (stages) => {
      const logits = async (ids: readonly number[]) => {
        const chain = open(stages)
        const out = new Float32Array(stages[0]!.spec.vocabulary)
        await feed(stages, chain, ids, out)
        await close(chain)
        return out
      }
      const base = await logits([3, 4, 5, 6])
      for (let i = 0; i < 4; i++) {
        const changed = [3, 4, 5, 6].map((id, at) => (at === i ? id + 1 : id))
        assert.notDeepEqual(await logits(changed), base, `token ${i}`)
      }
    })

    test('gives the same for a prompt at once, in two chunks and token by token', async (stages) => {
      const ids = prompt(9)
      const logits = async (chunks: readonly (readonly number[])[]) => {
        const chain = open(stages)
        const out = new Float32Array(stages[0]!.spec.vocabulary)
        for (const chunk of chunks) await feed(stages, chain, chunk, out)
        await close(chain)
        return out
      }
      const atOnce = await logits([ids])
      assertSame(stages, await logits([ids.slice(0, 4), ids.slice(4)]), atOnce)
      assertSame(stages, await logits(ids.map((id) => [id])), atOnce)
    })

    test('gives each of several rows in one step what it gets alone', async (stages) => {
      const { vocabulary } = stages[0]!.spec
      const lengths = [5, 9, 3]
      const alone: Float32Array[] = []
      for (const length of lengths) {
        const chain = open(stages)
        await feed(stages, chain, prompt(length))
        const logits = new Float32Array(vocabulary)
        await feed(stages, chain, [7], logits)
        alone.push(logits)
        await close(chain)
      }
      const chains = lengths.map(() => open(stages))
      for (const [i, chain] of chains.entries()) await feed(stages, chain, prompt(lengths[i]!))
      const logits = new Float32Array(3 * vocabulary)
      const results = await forwardRows(stages, chains, [7, 7, 7], logits)
      assert.equal(results.at(-1)!.tokens.length, 3)
      for (const i of lengths.keys()) {
        assertSame(stages, logits.subarray(i * vocabulary, (i + 1) * vocabulary), alone[i]!)
        assert.equal(chains[i]!.sessions[0]!.position, lengths[i]! + 1)
      }
    })

    test('keeps no reference to the memory of a step', async (stages) => {
      const { embedding, vocabulary } = stages[0]!.spec
      const logits = async (scribble: boolean) => {
        const chain = open(stages)
        const out = new Float32Array(vocabulary)
        for (let round = 0; round < 3; round++) {
          let input: Int32Array | Float32Array = Int32Array.from(prompt(4))
          for (const [i, stage] of stages.entries()) {
            const isLast = i === stages.length - 1
            const output = isLast ? null : new Float32Array(4 * embedding)
            const rows = [{ session: chain.sessions[i]!, position: 4 * round, tokenCount: 4, sample: isLast }]
            await stage.step({ rows, input, output, logits: isLast ? out : null, tag: 0 })
            if (scribble) input.fill(1)
            if (output !== null) input = output
          }
        }
        await close(chain)
        return out
      }
      assert.deepEqual(await logits(true), await logits(false))
    })

    test('reads its input and writes its output, nothing else', async (stages) => {
      const { embedding } = stages[0]!.spec
      if (stages.length === 1) return
      const chain = open(stages)
      const input = Int32Array.from(prompt(7))
      const around = new Float32Array(9 * embedding).fill(777)
      const output = around.subarray(embedding, 8 * embedding)
      await stages[0]!.step(step(chain.sessions[0]!, input, output, 0, 7))
      assert.deepEqual([...input], prompt(7))
      assert.ok(around.subarray(0, embedding).every((value) => value === 777))
      assert.ok(around.subarray(8 * embedding).every((value) => value === 777))
      assert.ok(output.some((value) => value !== 777))
      const before = output.slice()
      const { layerEnd, layerCount } = stages[1]!.spec
      const next = layerEnd === layerCount ? null : before.slice()
      await stages[1]!.step(step(chain.sessions[1]!, output, next, 0, 7))
      assert.deepEqual(output, before)
    })

    test('stamps compute and sampling in order', async (stages) => {
      const chain = open(stages)
      const results = await forward(stages, chain, prompt(3))
      for (const result of results) {
        assert.ok(Number.isInteger(result.computeStartNs))
        assert.ok(result.computeStartNs <= result.computeEndNs && result.computeEndNs <= result.sampleEndNs)
      }
    })

    test('refuses a row that is not at the KV length with PROTOCOL and keeps its state', async (stages) => {
      const chain = open(stages)
      await feed(stages, chain, prompt(4))
      for (const position of [3, 5, 0]) {
        await rejects('PROTOCOL', stages[0]!.step(firstStep(stages, chain, [7], position)))
      }
      assert.equal(chain.sessions[0]!.position, 4)
      const expected = await generate(stages, open(stages), prompt(4), 3)
      assert.deepEqual(await generate(stages, chain, [expected[0]!], 2), expected.slice(1))
    })

    test('refuses more than a chunk, and more than the context, with LIMIT', async (stages) => {
      const { chunkTokens, contextLength } = stages[0]!.spec
      const chain = open(stages)
      await rejects('LIMIT', stages[0]!.step(firstStep(stages, chain, prompt(chunkTokens + 1), 0)))
      for (let at = 0; at < contextLength; at += chunkTokens) {
        const count = Math.min(chunkTokens, contextLength - at)
        await stages[0]!.step(firstStep(stages, chain, prompt(count), at))
      }
      await rejects('LIMIT', stages[0]!.step(firstStep(stages, chain, [1], contextLength)))
      assert.equal(chain.sessions[0]!.position, contextLength)
    })

    test('refuses buffers of the wrong size with USAGE', async (stages) => {
      const { embedding } = stages[0]!.spec
      const session = open(stages).sessions[0]!
      const output = stages.length === 1 ? null : new Float32Array(embedding)
      await rejects('USAGE', stages[0]!.step(step(session, Int32Array.of(1, 2), output, 0, 1)))
      if (output !== null) {
        await rejects('USAGE', stages[0]!.step(step(session, Int32Array.of(1), output.subarray(1), 0)))
        await rejects('USAGE', stages[0]!.step(step(session, Int32Array.of(1), null, 0)))
      }
      assert.equal(session.position, 0)
    })

    test('samples and gives logits on a last stage only: USAGE elsewhere', async (stages) => {
      if (stages.length === 1) return
      const { embedding, vocabulary } = stages[0]!.spec
      const session = open(stages).sessions[0]!
      const plain = step(session, Int32Array.of(1), new Float32Array(embedding), 0)
      await rejects('USAGE', stages[0]!.step({ ...plain, rows: [{ ...plain.rows[0]!, sample: true }] }))
      await rejects('USAGE', stages[0]!.step({ ...plain, logits: new Float32Array(vocabulary) }))
      assert.equal(session.position, 0)
    })

    test('says BUSY when all sessions are taken and takes new ones when one is closed', async (stages) => {
      const stage = stages[0]!
      const options = { sampler: GREEDY, promptTail: [] }
      const sessions = Array.from({ length: stage.spec.maxSequences }, () => stage.openSession(options))
      assert.equal(stage.freeSessions, 0)
      assert.throws(
        () => stage.openSession(options),
        (error) => isSeamError(error) && error.code === 'BUSY' && /\d/.test(error.message),
      )
      await sessions[1]!.close()
      await sessions[1]!.close()
      assert.equal(stage.freeSessions, 1)
      assert.equal(stage.openSession(options).position, 0)
    })

    test('frees the cells of a closed session: the next one starts clean', async (stages) => {
      const expected = await generate(stages, open(stages), prompt(6), 4)
      for (let i = 0; i < 2 * stages[0]!.spec.maxSequences; i++) {
        const chain = open(stages)
        await feed(stages, chain, prompt(9))
        await close(chain)
      }
      const chain = open(stages)
      assert.deepEqual(await generate(stages, chain, prompt(6), 4), expected)
    })

    test('refuses a rollback beyond the KV length with USAGE', async (stages) => {
      const chain = open(stages)
      await feed(stages, chain, prompt(4))
      for (const position of [5, -1]) {
        assert.throws(
          () => chain.sessions[0]!.rollback(position, []),
          (error) => isSeamError(error) && error.code === 'USAGE',
        )
      }
      assert.equal(chain.sessions[0]!.position, 4)
    })

    test('refuses a rollback during a step with USAGE', async (stages) => {
      const chain = open(stages)
      await feed(stages, chain, prompt(4))
      const running = stages[0]!.step(firstStep(stages, chain, prompt(8), 4))
      let refusal: unknown
      try {
        chain.sessions[0]!.rollback(0, [])
      } catch (error) {
        refusal = error
      }
      await running
      assert.ok(isSeamError(refusal) && refusal.code === 'USAGE', `USAGE, not ${refusal}`)
      assert.equal(chain.sessions[0]!.position, 12)
    })

    test('ends the steps of a session that is closed with ABORTED, and no others', async (stages) => {
      const { chunkTokens } = stages[0]!.spec
      const [closing, other] = [open(stages), open(stages)]
      const steps = [0, 1, 2].map((i) =>
        stages[0]!.step(firstStep(stages, closing, prompt(chunkTokens), i * chunkTokens)),
      )
      const beside = stages[0]!.step(firstStep(stages, other, prompt(4), 0))
      const [ended] = await Promise.all([Promise.allSettled(steps), closing.sessions[0]!.close(), beside])
      assert.equal(ended.at(-1)!.status, 'rejected')
      for (const result of ended) {
        if (result.status === 'rejected') assert.equal(result.reason.code, 'ABORTED')
      }
      assert.equal(other.sessions[0]!.position, 4)
    })

    test('has every session free again after 100 that were closed in a step', async (stages) => {
      const stage = stages[0]!
      const expected = await generate(stages, open(stages), prompt(6), 4)
      const free = stage.freeSessions
      for (let round = 0; round < 100; round++) {
        const session = stage.openSession({ sampler: GREEDY, promptTail: [] })
        const output = stages.length === 1 ? null : new Float32Array(8 * stage.spec.embedding)
        const settled = Promise.allSettled([stage.step(step(session, Int32Array.from(prompt(8)), output, 0))])
        if (round % 3 === 0) stage.abort()
        if (round % 3 === 1) await settled
        await session.close()
        await settled
        assert.equal(stage.freeSessions, free)
      }
      assert.deepEqual(await generate(stages, open(stages), prompt(6), 4), expected)
    })

    test('refuses a state that was altered', async (stages) => {
      const chain = open(stages)
      await feed(stages, chain, prompt(8))
      const state = await chain.sessions[0]!.saveState()
      const fresh = open(stages).sessions[0]!
      for (const at of [0, state.length >> 1, state.length - 1]) {
        const altered = new Uint8Array(state)
        altered[at]! ^= 0x10
        await assert.rejects(
          fresh.restoreState(altered, 8),
          isSeamError,
          `byte ${at} of ${state.length} altered`,
        )
      }
      await assert.rejects(fresh.restoreState(state.subarray(0, state.length - 1), 8), isSeamError)
      await fresh.restoreState(state, 8)
      assert.equal(fresh.position, 8)
    })

    test('runs steps in the order of the calls', async (stages) => {
      const [one, two] = [open(stages), open(stages)]
      const order: number[] = []
      await Promise.all(
        [one, two, one, two].map((chain, i) =>
          stages[0]!.step(firstStep(stages, chain, [i], i >> 1)).then(() => order.push(i)),
        ),
      )
      assert.deepEqual(order, [0, 1, 2, 3])
    })

    test('ends what is queued with ABORTED on abort and works afterwards', async (stages) => {
      const { chunkTokens } = stages[0]!.spec
      const chain = open(stages)
      const running = Promise.allSettled(
        [0, 1, 2].map((i) => stages[0]!.step(firstStep(stages, chain, prompt(chunkTokens), i * chunkTokens))),
      )
      stages[0]!.abort()
      const results = await running
      assert.ok(results.some((result) => result.status === 'rejected'))
      for (const result of results) {
        if (result.status === 'rejected') assert.equal(result.reason.code, 'ABORTED')
      }
      const done = results.filter((result) => result.status === 'fulfilled').length
      assert.equal(chain.sessions[0]!.position, done * chunkTokens)
      await close(chain)
      assert.equal((await generate(stages, open(stages), prompt(5), 3)).length, 3)
    })

    test('moves a sequence to another session by its state', async (stages) => {
      const chain = open(stages, SAMPLED)
      const straight = await generate(stages, chain, prompt(8), 8)
      for (const session of chain.sessions) session.rollback(8 + 2, straight.slice(0, 3))
      const moved = open(stages, SAMPLED, straight.slice(0, 3))
      for (const [i, session] of chain.sessions.entries()) {
        await moved.sessions[i]!.restoreState(await session.saveState(), 10)
        assert.equal(moved.sessions[i]!.position, 10)
      }
      moved.position = 10
      assert.deepEqual(await generate(stages, moved, [straight[2]!], 5), straight.slice(3))
    })

    test('refuses work after close', async (stages) => {
      const chain = open(stages)
      await close(chain)
      await rejects(/ABORTED|CLOSED/, stages[0]!.step(firstStep(stages, chain, [1], 0)))
      await stages[0]!.close()
      await stages[0]!.close()
      await rejects('CLOSED', stages[0]!.step(firstStep(stages, chain, [1], 0)))
      assert.throws(
        () => stages[0]!.openSession({ sampler: GREEDY, promptTail: [] }),
        (error) => isSeamError(error) && error.code === 'CLOSED',
      )
    })
  })
  finish()
}

/** Fails unless logits of steps of different shapes are the same, as far as the regime promises it. */
function assertSame(stages: readonly StageExecutor[], found: Float32Array, expected: Float32Array): void {
  const isUniform = stages.every(({ spec }) => spec.regime === 'uniform')
  const spread = Math.max(...expected) - Math.min(...expected)
  const most = isUniform ? 0 : spread * ROUNDING
  const difference = expected.reduce((largest, value, i) => Math.max(largest, Math.abs(found[i]! - value)), 0)
  assert.ok(spread > 0, 'all logits are the same')
  assert.ok(difference <= most, `logits differ by ${difference}; at most ${most} is rounding`)
}

/** Token ids that differ from prompt to prompt and stay below 128. */
function prompt(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 3 + ((i * 7 + count) % 120))
}

function open(stages: readonly StageExecutor[], sampler = GREEDY, promptTail: readonly number[] = []): Chain {
  return { sessions: stages.map((stage) => stage.openSession({ sampler, promptTail })), position: 0 }
}

async function close(chain: Chain): Promise<void> {
  await Promise.all(chain.sessions.map((session) => session.close()))
}

function step(
  session: StageSession,
  input: Int32Array | Float32Array,
  output: Float32Array | null,
  position: number,
  tokenCount = input.length,
): Step {
  return { rows: [{ session, position, tokenCount, sample: false }], input, output, logits: null, tag: 0 }
}

/** A step of the first stage alone. */
function firstStep(
  stages: readonly StageExecutor[],
  chain: Chain,
  ids: readonly number[],
  position: number,
): Step {
  const { embedding } = stages[0]!.spec
  const output = stages.length === 1 ? null : new Float32Array(ids.length * embedding)
  return step(chain.sessions[0]!, Int32Array.from(ids), output, position, ids.length)
}

async function forward(
  stages: readonly StageExecutor[],
  chain: Chain,
  ids: readonly number[],
  logits: Float32Array | null = null,
): Promise<StepResult[]> {
  const tokenCount = ids.length
  let input: Int32Array | Float32Array = Int32Array.from(ids)
  const results: StepResult[] = []
  for (const [i, stage] of stages.entries()) {
    const isLast = i === stages.length - 1
    const output = isLast ? null : new Float32Array(tokenCount * stage.spec.embedding)
    const rows = [{ session: chain.sessions[i]!, position: chain.position, tokenCount, sample: isLast }]
    results.push(await stage.step({ rows, input, output, logits: isLast ? logits : null, tag: 0 }))
    if (output !== null) input = output
  }
  chain.position += tokenCount
  return results
}

/** One token of each chain, all in one step of each stage. */
async function forwardRows(
  stages: readonly StageExecutor[],
  chains: readonly Chain[],
  ids: readonly number[],
  logits: Float32Array,
): Promise<StepResult[]> {
  let input: Int32Array | Float32Array = Int32Array.from(ids)
  const results: StepResult[] = []
  for (const [i, stage] of stages.entries()) {
    const isLast = i === stages.length - 1
    const output = isLast ? null : new Float32Array(ids.length * stage.spec.embedding)
    const rows = chains.map(({ sessions, position }) => ({
      session: sessions[i]!,
      position,
      tokenCount: 1,
      sample: isLast,
    }))
    results.push(await stage.step({ rows, input, output, logits: isLast ? logits : null, tag: 0 }))
    if (output !== null) input = output
  }
  return results
}

/** Feeds `ids` through the chain and returns the token that follows. */
async function feed(
  stages: readonly StageExecutor[],
  chain: Chain,
  ids: readonly number[],
  logits: Float32Array | null = null,
): Promise<number> {
  const results = await forward(stages, chain, ids, logits)
  const { tokens } = results.at(-1)!
  assert.equal(tokens.length, 1)
  return tokens[0]!
}

async function generate(
  stages: readonly StageExecutor[],
  chain: Chain,
  ids: readonly number[],
  count: number,
): Promise<number[]> {
  const tokens = [await feed(stages, chain, ids)]
  while (tokens.length < count) tokens.push(await feed(stages, chain, tokens.slice(-1)))
  return tokens
}

async function rejects(code: string | RegExp, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isSeamError(error), String(error))
    assert.match(error.code, typeof code === 'string' ? new RegExp(`^${code}$`) : code)
    return true
  })
}
