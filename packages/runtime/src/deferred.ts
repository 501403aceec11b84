import { SeamError } from '@seamline/core'

export interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(reason: unknown): void
}

/** A promise with its two ends in hand. A rejection that nobody awaits is not an unhandled one. */
export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  promise.catch(() => {})
  return { promise, resolve, reject }
}

/** Rejects with `TIMEOUT`, naming what was awaited, unless `promise` settles within `timeoutMs`. */
export async function within<T>(
  promise: Promise<T>,
  timeoutMs: number,
  what: string,
  worker?: string,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(
          new SeamError(
            'TIMEOUT',
            `${what}: no answer within ${timeoutMs} ms`,
            worker === undefined ? {} : { worker },
          ),
        ),
      timeoutMs,
    )
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
