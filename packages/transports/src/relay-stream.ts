import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { SeamError } from '@seamline/core'
import { createEndpoint, type Endpoint } from './endpoint.ts'

const stageBytes = 1 << 16

/**
 * Ends both directions now. A reset drops what the kernels hold; only a bare socket can, and not while its shutdown is
 * under way.
 */
export function reset(stream: Duplex): void {
  const bare = stream instanceof Socket && !(stream instanceof TLSSocket)
  if (bare && !stream.writableEnded) stream.resetAndDestroy()
  else stream.destroy()
}

/**
 * Reads by the kernel into the memory of an endpoint that is there a little later than its stream. What the endpoint does
 * not take waits in the stream, which hands it out as events; no later read overtakes that.
 */
export function createReads() {
  const stage = new Uint8Array(stageBytes)
  const early: Uint8Array[] = []
  let stream: Duplex | undefined
  let endpoint: Endpoint | undefined
  return {
    bind(carrier: Duplex, opened: Endpoint) {
      stream = carrier
      endpoint = opened
      for (const chunk of early) carrier.push(chunk)
    },
    nextBuffer: () => (stream?.readableLength === 0 ? endpoint?.nextBuffer() : undefined) ?? stage,
    onRead(bytes: number, buffer: Uint8Array) {
      if (stream === undefined || endpoint === undefined) {
        early.push(buffer.slice(0, bytes))
        return false
      }
      if (buffer !== stage) {
        endpoint.filled(bytes)
        return true
      }
      const taken = stream.readableLength === 0 ? endpoint.receive(stage.subarray(0, bytes)) : 0
      // A TLS socket may go on to read what it has decrypted after it was paused.
      if (taken < bytes && !stream.destroyed) stream.push(stage.slice(taken, bytes))
      return true
    },
  }
}

/** Connects the events of an open stream to a new endpoint. */
export function attach(stream: Duplex, remote: string, highWaterMarkBytes: number): Endpoint {
  const endpoint = createEndpoint(
    {
      remote,
      write(bytes, done) {
        stream.write(bytes, (error) => {
          if (!error) done()
        })
      },
      end: () => void stream.end(),
      destroy(flushed) {
        if (flushed) stream.destroy()
        else reset(stream)
      },
      pause: () => void stream.pause(),
      resume: () => void stream.resume(),
    },
    highWaterMarkBytes,
  )
  stream.on('data', (chunk: Buffer) => receive(stream, endpoint, chunk))
  stream.on('end', () => endpoint.ended())
  stream.on('error', (error: NodeJS.ErrnoException) => {
    const why = error.code ?? error.message
    endpoint.failed(new SeamError('RESET', `${remote} ended without warning (${why})`, { cause: error }))
  })
  stream.on('close', () => endpoint.closed())
  stream.resume()
  return endpoint
}

/** Gives `chunk` to the handler; what it does not take because it paused goes back to the front of the stream. */
function receive(stream: Duplex, endpoint: Endpoint, chunk: Uint8Array): void {
  const taken = endpoint.receive(chunk)
  if (taken < chunk.length && !stream.destroyed) stream.unshift(chunk.subarray(taken))
}
