import { createHash } from 'node:crypto'
import { type Accept, alignedBytes, type Connection, SeamError, type Transport } from '@seamline/core'
import { assertSameBytes, type BenchCase, benchSizes, sizeName } from './bench-case.ts'
import { seededRandom } from './random.ts'

/** What one exchange is made of: so many messages to the far end, then so many back. */
export interface ExchangeShape {
  readonly requestBytes: number
  readonly requestCount: number
  /** Equal to `requestBytes`: the far end returns what it received. */
  readonly responseBytes: number
  readonly responseCount: number
}

/** An open connection to a far end that answers exchanges of one shape. */
export interface Exchange {
  /** Sends `request` as often as the shape says; resolves once every message of the answer is here. One at a time. */
  run(request: Uint8Array): Promise<void>
  close(): Promise<void>
}

/** `onResponse` sees every message of an answer; the memory is only lent. */
export type OpenExchange = (
  shape: ExchangeShape,
  onResponse: (message: Uint8Array) => void,
) => Promise<Exchange>

/** The far end of an exchange, whatever carries the messages. */
export interface Responder {
  readonly shape: ExchangeShape
  /** What to send for this request: nothing until the last one of an exchange. The memory may be the request's own. */
  answer(request: Uint8Array): readonly Uint8Array[]
}

/** What the cases of one transport work with. */
export interface TransportBenchFixture {
  /** Name in the ids: `tcp`. */
  readonly name: string
  transport(): Transport | Promise<Transport>
  /** Starts the far end, a process that listens with {@link benchPeer}, where it does not run yet; returns its address. */
  start(): Promise<string>
}

export interface TransportCasesOptions {
  /** First part of the ids. @default transport */
  readonly group?: string
  /** Bytes of a message. @default 16 KiB, 256 KiB, 8 MiB */
  readonly sizes?: readonly number[]
  /** Bytes of a message in one direction. @default 8 MiB */
  readonly streamBytes?: number
  /** Leaves out what goes one way only. @default false */
  readonly echoOnly?: boolean
}

/** Length of the first message on a connection, which tells the far end the shape. */
export const shapeBytes = 16
/** The short message against a long one the other way. */
const tokenBytes = 64
/** Messages of a stream in one run. */
const streamCount = 4
const maxMessageBytes = 1 << 26
const maxMessages = 1 << 10
const patterns = new Map<number, Uint8Array>()

/**
 * Round trips and streams over one connection:
 * `transport/<name>/rtt/16KiB` (the far end returns the message), `…/to-dialler/…` and `…/to-listener/…` (a message that way, 64 B
 * back), `…/one-way/8MiB` (four messages to the dialling side for one request) and `…/one-way-to-listener/8MiB`. Both ends read into
 * pooled memory. `bytes` counts long messages in both directions.
 */
export function transportCases(
  fixture: TransportBenchFixture,
  options: TransportCasesOptions = {},
): BenchCase[] {
  const { group = 'transport', ...rest } = options
  const open: OpenExchange = async (shape, onResponse) =>
    openOver(await fixture.transport(), await fixture.start(), shape, onResponse)
  return exchangeCases(`${group}/${fixture.name}`, open, rest)
}

/** {@link transportCases} over anything that carries messages, such as another library. `prefix` begins the ids. */
export function exchangeCases(
  prefix: string,
  open: OpenExchange,
  options: Omit<TransportCasesOptions, 'group'> = {},
): BenchCase[] {
  const { sizes = benchSizes, streamBytes = 8 << 20, echoOnly = false } = options
  const echo = (bytes: number): ExchangeShape => shape(bytes, 1, bytes, 1)
  const cases = sizes.flatMap((bytes) => [
    exchangeCase(`${prefix}/rtt/${sizeName(bytes)}`, 2 * bytes, echo(bytes), open),
    ...(echoOnly
      ? []
      : [
          exchangeCase(
            `${prefix}/to-dialler/${sizeName(bytes)}`,
            bytes,
            shape(tokenBytes, 1, bytes, 1),
            open,
          ),
          exchangeCase(
            `${prefix}/to-listener/${sizeName(bytes)}`,
            bytes,
            shape(bytes, 1, tokenBytes, 1),
            open,
          ),
        ]),
  ])
  const total = streamBytes * streamCount
  const name = sizeName(streamBytes)
  return [
    ...cases,
    exchangeCase(`${prefix}/one-way/${name}`, total, shape(tokenBytes, 1, streamBytes, streamCount), open),
    ...(echoOnly
      ? []
      : [
          exchangeCase(
            `${prefix}/one-way-to-listener/${name}`,
            total,
            shape(streamBytes, streamCount, tokenBytes, 1),
            open,
          ),
        ]),
  ]
}

function shape(
  requestBytes: number,
  requestCount: number,
  responseBytes: number,
  responseCount: number,
): ExchangeShape {
  return { requestBytes, requestCount, responseBytes, responseCount }
}

function exchangeCase(id: string, bytes: number, shape: ExchangeShape, open: OpenExchange): BenchCase {
  let exchange: Exchange | undefined
  let request: Uint8Array
  let checked: Uint8Array
  let expected: Uint8Array | undefined
  let seen = 0

  return {
    id,
    bytes,
    async setup() {
      request = pattern(shape.requestBytes)
      checked = request.slice()
      checked[0] = 1
      exchange = await open(shape, (message) => {
        if (expected === undefined) return
        seen += 1
        assertSameBytes(id, message, expected)
      })
    },
    run: () => exchange!.run(request),
    async validate() {
      expected = createResponderFor(shape).expected(checked)
      seen = 0
      try {
        await exchange!.run(checked)
      } finally {
        expected = undefined
      }
      if (seen !== shape.responseCount)
        throw new SeamError('MISMATCH', `${id}: ${seen} messages came back instead of ${shape.responseCount}`)
    },
    async teardown() {
      await exchange?.close()
      exchange = undefined
    },
  }
}

/** The first message on a connection. */
export function encodeShape({
  requestBytes,
  requestCount,
  responseBytes,
  responseCount,
}: ExchangeShape): Uint8Array {
  return new Uint8Array(
    Uint32Array.of(requestBytes, requestCount, responseBytes, responseCount).buffer as ArrayBuffer,
  )
}

/**
 * Answers requests of the shape that the first message on a connection states: with the request itself, with a fixed
 * pattern, or with 64 B that are a SHA-256 over the requests where the first byte of the last one is 1, else zeros. Throws `LIMIT` for
 * messages over 64 MiB.
 */
export function createResponder(first: Uint8Array): Responder {
  // A copy, because the message may lie at any offset.
  const numbers = new Uint32Array(new Uint8Array(first).buffer)
  const [requestBytes = 0, requestCount = 0, responseBytes = 0, responseCount = 0] = numbers
  for (const bytes of [requestBytes, responseBytes]) checkLimit(bytes, maxMessageBytes, 'B in a message')
  for (const count of [requestCount, responseCount]) checkLimit(count, maxMessages, 'messages')
  return createResponderFor(shape(requestBytes, requestCount, responseBytes, responseCount))
}

function checkLimit(value: number, limit: number, what: string): void {
  if (value < 1 || value > limit)
    throw new SeamError('LIMIT', `${value} ${what} of an exchange; 1 to ${limit} are possible`)
}

function createResponderFor(shape: ExchangeShape): Responder & { expected(request: Uint8Array): Uint8Array } {
  const { requestBytes, requestCount, responseBytes, responseCount } = shape
  const isEcho = requestBytes === responseBytes
  const isShort = responseBytes === tokenBytes
  const zeros = new Uint8Array(tokenBytes)
  const long = isEcho || isShort ? zeros : pattern(responseBytes)
  let hash = createHash('sha256')
  let received = 0

  function digest(): Uint8Array {
    const bytes = new Uint8Array(tokenBytes)
    bytes.set(hash.digest())
    hash = createHash('sha256')
    return bytes
  }

  return {
    shape,
    answer(request) {
      received += 1
      const isChecked = isShort && !isEcho && request[0] === 1
      if (isChecked) hash.update(request)
      if (received < requestCount) return []
      received = 0
      if (isEcho) return [request]
      return Array<Uint8Array>(responseCount).fill(isChecked ? digest() : long)
    },
    expected(request) {
      if (isEcho) return request
      if (!isShort) return long
      for (let i = 0; i < requestCount; i += 1) hash.update(request)
      return digest()
    },
  }
}

/** Bytes that depend on their number alone; the first one is 0. */
function pattern(bytes: number): Uint8Array {
  const known = patterns.get(bytes)
  if (known !== undefined) return known
  const random = seededRandom(bytes)
  const made = alignedBytes(bytes)
  const words = new Uint32Array(made.buffer, 0, bytes >>> 2)
  for (let i = 0; i < words.length; i += 1) words[i] = random() * 2 ** 32
  made[0] = 0
  patterns.set(bytes, made)
  return made
}

/** Sends in order and waits where the connection says so. */
function outbox(connection: Connection): {
  push(bytes: Uint8Array, released?: () => void): void
  flush(): void
} {
  const waiting: Array<[Uint8Array, (() => void) | undefined]> = []
  let open = true

  function flush(): void {
    open = true
    while (open && waiting.length > 0) open = connection.send(...waiting.shift()!)
  }
  return {
    push(bytes, released) {
      waiting.push([bytes, released])
      if (open) flush()
    },
    flush,
  }
}

/** The far end for {@link transportCases}: pass it to `listen`. */
export const benchPeer: Accept = (connection) => {
  const out = outbox(connection)
  const free: Uint8Array[] = []
  let responder: Responder | undefined
  let message: Uint8Array = alignedBytes(shapeBytes)
  let filled = 0

  function complete(): void {
    filled = 0
    if (responder === undefined) {
      responder = createResponder(message)
      message = alignedBytes(responder.shape.requestBytes)
      return
    }
    const request = message
    for (const bytes of responder.answer(request)) {
      if (bytes !== request) {
        out.push(bytes)
        continue
      }
      // An echo belongs to the connection until it is released.
      out.push(bytes, () => free.push(request))
      message = free.pop() ?? alignedBytes(request.byteLength)
    }
  }

  return {
    nextBuffer: () => (filled === 0 ? message : message.subarray(filled)),
    onData(bytes) {
      filled += bytes
      if (filled === message.length) complete()
    },
    onDrain: out.flush,
    onClose() {},
  }
}

async function openOver(
  transport: Transport,
  address: string,
  shape: ExchangeShape,
  onResponse: (message: Uint8Array) => void,
): Promise<Exchange> {
  const target = alignedBytes(shape.responseBytes)
  let filled = 0
  let left = 0
  let ended: SeamError | undefined
  let settle: { resolve(): void; reject(error: unknown): void } | undefined
  let out: ReturnType<typeof outbox> | undefined

  const connection = await transport.dial(address, (opened) => {
    out = outbox(opened)
    return {
      nextBuffer: () => (filled === 0 ? target : target.subarray(filled)),
      onData(bytes) {
        filled += bytes
        if (filled < target.length) return
        filled = 0
        left -= 1
        try {
          onResponse(target)
        } catch (error) {
          settle?.reject(error)
          return
        }
        if (left === 0) settle?.resolve()
      },
      onDrain: out.flush,
      onClose(reason) {
        ended = reason ?? new SeamError('CLOSED', `${opened.remote} closed the connection`)
        settle?.reject(ended)
      },
    }
  })
  out?.push(encodeShape(shape))
  return {
    run: (request) =>
      new Promise((resolve, reject) => {
        if (ended !== undefined) throw ended
        settle = { resolve, reject }
        left = shape.responseCount
        for (let i = 0; i < shape.requestCount; i += 1) out?.push(request)
      }),
    close: () => connection.close(),
  }
}
