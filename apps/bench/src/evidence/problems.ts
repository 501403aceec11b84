/** What can be wrong with a bundle; each kind has a code of its own. */
export const problemCodes = {
  HASH: 'a file is not the one that bundle.json names',
  'EXTRA-FILE': 'a file that bundle.json does not name, or something that is no file',
  'MISSING-FILE': 'a file that bundle.json names is not there',
  SIZE: 'a file or the bundle is too large, or would be once unpacked',
  SCHEMA: 'a file has not the form it must have',
  RAW: 'a raw record contradicts itself',
  'RUN-MISSING': 'a run of the plan has no record, or there is one more',
  ORDER: 'runs were not made as the plan says, or overlap',
  DERIVED: 'a derived file does not follow from the raw records',
  ANALYSER: 'derived by an analyser that finds something else',
  CLOSURE: 'times do not add up, or a replay does not repeat its run',
  GUARD: 'runs that are compared differ in what must be equal',
  FIDELITY: 'runs of one workload made different tokens',
  README: 'README.md does not follow from its template and the derived files',
  DIGIT: 'a number was typed by hand',
  CLASS: 'a claim without a class, or of one that it cannot have',
  LIMITATIONS: 'a heading of LIMITATIONS.md is missing or has nothing below it',
  PATH: 'a path of one machine',
  DIRTY: 'a build was not made from a commit',
  LOCK: 'the lock did not come first, or does not follow from the choice that it names',
  SCOPE: 'a file changed that the lock does not allow',
  ARTIFACT: 'a model or library that runs name is not among the artefacts',
  COMMAND: 'a recorded command did not end as the specification says',
} as const

export type ProblemCode = keyof typeof problemCodes

export interface Problem {
  readonly code: ProblemCode
  /** Within the bundle. */
  readonly file: string
  readonly message: string
}

/** Takes problems up instead of stopping at the first. */
export interface Problems {
  readonly found: readonly Problem[]
  add(code: ProblemCode, file: string, message: string): void
  /** Runs `work`; what it throws becomes a problem and the result undefined. */
  attempt<T>(code: ProblemCode, file: string, work: () => T | Promise<T>): Promise<T | undefined>
}

/** Damage can repeat itself for every run: so many of one code are listed, others are counted. */
const mostPerCode = 20

export function problems(): Problems {
  const found: Problem[] = []
  const counts = new Map<ProblemCode, number>()
  function add(code: ProblemCode, file: string, message: string): void {
    const count = (counts.get(code) ?? 0) + 1
    counts.set(code, count)
    if (count <= mostPerCode) found.push({ code, file, message: message.slice(0, 500) })
    else if (count === mostPerCode + 1) found.push({ code, file, message: 'and more like it' })
  }
  return {
    found,
    add,
    async attempt(code, file, work) {
      try {
        return await work()
      } catch (error) {
        add(code, file, error instanceof Error ? error.message : String(error))
        return undefined
      }
    },
  }
}
