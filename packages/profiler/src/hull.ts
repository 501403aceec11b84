export interface Point {
  readonly x: number
  readonly y: number
}

/** `y = a + b * x`. */
export interface Line {
  readonly a: number
  readonly b: number
}

/** All lines that pass above some points and below others: a convex polygon of offsets `a` and slopes `b`. */
export interface LineBand {
  /** Corners of the polygon. */
  readonly corners: readonly Line[]
  /** Lowest and highest value that any of the lines takes at `x`. */
  range(x: number): { readonly low: number; readonly high: number }
  /** The line itself where it is one of them, else one of them: its slope is moved as little as possible, then its offset. */
  clamp(line: Line): Line
}

/**
 * The lines above every point of `lower` and below every point of `upper` whose slope is within ±`maxSlope`, or undefined where there
 * is none. Neither set may be empty. O(n log n): only the convex hulls of the two sets bear on it (Moon, Skelly and Towsley,
 * "Estimation and removal of clock skew from network delay measurements").
 */
export function feasibleLines(
  lower: readonly Point[],
  upper: readonly Point[],
  maxSlope: number,
): LineBand | undefined {
  const above = support(lower)
  const below = support(upper.map(({ x, y }) => ({ x, y: -y })))
  const lowest = (b: number) => above.value(b)
  const highest = (b: number) => -below.value(-b)
  const room = (b: number) => highest(b) - lowest(b)

  const slopes = [...above.breaks, ...below.breaks.map((b) => -b)]
    .filter((b) => Math.abs(b) < maxSlope)
    .concat(-maxSlope, maxSlope)
    .sort((p, q) => p - q)
  // The room is concave in the slope and linear between breaks: it is greatest at one of them.
  const inside: number[] = []
  for (const [i, b] of slopes.entries()) {
    const here = room(b)
    const before = i === 0 ? 0 : slopes[i - 1]!
    const there = i === 0 ? here : room(before)
    if (here >= 0 !== there >= 0) inside.push(before + ((b - before) * there) / (there - here))
    if (here >= 0) inside.push(b)
  }
  if (inside.length === 0) return undefined
  const corners = inside.flatMap((b) => [
    { a: lowest(b), b },
    { a: Math.max(lowest(b), highest(b)), b },
  ])
  return {
    corners,
    range(x) {
      let low = Infinity
      let high = -Infinity
      for (const { a, b } of corners) {
        const y = a + b * x
        if (y < low) low = y
        if (y > high) high = y
      }
      return { low, high }
    },
    clamp(line) {
      const b = Math.min(Math.max(line.b, inside[0]!), inside.at(-1)!)
      return { a: Math.max(Math.min(line.a, highest(b)), lowest(b)), b }
    },
  }
}

/** For every slope b the greatest `y - b * x` of the points, by their upper convex hull. */
function support(points: readonly Point[]): { readonly breaks: number[]; value(b: number): number } {
  const sorted = [...points].sort((p, q) => p.x - q.x || q.y - p.y)
  const hull: Point[] = []
  for (const point of sorted) {
    if (hull.at(-1)?.x === point.x) continue
    while (hull.length > 1 && slope(hull.at(-2)!, hull.at(-1)!) <= slope(hull.at(-1)!, point)) hull.pop()
    hull.push(point)
  }
  const breaks = hull.slice(1).map((point, i) => slope(hull[i]!, point))
  return {
    breaks,
    value(b) {
      let first = 0
      let end = breaks.length
      while (first < end) {
        const middle = (first + end) >> 1
        if (breaks[middle]! > b) first = middle + 1
        else end = middle
      }
      const { x, y } = hull[first]!
      return y - b * x
    },
  }
}

function slope(p: Point, q: Point): number {
  return (q.y - p.y) / (q.x - p.x)
}
