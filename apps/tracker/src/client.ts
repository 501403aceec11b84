import { type HelloMessage, isErrorCode, isSeamError, SeamError } from '@seamline/core'
import type { Plan, PlanRequest } from './plan.ts'
import type { KnownWorker, Receipt } from './registry.ts'

export interface ClientOptions {
  /** Deadline of a request. @default 5000 */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** A tracker elsewhere. Errors are those that the tracker raised, `RESET` when nobody answers, `TIMEOUT`, `ABORTED`. */
export interface TrackerClient {
  announce(announcement: HelloMessage): Promise<Receipt>
  /** Throws `UNSUPPORTED` when nobody of that name is known. */
  withdraw(name: string): Promise<void>
  workers(): Promise<readonly KnownWorker[]>
  /** Ready for `connect` of a tracker in this process, which dials. */
  plan(request?: PlanRequest): Promise<Plan>
}

const MAX_ANSWER_BYTES = 16 * 2 ** 20
const DEFAULT_TIMEOUT_MS = 5000

/** Throws `USAGE` when `url` is no http URL. */
export function trackerClient(url: string, options: ClientOptions = {}): TrackerClient {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options
  const base = URL.canParse(url) ? new URL(url) : undefined
  if (base === undefined || base.protocol !== 'http:') {
    throw new SeamError('USAGE', `${url} is no URL of a tracker, such as http://127.0.0.1:7300`)
  }

  async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const deadline = AbortSignal.timeout(timeoutMs)
    try {
      const response = await fetch(new URL(path, base), {
        ...{ method, redirect: 'error' },
        signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      })
      const answer = await readAnswer(response, url)
      if (!response.ok) throw errorOf(answer, response.status, url)
      return answer as T
    } catch (error) {
      if (signal?.aborted === true) throw SeamError.from(signal.reason, 'ABORTED')
      if (deadline.aborted) {
        const text = `${method} ${path}: no answer from the tracker at ${url} within ${timeoutMs} ms`
        throw new SeamError('TIMEOUT', text, { cause: error })
      }
      if (isSeamError(error)) throw error
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
      const why = cause instanceof Error ? cause.message || cause.name : String(cause)
      throw new SeamError('RESET', `cannot reach the tracker at ${url}: ${why}`, { cause: error })
    }
  }

  return {
    announce: (announcement) => ask('POST', '/workers', announcement),
    withdraw: async (name) => {
      await ask('DELETE', `/workers/${encodeURIComponent(name)}`)
    },
    workers: async () => (await ask<{ workers: readonly KnownWorker[] }>('GET', '/workers')).workers,
    plan: (request = {}) => ask('POST', '/plan', request),
  }
}

async function readAnswer(response: Response, url: string): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  // A body is an async iterable in Node, which its type does not say.
  for await (const chunk of (response.body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) {
      throw new SeamError('LIMIT', `the answer of ${url} has over ${MAX_ANSWER_BYTES} B`)
    }
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch (cause) {
    throw new SeamError('PROTOCOL', `${url} answers without JSON: is it a tracker?`, { cause })
  }
}

function errorOf(answer: unknown, status: number, url: string): SeamError {
  const { code, message, worker } =
    (answer as { error?: { code?: unknown; message?: unknown; worker?: unknown } } | null)?.error ?? {}
  if (!isErrorCode(code) || typeof message !== 'string') {
    return new SeamError('PROTOCOL', `${url} answers with status ${status} and no error: is it a tracker?`)
  }
  return new SeamError(code, message, typeof worker === 'string' ? { worker } : {})
}
