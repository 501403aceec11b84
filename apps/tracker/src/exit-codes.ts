import type { ErrorCode } from '@seamline/core'

/** What a command ends with; part of the interface, so scripts may rely on it. The same as those of `seamline`. */
export const ExitCode = {
  OK: 0,
  USAGE: 2,
  LINK: 3,
  UNSUPPORTED: 4,
  INTERNAL: 70,
  INTERRUPTED: 130,
} as const

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

const EXIT_CODES: Partial<Record<ErrorCode, ExitCode>> = {
  ABORTED: ExitCode.INTERRUPTED,
  USAGE: ExitCode.USAGE,
  LIMIT: ExitCode.USAGE,
  FILE: ExitCode.UNSUPPORTED,
  UNSUPPORTED: ExitCode.UNSUPPORTED,
}

export function exitCodeOf(code: ErrorCode): ExitCode {
  return EXIT_CODES[code] ?? ExitCode.LINK
}

/** The foot of every help text. */
export const EXIT_CODE_HELP = `
Exit status:
  0    done
  2    the arguments are wrong, or ask for more than a limit allows
  3    the tracker cannot be reached, or workers do not agree with each other or with the request
  4    part of the model is served by nobody
  70   a bug in this program
  130  interrupted`
