import { describe, expect, it } from 'vitest'
import { executorSuite } from '../src/index.ts'
import { collect } from './collect.ts'
import { type ExecutorFault, plainStage } from './plain-executor.ts'

const chain = (stages: number, fault?: ExecutorFault) => async () =>
  Array.from({ length: stages }, (_, i) =>
    plainStage({ layerFirst: (4 * i) / stages, layerEnd: (4 * (i + 1)) / stages }, fault),
  )

describe('a plain executor', () => {
  for (const stages of [1, 2, 4]) {
    describe(`of ${stages} stages`, () => executorSuite({ describe, it, create: chain(stages) }))
  }
})

const sampled = 'gives the same sampled tokens again, in another session and beside other sequences'
const faults: Record<ExecutorFault, string> = {
  'position not checked': 'refuses a row that is not at the KV length with PROTOCOL and keeps its state',
  'a failed step moves the position':
    'refuses a row that is not at the KV length with PROTOCOL and keeps its state',
  'rollback keeps the history': 'repeats its sampled tokens after a rollback',
  'rollback keeps the cache': 'repeats its greedy tokens after a rollback',
  'sessions share a cache': sampled,
  'closed sessions stay taken': 'has every session free again after 100 that were closed in a step',
  'first token ignored': 'depends on every token of the prompt',
  'rows of a step mixed up': 'gives each of several rows in one step what it gets alone',
  'chunk boundary forgotten': 'gives the same for a prompt at once, in two chunks and token by token',
  'writes beyond its output': 'reads its input and writes its output, nothing else',
  'writes its input': 'reads its input and writes its output, nothing else',
  'keeps its input': 'keeps no reference to the memory of a step',
  'sizes not checked': 'refuses buffers of the wrong size with USAGE',
  'samples anywhere': 'samples and gives logits on a last stage only: USAGE elsewhere',
  'no limit of the context': 'refuses more than a chunk, and more than the context, with LIMIT',
  'abort is ignored': 'ends what is queued with ABORTED on abort and works afterwards',
  'rollback in a step': 'refuses a rollback during a step with USAGE',
  'state not checked': 'refuses a state that was altered',
  'works after close': 'refuses work after close',
  'BUSY names no number': 'says BUSY when all sessions are taken and takes new ones when one is closed',
  'stamps in the wrong order': 'stamps compute and sampling in order',
  'last come, first served': 'runs steps in the order of the calls',
  'gap in the layers': 'states a spec that fits its neighbours',
}

describe('the executor suite fails an executor with the fault', () => {
  for (const [fault, name] of Object.entries(faults)) {
    it(fault, async () => {
      const cases = collect((runner) =>
        executorSuite({ ...runner, create: chain(2, fault as ExecutorFault) }),
      )
      expect([...cases.keys()]).toContain(name)
      await expect(cases.get(name)?.()).rejects.toThrow()
    })
  }
})
