import {
  type Clock,
  type CodecFactory,
  type Connection,
  type FramingFactory,
  type HelloMessage,
  type Listener,
  monotonicClock,
  SeamError,
  type SpanRecorder,
  type StageExecutor,
  type Transport,
  type TransportAddress,
} from '@seamline/core'
import { within } from './deferred.ts'
import { checkFacts } from './facts.ts'
import { allowedFramings, dialWithHello } from './handshake.ts'
import { acceptLink, type Link, type LinkHandler, type LinkSettings } from './link.ts'
import type { DialNeighbour } from './neighbours.ts'
import { reach } from './reach.ts'
import { type Instruments, type StageRun, stageRun } from './stage-run.ts'

export const DEFAULT_LIVENESS_MS = 5000
const DEFAULT_MAX_STATE_BYTES = 256 * 2 ** 20

export interface WorkerOptions {
  /** Names the worker in errors on every side. */
  readonly name: string
  /** Stays the caller's: closing the worker does not close it. */
  readonly executor: StageExecutor
  /** By name: what it dials neighbours with and listens on. */
  readonly transports: ReadonlyMap<string, Transport>
  /** Where to listen, each in its transport's own form. */
  readonly listen: readonly TransportAddress[]
  /** In order of preference. */
  readonly framings: readonly FramingFactory[]
  /** By id and in order of preference, in which this worker would receive hidden rows. */
  readonly codecs: ReadonlyMap<string, CodecFactory>
  /** A peer that is silent for this long is dead. @default 5000 */
  readonly livenessMs?: number
  /** Most bytes of one sequence's state that a coordinator may send. @default 268435456 */
  readonly maxStateBytes?: number
  /** Where link, worker and executor record spans; null records none. @default null */
  readonly recorder?: SpanRecorder | null
  /** What else is measured while the recorder records. @default nothing */
  readonly instruments?: Instruments
  readonly clock?: Clock
  /** For experiments: every step waits at least so long before it starts, and every tensor before it is sent. @default 0 */
  readonly holdMs?: number
  readonly holdSendMs?: number
  /** Cold events for a log: a run began, a run ended and why. */
  readonly onEvent?: (text: string) => void
}

/** One stage of a pipeline behind an address. Serves one coordinator at a time. */
export interface Worker {
  readonly name: string
  /** Where coordinators and neighbours dial it, in the order of {@link WorkerOptions.listen}. */
  readonly addresses: readonly TransportAddress[]
  /** What it says of itself to whoever asks, a tracker for example. */
  readonly announcement: HelloMessage
  /** Ends the run in progress, frees its KV cells and stops listening. Idempotent. */
  close(): Promise<void>
}

/** Listens and serves until closed. Throws `USAGE` when an address cannot be bound. */
export async function createWorker(options: WorkerOptions): Promise<Worker> {
  const { name, executor, transports, framings, codecs } = options
  const livenessMs = options.livenessMs ?? DEFAULT_LIVENESS_MS
  const maxStateBytes = options.maxStateBytes ?? DEFAULT_MAX_STATE_BYTES
  const recorder = options.recorder ?? null
  const clock = options.clock ?? monotonicClock
  const onEvent = options.onEvent ?? (() => {})
  const facts = executor.spec
  const { chunkTokens, embedding } = executor.spec
  let current: StageRun | undefined
  let currentRun = ''
  let closing: Promise<void> | undefined
  const addresses: TransportAddress[] = []
  const plainFramings = framings.map((make) => make())

  const settings: LinkSettings = {
    framings,
    clock,
    sink: recorder,
    livenessMs,
    maxPayloadBytes: Math.max(
      maxStateBytes,
      ...[...codecs.values()].map((make) => make().maxEncodedBytes(chunkTokens, embedding)),
    ),
    holdSendMs: options.holdSendMs ?? 0,
    pulse: () => current?.pulse ?? { completedSteps: 0, busyNs: 0 },
  }

  function helloAs(role: 'worker' | 'stage', run: string, offered: readonly string[]): HelloMessage {
    return {
      kind: 'hello',
      role,
      name,
      run,
      facts,
      codecs: offered,
      framings: plainFramings.map((framing) => framing.id),
      transports: [...transports.keys()],
      addresses,
      maxPayloadBytes: settings.maxPayloadBytes,
      rowsPerStep: 1,
      livenessMs,
    }
  }

  /** A link that has not said hello yet. */
  function lobby(link: Link): LinkHandler {
    let handler: LinkHandler | undefined
    let arriving: Promise<void> | undefined
    let gone: { readonly reason: SeamError | undefined } | undefined
    const late = setTimeout(() => {
      link.fail(new SeamError('TIMEOUT', `no hello from ${link.remote} within ${livenessMs} ms`), name)
    }, livenessMs)

    async function enter(hello: HelloMessage): Promise<LinkHandler> {
      if (closing !== undefined) throw new SeamError('CLOSED', `${name} is shutting down`)
      if (hello.role === 'stage') {
        if (current === undefined || hello.run !== currentRun) {
          throw new SeamError(
            'MISMATCH',
            `${hello.name} belongs to run ${hello.run}, ${name} serves ${currentRun || 'none'}`,
          )
        }
        const adopted = current.adopt(link, hello)
        link.send(helloAs('stage', currentRun, adopted.codecs))
        return adopted.handler
      }
      if (hello.role !== 'coordinator')
        throw new SeamError('PROTOCOL', `${name} takes no hello from a ${hello.role}`)
      if (!/^[0-9a-f]{16}$/.test(hello.run))
        throw new SeamError('PROTOCOL', `run "${hello.run}" is not 16 hex digits`)
      checkFacts(facts, hello.facts, name, hello.name)
      return attach(link, hello)
    }

    async function attach(link: Link, hello: HelloMessage): Promise<LinkHandler> {
      const busy = () =>
        new SeamError('BUSY', `${name} serves run ${currentRun} and takes one coordinator at a time`, {
          worker: name,
        })
      // A run that is just being left is no reason to turn the next one away.
      if (current?.leaving === true)
        await within(current.end(), livenessMs, `end of run ${currentRun} on ${name}`, name)
      if (current !== undefined) throw busy()
      const run = stageRun({
        ...{ name, executor, codecs, recorder, clock, coordinator: link, run: hello.run },
        instruments: options.instruments ?? null,
        rowsPerStep: Math.max(1, hello.rowsPerStep),
        maxStateBytes,
        holdNs: (options.holdMs ?? 0) * 1e6,
        headroomBytes: Math.max(...plainFramings.map((framing) => framing.headroomBytes)),
        dial: dialNeighbour,
      })
      current = run
      currentRun = hello.run
      onEvent(`run ${hello.run} of ${hello.name} began`)
      run.ended.then((reason) => {
        current = undefined
        currentRun = ''
        onEvent(`run ${hello.run} ended${reason === undefined ? '' : `: ${reason.message} [${reason.code}]`}`)
      })
      link.send(helloAs('worker', hello.run, [...codecs.keys()]))
      return run
    }

    return {
      target(message, payloadBytes) {
        if (handler !== undefined) return handler.target(message, payloadBytes)
        throw new SeamError('PROTOCOL', `payload of ${payloadBytes} B with ${message.kind} before hello`)
      },
      message(message, payload) {
        if (handler !== undefined) return handler.message(message, payload)
        if (message.kind === 'heartbeat') return
        if (message.kind !== 'hello' || arriving !== undefined) {
          throw new SeamError('PROTOCOL', `${message.kind} from ${link.remote} where hello was due`)
        }
        clearTimeout(late)
        arriving = enter(message).then(
          (entered) => {
            handler = entered
            if (gone !== undefined) entered.closed(gone.reason)
          },
          (error) => {
            const reason = SeamError.from(error, 'PROTOCOL')
            onEvent(`turned ${message.name} away: ${reason.message} [${reason.code}]`)
            link.fail(reason, name)
          },
        )
      },
      closed(reason) {
        clearTimeout(late)
        gone = { reason }
        handler?.closed(reason)
      },
    }
  }

  /** Dials the neighbour upstream for the run in progress and hands its hello to the stage. */
  const dialNeighbour: DialNeighbour = async (
    { addresses: offered, framings: allowed },
    codecs,
    handlerFor,
  ) => {
    const hello = helloAs('stage', currentRun, codecs)
    const narrowed = { ...settings, framings: allowedFramings(framings, allowed) }
    const { reached, at } = await reach(transports, offered, (transport, { address }) =>
      dialWithHello(transport, address, narrowed, hello, handlerFor),
    )
    return { link: reached, at }
  }

  const listeners: Listener[] = []
  const stopListening = () => Promise.all(listeners.map((listener) => listener.close()))
  try {
    for (const { transport: id, address } of options.listen) {
      const transport = transports.get(id)
      if (transport === undefined)
        throw new SeamError('USAGE', `${name} has no transport ${id} to listen with`)
      const accept = (connection: Connection) => acceptLink(connection, transport, settings, lobby)
      const listener = await transport.listen(address, accept)
      listeners.push(listener)
      addresses.push({ transport: id, address: listener.address })
    }
  } catch (error) {
    await stopListening()
    throw error
  }

  return {
    name,
    addresses,
    announcement: helloAs('worker', '', [...codecs.keys()]),
    close() {
      closing ??= (async () => {
        await stopListening()
        await current?.end()
      })()
      return closing
    },
  }
}
