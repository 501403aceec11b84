import type { ErrorCode } from '@seamline/core'

/** What a command ends with; part of the interface, so scripts may rely on it. */
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

const EXIT_CODES: Readonly<Record<ErrorCode, ExitCode>> = {
  ABORTED: ExitCode.INTERRUPTED,
  USAGE: ExitCode.USAGE,
  LIMIT: ExitCode.USAGE,
  FILE: ExitCode.FILE,
  UNSUPPORTED: ExitCode.FILE,
  TIMEOUT: ExitCode.LINK,
  CLOSED: ExitCode.LINK,
  RESET: ExitCode.LINK,
  PROTOCOL: ExitCode.LINK,
  CODEC: ExitCode.LINK,
  EXECUTOR: ExitCode.LINK,
  MISMATCH: ExitCode.LINK,
  BUSY: ExitCode.LINK,
  WORKER: ExitCode.LINK,
}

export function exitCodeOf(code: ErrorCode): ExitCode {
  return EXIT_CODES[code]
}

/** The foot of every help text. */
export const EXIT_CODE_HELP = `
Exit status:
  0    done; for a check: everything was equal
  1    a check failed: not equal, or something is missing
  2    the arguments are wrong, or ask for more than a limit allows
  3    a worker or a link failed
  4    a file or model is missing, damaged or not supported
  70   a bug in this program
  130  interrupted`
