import {
  type CodecFactory,
  type ConnectionHandler,
  type FramingFactory,
  monotonicClock,
  SpanName,
  type SpanSink,
  type StageExecutor,
  type Step,
  type StepResult,
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
  'open',
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
    let asked = 0
    let made = false
    queueMicrotask(() => {
      made = true
    })
    return {
      ...codec,
      maxEncodedBytes(rows, columns) {
        // Asked before the payload is read and again when it is there.
        if (made && asked++ % 2 === 1) busy()
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

/** Computes longer, and the next step waits for it as for the engine: the stamps say so too. */
export function slowExecutor(executor: StageExecutor, delay: Injector, sink: SpanSink | null): StageExecutor {
  let free: Promise<unknown> = Promise.resolve()
  const slow = async (step: Step): Promise<StepResult> => {
    const result = await executor.step(step)
    await new Promise<void>((resolve) => delay.later(resolve))
    const endNs = monotonicClock.nowNs()
    sink?.span(SpanName.compute, result.computeStartNs, endNs, step.tag, 0)
    return { ...result, computeEndNs: endNs, sampleEndNs: endNs, cpuWaitNs: 0 }
  }
  return {
    get spec() {
      return executor.spec
    },
    get freeSessions() {
      return executor.freeSessions
    },
    openSession: (options) => executor.openSession(options),
    step(step) {
      const result = free.then(() => slow(step))
      free = result.catch(() => {})
      return result
    },
    abort: () => executor.abort(),
    close: () => executor.close(),
  }
}

type Parts = Pick<WorkerOptions, 'executor' | 'transports' | 'framings' | 'codecs' | 'holdMs' | 'holdSendMs'>

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
      return { ...parts, holdSendMs: delayMs }
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
