import {
  type CodecFactory,
  type Connection,
  type ConnectionHandler,
  type FramingFactory,
  monotonicClock,
  SpanName,
  type SpanSink,
  type StageExecutor,
  type Transport,
} from '@seamline/core'
import type { WorkerOptions } from '@seamline/runtime'
import { InvalidArgumentError } from 'commander'

/** Where an experiment can put a delay. */
export const places = [
  'codec',
  'framing',
  'sender-queue',
  'wire',
  'relay',
  'stage-queue',
  'compute',
  'emit',
  'uninstrumented',
] as const

export type Place = (typeof places)[number]

/** A delay put in on purpose, to see where it shows up. A run with one is marked and never evidence of speed. */
export interface Injection {
  readonly place: Place
  readonly delayMs: number
}

/** Reads `codec=2ms`. */
export function parseInjection(text: string): Injection {
  const match = /^([a-z-]+)=(\d+(?:\.\d+)?)ms$/.exec(text)
  const place = places.find((known) => known === match?.[1])
  if (match === null || place === undefined)
    throw new InvalidArgumentError(`For example codec=2ms; places are ${places.join(', ')}.`)
  return { place, delayMs: Number(match[2]) }
}

export function injectionText({ place, delayMs }: Injection): string {
  return `${place}=${delayMs}ms`
}

/** Makes the delays of one process and records how long each really was. */
export interface Injector {
  /** Keeps the thread busy. */
  busy(): void
  /** Calls `action` after the delay. */
  later(action: () => void): void
}

export function injector(delayMs: number, sink: SpanSink | null): Injector {
  const note = (startNs: number) => sink?.span(SpanName.injected, startNs, monotonicClock.nowNs(), 0, 0)
  return {
    busy() {
      const startNs = monotonicClock.nowNs()
      while (monotonicClock.nowNs() - startNs < delayMs * 1e6) {}
      note(startNs)
    },
    later(action) {
      const startNs = monotonicClock.nowNs()
      setTimeout(() => {
        note(startNs)
        action()
      }, delayMs)
    },
  }
}

/** Encodes late. An identity codec loses its short cut, or there would be nothing to delay. */
export function slowCodec(make: CodecFactory, { busy }: Injector): CodecFactory {
  return (options) => {
    const codec = make(options)
    return {
      ...codec,
      identity: false,
      encodeInto(...args) {
        busy()
        return codec.encodeInto(...args)
      },
    }
  }
}

/** Takes long over what nobody measures: the bound of a payload, which the receiver asks for with every tensor. */
export function slowUnmeasured(make: CodecFactory, { busy }: Injector): CodecFactory {
  return (options) => {
    const codec = make(options)
    let made = false
    queueMicrotask(() => {
      made = true
    })
    return {
      ...codec,
      maxEncodedBytes(rows, columns) {
        if (made) busy()
        return codec.maxEncodedBytes(rows, columns)
      },
    }
  }
}

/** Encodes headers of tensors late. */
export function slowFraming(make: FramingFactory, { busy }: Injector): FramingFactory {
  return (options) => {
    const framing = make(options)
    return {
      ...framing,
      encodeInto(...args) {
        busy()
        return framing.encodeInto(...args)
      },
    }
  }
}

/** Hands what is sent to the transport late, in its order. */
export function slowSender(transport: Transport, delay: Injector): Transport {
  return wrapped(transport, (connection) => {
    let last = Promise.resolve()
    return {
      ...passing(connection),
      send(bytes, released) {
        last = last.then(
          () =>
            new Promise((resolve) => {
              delay.later(() => {
                try {
                  connection.send(bytes, released)
                } catch {
                  released?.()
                }
                resolve()
              })
            }),
        )
        return true
      },
      async close(options) {
        await last
        return connection.close(options)
      },
    }
  })
}

/** Delivers what arrives late, in its order: to the receiver a longer wire. */
export function slowWire(transport: Transport, delay: Injector): Transport {
  const late = (handler: ConnectionHandler): ConnectionHandler => {
    const stage = new Uint8Array(1 << 20)
    let pending = 0
    let closed: (() => void) | undefined
    const settle = () => {
      if (pending === 0) closed?.()
    }
    return {
      nextBuffer: () => stage,
      onData(count) {
        const bytes = stage.slice(0, count)
        pending++
        delay.later(() => {
          for (let at = 0; at < bytes.length; ) {
            const target = handler.nextBuffer()
            const piece = bytes.subarray(at, at + target.length)
            target.set(piece)
            at += piece.length
            handler.onData(piece.length)
          }
          pending--
          settle()
        })
      },
      onDrain: () => handler.onDrain(),
      onClose(reason) {
        closed = () => handler.onClose(reason)
        settle()
      },
    }
  }
  return {
    ...transport,
    dial: (address, accept, options) =>
      transport.dial(address, (connection) => late(accept(connection)), options),
  }
}

/** Computes longer: the stamps say so too. */
export function slowExecutor(executor: StageExecutor, delay: Injector, sink: SpanSink | null): StageExecutor {
  return {
    get spec() {
      return executor.spec
    },
    get freeSessions() {
      return executor.freeSessions
    },
    openSession: (options) => executor.openSession(options),
    async step(step) {
      const result = await executor.step(step)
      await new Promise<void>((resolve) => delay.later(resolve))
      const endNs = monotonicClock.nowNs()
      sink?.span(SpanName.compute, result.computeStartNs, endNs, step.tag, 0)
      return { ...result, computeEndNs: endNs, sampleEndNs: endNs, cpuWaitNs: 0 }
    },
    abort: () => executor.abort(),
    close: () => executor.close(),
  }
}

type Parts = Pick<WorkerOptions, 'executor' | 'transports' | 'framings' | 'codecs' | 'holdMs'>

/** The parts of a worker with a delay in one of them. */
export function withInjection(injection: Injection | undefined, sink: SpanSink, parts: Parts): Parts {
  if (injection === undefined) return parts
  const { place, delayMs } = injection
  const delay = injector(delayMs, sink)
  const mapped = <T>(from: ReadonlyMap<string, T>, change: (value: T) => T): ReadonlyMap<string, T> =>
    new Map([...from].map(([name, value]) => [name, change(value)]))
  switch (place) {
    case 'codec':
      return { ...parts, codecs: mapped(parts.codecs, (make) => slowCodec(make, delay)) }
    case 'uninstrumented':
      return { ...parts, codecs: mapped(parts.codecs, (make) => slowUnmeasured(make, delay)) }
    case 'framing':
      return { ...parts, framings: parts.framings.map((make) => slowFraming(make, delay)) }
    case 'sender-queue':
      return { ...parts, transports: mapped(parts.transports, (transport) => slowSender(transport, delay)) }
    case 'wire':
      return { ...parts, transports: mapped(parts.transports, (transport) => slowWire(transport, delay)) }
    case 'compute':
      return { ...parts, executor: slowExecutor(parts.executor, delay, sink) }
    case 'stage-queue':
      return { ...parts, holdMs: delayMs }
    default:
      return parts
  }
}

function wrapped(transport: Transport, wrap: (connection: Connection) => Connection): Transport {
  const around = new WeakMap<Connection, Connection>()
  const of = (connection: Connection) => {
    const found = around.get(connection) ?? wrap(connection)
    around.set(connection, found)
    return found
  }
  return {
    ...transport,
    dial: async (address, accept, options) =>
      of(await transport.dial(address, (connection) => accept(of(connection)), options)),
    listen: (address, accept, options) =>
      transport.listen(address, (connection) => accept(of(connection)), options),
  }
}

function passing(connection: Connection): Connection {
  return {
    remote: connection.remote,
    get queuedBytes() {
      return connection.queuedBytes
    },
    send: (bytes, released) => connection.send(bytes, released),
    pause: () => connection.pause(),
    resume: () => connection.resume(),
    close: (options) => connection.close(options),
    abort: (reason) => connection.abort(reason),
  }
}
