import { transportSuite } from '@seamline/conformance'
import {
  type Accept,
  type Connection,
  type ConnectionHandler,
  SeamError,
  type Transport,
} from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { memory } from '../src/memory.ts'

/** What a broken transport does differently. */
interface Fault {
  /** Case of the suite that must fail. */
  readonly caught: string
  readonly connection?: (right: Connection, handler: () => ConnectionHandler) => Partial<Connection>
  readonly handler?: (right: ConnectionHandler, connection: Connection) => Partial<ConnectionHandler>
  readonly transport?: (right: Transport) => Partial<Transport>
}

const roundTrip = 'delivers the same bytes in the same order, both ways, whatever the chunk and buffer sizes'
const fillAndDrain = 'send returns false, onDrain follows once, and every byte arrives; four times over'
const releases = 'calls released once for each send, in order, and memory may change from then on'
const flush = 'close delivers 8 MiB that are queued, then both sides end in good order'
const cut = new SeamError('ABORTED', 'cut by the fault')

const faults: Record<string, Fault> = {
  'never drains': { caught: fillAndDrain, handler: () => ({ onDrain() {} }) },
  'drains twice': {
    caught: fillAndDrain,
    handler: (right) => ({
      onDrain() {
        right.onDrain()
        right.onDrain()
      },
    }),
  },
  'send never returns false': {
    caught: 'pause stops delivery and stalls the sender; resume delivers everything',
    connection: (right) => ({
      send(bytes, released) {
        right.send(bytes, released)
        return true
      },
    }),
  },
  'releases twice': {
    caught: releases,
    connection: (right) => ({
      send: (bytes, released) =>
        right.send(bytes, () => {
          released?.()
          released?.()
        }),
    }),
  },
  'releases never': { caught: releases, connection: (right) => ({ send: (bytes) => right.send(bytes) }) },
  'releases during send': {
    caught: roundTrip,
    connection: (right) => ({
      send(bytes, released) {
        const more = right.send(bytes)
        released?.()
        return more
      },
    }),
  },
  'releases before the bytes are out': {
    caught: releases,
    connection: (right) => ({
      send(bytes, released) {
        if (released !== undefined) queueMicrotask(released)
        return right.send(bytes)
      },
    }),
  },
  'releases nothing after an abort': {
    caught: 'abort drops what is queued, releases it and reaches both sides',
    connection: (right) => {
      let aborted = false
      return {
        send: (bytes, released) => right.send(bytes, () => aborted || released?.()),
        abort(reason) {
          aborted = true
          right.abort(reason)
        },
      }
    },
  },
  'alters a byte': {
    caught: 'carries one send of 1 B',
    connection: (right) => ({
      send: (bytes, released) =>
        right.send(
          bytes.map((byte) => byte ^ 1),
          released,
        ),
    }),
  },
  'swaps two sends': {
    caught: roundTrip,
    connection: (right) => {
      let kept: Parameters<Connection['send']> | undefined
      return {
        send(bytes, released) {
          const last = kept
          kept = last === undefined ? [bytes, released] : undefined
          if (last === undefined) return true
          right.send(bytes, released)
          return right.send(...last)
        },
      }
    },
  },
  'writes beyond the buffer': {
    caught: roundTrip,
    handler: (right) => {
      let target = new Uint8Array(0)
      return {
        nextBuffer() {
          target = right.nextBuffer() as Uint8Array<ArrayBuffer>
          return target
        },
        onData(bytes) {
          new Uint8Array(target.buffer)[target.byteOffset + target.length] = 0
          right.onData(bytes)
        },
      }
    },
  },
  'closes twice': {
    caught: flush,
    handler: (right) => ({
      onClose(reason) {
        right.onClose(reason)
        setImmediate(() => right.onClose(reason))
      },
    }),
  },
  'drains after the close': {
    caught: 'both sides may close at once, and twice',
    handler: (right) => ({
      onClose(reason) {
        right.onClose(reason)
        right.onDrain()
      },
    }),
  },
  'loses on close what is queued': {
    caught: flush,
    connection: (right) => ({
      async close() {
        right.abort(cut)
      },
    }),
    handler: (right) => ({ onClose: (reason) => right.onClose(reason === cut ? undefined : reason) }),
  },
  'stops receiving on close': {
    caught: 'one side closes and still receives the 8 MiB that the other goes on to send',
    connection: (right) => ({
      close(options) {
        setTimeout(() => right.abort(cut), 1)
        return right.close(options)
      },
    }),
    handler: (right) => ({ onClose: (reason) => right.onClose(reason === cut ? undefined : reason) }),
  },
  'has no deadline on close': {
    caught: 'close aborts with TIMEOUT when the peer cannot end',
    connection: (right) => ({ close: () => right.close({ timeoutMs: 60_000 }) }),
  },
  'takes sends after close': {
    caught: 'send throws CLOSED after close, after abort and after onClose',
    connection: (right) => ({
      send(bytes, released) {
        try {
          return right.send(bytes, released)
        } catch {
          return true
        }
      },
    }),
  },
  'hides the reason of an abort': {
    caught: 'abort drops what is queued, releases it and reaches both sides',
    handler: (right) => ({ onClose: () => right.onClose(undefined) }),
  },
  'closes inside abort': {
    caught: 'abort drops what is queued, releases it and reaches both sides',
    connection: (right, handler) => ({
      abort(reason) {
        handler().onClose(reason)
        right.abort(reason)
      },
    }),
  },
  'ignores pause': {
    caught: 'pause stops delivery and stalls the sender; resume delivers everything',
    connection: () => ({ pause() {} }),
  },
  'pauses one turn late': {
    caught: 'pause inside onData takes effect at once and asks for no memory, accepting side',
    connection: (right) => ({
      pause: () => void setImmediate(right.pause),
      resume: () => void setImmediate(right.resume),
    }),
  },
  'never resumes': {
    caught: 'a connection that was paused from the start gets everything after resume',
    connection: () => ({ resume() {} }),
  },
  'drops what a handler throws': {
    caught: 'a throw in onData aborts its own connection only',
    handler: (right) => ({
      onData(bytes) {
        try {
          right.onData(bytes)
        } catch {}
      },
    }),
  },
  'accepts an empty buffer': {
    caught: 'an empty buffer aborts with USAGE, accepting side',
    handler: (right) => ({
      nextBuffer() {
        const target = right.nextBuffer()
        return target.length > 0 ? target : new Uint8Array(1)
      },
    }),
  },
  'dial error without the address': {
    caught: 'a dial that nobody answers throws RESET with the address',
    transport: (right) => ({
      dial: (address, accept, options) =>
        right.dial(address, accept, options).catch(() => {
          throw new SeamError('RESET', 'connection refused')
        }),
    }),
  },
  'dial ignores the signal': {
    caught: 'a dial under a signal that was aborted before or is aborted meanwhile throws ABORTED',
    transport: (right) => ({ dial: (address, accept) => right.dial(address, accept) }),
  },
  'dial keeps its abort listener': {
    caught: 'dial and listen leave no listener on the signal, which no longer matters to them',
    transport: (right) => ({
      async dial(address, accept, options) {
        const connection = await right.dial(address, accept, options)
        options?.signal?.addEventListener('abort', () => connection.abort(cut))
        return connection
      },
    }),
  },
  'listener closes its connections': {
    caught: 'closing a listener twice frees its address and leaves its connections alone',
    transport: (right) => ({
      async listen(address, accept, options) {
        const accepted: Connection[] = []
        const listener = await right.listen(
          address,
          (connection) => {
            accepted.push(connection)
            return accept(connection)
          },
          options,
        )
        return {
          address: listener.address,
          async close() {
            await listener.close()
            for (const connection of accepted) connection.abort(cut)
          },
        }
      },
    }),
  },
  'leaks a timer for each dial': {
    caught: '20 cycles of dial, send and close leave nothing open',
    transport: (right) => ({
      dial(address, accept, options) {
        setTimeout(() => {}, 2000)
        return right.dial(address, accept, options)
      },
    }),
  },
}

/** `right` with the fault, by way of the prototype chain: what the fault leaves alone is inherited. */
function inherit<T extends object>(right: T, changed: Partial<T> | undefined): T {
  return Object.assign(Object.create(right), changed)
}

function broken(right: Transport, fault: Fault): Transport {
  const outer = new Map<Connection, Connection>()
  const wrap =
    (accept: Accept): Accept =>
    (inner) => {
      let handler: ConnectionHandler | undefined
      const connection = inherit(
        inner,
        fault.connection?.(inner, () => handler!),
      )
      outer.set(inner, connection)
      const accepted = accept(connection)
      handler = inherit(accepted, fault.handler?.(accepted, connection))
      return handler
    }
  const wrapped: Transport = {
    id: right.id,
    authenticates: right.authenticates,
    async dial(address, accept, options) {
      const inner = await right.dial(address, wrap(accept), options)
      return outer.get(inner) ?? inner
    },
    listen: (address, accept, options) => right.listen(address, wrap(accept), options),
  }
  return inherit(wrapped, fault.transport?.(wrapped))
}

/** The cases of the suite over a memory transport with the fault, by name. */
function cases(fault: Fault, deadlineMs: number): Map<string, () => Promise<void>> {
  const found = new Map<string, () => Promise<void>>()
  transportSuite({
    describe: (_name, body) => body(),
    it: (name, body) => void found.set(name, body),
    create: () => ({ transport: broken(memory(), fault), address: 'stage:0' }),
    cycles: 20,
    deadlineMs,
  })
  return found
}

describe('the transport suite', () => {
  it('passes the same wrapper without a fault', async () => {
    for (const run of cases({ caught: '' }, 5000).values()) await run()
  })

  for (const [name, fault] of Object.entries(faults)) {
    it(`catches a fault: ${name}`, async () => {
      const run = cases(fault, 600).get(fault.caught)
      expect(run, `a case named ${fault.caught}`).toBeDefined()
      await expect(run?.()).rejects.toThrow()
    })
  }
})
