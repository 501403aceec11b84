import { SeamError } from '@seamline/core'
import type { ReplayPart, ReplayStep, TokenEvent } from './generation.ts'

/** Every token in a step of its own, one sequence after the other. */
export function oneByOne(parts: readonly ReplayPart[]): ReplayStep[] {
  return parts.flatMap(({ tokens }, part) => tokens.map((_, index) => [{ part, index }]))
}

/**
 * The decode steps that produced `events`, one list of events a sequence. An event tells with which others its token was sampled;
 * the token that was fed in that step is the one before it.
 */
export function recordedSteps(events: readonly (readonly TokenEvent[])[]): ReplayStep[] {
  const steps = new Map<number, { part: number; index: number }[]>()
  for (const [part, ofPart] of events.entries()) {
    for (const [index, { step }] of ofPart.slice(1).entries()) {
      steps.set(step, [...(steps.get(step) ?? []), { part, index }])
    }
  }
  return [...steps].sort(([a], [b]) => a - b).map(([, step]) => step)
}

/** Throws `USAGE` unless `steps` feed every token of every part once and in order, in steps that a stage can take. */
export function checkReplay(
  parts: readonly ReplayPart[],
  steps: readonly ReplayStep[],
  chunkTokens: number,
): void {
  const fed = parts.map(() => 0)
  for (const [number, step] of steps.entries()) {
    if (step.length < 1 || step.length > chunkTokens) {
      throw new SeamError(
        'USAGE',
        `step ${number} of the replay has ${step.length} rows, 1 to ${chunkTokens} are possible`,
      )
    }
    for (const { part, index } of step) {
      if (fed[part] === undefined || index !== fed[part] || index >= parts[part]!.tokens.length) {
        throw new SeamError(
          'USAGE',
          `step ${number} of the replay feeds token ${index} of part ${part} where ${fed[part]} is due`,
        )
      }
      fed[part]++
    }
  }
  for (const [part, { tokens }] of parts.entries()) {
    if (fed[part] !== tokens.length) {
      throw new SeamError(
        'USAGE',
        `the steps feed ${fed[part]} of the ${tokens.length} tokens of part ${part}`,
      )
    }
  }
}
