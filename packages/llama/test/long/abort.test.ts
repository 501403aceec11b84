import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StageExecutor } from '@seamline/core'
import { expect, it } from 'vitest'
import { openChain, openStages } from '../model.ts'

/** A model whose steps take long enough to be hit in the middle: `seamline synth --preset 1.1b`. */
const path = join(process.env.SEAMLINE_MODEL_DIR || '/var/tmp/seamline', '1.1b.gguf')
const ABORTS = 200
const MAX_DELAY_MS = 400
/** Buffers grow to their size in the first ones. */
const WARM_UP = 40
const MAX_GROWTH_MIB = 8

/** Without the pages of the mapped file, which the kernel takes and gives as it likes, and JavaScript's heap. */
function residentMiB(): number {
  const resident = Number(/RssAnon:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))![1]) / 1024
  return resident - process.memoryUsage().heapTotal / 2 ** 20
}

/** Comparing value by value would leave more memory behind than the aborts. */
function same(one: Float32Array, other: Float32Array): boolean {
  return Buffer.compare(new Uint8Array(one.buffer), new Uint8Array(other.buffer)) === 0
}

async function logitsOf(stage: StageExecutor, tokens: readonly number[]): Promise<Float32Array> {
  const chain = openChain([stage])
  const logits = new Float32Array(stage.spec.vocabulary)
  await chain.feed(tokens, logits)
  await chain.close()
  return logits
}

it.skipIf(!existsSync(path) || process.platform !== 'linux')(
  `${ABORTS} aborts at random points of a decode leave the cache as it was and memory flat`,
  async () => {
    const [stage] = await openStages(1, { path, contextLength: 512, maxSequences: 3, repack: false })
    const prompt = Array.from({ length: 64 }, (_, i) => 3 + i)
    const undisturbed = openChain([stage!])
    await undisturbed.feed(prompt.slice(0, 8))
    const next = new Float32Array(stage!.spec.vocabulary)
    await undisturbed.feed([9, 10], next)
    await undisturbed.close()
    const chain = openChain([stage!])
    await chain.feed(prompt.slice(0, 8))
    const expected = await logitsOf(stage!, [5, 6, 7])
    // The cells of every sequence are memory once they are first touched.
    for (let i = 0; i < 2; i++) await logitsOf(stage!, [5, 6, 7])
    let aborted = 0
    let seed = 1
    let start = 0
    for (let i = 0; i < ABORTS; i++) {
      if (i === WARM_UP) start = residentMiB()
      seed = (seed * 1103515245 + 12345) % 2 ** 31
      const timer = setTimeout(() => stage!.abort(), (seed / 2 ** 31) * MAX_DELAY_MS)
      const outcome = await chain.feed(prompt).catch((error: { code: string }) => error.code)
      clearTimeout(timer)
      if (outcome === 'ABORTED') aborted += 1
      else chain.rollback(8, [])
      expect(chain.sessions[0]!.position).toBe(8)
      if (i % 50 === 49) expect(same(await logitsOf(stage!, [5, 6, 7]), expected)).toBe(true)
    }
    const after = new Float32Array(stage!.spec.vocabulary)
    await chain.feed([9, 10], after)
    expect(same(after, next)).toBe(true)
    const growth = residentMiB() - start
    console.log(
      `${aborted} of ${ABORTS} aborted; resident memory ${growth.toFixed(1)} MiB more after ${ABORTS - WARM_UP} of them`,
    )
    expect(aborted).toBeGreaterThan(ABORTS * 0.9)
    expect(growth).toBeLessThan(MAX_GROWTH_MIB)
    expect(stage!.freeSessions).toBe(2)
    await stage!.close()
  },
)
