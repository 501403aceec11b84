import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { isSeamError, SeamError } from '@seamline/core'
import { createEndpoint, type Endpoint } from './endpoint.ts'
import { createInbox, createSlicer } from './flow.ts'

/** A stream joined to an endpoint. */
export interface Attached {
  readonly stream: Duplex
  readonly endpoint: Endpoint
  /** Memory of the handler for the next read; `undefined` when the next bytes must go through {@link take}. */
  nextBuffer(): Uint8Array | undefined
  /** `bytes` bytes were read into the last {@link nextBuffer}. */
  filled(bytes: number): void
  /** Bytes read elsewhere; they are copied. */
  take(chunk: Uint8Array): void
}

const stageBytes = 1 << 16
// TLS encrypts a write as a whole into memory of its own before the first byte leaves.
const tlsPieceBytes = 1 << 17

/**
 * Ends both directions now. A reset drops what the kernels hold; only a bare socket can, and not while its shutdown is
 * under way.
 */
export function reset(stream: Duplex): void {
  const bare = stream instanceof Socket && !(stream instanceof TLSSocket)
  if (bare && !stream.writableEnded) stream.resetAndDestroy()
  else stream.destroy()
}

/** Connects the events of an open, paused stream to a new endpoint. */
export function attach(stream: Duplex, remote: string, highWaterMarkBytes: number): Attached {
  const slicer = createSlicer(
    stream instanceof TLSSocket ? tlsPieceBytes : Number.POSITIVE_INFINITY,
    (piece, next) => {
      stream.write(piece, (error) => {
        if (!error) next()
      })
    },
  )
  const write =
    stream instanceof TLSSocket
      ? slicer.write
      : (bytes: Uint8Array, done: () => void) => {
          stream.write(bytes, (error) => {
            if (!error) done()
          })
        }
  const endpoint = createEndpoint(
    {
      remote,
      write,
      end: () => slicer.end(() => void stream.end()),
      destroy(flushed) {
        if (flushed) stream.destroy()
        else reset(stream)
        inbox.drop()
      },
      pause: () => void stream.pause(),
      resume: () => inbox.resume(() => void stream.resume()),
    },
    highWaterMarkBytes,
  )
  const inbox = createInbox(endpoint)
  stream.on('data', inbox.take)
  stream.on('end', inbox.end)
  stream.on('close', inbox.close)
  stream.on('error', (error: NodeJS.ErrnoException) => {
    endpoint.failed(brokenStream(error, remote))
    inbox.drop()
    stream.destroy()
  })
  stream.resume()
  return {
    stream,
    endpoint,
    nextBuffer: () => (inbox.holds ? undefined : endpoint.nextBuffer()),
    filled: endpoint.filled,
    take: inbox.take,
  }
}

/** Reads by the kernel into the memory of an endpoint that is there a little later than its stream. */
export function createReads() {
  const stage = new Uint8Array(stageBytes)
  const early: Uint8Array[] = []
  let attached: Attached | undefined
  let named: Uint8Array | undefined
  return {
    bind(opened: Attached) {
      attached = opened
      for (const chunk of early) opened.stream.push(chunk)
    },
    nextBuffer() {
      named = attached?.stream.readableLength === 0 ? attached.nextBuffer() : undefined
      return named ?? stage
    },
    onRead(bytes: number, buffer: Uint8Array) {
      if (attached === undefined) {
        early.push(buffer.slice(0, bytes))
        return false
      }
      const { stream } = attached
      // What came with the answer of the relay waits in the stream, and comes first.
      if (stream.readableLength > 0) stream.push(buffer.slice(0, bytes))
      else if (named === undefined || stream.isPaused()) attached.take(buffer.subarray(0, bytes))
      else attached.filled(bytes)
      return true
    },
  }
}

/** What the error of a stream says about the peer. */
export function brokenStream(error: NodeJS.ErrnoException, remote: string): SeamError {
  const why = error.code ?? error.message
  if (isSeamError(error)) return new SeamError(error.code, `${remote}: ${error.message}`, { cause: error })
  if (why.startsWith('ERR_SSL')) {
    return new SeamError('PROTOCOL', `bytes from or to ${remote} were altered on the way (${why})`, {
      cause: error,
    })
  }
  return new SeamError('RESET', `${remote} ended without warning (${why})`, { cause: error })
}
