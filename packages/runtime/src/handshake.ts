import {
  type FramingFactory,
  type HelloMessage,
  type Message,
  SeamError,
  type Transport,
} from '@seamline/core'
import { deferred, within } from './deferred.ts'
import { dialLink, type Link, type LinkHandler, type LinkSettings } from './link.ts'

/**
 * Dials, says `hello` and waits for the peer's. `handlerFor` checks it and takes the link over; what it throws
 * reaches the peer and the caller. Rejects with the peer's own error when it refuses.
 */
export async function dialWithHello(
  transport: Transport,
  address: string,
  settings: LinkSettings,
  hello: HelloMessage,
  handlerFor: (link: Link, hello: HelloMessage) => LinkHandler,
  signal?: AbortSignal,
): Promise<Link> {
  const answered = deferred<void>()
  let handler: LinkHandler | undefined

  const waiting = (link: Link): LinkHandler => ({
    target(message, payloadBytes) {
      if (handler !== undefined) return handler.target(message, payloadBytes)
      throw unexpected(message, link, payloadBytes)
    },
    message(message, payload) {
      if (handler !== undefined) return handler.message(message, payload)
      if (message.kind === 'heartbeat') return
      if (message.kind !== 'hello') throw unexpected(message, link, payload.length)
      handler = handlerFor(link, message)
      answered.resolve()
    },
    closed(reason) {
      answered.reject(
        reason ?? new SeamError('CLOSED', `${link.remote} closed the connection before its hello`),
      )
      handler?.closed(reason)
    },
  })

  const link = await dialLink(
    transport,
    address,
    settings,
    (link) => {
      link.send(hello)
      return waiting(link)
    },
    signal,
  )
  try {
    await within(answered.promise, settings.livenessMs, `hello from ${address}`)
  } catch (error) {
    link.fail(SeamError.from(error, 'PROTOCOL'), hello.name)
    throw error
  }
  return link
}

function unexpected(message: Message, link: Link, payloadBytes: number): SeamError {
  return new SeamError(
    'PROTOCOL',
    `${message.kind} with ${payloadBytes} B from ${link.remote} where hello was due`,
  )
}

/** Those of `framings` that a link may use: `allowed` by id, all when it is empty. Throws `UNSUPPORTED` when none is left. */
export function allowedFramings(
  framings: readonly FramingFactory[],
  allowed: readonly string[],
): readonly FramingFactory[] {
  const left = framings.filter((make) => allowed.length === 0 || allowed.includes(make().id))
  if (left.length > 0) return left
  const known = framings.map((make) => make().id).join(', ')
  throw new SeamError('UNSUPPORTED', `framing ${allowed.join(', ')} is not offered here, only ${known}`)
}
