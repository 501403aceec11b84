import { type LinkFacts, SeamError } from '@seamline/core'

/** Facts without an opinion: equal to everything. */
export const NO_OPINION: LinkFacts = {
  modelSha256: '',
  manifestSha256: '',
  layerFirst: -1,
  layerEnd: -1,
  layerCount: -1,
  embedding: -1,
  vocabulary: -1,
  contextLength: -1,
  chunkTokens: -1,
  maxSequences: -1,
  kvType: '',
  flashAttention: '',
  regime: '',
  threads: -1,
  engine: '',
  backend: '',
}

const FACT_NAMES: Readonly<Record<keyof LinkFacts, string>> = {
  modelSha256: 'model SHA-256',
  manifestSha256: 'split manifest SHA-256',
  layerFirst: 'first layer',
  layerEnd: 'end of the layer range',
  layerCount: 'layers of the model',
  embedding: 'hidden size',
  vocabulary: 'vocabulary',
  contextLength: 'context length',
  chunkTokens: 'chunk size in tokens',
  maxSequences: 'sequences',
  kvType: 'KV type',
  flashAttention: 'flash attention',
  regime: 'regime',
  threads: 'threads',
  engine: 'engine',
  backend: 'back end',
}

/** Facts that two stages of one run must share: all but where each one's layers lie. */
export function sharedFacts(facts: LinkFacts): LinkFacts {
  return { ...facts, layerFirst: -1, layerEnd: -1 }
}

/** Throws `MISMATCH` naming every fact on which both sides have an opinion and differ, with both values. */
export function checkFacts(ours: LinkFacts, theirs: LinkFacts, us: string, peer: string): void {
  const differences = (Object.keys(FACT_NAMES) as (keyof LinkFacts)[])
    .filter((key) => stated(ours[key]) && stated(theirs[key]) && ours[key] !== theirs[key])
    .map((key) => `${FACT_NAMES[key]}: ${us} has ${ours[key]}, ${peer} has ${theirs[key]}`)
  if (differences.length > 0) throw new SeamError('MISMATCH', differences.join('; '), { worker: peer })
}

function stated(value: string | number): boolean {
  return value !== '' && value !== -1
}
