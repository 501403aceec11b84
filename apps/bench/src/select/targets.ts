/** What a bottleneck may be looked for in: the times that a removal can shorten. */
export const targets = ['ttft', 'prefill', 'tpot'] as const
export type Target = (typeof targets)[number]
