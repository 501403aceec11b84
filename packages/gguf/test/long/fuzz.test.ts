import { expect, test } from 'vitest'
import { fuzzHeaders } from '../fuzz.ts'

test('a million damaged headers are read as the reference reads them', () => {
  const counts = Array.from({ length: 10 }, (_, seed) => fuzzHeaders(100_000, 100 + seed))
  const total = (key: 'inputs' | 'accepted' | 'refused') => counts.reduce((sum, count) => sum + count[key], 0)
  console.info(
    `header fuzz: ${total('inputs')} inputs, ${total('accepted')} accepted as the reference does, ${total('refused')} refused with a typed error`,
  )
  expect(total('inputs')).toBe(1_000_000)
  expect(total('accepted')).toBeGreaterThan(100_000)
  expect(total('refused')).toBeGreaterThan(100_000)
})
