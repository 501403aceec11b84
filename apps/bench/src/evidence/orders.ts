import { planOf } from '../compare/plan.ts'
import { e2ePlan, withControls } from '../e2e/controls.ts'
import type { Scenario } from '../e2e/scenario.ts'
import { injectionPlan, planSha256, type SelectPlan, selectionPlan, surveyPlan } from '../select/plan.ts'
import type { PipelineCell } from '../session/cell.ts'
import type { SessionPlan } from '../session/session.ts'
import type { StoredSession } from '../session/store.ts'
import type { Bundle } from './bundle.ts'

/**
 * The plan that a session must have had, from the lock, plan or scenario of the bundle. `unknown`: it serves one that is not there. Null:
 * nothing fixes the order.
 */
export function expectedPlan(
  { lock, plan, scenario }: Pick<Bundle, 'lock' | 'plan' | 'scenario'>,
  stored: StoredSession,
): SessionPlan | 'unknown' | null {
  const given = stored.session.plan
  switch (given.purpose) {
    case 'compare':
      return lock !== null && given.serves === lock.lockId ? planOf(lock) : 'unknown'
    case 'survey':
    case 'select':
    case 'inject':
      return plan !== null && given.serves === planSha256(plan) ? choicePlan(plan, given) : 'unknown'
    case 'e2e':
      return scenario === null ? null : scenarioPlan(scenario, stored)
    default:
      return null
  }
}

function choicePlan(plan: SelectPlan, given: SessionPlan): SessionPlan | 'unknown' {
  if (given.purpose === 'survey') return surveyPlan(plan)
  const cell = Object.keys(given.cells).find((name) => Object.hasOwn(plan.cells, name))
  if (cell === undefined) return 'unknown'
  if (given.purpose === 'select') return selectionPlan(plan, cell)
  const delayed = Object.values(given.cells).find(
    (each): each is PipelineCell => each.kind === 'pipeline' && each.injection !== null,
  )
  const { place, stage } = delayed?.injection ?? { place: '', stage: 0 }
  return injectionPlan(plan, cell, place, stage)
}

/** Which controls there were follows from the scenario, widths of models from the runs, and whether llama.cpp's own split was at hand. */
function scenarioPlan(scenario: Scenario, { session, records }: StoredSession): SessionPlan {
  const { cells, runs } = session.plan
  const embeddings = new Map<string, number>()
  for (const { cell, trace } of records.values()) {
    if (cell.kind === 'pipeline' && cell.model !== null && trace !== undefined)
      embeddings.set(cell.model, trace.settings.embedding)
  }
  const isAtHand = Object.values(cells).some(
    (each) => each.kind === 'pipeline' && each.executor === 'llama-rpc',
  )
  const withoutLlamaRpc = isAtHand ? undefined : 'not in the session'
  const expanded = withControls(scenario, { embeddings, withoutLlamaRpc })
  return e2ePlan(scenario, expanded, runs.length / Object.keys(cells).length)
}
