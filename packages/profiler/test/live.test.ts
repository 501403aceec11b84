import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { type LiveFrame, renderLive } from '../src/live.ts'

const frame: LiveFrame = {
  width: 64,
  color: false,
  elapsedMs: 12_340,
  tokens: 412,
  sequences: 4,
  tokensPerSecond: 95.96,
  tpotMs: 39.44,
  unattributedPct: 0.126,
  places: [
    { name: 'stage 0', ns: { compute: 6e6, frame: 2e6 } },
    { name: 'stage 1', ns: { wait: 12e6, compute: 4e6 } },
    { name: 'wire', ns: { wire: 1.6e6, unattributed: 0.4e6 } },
  ],
}

describe('renderLive', () => {
  it('draws bars on one scale, in letters without colours', () => {
    // 64 columns: 7 for names, 46 for bars. 8 of 16 ms are 23 cells, of them 6/8 compute: 17.25.
    expect(renderLive(frame)).toEqual([
      '12.3 s  412 tokens  K=4  96.0 tokens/s  TPOT 39.4 ms',
      'unattributed 0.13 %',
      `stage 0 ${'#'.repeat(17)}${'f'.repeat(6)}${' '.repeat(23)}   8.00 ms`,
      `stage 1 ${'#'.repeat(12)}${'.'.repeat(34)}   16.0 ms`,
      `wire    ${'~'.repeat(5)}?${' '.repeat(40)}   2.00 ms`,
      '# Compute and sample 38.5 %  f Frame and checksum 7.69 %',
      '~ Wire 6.15 %  . Wait for a turn or a CPU 46.2 %',
      '? Unattributed 1.54 %',
    ])
  })

  it('is the same text with colours, blocks instead of letters', () => {
    const colored = renderLive({ ...frame, color: true })
    expect(colored.some((line) => line.includes('\u001b[38;5;32m'))).toBe(true)
    expect(colored.slice(2).map((line) => stripVTControlCharacters(line))).toEqual([
      `stage 0 ${'█'.repeat(23)}${' '.repeat(23)}   8.00 ms`,
      `stage 1 ${'█'.repeat(46)}   16.0 ms`,
      `wire    ${'█'.repeat(6)}${' '.repeat(40)}   2.00 ms`,
      '█ Compute and sample 38.5 %  █ Frame and checksum 7.69 %',
      '█ Wire 6.15 %  █ Wait for a turn or a CPU 46.2 %',
      '█ Unattributed 1.54 %',
    ])
  })

  it.each([20, 32, 40, 80, 200])('keeps to %i columns, or to 32', (width) => {
    for (const color of [false, true])
      for (const line of renderLive({
        ...frame,
        width,
        color,
        notice: 'Spans were lost: nothing is attributed from here on.',
      }))
        expect(stripVTControlCharacters(line).length).toBeLessThanOrEqual(Math.max(32, width))
  })

  it('says so before the first token and without spans, and lets no control character out', () => {
    const lines = renderLive({ ...frame, tpotMs: null, unattributedPct: null, places: [] })
    expect(lines).toEqual(['12.3 s  412 tokens  K=4  96.0 tokens/s  TPOT -  no spans', 'No token yet.'])
    const hostile = renderLive({ ...frame, places: [{ name: 'a\u001b[2Jb\n', ns: { compute: 1 } }] })
    expect(hostile.join('')).not.toContain('\u001b')
    expect(hostile[2]).toMatch(/^a\?\[2Jb\?/)
  })
})
