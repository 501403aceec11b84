/** Every code a {@link SeamError} can carry. Test the code, never the class or the text. */
export const ErrorCode = {
  /** The caller asked to stop. */
  ABORTED: 'ABORTED',
  /** A deadline passed; the message names what was awaited and for how long. */
  TIMEOUT: 'TIMEOUT',
  /** The object was used after it was closed, or its peer closed it in good order. */
  CLOSED: 'CLOSED',
  /** The peer or the network ended a connection without warning. */
  RESET: 'RESET',
  /** Bytes or messages that the protocol forbids: malformed, repeated, reordered, stale. */
  PROTOCOL: 'PROTOCOL',
  /** A stated limit would be exceeded; nothing was allocated for it. */
  LIMIT: 'LIMIT',
  /** A well-formed request for something this side does not offer. */
  UNSUPPORTED: 'UNSUPPORTED',
  /** Tensor values or encoded bytes that a codec refuses. */
  CODEC: 'CODEC',
  /** The compute engine failed or made no progress. */
  EXECUTOR: 'EXECUTOR',
  /** Two sides disagree about a fact; the message names both values. */
  MISMATCH: 'MISMATCH',
  /** No room at present; the message says what is free. */
  BUSY: 'BUSY',
  /** A worker process ended or stopped answering; the message names it. */
  WORKER: 'WORKER',
  /** A file is missing, unreadable, malformed, altered, or the disk is too small. */
  FILE: 'FILE',
  /** The caller's arguments are wrong; the message says what would be right. */
  USAGE: 'USAGE',
} as const

export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode]

export interface SeamErrorOptions {
  readonly cause?: unknown
  /** Name of the worker the error is about, where there is one. */
  readonly worker?: string
}

/**
 * The one error type of the project. `message` is for people: it carries numbers with units and, for a
 * disagreement, both values and the way out. Programs test `code`.
 */
export class SeamError extends Error {
  readonly code: ErrorCode
  readonly worker: string | undefined

  constructor(code: ErrorCode, message: string, options: SeamErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'SeamError'
    this.code = code
    this.worker = options.worker
  }

  /** Returns `error` itself when it is a SeamError, else wraps it under `code` with the original as cause. */
  static from(error: unknown, code: ErrorCode, worker?: string): SeamError {
    if (isSeamError(error)) return error
    const message = error instanceof Error ? error.message : String(error)
    return new SeamError(code, message, worker === undefined ? { cause: error } : { cause: error, worker })
  }
}

/** True for a SeamError, also one made by another copy of this package. */
export function isSeamError(value: unknown): value is SeamError {
  return value instanceof Error && value.name === 'SeamError' && isErrorCode((value as SeamError).code)
}

/** True when `value` is one of the codes of {@link ErrorCode}. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ErrorCode, value)
}
