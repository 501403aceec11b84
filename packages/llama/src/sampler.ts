import type { SamplerSettings } from '@seamline/core'
import { SeamError } from '@seamline/core'

const RULES: Record<keyof SamplerSettings, [check: (value: number) => boolean, rule: string]> = {
  temperature: [(v) => Number.isFinite(v) && v >= 0, 'a number >= 0'],
  topK: [(v) => Number.isInteger(v) && v >= 0 && v < 2 ** 31, 'an integer >= 0'],
  topP: [(v) => v > 0 && v <= 1, 'above 0 and at most 1'],
  minP: [(v) => v >= 0 && v <= 1, 'from 0 to 1'],
  penaltyLastN: [(v) => Number.isInteger(v) && v >= 0 && v < 2 ** 31, 'an integer >= 0'],
  repeatPenalty: [(v) => Number.isFinite(v) && v > 0, 'a number > 0'],
  frequencyPenalty: [Number.isFinite, 'a finite number'],
  presencePenalty: [Number.isFinite, 'a finite number'],
  seed: [(v) => Number.isInteger(v) && v >= 0 && v < 2 ** 32, 'a 32-bit unsigned integer'],
}

/**
 * Throws `USAGE`, naming the field, the value and the rule, unless all fields are in the range of llama.cpp's
 * samplers.
 */
export function checkSampler(settings: SamplerSettings): void {
  for (const [name, [check, rule]] of Object.entries(RULES)) {
    const value = settings[name as keyof SamplerSettings]
    if (!check(value)) throw new SeamError('USAGE', `sampler ${name} is ${value}; it must be ${rule}`)
  }
}
