import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type ErrorCode, SeamError } from '@seamline/core'
import { isLoopback, parseListened } from './loopback.ts'
import type { PlanRequest } from './plan.ts'
import type { Tracker } from './tracker.ts'

export interface ServeOptions {
  /** `HOST:PORT` on loopback; port 0 takes a free one. @default '127.0.0.1:0' */
  readonly listen?: string
  /** A larger body is refused before it is read. @default 65536 */
  readonly maxBodyBytes?: number
  /** Further connections are closed at once. @default 256 */
  readonly maxConnections?: number
  /** A request must be here as a whole within this time. @default 5000 */
  readonly requestTimeoutMs?: number
}

export interface TrackerServer {
  /** To be given to clients: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** Ends listening and every connection. Idempotent. */
  close(): Promise<void>
}

/** A body of every answer that is no success. */
export interface ErrorBody {
  readonly error: { readonly code: ErrorCode; readonly message: string; readonly worker: string | null }
}

const STATUS: Partial<Record<ErrorCode, number>> = {
  USAGE: 400,
  PROTOCOL: 400,
  LIMIT: 413,
  UNSUPPORTED: 404,
  MISMATCH: 409,
  BUSY: 503,
  TIMEOUT: 408,
}
const MAX_URL_CHARS = 512
const KEEP_ALIVE_MS = 5000

/**
 * Serves a tracker as JSON over HTTP: `POST /workers` (an announcement), `GET /workers`, `DELETE /workers/NAME` and `POST /plan`.
 * On loopback only, since it has neither secret nor TLS; pages in a browser are turned away. Throws `USAGE` when `listen` is
 * beyond loopback or cannot be bound.
 */
export async function serveTracker(tracker: Tracker, options: ServeOptions = {}): Promise<TrackerServer> {
  const { listen = '127.0.0.1:0', maxBodyBytes = 65_536, maxConnections = 256 } = options
  const requestTimeoutMs = options.requestTimeoutMs ?? 5000
  const { host, port } = parseListened(listen)
  let closing: Promise<void> | undefined

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      checkOrigin(request)
      const [status, body] = await route(request)
      answer(response, status, body)
    } catch (error) {
      const { code, message, worker = null } = SeamError.from(error, 'WORKER')
      // What was not read of the body goes with the connection.
      if (!request.complete) response.setHeader('connection', 'close')
      answer(response, STATUS[code] ?? 500, errorBody(code, message, worker))
    }
  }

  async function route(request: IncomingMessage): Promise<readonly [status: number, body: unknown]> {
    const { method = '', url = '' } = request
    if (url.length > MAX_URL_CHARS) {
      throw new SeamError('LIMIT', `a path of ${url.length} characters, at most ${MAX_URL_CHARS} are taken`)
    }
    const name = /^\/workers\/([^/?]+)$/.exec(url)?.[1]
    const routes: Record<string, () => Promise<readonly [number, unknown]>> = {
      'POST /workers': async () => [200, tracker.announce(await readJson(request, maxBodyBytes))],
      'GET /workers': async () => [200, { workers: tracker.workers() }],
      'POST /plan': async () => [
        200,
        tracker.plan((await readJson(request, maxBodyBytes)) as PlanRequest), // plan checks it
      ],
      'DELETE /workers/NAME': async () => {
        const worker = decoded(name ?? '')
        if (!tracker.withdraw(worker)) {
          throw new SeamError('UNSUPPORTED', `no worker ${worker} is known`, { worker })
        }
        return [200, { withdrawn: worker }]
      },
    }
    const path = name === undefined ? url : '/workers/NAME'
    const found = routes[`${method} ${path}`]
    if (found !== undefined) return found()
    const known = Object.keys(routes).join(', ')
    const exists = Object.keys(routes).some((each) => each.endsWith(` ${path}`))
    const text = `${method} ${url} is not served; known are ${known}`
    return [exists ? 405 : 404, errorBody('USAGE', text, null)]
  }

  const server = createServer(
    {
      ...{ requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs },
      ...{ keepAliveTimeout: KEEP_ALIVE_MS, connectionsCheckingInterval: Math.min(1000, requestTimeoutMs) },
      maxHeaderSize: 8192,
    },
    (request, response) => void handle(request, response),
  )
  server.maxConnections = maxConnections
  server.maxRequestsPerSocket = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      reject(new SeamError('USAGE', `cannot listen at ${listen}: ${error.message}`, { cause: error }))
    })
    server.listen(port, host, resolve)
  })
  const bound = server.address() as AddressInfo
  const shown = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
  return {
    url: `http://${shown}:${bound.port}`,
    close() {
      closing ??= new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
      return closing
    },
  }
}

/** Another site's page must not use the tracker of whoever looks at it, by its own name or by a rebound one. */
function checkOrigin({ headers }: IncomingMessage): void {
  const host = /^(?:\[([^\]]+)\]|([^:]+))(?::\d+)?$/.exec(headers.host ?? '')
  if (!isLoopback(host?.[1] ?? host?.[2] ?? '')) {
    throw new SeamError('USAGE', 'the Host header names no loopback address')
  }
  if (headers.origin !== undefined) throw new SeamError('USAGE', 'pages in a browser are not served')
}

/** Reads a body of JSON, up to `maxBytes`. */
async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const type = request.headers['content-type'] ?? ''
  if (!/^application\/json(;|$)/.test(type)) {
    throw new SeamError('USAGE', `the content type is ${type || 'missing'}, application/json is due`)
  }
  const tooLarge = (bytes: number | string) =>
    new SeamError('LIMIT', `a body of ${bytes} B, at most ${maxBytes} B are taken`)
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > maxBytes) throw tooLarge(announced)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLarge(`over ${maxBytes}`)
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch (cause) {
    throw new SeamError('PROTOCOL', 'the body is no JSON', { cause })
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new SeamError('USAGE', `${text} is no encoded name`, { cause })
  }
}

function errorBody(code: ErrorCode, message: string, worker: string | null): ErrorBody {
  return { error: { code, message, worker } }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  if (response.destroyed) return
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
}
