import type { ErrorCode } from '@seamline/core'

/** What a command ends with: the numbers of the seamline command line. */
export const ExitCode = {
  OK: 0,
  CHECK_FAILED: 1,
  USAGE: 2,
  LINK: 3,
  FILE: 4,
  INTERNAL: 70,
  INTERRUPTED: 130,
} as const

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

const EXIT_CODES: Partial<Record<ErrorCode, ExitCode>> = {
  ABORTED: ExitCode.INTERRUPTED,
  USAGE: ExitCode.USAGE,
  LIMIT: ExitCode.USAGE,
  FILE: ExitCode.FILE,
  UNSUPPORTED: ExitCode.FILE,
}

/** What concerns a link or a process ends with {@link ExitCode.LINK}. */
export function exitCodeOf(code: ErrorCode): ExitCode {
  return EXIT_CODES[code] ?? ExitCode.LINK
}

/** The foot of every help text. */
export const EXIT_CODE_HELP = `
Exit status:
  0    done; missed targets are printed and change nothing
  1    a case did wrong work or failed: its figures are worth nothing
  2    the arguments are wrong
  3    a process or a link failed
  4    a file is missing
  70   a bug in this program
  130  interrupted`
