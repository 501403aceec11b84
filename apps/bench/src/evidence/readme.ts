import type { Facts } from './facts.ts'
import { render } from './macros.ts'
import { tableNamed } from './tables.ts'

/** README.md from its template. Throws `USAGE` for a macro that leads nowhere. */
export function readmeOf(template: string, facts: Facts): string {
  return render(template, facts.values, (name, session) => tableNamed(facts, name, session))
}
