import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cluster, prompt, readUntilError, SAMPLED, startCluster, unsplit } from './support.ts'

/** What one client does: waits, reads, takes back, leaves. */
const client = fc.record({
  salt: fc.nat(5),
  promptTokens: fc.integer({ min: 1, max: 150 }),
  maxTokens: fc.integer({ min: 1, max: 40 }),
  startAfterTurns: fc.nat(8),
  how: fc.constantFrom('cancel', 'abort', 'break', 'finish', 'rollback'),
  /** Turns of the event loop, or tokens, until then. */
  after: fc.nat(30),
})
type Client = typeof client extends fc.Arbitrary<infer T> ? T : never

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

async function act({ pipeline }: Cluster, what: Client): Promise<void> {
  for (let i = 0; i < what.startAfterTurns; i++) await turn()
  const ids = prompt(what.promptTokens, what.salt)
  const controller = new AbortController()
  const { maxTokens } = what
  const generation = pipeline.generate({
    ...{ prompt: ids, maxTokens, sampler: SAMPLED, stopTokens: [], signal: controller.signal },
  })
  const expected = await unsplit(ids, maxTokens, SAMPLED)
  if (what.how === 'cancel' || what.how === 'abort') {
    const reading = readUntilError(() => generation)
    for (let i = 0; i < what.after; i++) await turn()
    if (what.how === 'abort') controller.abort()
    await generation.cancel()
    const { tokens, error } = await reading
    expect(tokens).toEqual(expected.slice(0, tokens.length))
    if (tokens.length < maxTokens) expect(error?.code).toBe('ABORTED')
    return
  }
  const tokens: number[] = []
  let rolledBack = false
  for await (const { token } of generation) {
    tokens.push(token)
    if (what.how === 'break' && tokens.length > what.after) break
    if (what.how === 'rollback' && !rolledBack && tokens.length > what.after && tokens.length < maxTokens) {
      rolledBack = true
      const keep = what.after % (tokens.length + 1)
      // The sequence may have ended on the stages while its last tokens were still unread here.
      const error = await generation.rollback(keep).then(
        () => undefined,
        (reason) => reason,
      )
      if (error === undefined) tokens.length = keep
      else expect(error.code).toBe('CLOSED')
    }
  }
  expect(tokens).toEqual(expected.slice(0, tokens.length))
  if (what.how !== 'break') expect(tokens.length).toBe(maxTokens)
}

describe('whatever clients do at whatever moment', () => {
  for (const rowsPerStep of [1, 4]) {
    it(`every cell is free afterwards and nobody got a wrong token, ${rowsPerStep} rows a step`, {
      timeout: 60_000,
    }, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(client, { minLength: 1, maxLength: 6 }), async (clients) => {
          const cluster = await startCluster({
            ends: [2, 4, 6],
            fake: { maxSequences: 6 },
            pipeline: { rowsPerStep },
          })
          await Promise.all(clients.map((what) => act(cluster, what)))
          expect(cluster.executors.map(({ freeSessions }) => freeSessions)).toEqual([6, 6, 6])
          await cluster.close()
        }),
        { numRuns: 40, seed: 7 },
      )
    })
  }
})
