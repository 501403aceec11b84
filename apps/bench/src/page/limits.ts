import type { Comparison } from '../compare/comparison.ts'
import type { Lock } from '../compare/lock.ts'
import type { SelectPlan } from '../select/plan.ts'
import type { Selection } from '../select/selection.ts'
import type { Cell } from '../session/cell.ts'
import { notRecorded } from '../session/guards.ts'
import { guardNames, metricFacts } from '../session/record.ts'

/** What a comparison does not say, as far as the lock and the result tell. */
export function comparisonLimits(
  { guards, cells, primary }: Lock,
  { rows, guardDifferences }: Comparison,
): string[] {
  const unknown = Object.entries(guards).flatMap(([cell, locked]) => {
    const names = guardNames.filter((guard) => locked[guard] === notRecorded)
    return names.length === 0
      ? []
      : `${cell}: not recorded, and so not known to be equal: ${names.join(', ')}.`
  })
  const missing = rows.filter(({ verdict }) => verdict === 'NOT MEASURED')
  const withoutCopy = rows.filter(({ aa, verdict }) => aa === null && isEstimated(verdict))
  return [
    'It holds for the workloads, the machine and the versions that are named here.',
    `The verdict is that of ${metricFacts[primary.metric].label} of ${primary.cell}. Secondary metrics are adjusted by Holm among each other; what is only reported is not adjusted.`,
    ...missing.map(({ cell, metric }) => `${cell}: ${metricFacts[metric].label} was not measured.`),
    ...withoutCopy.map(
      ({ cell, metric }) =>
        `${cell}: too few pairs of the base with its copy to tell the noise of ${metricFacts[metric].label}.`,
    ),
    ...workloadLimits(cells),
    ...unknown,
    ...(guardDifferences.length === 0
      ? []
      : ['Guards differ: the times are shown, but they are not comparable.']),
  ]
}

/** What a selection does not say, as far as the plan and the result tell. */
export function selectionLimits(plan: SelectPlan, { cell, target }: Selection): string[] {
  const chosen = plan.cells[cell]
  return [
    'Gains are predicted by replays of the runs, not measured: a change may reach less or more.',
    `The choice is of ${metricFacts[target].label} of ${cell} on this machine, and of no other.`,
    'Runs of a selection are never used to compare.',
    ...(plan.floors === 'none'
      ? ['Floors are nothing at all: gains are those of a part that costs nothing, which no change reaches.']
      : []),
    ...(plan.candidates === undefined ? [] : [`Only these may be chosen: ${plan.candidates.join(', ')}.`]),
    ...(chosen === undefined ? [] : workloadLimits({ [cell]: chosen })),
  ]
}

function isEstimated(verdict: string): boolean {
  return verdict !== 'NOT MEASURED' && verdict !== 'EXACT'
}

function workloadLimits(cells: Readonly<Record<string, Cell>>): string[] {
  return Object.entries(cells).flatMap(([name, cell]) => {
    if (cell.kind === 'micro') return [`${name}: one component alone, not a pipeline.`]
    const { executor, link, injection } = cell
    return [
      ...(executor === 'paced' ? [`${name}: stages wait instead of computing (simulated).`] : []),
      ...(executor === 'fake' ? [`${name}: stages do not compute.`] : []),
      ...(link === null ? [] : [`${name}: the link is emulated, on one host.`]),
      ...(injection === null ? [] : [`${name}: with a delay put in on purpose; no evidence of speed.`]),
    ]
  })
}
