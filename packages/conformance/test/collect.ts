type Body = () => void | Promise<void>

type Runner = {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: Body) => void
}

/** The cases that `suite` defines, by name, none of them run. */
export function collect(suite: (runner: Runner) => void): Map<string, Body> {
  const cases = new Map<string, Body>()
  suite({
    describe: (_, body) => body(),
    it: (name, body) => {
      cases.set(name, body)
    },
  })
  return cases
}
