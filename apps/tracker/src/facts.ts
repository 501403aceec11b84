import type { LinkFacts } from '@seamline/core'

/** Every fact: its name for people, and whether it is a text or a count. */
export const FACTS: Readonly<
  Record<keyof LinkFacts, { readonly name: string; readonly is: 'text' | 'count' }>
> = {
  modelSha256: { name: 'model SHA-256', is: 'text' },
  manifestSha256: { name: 'split manifest SHA-256', is: 'text' },
  layerFirst: { name: 'first layer', is: 'count' },
  layerEnd: { name: 'end of the layer range', is: 'count' },
  layerCount: { name: 'layers of the model', is: 'count' },
  embedding: { name: 'hidden size', is: 'count' },
  vocabulary: { name: 'vocabulary', is: 'count' },
  contextLength: { name: 'context length', is: 'count' },
  chunkTokens: { name: 'chunk size in tokens', is: 'count' },
  maxSequences: { name: 'sequences', is: 'count' },
  kvType: { name: 'KV type', is: 'text' },
  flashAttention: { name: 'flash attention', is: 'text' },
  regime: { name: 'regime', is: 'text' },
  threads: { name: 'threads', is: 'count' },
  engine: { name: 'engine', is: 'text' },
  backend: { name: 'back end', is: 'text' },
}

export const FACT_KEYS = Object.keys(FACTS) as readonly (keyof LinkFacts)[]

/** The same facts without a place in the model: what two stages of one chain have in common. */
export function withoutLayers(facts: LinkFacts): LinkFacts {
  return { ...facts, layerFirst: -1, layerEnd: -1 }
}

/** Names each fact of `asked` that `found` contradicts, with both values; empty when there is none. */
export function differences(
  asked: Partial<LinkFacts>,
  found: LinkFacts,
  asker: string,
  other: string,
): string {
  return FACT_KEYS.filter((key) => stated(asked[key]) && stated(found[key]) && asked[key] !== found[key])
    .map((key) => `${FACTS[key].name}: ${asker} has ${asked[key]}, ${other} has ${found[key]}`)
    .join('; ')
}

function stated(value: string | number | undefined): boolean {
  return value !== undefined && value !== '' && value !== -1
}
