/**
 * The quantile of Student's t distribution, by bisection on the regularised incomplete beta function (Abramowitz and Stegun 26.7.1). `p`
 * from 0.5 to below 1, `degrees` at least 1.
 */
export function studentQuantile(p: number, degrees: number): number {
  let low = 0
  let high = 1
  while (studentCdf(high, degrees) < p) high *= 2
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2
    if (studentCdf(middle, degrees) < p) low = middle
    else high = middle
  }
  return (low + high) / 2
}

function studentCdf(t: number, degrees: number): number {
  return 1 - incompleteBeta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2
}

/** I_x(a, b) by Lentz's evaluation of its continued fraction (Abramowitz and Stegun 26.5.8). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0
  if (x >= 1) return 1
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a)
  const front =
    Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x)) / a
  const tiny = 1e-300
  let c = 1
  let d = 1 / guarded(1 - ((a + b) * x) / (a + 1))
  let result = d
  for (let m = 1; m <= 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
    d = 1 / guarded(1 + even * d)
    c = guarded(1 + even / c)
    result *= d * c
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
    d = 1 / guarded(1 + odd * d)
    c = guarded(1 + odd / c)
    const step = d * c
    result *= step
    if (Math.abs(step - 1) < 1e-15) break
  }
  return front * result

  function guarded(value: number): number {
    return Math.abs(value) < tiny ? tiny : value
  }
}

/** By Stirling's series above 10, and the recurrence below (Abramowitz and Stegun 6.1.41, 6.1.15). */
function logGamma(x: number): number {
  let shift = 0
  let at = x
  while (at < 10) shift += Math.log(at++)
  const inverse = 1 / at
  const series = inverse / 12 - inverse ** 3 / 360 + inverse ** 5 / 1260 - inverse ** 7 / 1680
  return (at - 0.5) * Math.log(at) - at + Math.log(2 * Math.PI) / 2 + series - shift
}
