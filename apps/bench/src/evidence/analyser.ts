import { canonicalJson, sha256 } from '../session/canonical.ts'
import { type Derivation, derivations } from './derivations.ts'
import { deriveAll } from './facts.ts'
import { goldenBundle, goldenChoice } from './golden.ts'

/** Counts up when derived files change on purpose in a way that the golden records do not show. */
export const ANALYSER_VERSION = 1

let known: Promise<string> | undefined

/**
 * Tells analysers apart by what they find: SHA-256 over {@link ANALYSER_VERSION} and all that is derived from golden records. It is the
 * same for code that says the same, whatever its words; another result has another one.
 */
export function analyserSha256(list: readonly Derivation[] = derivations): Promise<string> {
  if (list !== derivations) return digest(list)
  known ??= digest(list)
  return known
}

async function digest(list: readonly Derivation[]): Promise<string> {
  const golden = [await goldenBundle(), await goldenChoice()]
  const files = golden.map((bundle) => Object.fromEntries(deriveAll(bundle, list).files))
  return sha256(canonicalJson({ version: ANALYSER_VERSION, files }))
}
