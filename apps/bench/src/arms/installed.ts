/** Why an arm cannot run here, or undefined when what it needs is installed. */
export function whyMissing(
  needs: string | undefined,
  resolve: (name: string) => string = (name) => import.meta.resolve(name),
): string | undefined {
  if (needs === undefined) return undefined
  try {
    resolve(needs)
    return undefined
  } catch {
    return `${needs} is not installed`
  }
}
