import type { Duplex } from 'node:stream'
import { type Clock, SeamError, SpanName, type SpanPort, type SpanSink } from '@seamline/core'
import { closeCodes, closeFrame, createFrameParser, opcodes } from './relay-frames.ts'
import { reset } from './relay-stream.ts'

/** Two data connections that the relay has joined. */
export interface Pair {
  /** Bytes read from one side and not yet handed to the kernel for the other. */
  readonly queuedBytes: number
  /** Cuts both sides. */
  destroy(): void
}

/** How a relay measures, and for experiments delays, what it passes on. */
export interface RelayProbe {
  readonly sink: SpanSink
  readonly clock: Clock
  /** Every chunk waits at least so long. */
  readonly holdMs: number
}

export interface PairOptions {
  /** Whether the bytes are WebSocket frames, which are unmasked on the way; else they pass as they are. */
  readonly frames: boolean
  /** Of one frame. */
  readonly maxFrameBytes: number
  /** Of both directions together. */
  readonly maxQueuedBytes: number
  /** Measures each chunk of a mode `raw` pair; the direction from the dialler has the number `port`, the other the next. */
  readonly probe: RelayProbe | undefined
  readonly port: number
  /** Bytes read from the dialler or the listener. */
  onBytes(from: 'dialler' | 'listener', bytes: number): void
  /** A side has to wait because the other does not take its bytes. */
  onStall(): void
  /** A message beyond the limit, or none that RFC 6455 allows; the pair ends. */
  onFault(error: SeamError): void
  /** Once, when both sides are gone. `cut`: not both had ended in good order. */
  onClose(cut: boolean): void
}

/**
 * Bytes after which one direction waits for the next turn of the event loop: one read of a socket, so that a room that
 * runs flat out delays the others by little in each turn.
 */
const turnBytes = 1 << 16

/** A side whose peer is gone has this long to take what is queued for it. */
const lingerMs = 5000

/**
 * Passes the bytes of both streams on to each other as they come, the ends of both directions as well, and a reset as a
 * reset. The kernel's memory is the only queue beyond `maxQueuedBytes`.
 */
export function splice(dialler: Duplex, listener: Duplex, options: PairOptions): Pair {
  const toListener = createFlow(dialler, listener, 'dialler', options)
  const toDialler = createFlow(listener, dialler, 'listener', options)
  let open = 2

  function onFrames(): void {
    // Both have said that they close; the server ends the connection (RFC 6455 section 7.1.1).
    if (!toListener.orderly || !toDialler.orderly) return
    listener.end()
    dialler.end()
  }

  function fault(error: SeamError, flow: Flow, back: Flow): void {
    options.onFault(error)
    const frame = closeFrame(error.code === 'LIMIT' ? closeCodes.tooBig : closeCodes.broken, false)
    // Put in only where it cannot end up inside another frame: the faulty one has not begun to go on.
    flow.to.end(frame)
    if (back.betweenFrames) flow.from.end(frame)
    else flow.from.destroy()
    flow.stop()
    back.stop()
    linger(flow.to)
    linger(flow.from)
  }

  function onClose(): void {
    open -= 1
    if (open === 0) options.onClose(!toListener.orderly || !toDialler.orderly)
  }

  toListener.start(onFrames, (error) => fault(error, toListener, toDialler), onClose)
  toDialler.start(onFrames, (error) => fault(error, toDialler, toListener), onClose)
  return {
    get queuedBytes() {
      return dialler.writableLength + listener.writableLength
    },
    destroy() {
      reset(dialler)
      reset(listener)
    },
  }
}

interface Flow {
  readonly from: Duplex
  readonly to: Duplex
  /** Another frame may be put in. */
  readonly betweenFrames: boolean
  /** The direction has ended as it should. */
  readonly orderly: boolean
  start(onFrames: () => void, onFault: (error: SeamError) => void, onClose: () => void): void
  /** Drops what still comes. */
  stop(): void
}

/** One direction. */
function createFlow(from: Duplex, to: Duplex, name: 'dialler' | 'listener', options: PairOptions): Flow {
  const { frames, maxFrameBytes, onBytes, onStall } = options
  const maxBytes = options.maxQueuedBytes / 2
  const parser = frames
    ? createFrameParser({
        masked: true,
        maxFrameBytes,
        onHead: (_frame, head) => void to.write(head),
        onPayload(frame, piece) {
          to.write(piece)
          if (frame.binary) onBytes(name, piece.length)
        },
        onEnd(frame) {
          if (frame.opcode === opcodes.close) closeSeen = true
        },
      })
    : undefined
  let closeSeen = false
  let ended = false
  let stopped = false
  let turn = 0
  let yielding = false
  let stalled = false
  let passedBytes = 0

  /** Writes a chunk, measured and perhaps held back. */
  function passMeasured({ sink, clock, holdMs }: RelayProbe, chunk: Buffer): void {
    const port = (options.port + (name === 'dialler' ? 0 : 1)) as SpanPort
    const readNs = clock.nowNs()
    passedBytes += chunk.length
    const tag = passedBytes
    const write = () => {
      const queued = to.writableLength > 0
      const writeNs = clock.nowNs()
      if (holdMs > 0) sink.span(SpanName.injected, readNs, writeNs, 0, 0)
      to.write(chunk, () => {
        const last = queued ? SpanName.relayQueue : SpanName.relayOut
        sink.span(last, passedNs, clock.nowNs(), tag, chunk.length, port)
      })
      const passedNs = clock.nowNs()
      if (holdMs > 0) sink.span(SpanName.relayQueue, readNs, writeNs, tag, chunk.length, port)
      sink.span(SpanName.relayIn, holdMs > 0 ? writeNs : readNs, passedNs, tag, chunk.length, port)
    }
    if (holdMs > 0) setTimeout(write, holdMs)
    else write()
  }

  function proceed(): void {
    if (!yielding && !stalled) from.resume()
  }

  function nextTurn(): void {
    yielding = false
    turn = 0
    proceed()
  }

  function drained(): void {
    stalled = false
    proceed()
  }

  /** Keeps to the queue and to the share of a turn. */
  function throttle(bytes: number): void {
    if (to.writableLength >= maxBytes && !stalled) {
      stalled = true
      onStall()
      from.pause()
      to.once('drain', drained)
    }
    turn += bytes
    if (turn >= turnBytes && !yielding) {
      yielding = true
      from.pause()
      setImmediate(nextTurn)
    }
  }

  return {
    from,
    to,
    get betweenFrames() {
      return parser?.idle ?? false
    },
    get orderly() {
      return frames ? closeSeen : ended
    },
    start(onFrames, onFault, onClose) {
      from.on('data', (chunk: Buffer) => {
        // Nothing counts behind a close frame.
        if (stopped || closeSeen || to.writableEnded) return
        if (parser === undefined) {
          onBytes(name, chunk.length)
          if (options.probe === undefined) to.write(chunk)
          else passMeasured(options.probe, chunk)
        } else {
          // One system call for the header and the payload behind it.
          to.cork()
          try {
            parser.push(chunk)
          } catch (error) {
            onFault(SeamError.from(error, 'PROTOCOL'))
          } finally {
            to.uncork()
          }
          if (closeSeen) onFrames()
        }
        throttle(chunk.length)
      })
      from.on('end', () => {
        ended = true
        const holdMs = options.probe?.holdMs ?? 0
        if (holdMs > 0) setTimeout(() => to.end(), holdMs)
        else to.end()
      })
      from.on('error', () => {
        // `close` follows.
      })
      from.on('close', () => {
        if (!to.destroyed) {
          // What this side sent before it ended still goes out.
          if (ended || stopped || closeSeen) linger(to)
          else reset(to)
        }
        onClose()
      })
      from.resume()
    },
    stop() {
      stopped = true
    },
  }
}

/** Lets a side whose peer is gone take what is queued for it, for a while. */
function linger(stream: Duplex): void {
  if (stream.destroyed) return
  if (stream.writableFinished) {
    stream.destroy()
    return
  }
  const timer = setTimeout(() => stream.destroy(), lingerMs)
  stream.once('finish', () => stream.destroy())
  stream.once('close', () => clearTimeout(timer))
  if (!stream.writableEnded) stream.end()
}
