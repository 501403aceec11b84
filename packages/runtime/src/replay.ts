import { SeamError } from '@seamline/core'
import type { ReplayPart, ReplayStep, TokenEvent } from './generation.ts'

/** Every token in a step of its own, one sequence after the other. */
export function oneByOne(parts: readonly ReplayPart[]): ReplayStep[] {
  return parts.flatMap(({ tokens }, part) => tokens.map((_, index) => [{ part, index }]))
}

/**
 * The decode steps that produced `events`, one list of events a sequence, in the order in which they were begun: stage 0 keeps the
 * rows of a step in that order. An event tells with which others its token was sampled;
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
  sampleReplayed: boolean,
): void {
  const refuse = (message: string): never => {
    throw new SeamError('USAGE', message)
  }
  const fed = parts.map(() => 0)
  for (const [number, step] of steps.entries()) {
    const { count = 1 } = step[0] ?? {}
    const rows = step.length * count
    if (!Number.isInteger(count) || rows < 1 || rows > chunkTokens) {
      refuse(`step ${number} of the replay has ${rows} rows, 1 to ${chunkTokens} are possible`)
    }
    if (new Set(step.map(({ part }) => part)).size !== step.length) {
      refuse(`step ${number} of the replay has two rows of one part; give one a count`)
    }
    for (const { part, index, count: own = 1 } of step) {
      if (own !== count) refuse(`step ${number} of the replay has windows of ${count} and ${own} tokens`)
      const due = fed[part]
      if (due === undefined || index !== due || index + count > parts[part]!.tokens.length) {
        refuse(
          `step ${number} of the replay feeds ${count} from ${index} of part ${part} where ${due} is due`,
        )
      }
      // Penalties look back on what was sampled, and within a window nothing is.
      if (count > 1 && sampleReplayed && parts[part]!.request.sampler.penaltyLastN !== 0) {
        refuse(`step ${number} of the replay is a window, which cannot be sampled with penalties`)
      }
      fed[part]! += count
    }
  }
  for (const [part, { tokens }] of parts.entries()) {
    if (fed[part] !== tokens.length) {
      refuse(`the steps feed ${fed[part]} of the ${tokens.length} tokens of part ${part}`)
    }
  }
}
