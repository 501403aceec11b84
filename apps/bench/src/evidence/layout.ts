/** By hand. */
export const written = ['spec.json', 'README.tmpl.md', 'LIMITATIONS.md', 'literals.json'] as const

const patterns = [
  /^(README\.md|README\.tmpl\.md|LIMITATIONS\.md|report\.html)$/,
  /^(spec|bundle|literals|lock|plan|scenario|env|artifacts)\.json$/,
  /^cmd\/\d{3}\.(argv\.json|stdout|stderr|exit)$/,
  /^derived\/[A-Za-z0-9-]+\.json$/,
  /^diff\/(changed-files|stat)\.txt$/,
  /^traces\/(perfetto|speedscope)\.json\.gz$/,
  /^sessions\/[a-z0-9-]+\/session\.json$/,
  /^sessions\/[a-z0-9-]+\/runs\/\d{4}\/(run\.json|trace\/trace\.json|trace\/spans-\d+\.f64\.gz)$/,
]

/** Whether a file of this name has a place in a bundle. */
export function isPartOfBundle(path: string): boolean {
  return patterns.some((pattern) => pattern.test(path))
}

/** Of a session: what else lies in its folder stays behind. */
export function isRaw(pathInSession: string): boolean {
  return isPartOfBundle(`sessions/x/${pathInSession}`)
}
