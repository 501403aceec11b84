import {
  alignClocks,
  attribute,
  attributionTotals,
  type CategoryGroup,
  groupOf,
  type RunTrace,
  renderLive,
} from '@seamline/profiler'
import type { Ui } from './ui.ts'

/** Draws the breakdown of the last part of a run over the one before. */
export function followProfile(ui: Ui): { show(part: RunTrace): void; end(): void } {
  const startedMs = performance.now()
  const terminal = process.stderr.isTTY === true
  let drawn = 0
  let shownTokens = 0

  function show(part: RunTrace): void {
    const tokens = part.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
    const latest = part.sequences.flatMap(({ emittedNs }) => emittedNs).sort((a, b) => a - b)
    const recent = latest.slice(-Math.max(2, tokens - shownTokens))
    shownTokens = tokens
    const spanNs = recent.length < 2 ? 0 : recent.at(-1)! - recent[0]!
    const perSecond = spanNs === 0 ? 0 : ((recent.length - 1) * 1e9) / spanNs
    const lines = renderLive({
      width: process.stderr.columns ?? 100,
      color: terminal && process.env.NO_COLOR === undefined,
      elapsedMs: performance.now() - startedMs,
      ...{ tokens, sequences: part.settings.sequences, tokensPerSecond: perSecond },
      tpotMs: perSecond === 0 ? null : (1000 * part.settings.sequences) / perSecond,
      ...breakdown(part),
    })
    ui.clear()
    if (terminal && drawn > 0) process.stderr.write(`\x1b[${drawn}A\x1b[0J`)
    process.stderr.write(`${lines.join('\n')}\n`)
    drawn = lines.length
  }

  return { show, end() {} }
}

function breakdown(part: RunTrace) {
  try {
    const { tokens } = attribute(part, alignClocks(part, { sameHost: true }))
    const totals = attributionTotals(tokens.filter(({ index }) => index > 0))
    const places = part.processes.map(({ name }, process) => {
      const ns: Partial<Record<CategoryGroup, number>> = {}
      for (const row of totals.rows) {
        if (row.process !== process) continue
        const group = groupOf(row.category)
        ns[group] = (ns[group] ?? 0) + row.perTokenNs
      }
      return { name, ns }
    })
    return {
      unattributedPct: totals.unattributedPct,
      places: places.filter(({ ns }) => Object.keys(ns).length > 0),
    }
  } catch (error) {
    return { unattributedPct: null, places: [], notice: (error as Error).message }
  }
}
