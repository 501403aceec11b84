/** `share` of `cells`, in eighths of a cell, at least one. */
export function bar(share: number, cells: number): string {
  const eighths = Math.max(1, Math.round(Math.min(Math.max(share, 0), 1) * cells * 8))
  const rest = eighths % 8
  return '█'.repeat(eighths >> 3) + (rest === 0 ? '' : '▏▎▍▌▋▊▉'[rest - 1]!)
}

const levels = '▁▂▃▄▅▆▇█'
/** A full cell is this much above the least at the least: without it the noise of a quiet machine would look like steps. */
const leastRange = 0.1

/** A cell for each value, in order, as high as it is above the least of them; the highest is full if it is 10 % above that. */
export function strip(values: readonly number[]): string {
  const least = Math.min(...values)
  const range = Math.max(Math.max(...values) - least, leastRange * least)
  return values
    .map((value) => levels[range === 0 ? 0 : Math.round(((value - least) / range) * (levels.length - 1))])
    .join('')
}

/** How far the highest is above the least, in percent of the least: `+3.1 %`. */
export function spread(values: readonly number[]): string {
  const percent = 100 * (Math.max(...values) / Math.min(...values) - 1)
  return `+${percent >= 10 ? percent.toFixed(0) : percent.toFixed(1)} %`
}
