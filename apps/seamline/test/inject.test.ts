import type { StageExecutor, Step, StepResult } from '@seamline/core'
import { expect, it } from 'vitest'
import { slowExecutor } from '../src/inject.ts'

it('holds the engine for as long as a delayed step takes', async () => {
  const events: string[] = []
  const executor = {
    async step({ tag }: Step) {
      events.push(`step ${tag}`)
      return {} as StepResult
    },
  } as StageExecutor
  const waiting: (() => void)[] = []
  const later = (action: () => void) => {
    events.push('delay')
    waiting.push(action)
  }
  const slow = slowExecutor(executor, { busy() {}, later }, null)
  const [first, second] = [1, 2].map((tag) => slow.step({ tag } as Step))
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  await settle()
  expect(events).toEqual(['step 1', 'delay'])
  waiting[0]!()
  await first
  await settle()
  expect(events).toEqual(['step 1', 'delay', 'step 2', 'delay'])
  waiting[1]!()
  await second
})
