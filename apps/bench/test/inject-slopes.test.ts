import { expect, it } from 'vitest'
import { compareSlopes, injectionPlaceOf } from '../src/commands/inject-slopes.ts'

it('confirms a prediction within a tenth of the delay, and says when runs differ by more than it is off', () => {
  expect(compareSlopes([0.5, 0.75, 0.625], [0.5, 0.5625, 0.625], 0.125)).toEqual({
    ...{ predicted: 0.625, measured: 0.5625, spread: 0.25 + 0.125 + 0.125, outcome: 'confirmed' },
  })
  expect(compareSlopes([0.5, 0.75, 0.625], [1, 0.875], 0)).toEqual({
    ...{ predicted: 0.625, measured: 0.9375, spread: 0.375, outcome: 'within the spread' },
  })
  expect(compareSlopes([1, 1.0625], [0.5, 0.5], 0.25)).toEqual({
    ...{ predicted: 1.03125, measured: 0.5, spread: 0.0625 + 0.25, outcome: 'missed' },
  })
})

it('knows where a replay has the place of an experiment', () => {
  expect(injectionPlaceOf('sender-queue')).toBe('sender queue')
  expect(injectionPlaceOf('compute')).toBe('compute')
  expect(injectionPlaceOf('uninstrumented')).toBeUndefined()
})
