import { expect, it } from 'vitest'
import { pairedT, studentQuantile } from '../src/statistics/index.ts'

it.each([
  // Tables of Student's t, two-sided 95 % and 99 %.
  [0.975, 1, 12.7062],
  [0.975, 5, 2.570582],
  [0.975, 15, 2.13145],
  [0.975, 31, 2.039513],
  [0.995, 9, 3.249836],
  [0.5, 7, 0],
])('the quantile of %f with %i degrees of freedom', (p, degrees, expected) => {
  expect(studentQuantile(p, degrees)).toBeCloseTo(expected, 4)
})

it('the interval of the sleep data of Student (1908), as R prints it', () => {
  const first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
  const second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
  const { mean, low, high } = pairedT(second.map((value, i) => value - first[i]!))
  expect(mean).toBeCloseTo(1.58, 10)
  expect(low).toBeCloseTo(0.7001142, 6)
  expect(high).toBeCloseTo(2.4598858, 6)
})
